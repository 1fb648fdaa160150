"""Paths, data, decodes and trainings of a run as its record describes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alignkit.backends import Builder
from alignkit.datasets import recorded_options
from alignkit.engines import calibration_indices
from alignkit.findings.stage_yaml import stage_line
from alignkit.outcome import Failed, Measured, Skipped
from alignkit.predict.predict_cells import Built
from alignkit.preprocess import STAGES, Preprocess, StageName, presets, same_as, stage_identity
from alignkit.record import (
    Coverage,
    DataFacts,
    Epoch,
    PathFacts,
    StageFacts,
    State,
    TrainingFacts,
)
from alignkit.samples import digests

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from alignkit.experiment.preprocess_option import PreprocessOption
    from alignkit.outcome import Outcome
    from alignkit.plan import Plan
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.train import Trained

_LOGGED = ("images", "ranks", "held_out", "kept_epoch", "pretrained")
"""Fields of a training's log that the record copies."""


def state_of(ended: Outcome[Any]) -> tuple[State, str, str]:
    """Return an outcome as (state, reason, traceback)."""
    if isinstance(ended, Built):
        return "built", ended.reason, ""
    if isinstance(ended, Skipped):
        return "skipped", ended.reason, ""
    if isinstance(ended, Failed):
        return "failed", ended.message, ended.traceback
    return "measured", "", ""


def paths_facts(
    paths: Sequence[Preprocess], entries: Mapping[str, PreprocessOption]
) -> tuple[PathFacts, ...]:
    """Describe the paths of a file by their entries in it, and which of them are the same."""
    doubles = same_as(paths)
    return tuple(
        path_facts(each).model_copy(
            update={"same_as": doubles.get(each.name, ""), "same": entries[each.name].same}
        )
        for each in paths
    )


def path_facts(preprocess: Preprocess) -> PathFacts:
    """Describe a path's stages with their options and the versions that really run."""
    skipped = preprocess.missing()  # asked first: a version needs the library
    return PathFacts(
        name=preprocess.name,
        stages=tuple(_stage_facts(preprocess, stage, usable=not skipped) for stage in STAGES),
        surrogate_of=preprocess.surrogate_of,
        replaced=preprocess.replaced,
        calibration=presets.calibration(preprocess),
        skipped=skipped,
        max_pixels=preprocess.max_pixels,
    )


def _stage_facts(preprocess: Preprocess, name: StageName, *, usable: bool) -> StageFacts:
    stage = getattr(preprocess, name)
    identity = stage_identity(stage)
    # the version that counts is the library's, which the resize stage only wraps
    versioned = preprocess.resize.resizer if name == "resize" else stage
    version = versioned.version() if usable and hasattr(versioned, "version") else ""
    return StageFacts(
        stage=name,
        label=stage_label(name, identity),
        options=identity,
        version=version,
        yaml=stage_line(preprocess, name),
    )


def stage_label(name: StageName, identity: dict[str, Any]) -> str:
    """Describe a stage in one line, e.g. ``OpenCV interpolation=linear 48x48``."""
    options = {key: value for key, value in identity.items() if key != "stage"}
    if name == "resize":
        return _resize_label(options)
    if name == "decode":
        return f"{_library(identity['stage'])}{_options(options)}"
    if name == "crop":
        return _crop_label(options)
    if name == "normalise":
        return f"mean {_numbers(options['mean'])} std {_numbers(options['std'])}"
    return str(next(iter(options.values())))


def _resize_label(options: dict[str, Any]) -> str:
    resizer = options.pop("resizer")
    height, width = options.pop("size")
    sized = f"{height}x{width}"
    if options["fit"] == "none":
        return f"no resampling, {sized}{_at(options)}"
    inner = {key: value for key, value in resizer.items() if key != "stage"}
    if not inner.get("floats"):  # nearly no stack resizes floats
        inner.pop("floats", None)
    fit = "" if options["fit"] == "squash" else f" {options['fit']}"
    rounding = "" if options["rounding"] == "down" else f" rounding={options['rounding']}"
    later = ("auto", "stride", "half")
    auto = "".join(f" {key}={options[key]}" for key in later if key in options)
    size = f"{sized}{fit}{rounding}{auto}{_at(options)}"
    return f"{_library(resizer['stage'])}{_options(inner)} {size}"


def _crop_label(options: dict[str, Any]) -> str:
    if options["size"] is None:
        return "none"
    half = "" if options["half"] == "even" else f" half={options['half']}"
    sized = "{}x{}".format(*options["size"])
    return f"{'' if options.get('at') else 'centre '}{sized}{_at(options)}{half}"


def _at(options: dict[str, Any]) -> str:
    return " at {}, {}".format(*options["at"]) if options.get("at") else ""


def _library(stage: str) -> str:
    return stage.removesuffix("Decoder").removesuffix("Resizer")


def _options(options: dict[str, Any]) -> str:
    return "".join(f" {key}={value}" for key, value in options.items() if value is not None)


def _numbers(values: list[float]) -> str:
    return "/".join(f"{value:g}" for value in values)


def coverage_facts(preprocesses: Sequence[Preprocess], sets: Sets) -> tuple[Coverage, ...]:
    """Count how the decodes of both splits ended, preprocess by preprocess."""
    rows = []
    for preprocess in preprocesses:
        for split in ("train", "eval"):
            prepared = sets.usable(preprocess.name, split)
            if prepared is None:  # skipped: the path says why
                continue
            decodes = ((each.id, each.outcome, each.reason) for each in prepared.outcomes)
            rows.append(Coverage.of(preprocess.name, split, decodes))
    return tuple(rows)


def training_facts(trained: Trained, folder: Path) -> TrainingFacts:
    """Describe a training by its log, or why there is none; writes log files into ``folder``."""
    from alignkit.train import read_log
    from alignkit.train.training_log import write_logs

    state, reason, _ = state_of(trained.ended)
    logged: dict[str, Any] = {"key": trained.training.key, "images": trained.images}
    # a user's model has no log here
    if isinstance(trained.ended, Measured) and trained.training.given is None:
        checkpoint = trained.ended.value
        log = read_log(checkpoint)
        logged = {name: log[name] for name in _LOGGED}
        logged["key"] = checkpoint.key
        logged["epochs"] = epochs = tuple(Epoch(**epoch) for epoch in log["epochs"])
        logged["files"] = write_logs(checkpoint, trained.training, epochs, folder)
    return TrainingFacts(
        preprocess=str(trained.training.row),
        seed=trained.training.seed,
        state=state,
        reason=reason,
        fraction=trained.training.fraction,
        **logged,
    )


def data_facts(plan: Plan, sets: Sets) -> DataFacts:
    """Describe the data set as it was used."""
    data = plan.experiment.data
    calibrated, evaluated = _calibration(plan, sets)
    return DataFacts(
        name=plan.experiment.data_name,
        options=recorded_options(data),
        train=len(sets.train),
        eval=len(sets.evaluation),
        classes=sets.evaluation.classes,
        fingerprint=plan.fingerprint,
        version=data.version(),
        notes=(*data.notes(), *_outside(plan, sets.evaluation.classes)),
        calibration=calibrated,
        calibration_evaluated=evaluated,
        copies=sets.copies,
    )


def _calibration(plan: Plan, sets: Sets) -> tuple[int, int]:
    """Count the images that calibrate engines, and those of them that are evaluated, too."""
    runtimes = (each.runtime for each in plan.evaluations if not each.skipped)
    wanted = {
        chosen
        for each in runtimes
        if isinstance(each.backend, Builder)
        and (chosen := each.backend.calibration(each.precision)) is not None
    }
    rows = sorted({row for each in wanted for row in calibration_indices(each, sets.train)})
    if not rows:
        return 0, 0
    evaluated = {*sets.digests} - {""}
    return len(rows), sum(each in evaluated for each in digests(sets.train.take(rows)))


def _outside(plan: Plan, classes: Sequence[str]) -> Iterator[str]:
    """Say of each given model how many of its outputs are classes that the data has not."""
    for given in filter(None, (training.given for training in plan.trainings)):
        if given.beside:
            yield (
                f"{given.name}: torch runs {given.file.name}, and the ONNX runtimes run "
                f"{given.beside.name} as it is, not an export"
            )
        if classes and (outside := {*given.named} - {*classes}):
            yield (
                f"{given.name}: {len(outside)} of its {len(given.named)} outputs are classes "
                "that the data has not; a prediction of one counts as wrong"
            )
