"""Measurements of a pure pixel gate: every path against the reference, and the self-test."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from alignkit.experiment.experiment import Experiment
from alignkit.progress import Progress, advancing
from alignkit.record import Control, DataFacts, RunRecord, Verdict
from alignkit.version import ALL_LAYERS, __version__, code_version
from alignkit.workspace import Context, content_key

if TYPE_CHECKING:
    from alignkit.gate.shard import PairSums
    from alignkit.preprocess import Preprocess
    from alignkit.record import CoverageDiff, PixelStage
    from alignkit.run.pixel_comparison import Comparison
    from alignkit.samples import Samples


def compare_pixels(
    preprocesses: Sequence[Preprocess], samples: Samples, context: Context
) -> tuple[Comparison, ...]:
    """Compare every path that can run here with the reference, or read what is stored."""
    from alignkit.run.pixel_comparison import compare_stored

    reference, *others = preprocesses
    if reference.missing():
        return ()
    compared = []
    for candidate in others:
        if candidate.missing():
            continue
        with context.progress.stage("compare", len(samples), candidate.name) as stage:
            compared.append(
                compare_stored(reference, candidate, samples, context.workspace, advancing(stage))
            )
    return tuple(compared)


def compare_sums(
    preprocesses: Sequence[Preprocess], samples: Samples, progress: Progress
) -> tuple[PairSums, ...]:
    """Compare as `compare_pixels`, into sums that can be added to those of other images."""
    from alignkit.compare.compare_pixels import compare_preprocess, coverage_diff
    from alignkit.gate.shard import PairSums

    reference, *others = preprocesses
    if reference.missing():
        return ()
    pairs = []
    for candidate in others:
        if candidate.missing():
            continue
        with progress.stage("compare", len(samples), candidate.name) as stage:
            diffs = compare_preprocess(reference, candidate, samples, progress=advancing(stage))
        pairs.append(PairSums(diffs.reference, diffs.candidate, diffs.diffs, coverage_diff(diffs)))
    return tuple(pairs)


def stages_of(pairs: Sequence[PairSums]) -> tuple[PixelStage, ...]:
    """Compute the stage tables of all pairs."""
    from alignkit.compare.compare_pixels import pixel_stage

    return tuple(
        pixel_stage(diff, reference=pair.reference, candidate=pair.candidate)
        for pair in pairs
        for diff in pair.diffs
    )


def self_test_controls(reference: Preprocess, samples: Samples) -> tuple[Control, ...]:
    """Check that A/A gives zero, and that swapped channels and a half-pixel shift are found."""
    from alignkit.controls.planted_faults import check_pixels

    return check_pixels(reference, samples)


def pixel_record(
    experiment: Experiment,
    samples: Samples,
    pixels: tuple[PixelStage, ...],
    coverage: tuple[CoverageDiff, ...],
    controls: tuple[Control, ...],
) -> RunRecord:
    """Build the record of a pixel gate that is not judged yet."""
    from alignkit.decoders import DECODERS
    from alignkit.findings.environment import environment
    from alignkit.findings.provenance import path_facts
    from alignkit.plugins import name_of

    entries = experiment.entries
    unjudged = Verdict(state="error", sentence="not judged", informational=False, exit_code=3)
    return RunRecord(
        alignkit=__version__,
        name=experiment.name,
        question=experiment.question,
        key=content_key(_parts(experiment, samples)),
        command=gate_command(experiment),
        yaml=experiment.text,
        overrides=experiment.overrides,
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.process_time(), 1),
        partial=False,
        environment=environment({name_of(each.decode, DECODERS) for each in experiment.paths}),
        data=_data_facts(experiment, samples),
        paths=tuple(path_facts(each, entries[each.name].preset) for each in experiment.paths),
        coverage=(),
        trainings=(),
        cells=(),
        matrix=(),
        noise_floor=(),
        controls=controls,
        pixels=pixels,
        worst=(),
        verdict=unjudged,
        coverage_diffs=coverage,
    )


def gate_command(experiment: Experiment, verb: str = "gate") -> str:
    """Return the shell command that reproduces this."""
    overrides = [word for each in experiment.overrides for word in ("--set", each)]
    return shlex.join(["alignkit", *verb.split(), str(experiment.file), *overrides])


def _parts(experiment: Experiment, samples: Samples) -> dict[str, Any]:
    return {
        "data": samples.fingerprint,
        "paths": [[each.name, each.identity(), each.versions()] for each in experiment.paths],
        "gate": experiment.gate.model_dump(mode="json"),
        "code": code_version(ALL_LAYERS),
    }


def _data_facts(experiment: Experiment, samples: Samples) -> DataFacts:
    from alignkit.datasets import DATASETS
    from alignkit.plugins import name_of
    from alignkit.preprocess import stage_identity

    data = experiment.data
    options = {key: str(value) for key, value in stage_identity(data).items() if key != "stage"}
    return DataFacts(
        name=name_of(data, DATASETS),
        options=options,
        train=0,
        eval=len(samples),
        classes=samples.classes,
        fingerprint=samples.fingerprint,
        version=data.version(),
    )
