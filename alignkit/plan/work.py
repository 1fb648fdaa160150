"""Units of work of a plan: trainings, matched pairs, evaluations, comparisons, attributions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignkit.outcome import PlannedWork
from alignkit.place import FULL, Column, Place, Row
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.preprocess.stage_mixtures import make_stage_mixtures, mixtures
from alignkit.version import DIFFERENCE_LAYERS, SHARE_LAYERS, code_version

if TYPE_CHECKING:
    from alignkit.models.user_model import UserModel
    from alignkit.plan import Plan
    from alignkit.plan.planned_runtime import Runtime


@dataclass(frozen=True, slots=True)
class Training(PlannedWork):
    """One model to train: a path and a seed; the recipe decides everything else."""

    kind = "trainings"
    preprocess: Preprocess
    seed: int
    parts: dict[str, Any] = field()  # without it the property of the base would be the default
    """Everything that the weights depend on."""
    skipped: str = ""
    """Why it cannot run here; empty if it can."""
    fraction: float = FULL
    """Share of the training images, of each class."""
    mix: tuple[Preprocess, ...] = ()
    """Where images come from several paths: these, ``preprocess`` first; otherwise empty."""
    given: UserModel | None = None
    """The user's own model, trained elsewhere with ``preprocess``; there is nothing to train."""

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """The paths that its images come from."""
        return self.mix or (self.preprocess,)

    @property
    def row(self) -> Row:
        """The row of the matrix, which trainings that differ only in their seed share."""
        model = self.given.name if self.given else ""
        return Row(tuple(path.name for path in self.paths), self.fraction, model)

    @property
    def label(self) -> str:
        return str(self.row) if self.given else f"train {self.row} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class MatchedPair:
    """Two trainings that differ in ``preprocess`` and in nothing else; checked when built."""

    reference: Training
    candidate: Training

    def __post_init__(self) -> None:
        differing = {
            name
            for name in self.reference.parts.keys() | self.candidate.parts.keys()
            if self.reference.parts.get(name) != self.candidate.parts.get(name)
        }
        # else a drift could come from anything that differs
        if not differing <= {"preprocess", "normalise"}:
            raise ValueError(f"not a matched pair: {', '.join(sorted(differing))} differ")


@dataclass(frozen=True, slots=True)
class Evaluation(PlannedWork):
    """One entry of the matrix, before it ran."""

    kind = "cells"
    training: Training
    preprocess: Preprocess
    runtime: Runtime
    parts: dict[str, Any] = field()
    skipped: str = ""
    builds_engine: bool = False
    """Skipped for lack of a device alone: its engine is built, and not run."""
    unsuited: bool = False
    """Skipped on every machine: the backend does not run this kind of model."""
    aligned: bool = False
    """Evaluated as it was trained, in the reference runtime; its row is compared with it."""

    @property
    def place(self) -> Place:
        """The place in the matrix, which evaluations that differ only in their seed share."""
        runtime = self.runtime
        preprocess = runtime.backend.own_path or self.preprocess.name
        return Place(self.training.row, Column(preprocess, runtime.name, runtime.precision))

    @property
    def live(self) -> bool:
        """Whether the runtime may answer differently tomorrow."""
        return self.runtime.backend.live

    @property
    def label(self) -> str:
        column = self.place.column
        return (
            f"{self.training.label} on {column.preprocess} in {column.backend} {column.precision}"
        )


@dataclass(frozen=True, slots=True)
class PixelComparison(PlannedWork):
    """A comparison of two paths, stage by stage over the evaluation images."""

    kind = "comparisons"
    reference: Preprocess
    candidate: Preprocess
    images: str
    """Fingerprint of the evaluation images."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that the differences depend on."""
        return {
            "samples": self.images,
            "reference": _identity(self.reference),
            "candidate": _identity(self.candidate),
            "code": code_version(DIFFERENCE_LAYERS),
        }

    @property
    def label(self) -> str:
        return f"compare {self.reference.name} with {self.candidate.name}"

    @property
    def skipped(self) -> str:
        return self.reference.missing() or self.candidate.missing()


def _identity(path: Preprocess) -> dict[str, Any]:
    from alignkit.prepare import pixel_identity

    return {**pixel_identity(path), "normalise": stage_identity(path.normalise)}


@dataclass(frozen=True, slots=True)
class PlannedAttribution(PlannedWork):
    """The models of one row, served along a path and in the runtimes that all of them run in."""

    kind = "comparisons"
    reference: Preprocess
    candidate: Preprocess
    data: str
    """Fingerprint of all images: the evaluation images are mixed, and int8 engines are calibrated
    with training images."""
    models: tuple[str, ...]
    """Key of each model's training, one a seed."""
    runtimes: tuple[Runtime, ...]
    """The reference runtime first."""
    resamples: int
    skipped: str = ""
    """The reason why it cannot be done here; empty if it can."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that its shares depend on."""
        paths = (self.reference, self.candidate)
        return {
            "data": self.data,
            "paths": [[path.name, path.identity(), path.versions()] for path in paths],
            "models": list(self.models),
            "runtimes": [[each.name, each.precision, each.parts] for each in self.runtimes],
            "resamples": self.resamples,
            "code": code_version(SHARE_LAYERS),
        }

    @property
    def live(self) -> bool:
        """Whether a runtime may answer differently tomorrow: the shares are then never stored."""
        return any(each.backend.live for each in self.runtimes)

    @property
    def label(self) -> str:
        return f"attribute {self.reference.name} to {self.candidate.name}"

    @property
    def factors(self) -> tuple[str, ...]:
        """The stages that are swapped; each runtime after the first adds one factor."""
        return make_stage_mixtures(self.reference, self.candidate).factors

    @property
    def mixture_count(self) -> int:
        """Number of mixtures of the two paths that prepare every image."""
        return len(mixtures(self.factors))


def planned_attributions(
    plan: Plan, ran: Sequence[Evaluation] | None = None
) -> tuple[PlannedAttribution, ...]:
    """List the attributions of a run: the reference's models served along every other path.

    ``ran`` holds the evaluations that were measured; by default it is all that can run. A model is
    attributed if its aligned cell is among them, in every runtime that all such models ran in.
    """
    rows = [each.row for each in plan.trainings if each.row.is_only(plan.reference.name)]
    if not rows:  # none of the given models was trained with it
        return ()
    if ran is None:
        ran = [each for each in plan.evaluations if not each.skipped]
    models = _models(ran, rows[0], plan.reference.name)
    first = next(iter(models.values()), [])
    shared = tuple(each for each in first if all(each in ran_in for ran_in in models.values()))
    return tuple(
        PlannedAttribution(
            plan.reference,
            candidate,
            plan.fingerprint,
            tuple(models),
            shared,
            resamples=plan.resamples,
            skipped=candidate.missing() if models else "no cell that it begins from can run",
        )
        for candidate in plan.preprocesses[1:]
    )


def _models(ran: Sequence[Evaluation], row: Row, reference: str) -> dict[str, list[Runtime]]:
    """Map each of the row's models that ran aligned to its runtimes on the reference path."""
    own = [e for e in ran if (e.place.row, e.place.column.preprocess) == (row, reference)]
    models: dict[str, list[Runtime]] = {e.training.key: [] for e in own if e.aligned}
    for each in own:
        if each.training.key in models:
            models[each.training.key].append(each.runtime)
    return models
