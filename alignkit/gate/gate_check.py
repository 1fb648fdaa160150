"""`Experiment` → `Checked`: measure it as `alignkit gate` does, and judge it.

Images without labels make a pure pixel gate: no model is trained or needed. Otherwise the
experiment is run, or its finished run is read, and judged again: waivers end, baselines change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from alignkit.baseline import (
    FOLDER,
    Baseline,
    FirstChanged,
    baseline_environment,
    baseline_text,
    find_baseline,
    named_baseline,
)
from alignkit.baseline.baseline_diff import compare_with_baseline, first_changes
from alignkit.baseline.baseline_from_run import STAGES_FILE, baseline_of_run
from alignkit.baseline.snapshot import Snapshot, head_now, snapshot_of
from alignkit.errors import BaselineError, ConfigError
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.rule import Rule
from alignkit.gate.fail_fast import first_failure
from alignkit.gate.pixel_gate import compare_pixels, pixel_record, self_test_controls
from alignkit.judge import judge
from alignkit.judge.evidence import BASELINE, Evidence
from alignkit.plan.rekey import keyed_plan
from alignkit.progress import Progress
from alignkit.record import BaselineFacts, RunRecord
from alignkit.record.document import write_record
from alignkit.run import forget, run_experiment
from alignkit.workspace import Context, write_atomically


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
    ``fail_fast`` ends with the first path whose pixels fail, before models and baselines.
    Raises `BaselineError` if a rule needs a baseline that does not exist, `NothingCompared` if no
    image was left, and whatever a run raises.
    """
    folder = baseline_folder(experiment, baselines)
    # before any work, so that a missing baseline costs seconds and not a whole run
    approved = None if as_run else approved_baseline(experiment, folder, against)
    if fail_fast:
        early = first_failure(experiment, rule_lines(experiment), context)
        if early is not None:
            write_record(*early)
            return Checked(*early)
    measure = run_experiment if experiment.labelled else _measured_pixels
    record, run = measure(experiment, context)
    if against is not None and run.resolve() == against.resolve():
        raise BaselineError(
            f"{against} is this very run: nothing it depends on has changed since, and it would be "
            "compared with itself; give another run's folder"
        )
    record = _with_measured(experiment, record, run, context)
    now = None
    facts: BaselineFacts | None = None
    if approved is not None:
        first_changed = _first_changed(experiment, approved) if changed_only else {}
        now = _snapshot(experiment, folder, record, run, approved, first_changed, context.progress)
        facts = compare_with_baseline(approved, now, first_changed=first_changed)
    elif as_run and rules_against_baseline(experiment):
        now = snapshot_of(experiment, folder, progress=context.progress)
        write_atomically(run / STAGES_FILE, baseline_text(now.as_baseline()))
    record = judged(experiment, record, facts)
    write_record(record, run)
    return Checked(record, run, approved, now.as_baseline() if now else None)


def _snapshot(
    experiment: Experiment,
    folder: Path,
    record: RunRecord,
    run: Path,
    approved: Baseline,
    first_changed: FirstChanged,
    progress: Progress,
) -> Snapshot:
    # the run of an experiment that trains keeps predictions and no stages
    none: FirstChanged = dict.fromkeys(path.name for path in experiment.paths)
    return snapshot_of(
        experiment,
        folder,
        record=record,
        run=run,
        approved=approved,
        first_changed=first_changed if approved.lines else none,
        progress=progress,
    )


def baseline_folder(experiment: Experiment, baselines: Path | None) -> Path:
    """Return the folder of an experiment's baselines."""
    return (baselines or experiment.file.parent / FOLDER) / experiment.name


def rules_against_baseline(experiment: Experiment) -> list[Rule]:
    """Return the rules that compare with a baseline, presets expanded."""
    return [rule for rule in experiment.gate.expanded if rule.against == BASELINE]


def approved_baseline(
    experiment: Experiment, folder: Path, against: Path | None = None
) -> Baseline | None:
    """Read the baseline of the rules; ``None`` if none has one. Raises `BaselineError`."""
    rules = rules_against_baseline(experiment)
    if against is not None:
        return _of_run(experiment, against, rules)
    if not rules:
        return None
    environment = experiment.gate.environment
    if environment is not None:
        return named_baseline(folder, environment)
    return find_baseline(folder, baseline_environment(experiment.paths))


def _of_run(experiment: Experiment, against: Path, rules: Sequence[Rule]) -> Baseline:
    if not rules:
        raise ConfigError(f"--against {against}: no rule of {experiment.file} compares with it; "
                          "write 'against: baseline' in those that shall")  # fmt: skip
    baseline = baseline_of_run(against, baseline_environment(experiment.paths))
    if any(rule.measured.kind in ("pixel", "coverage") for rule in rules) and not baseline.lines:
        raise BaselineError(f"{against} keeps no stages, which rules about pixels compare; "
                            "`alignkit run` of a file without models keeps them")  # fmt: skip
    return baseline


def _with_measured(
    experiment: Experiment, record: RunRecord, run: Path, context: Context
) -> RunRecord:
    """Add the measurements that only a gate makes to the record: subgroups and latency."""
    from alignkit.gate.gate_latency import measure_latency
    from alignkit.gate.gate_subgroup import measure_groups

    return record.model_copy(
        update={
            "groups": measure_groups(experiment, record, run, context),
            "latencies": measure_latency(experiment, context),
        }
    )


def _first_changed(experiment: Experiment, approved: Baseline) -> FirstChanged:
    usable = [path for path in experiment.paths if not path.missing()]
    now = head_now(experiment.name, usable, experiment.data.evaluation())
    return first_changes(approved.head, now)


def rule_lines(experiment: Experiment) -> tuple[int, ...]:
    """Return the line of each rule in the file, from 1; 0 for a rule of an override."""
    from alignkit.experiment.source import parse

    source = parse(experiment.text, str(experiment.file))
    rules = experiment.gate.rules or ()
    known = [("gate", "rules", index) in source.values for index in range(len(rules))]
    places = [source.place(("gate", "rules", index), of_key=False) for index in range(len(rules))]
    overridden = any(each.startswith("gate.rules") for each in experiment.overrides)
    return tuple(
        place.line + 1 if stands and not overridden else 0
        for place, stands in zip(places, known, strict=True)
    )


def _measured_pixels(experiment: Experiment, context: Context) -> tuple[RunRecord, Path]:
    samples = experiment.data.evaluation()
    comparisons = compare_pixels(experiment.paths, samples, context)
    controls = self_test_controls(experiment.reference, samples)
    pixels = tuple(stage for each in comparisons for stage in each.stages)
    coverage = tuple(each.coverage for each in comparisons)
    record = pixel_record(experiment, samples, pixels, coverage, controls)
    return record, context.workspace.run_folder(experiment.name, record.key)


def judged(experiment: Experiment, record: RunRecord, baseline: BaselineFacts | None) -> RunRecord:
    """Return the record with the verdict of the file's rules."""
    compared = record.model_copy(update={"baseline": baseline})
    verdict = judge(
        experiment.gate,
        Evidence.of_record(compared),
        controls=record.controls,
        lines=rule_lines(experiment),
    )
    return compared.model_copy(update={"verdict": verdict})


def run_or_check(
    experiment: Experiment,
    context: Context,
    *,
    fresh: bool = False,
    cells: Sequence[str] = (),
) -> tuple[RunRecord, Path]:
    """Run an experiment; images without labels are compared and judged as a gate does it.

    Returns the record and its folder. Raises what `alignkit.run.run_experiment` and `check` raise.
    """
    if experiment.labelled:
        return run_experiment(experiment, context, fresh=fresh, cells=cells)
    if cells:
        raise ConfigError("--cell: images without labels make no cells; leave it out")
    if fresh:
        forget(keyed_plan(experiment, context.workspace), context.workspace)
    checked = check(experiment, context, baselines=None, as_run=True)
    return checked.record, checked.folder
