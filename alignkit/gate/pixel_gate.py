"""A pure pixel gate: every path against the reference, with the self-test, also path by path."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from alignkit.controls.planted_faults import check_pixels
from alignkit.datasets import recorded_options
from alignkit.decoders import DECODERS
from alignkit.errors import DataError
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.gate_option import PIXEL_RULES
from alignkit.experiment.rule_option import Rule
from alignkit.findings.environment import environment
from alignkit.findings.provenance import paths_facts
from alignkit.judge import judge
from alignkit.judge.standing_rules import JudgedRule
from alignkit.plan import CHANGED, data_fingerprint, images_of
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess
from alignkit.progress import advancing
from alignkit.record import DataFacts, RunRecord, Verdict
from alignkit.record.verdict_facts import Statement, stated
from alignkit.runner.comparison_stage import Comparison, compare_stored
from alignkit.samples import Samples, copies_among
from alignkit.version import ALL_LAYERS, __version__, code_version
from alignkit.workspace import Context, Workspace, content_key


def compare_pixels(
    preprocesses: Sequence[Preprocess], samples: Samples, context: Context
) -> tuple[Comparison, ...]:
    """Compare every path that can run here with the reference, or read what is stored."""
    compared = []
    for pair in comparable(preprocesses):
        with context.progress.stage("compare", len(samples), pair[1].title) as stage:
            report, engine = advancing(stage), context.engine
            compared.append(compare_stored(*pair, samples, context.workspace, report, engine))
    return tuple(compared)


def comparable(preprocesses: Sequence[Preprocess]) -> list[tuple[Preprocess, Preprocess]]:
    """Return the reference with each path that can run here."""
    # whether a path that cannot run here is an error, the rules decide
    reference, *others = preprocesses
    if reference.missing():
        return []
    return [(reference, each) for each in others if not each.missing()]


def pixel_record(
    experiment: Experiment,
    samples: Samples,
    compared: Sequence[Comparison],
    workspace: Workspace,
    *,
    began: float,
) -> RunRecord:
    """Run the self-test and build the record of a pixel gate that is not judged yet.

    The self-test checks that A/A gives zero, and that planted faults, swapped channels and a shift
    by half a pixel, are found; their differences show which limits are loose. ``began`` is the
    time of `time.monotonic` when the measurement began.
    """
    # before the record, whose seconds include it
    controls = check_pixels(experiment.reference, samples)
    seconds = time.monotonic() - began
    paths = experiment.paths
    parts = {
        "data": samples.fingerprint,
        "paths": [[each.name, each.identity(), each.versions()] for each in paths],
        "gate": experiment.gate.model_dump(mode="json"),
        "same": experiment.same,
        **({"quick": list(experiment.quick)} if experiment.quick else {}),
        "code": code_version(ALL_LAYERS),
    }
    of_models: dict[str, Any] = dict.fromkeys(
        ("coverage", "trainings", "cells", "matrix", "noise_floor"), ()
    )
    words = [word for each in experiment.overrides for word in ("--set", each)]
    words += ["--quick"] * bool(experiment.quick)
    command = "run" if experiment.quick else "gate"  # only a run is ever quick
    return RunRecord(
        alignkit=__version__,
        name=experiment.name,
        question=experiment.question,
        key=content_key(parts),
        command=shlex.join(["alignkit", command, str(experiment.file), *words, *workspace.option]),
        yaml=experiment.text,
        overrides=experiment.overrides,
        quick=experiment.quick,
        started=(datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="milliseconds"),
        seconds=round(seconds, 1),
        partial=False,
        environment=environment({name_of(each.decode, DECODERS) for each in paths}),
        data=_data_facts(experiment, samples, compared[0].digests if compared else ()),
        paths=paths_facts(paths, experiment.entries),
        **of_models,
        controls=controls,
        pixels=tuple(stage for each in compared for stage in each.stages),
        shown=(),
        verdict=Verdict(state="error", informational=False, exit_code=3),
        coverage_diffs=tuple(each.coverage for each in compared),
    )


def _data_facts(experiment: Experiment, samples: Samples, digests: Sequence[str]) -> DataFacts:
    data = experiment.data
    return DataFacts(
        name=experiment.data_name,
        options=recorded_options(data),
        train=0,
        eval=len(samples),
        classes=samples.classes,
        fingerprint=samples.fingerprint,
        version=data.version(),
        copies=copies_among(samples.ids, digests),
    )


def judged_images(experiment: Experiment, record: RunRecord) -> Samples:
    """List the evaluation images; raise `DataError` if the data are not those of the record.

    A record keeps no image, so that rules over images list them again after the measurement.
    """
    samples = experiment.data.evaluation()
    images = images_of(experiment, {"eval": samples.fingerprint})
    if data_fingerprint(images) != record.data.fingerprint:
        raise DataError(CHANGED)
    return samples


def first_failure(
    experiment: Experiment,
    rule_lines: tuple[int, ...],
    taps: Sequence[JudgedRule],
    context: Context,
) -> tuple[RunRecord, Path] | None:
    """Return the record of the first path whose pixels fail a rule, and the folder for it.

    For ``--fail-fast``: recorded stages that fail, ``taps``, end it before any comparison. Else
    pixels are judged before models, path by path, until one fails. The record holds that path and
    the reference; ``None`` if no path fails. Comparisons are stored, so that the whole gate does
    not repeat them.
    """
    began, samples = time.monotonic(), experiment.data.evaluation()
    rules = experiment.gate.rules or (() if experiment.predicts else PIXEL_RULES)
    # the default rules stand on no line
    placed = list(zip(rules, rule_lines or [0] * len(rules), strict=True))
    if any(each.outcome.state == "fail" for each in taps):
        alone = experiment.narrowed([experiment.reference.name], [])
        record = pixel_record(alone, samples, (), context.workspace, began=began)
        return _ended(experiment, alone, record, (), taps, len(rules), context.workspace)
    for candidate in experiment.paths[1:]:
        decided = [(rule, line) for rule, line in placed if _decided(rule, candidate.name)]
        if not decided:
            continue
        names = (experiment.reference.name, candidate.name)
        pair = experiment.narrowed(names, [rule for rule, _ in decided])
        compared = compare_pixels(pair.paths, samples, context)
        record = pixel_record(pair, samples, compared, context.workspace, began=began)
        lines, left = tuple(line for _, line in decided), len(rules) - len(decided)
        ended = _ended(experiment, pair, record, lines, taps, left, context.workspace)
        if ended[0].verdict.state == "fail":
            return ended
    return None


def _ended(
    experiment: Experiment,
    part: Experiment,
    record: RunRecord,
    lines: tuple[int, ...],
    taps: Sequence[JudgedRule],
    left: int,
    workspace: Workspace,
) -> tuple[RunRecord, Path]:
    """Judge a part of an experiment whose ``left`` other rules are not looked at."""
    verdict = judge(part.gate, record, controls=record.controls, lines=lines, asserted=taps)
    left_out = _left_out(experiment, part.paths[-1].name, left)
    judged = verdict.model_copy(update={"sentence": (*verdict.sentence, left_out)})
    folder = workspace.run_folder(experiment.name, record.key)
    return record.model_copy(update={"verdict": judged}), folder


def _decided(rule: Rule, candidate: str) -> bool:
    """Return whether the pixels of this path and the reference decide the rule."""
    of_pixels = all(each.measured.kind in ("pixel", "coverage") for each in rule.expanded())
    own = rule.against == "reference" and rule.path in (None, candidate)
    return of_pixels and own and rule.where is None


def _left_out(experiment: Experiment, failed: str, rules: int) -> Statement:
    names = [path.name for path in experiment.paths]
    return stated("stopped", paths=tuple(names[names.index(failed) + 1 :]), rules=rules)
