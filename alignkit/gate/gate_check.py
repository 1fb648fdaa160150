"""`Experiment` → `Checked`: measure it as `alignkit gate` does, and judge it.

Images without labels make a pure pixel gate: no model is trained or needed. Otherwise the
experiment is run, or its finished run is read, and judged again: waivers end, baselines change.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from alignkit.baseline import (
    Baseline,
    FirstChanged,
    baseline_environment,
    baseline_folder,
    baseline_text,
    find_baseline,
    named_baseline,
    recording,
)
from alignkit.baseline.baseline_diff import compare_with_baseline, first_changes
from alignkit.baseline.baseline_from_run import STAGES_FILE, baseline_of_run
from alignkit.baseline.golden import GoldenStore
from alignkit.baseline.snapshot import Snapshot, head_now, snapshot_of
from alignkit.baseline.tapped_lots import TapLots
from alignkit.baseline.unapproved import head_approved, refuse_unapproved
from alignkit.compare.compare_pixels import compare_lots
from alignkit.errors import (
    BaselineError,
    ConfigError,
    DamagedRecord,
)
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.rule_option import Rule
from alignkit.gate.gate_pictures import with_pictures
from alignkit.gate.gate_subgroup import measure_groups, subgroups
from alignkit.gate.gate_taps import judged_taps, rule_lines
from alignkit.gate.pixel_gate import (
    comparable,
    compare_pixels,
    first_failure,
    judged_images,
    pixel_record,
)
from alignkit.judge import judge
from alignkit.judge.standing_rules import JudgedRule
from alignkit.lots import LotWork, Shard, lot_count, lot_parts
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.preprocess import STAGES
from alignkit.record import Artifact, BaselineFacts, RunRecord
from alignkit.record.document import read_record, write_record
from alignkit.record.verdict_facts import BASELINE
from alignkit.runner import run_experiment, with_cell_table
from alignkit.samples import Samples
from alignkit.stored_file import file_sha256, write_atomically
from alignkit.text.numbers import count
from alignkit.workspace import Context, Workspace

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Checked:
    """A gate run, measured and judged."""

    record: RunRecord
    folder: Path
    """The folder of the record."""
    approved: Baseline | None = None
    """The baseline it was compared with; ``None`` if no rule asks for one."""
    now: Baseline | None = None
    """The baseline that this run would make."""


def check(
    experiment: Experiment,
    context: Context,
    *,
    baselines: Path | None,
    changed_only: bool = False,
    against: Path | None = None,
    as_run: bool = False,
    fail_fast: bool = False,
) -> Checked:
    """Measure everything the rules need, with the self-test, and judge it.

    ``baselines`` is the folder of baselines, by default ``alignkit.baseline`` beside the file;
    ``changed_only`` skips stages that cannot have changed since their approval.
    ``against`` is the folder of a run that replaces the baseline. ``as_run`` leaves rules against a
    baseline to the gate and keeps the stages that a later ``against`` needs for them.
    ``fail_fast`` ends with a recorded stage that fails, or the first path whose pixels do, before
    models and baselines.
    Raises `BaselineError` if a rule needs a baseline that does not exist, `NothingCompared` if no
    image was left, `DataError` if the images changed meanwhile, and whatever a run raises.
    """
    folder = baseline_folder(experiment, baselines)
    # before any work, so that a missing file costs seconds and not a whole run
    approved = None if as_run else approved_baseline(experiment, folder, against)
    taps = judged_taps(experiment)
    if fail_fast:
        early = first_failure(experiment, rule_lines(experiment), taps, context)
        if early is not None:
            record, run = with_cell_table(*early), early[1]
            record = with_pictures(record, experiment, run, context.workspace)
            write_record(record, run)
            return Checked(record, run)
    if experiment.predicts:
        record, run = run_experiment(experiment, context)
    else:
        record, run = _measured_pixels(experiment, context)
    # a run returns its folder's record; a pixel gate has just made one
    left = record if experiment.predicts else _record_of(run, record)
    if against is not None:
        _refuse_no_evidence(against, left)
    if left is not None:
        record = record.model_copy(update={"stages": left.stages})
    groups = measure_groups(experiment, record, run, context)
    record = record.model_copy(update={"groups": groups})
    now, facts = None, None
    if approved is not None:
        # lines that nobody approved must not decide which stages are skipped
        skips = changed_only and (against is not None or head_approved(folder, approved))
        samples = judged_images(experiment, record)
        first_changed = _first_changed(experiment, approved, samples) if skips else {}
        # the run of an experiment that trains keeps predictions and no stages to compare with
        no_stages: FirstChanged = dict.fromkeys(path.name for path in experiment.paths)
        now = snapshot_of(
            experiment,
            folder,
            record=record,
            run=run,
            approved=approved,
            first_changed=first_changed if approved.lines else no_stages,
            samples=samples,
            context=context,
        )
        record = _with_copies(record, now.copies(experiment.reference.name, samples.ids))
        facts = compare_with_baseline(
            approved, now, first_changed=first_changed, copies=record.data.copies
        )
    elif as_run and _baseline_rules(experiment):
        samples = judged_images(experiment, record)
        now = snapshot_of(experiment, folder, samples=samples, context=context)
        # for a later `--against` this run; it is compared with nothing itself
        write_atomically(run / STAGES_FILE, baseline_text(now.as_baseline()))
        stages = Artifact(path=STAGES_FILE, sha256=file_sha256(run / STAGES_FILE))
        record = record.model_copy(update={"stages": stages})
    concluded = _concluded(
        experiment,
        record,
        run,
        approved=approved,
        now=now,
        baseline=facts,
        asserted=taps,
    )
    if experiment.predicts:  # its run has chosen the images to show
        return concluded
    shown = with_pictures(concluded.record, experiment, run, context.workspace)
    if shown.shown:
        write_record(shown, run)
    return replace(concluded, record=shown)


def store_shard(
    experiment: Experiment,
    context: Context,
    shard: Shard,
    *,
    baselines: Path | None,
    against: Path | None,
) -> tuple[int, int]:
    """Store the lots of a shard of images; return how many it has, and the number of all images.

    They are those that `check` compares and taps. Raises `ConfigError` for an experiment with
    models, `NothingCompared` for a shard without a lot, and as `check` does.
    """
    if experiment.predicts:
        raise ConfigError("--shard is for gates of pixels alone; torchrun divides the predictions")
    samples = experiment.data.evaluation()
    lots = shard.own_lots(len(samples))
    folder = baseline_folder(experiment, baselines)
    approved = approved_baseline(experiment, folder, against)
    pairs = comparable(experiment.paths)
    chosen = [samples, *(images for _, images in subgroups(experiment, samples))]
    works: list[tuple[LotWork[Any], Samples]] = [
        (compare_lots(*pair, images, spatial=True), images) for images in chosen for pair in pairs
    ]
    if (tapped := _tapped(experiment, approved, folder)) is not None:
        works.append((tapped, samples))
    engine, store = context.engine or LocalEngine(), KeptLots(context.workspace)
    for work, images in works:
        what = ("snapshot", "every path") if work is tapped else ("compare", work.paths[1].title)
        with context.progress.stage(what[0], len(images), what[1]) as stage:
            for _ in lot_parts(
                work, images, engine, store=store, shard=shard, advance=stage.advance
            ):
                pass  # it is stored
    return lots, len(samples)


def _with_copies(record: RunRecord, copies: dict[str, str]) -> RunRecord:
    """Add the copies that a snapshot shows, where no path was compared with another."""
    data = record.data.model_copy(update={"copies": record.data.copies or copies})
    return record.model_copy(update={"data": data})


def _record_of(run: Path, record: RunRecord) -> RunRecord | None:
    """Read the record that a run left in its folder, if it is of the same key as ``record``."""
    if not (run / "record.json").exists():
        return None
    try:
        found = read_record(run)
    except DamagedRecord as error:
        logger.warning("%s; it is written again", error.damage)
        return None
    return found if found.key == record.key else None


def _refuse_no_evidence(against: Path, own: RunRecord | None) -> None:
    """Raise `BaselineError` if ``against`` is this folder's run, a copy of it, or a quick look."""
    given = read_record(against)
    if given.quick:
        raise BaselineError(
            f"{against} is a quick look (--quick), which is no evidence: "
            f"{'; '.join(given.quick)}; give the folder of a run without --quick"
        )
    # the same commit run elsewhere has the key, and began in another millisecond
    if own is not None and (given.key, given.started) == (own.key, own.started):
        raise BaselineError(
            f"{against} is this very run: nothing it depends on has changed since, and it would be "
            "compared with itself; give another run's folder"
        )


def _baseline_rules(experiment: Experiment) -> list[Rule]:
    """Return the rules that compare with a baseline, presets expanded."""
    return [rule for rule in experiment.gate.expanded if rule.against == BASELINE]


def approved_baseline(
    experiment: Experiment, folder: Path, against: Path | None = None
) -> Baseline | None:
    """Read the baseline of the rules; ``None`` if none has one. Raises `BaselineError`."""
    rules = _baseline_rules(experiment)
    if against is None:
        if not rules:
            return None
        # a file may name another machine's baseline, to be held against its golden tensors
        if (environment := experiment.gate.environment) is not None:
            approved = named_baseline(folder, environment)
        else:
            approved = find_baseline(
                folder, baseline_environment(experiment.paths), recording(experiment.file)
            )
        if approved.head.name != experiment.name:
            raise BaselineError(
                f"{folder} holds a baseline of the experiment {approved.head.name!r}; record one "
                f"of {experiment.name!r} outside CI: {recording(experiment.file)}"
            )
        refuse_unapproved(folder, approved)
        return approved
    if not rules:
        raise ConfigError(f"--against {against}: no rule of {experiment.file} compares with it; "
                          "write 'against: baseline' in those that shall")  # fmt: skip
    baseline = baseline_of_run(against, baseline_environment(experiment.paths))
    if any(rule.measured.kind in ("pixel", "coverage") for rule in rules) and not baseline.lines:
        raise BaselineError(f"{against} keeps no stages, which rules about pixels compare; "
                            "`alignkit run` of a file without models keeps them")  # fmt: skip
    return baseline


def taps_of_baseline(experiment: Experiment, workspace: Workspace) -> list[str]:
    """Say which images `alignkit gate` taps for its rules against a baseline; empty if none."""
    folder = baseline_folder(experiment, None)
    try:
        approved = approved_baseline(experiment, folder)
    except BaselineError as error:
        return [str(error)]
    if (work := _tapped(experiment, approved, folder)) is None:
        return []
    samples = experiment.data.evaluation()
    lots, stored = lot_count(len(samples)), len(KeptLots(workspace).stored(work, samples))
    if stored == lots:
        return ["taps no image: those of the baseline are cached"]
    done = f" ({stored} of {lots} lots are cached)" if stored else ""
    images, paths = count(len(samples), "image"), count(len(work.paths), "path")
    return [f"taps {images} on {paths} for the baseline{done}"]


def _tapped(experiment: Experiment, approved: Baseline | None, folder: Path) -> TapLots | None:
    """Return the work of the rules against a baseline; ``None`` if no image is tapped for them."""
    usable = [path for path in experiment.paths if not path.missing()]
    if approved is None or not approved.lines or not usable:
        return None
    return TapLots.of(usable, approved, GoldenStore(folder / "golden"))


def _first_changed(experiment: Experiment, approved: Baseline, samples: Samples) -> FirstChanged:
    usable = [path for path in experiment.paths if not path.missing()]
    known = {key[:2] for key in approved.lines}
    found = first_changes(approved.head, head_now(experiment.name, usable, samples))
    # an image without a line was not approved, whatever the head says
    return {
        path: begin if all((path, image) in known for image in samples.ids) else STAGES[0]
        for path, begin in found.items()
    }


def _measured_pixels(experiment: Experiment, context: Context) -> tuple[RunRecord, Path]:
    began, samples = time.monotonic(), experiment.data.evaluation()
    compared = compare_pixels(experiment.paths, samples, context)
    record = pixel_record(experiment, samples, compared, context.workspace, began=began)
    return record, context.workspace.run_folder(experiment.name, record.key)


def _concluded(
    experiment: Experiment,
    record: RunRecord,
    run: Path,
    *,
    approved: Baseline | None,
    now: Snapshot | None,
    baseline: BaselineFacts | None,
    asserted: Sequence[JudgedRule],
) -> Checked:
    """Judge a record by the file's rules, and write it to the folder ``run``."""
    compared = record.model_copy(update={"baseline": baseline})
    verdict = judge(
        experiment.gate,
        compared,
        controls=record.controls,
        lines=rule_lines(experiment),
        asserted=asserted,
    )
    done = compared.model_copy(update={"verdict": verdict})
    if done.cell_table is None:  # of pixels alone: it has no rows
        done = with_cell_table(done, run)
    write_record(done, run)
    return Checked(done, run, approved, now.as_baseline() if now else None)
