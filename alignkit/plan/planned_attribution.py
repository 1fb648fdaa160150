"""Attributions of a plan, and how many images they mix.

The number of images is known before anything runs, and depends on no machine's speed: the
predictions of all mixtures may be a tenth of the run's own. A training counts three predictions for
each image of each epoch, its forward and its backward pass. Mixtures that turn out to have equal
pixels are predicted once, so that the real cost is at most the planned one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from alignkit.outcome import PlannedWork, Skipped
from alignkit.place import Row, first_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.stage_mixtures import (
    make_stage_mixtures,
    mixtures,
    mixtures_in_runtimes,
)
from alignkit.version import SHARE_LAYERS, code_version

if TYPE_CHECKING:
    from alignkit.experiment.run_options import AttributeOption
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation, Runtime

_FEWEST = 100
"""Images that are mixed whatever they cost: the intervals of fewer say little."""
_MOST_INSIDE = 300
"""Images on which decode is divided unless all are asked for: each is decoded up to eight times."""
_SHARE = 0.1
_OF_TRAINING = 3
"""Predictions that take as long as training on one image."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of the images and runtimes that an attribution covers."""

    images: int | None = None
    """Evaluation images to mix, drawn by class; ``None`` for all."""
    seconds: float | None = None
    """Budget of this attribution, by the time of its cells: fewer images than ``images``."""
    inside_decode: int | None = None
    """Images on which decode is divided among its switches; ``None`` for all that are mixed."""
    predictions_inside: bool = True
    """Whether the changes of predictions inside decode are divided too, and not pixels alone."""
    every_runtime: bool = False
    """Whether all runtimes are covered; otherwise the reference runtime and the worst one."""


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
    """The reference runtime first. Which of them is the worst depends on `cells` alone, so that the
    key need not name it."""
    resamples: int
    skipped: str = ""
    """The reason why it cannot be done here; empty if it can."""
    scope: Scope = Scope(every_runtime=True)
    cells: tuple[str, ...] = ()
    """Keys of the cells that ran on the two paths: with them another batch size, or a cell that
    failed, is another attribution."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that its shares depend on."""
        paths = (self.reference, self.candidate)
        return {
            "data": self.data,
            "paths": [[path.name, path.identity(), path.versions()] for path in paths],
            "models": list(self.models),
            "runtimes": [[each.name, each.precision, each.parts] for each in self.runtimes],
            "cells": list(self.cells),
            "resamples": self.resamples,
            "scope": {each.name: getattr(self.scope, each.name) for each in fields(self.scope)},
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

    def predictions(self, runtimes: int) -> list[int]:
        """Count the predictions of an image by one model in each of so many runtimes, at most.

        The reference runtime comes first. The two paths themselves are cells, and known.
        """
        names = [f"runtime {number}" for number in range(runtimes)]
        factors = frozenset(self.factors)
        if self.switches == 0:  # the decoders differ in name alone
            factors -= {"decode"}
        counted = dict.fromkeys(names, 0)
        for taken in mixtures_in_runtimes(sorted(factors), names[1:]):
            (runtime,) = taken - factors or names[:1]
            counted[runtime] += taken & factors not in (frozenset(), factors)
        return list(counted.values())

    @property
    def switches(self) -> int | None:
        """Number of switches in which the decoders differ; ``None`` if it is unknown."""
        from alignkit.decoders.decoder_switches import switches_of

        if self.reference.decode == self.candidate.decode:
            return 0
        both = switches_of(self.reference.decode, self.candidate.decode)
        if isinstance(both, Skipped):
            return None
        paths = (replace(self.reference, decode=each) for each in both)
        return len(make_stage_mixtures(*paths, decoder_switches=True).factors)

    @property
    def predictions_inside_decode(self) -> int:
        """Count the predictions of an image by one model that divide decode, at most."""
        return 2**self.switches - 1 if self.switches else 0


def planned_attributions(
    plan: Plan, ran: Sequence[Evaluation] | None = None
) -> tuple[PlannedAttribution, ...]:
    """List the attributions of a run: the reference's models served along every other path.

    ``ran`` holds the evaluations that were measured; by default it is all that can run. A model is
    attributed if its aligned cell is among them, in every runtime that all such models ran in.
    """
    if plan.experiment.content.attribute.images == "none":
        return ()
    can_run = [each for each in plan.evaluations if not each.skipped]
    # the images are those of the plan, whichever of its cells fail
    planned = _unscoped(plan, can_run)
    scope = _scope_of(plan.experiment.content.attribute, planned, plan)
    attributed = planned if ran is None else _unscoped(plan, ran)
    return tuple(replace(each, scope=scope) for each in attributed)


def _scope_of(option: AttributeOption, planned: Sequence[PlannedAttribution], plan: Plan) -> Scope:
    """Decide what all attributions of a plan cover; the same images for each."""
    trained, evaluated = plan.experiment.data.counts()
    every = option.runtimes == "all"
    able = [each for each in planned if not each.skipped]
    # without a model nothing is predicted
    if option.images is None and option.seconds is None and any(each.models for each in able):
        whole = _predictions_of_run(plan, trained, evaluated)
        images, inside = _within_budget(option, able, _SHARE * whole, evaluated)
        return Scope(_unless_all(images, evaluated), None, *inside, every)
    most = option.images if isinstance(option.images, int) else evaluated
    seconds = None if option.seconds is None else option.seconds / max(1, len(able))
    number = None if option.decode else _MOST_INSIDE
    predicted = option.decode is not False
    return Scope(_unless_all(most, evaluated), seconds, number, predicted, every)


def _within_budget(
    option: AttributeOption, able: Sequence[PlannedAttribution], budget: float, evaluated: int
) -> tuple[int, tuple[int | None, bool]]:
    """Return the images to mix, and what is divided inside decode, as in `Scope`.

    ``budget`` is in predictions.
    """
    every = option.runtimes == "all"
    stages = sum(len(each.models) * sum(_counted(each, every=every)) for each in able)
    decode = sum(len(each.models) * each.predictions_inside_decode for each in able)
    an_image = stages + decode if option.decode else stages
    images = min(evaluated, max(_FEWEST, int(budget / an_image))) if an_image else evaluated
    if option.decode:
        return images, (None, True)
    left = int((budget - images * stages) / decode) if decode else 0
    if option.decode is False or left < _FEWEST:
        return images, (_MOST_INSIDE, False)
    return images, (min(left, _MOST_INSIDE), True)


def _unless_all(images: int | None, of: int) -> int | None:
    return None if images is None or images >= of else images


def _counted(planned: PlannedAttribution, *, every: bool) -> list[int]:
    runtimes = planned.runtimes
    # beside the worst runtime there may be the simulation of its int8
    most = len(runtimes) if every else 2 + any(each.simulation for each in runtimes)
    return planned.predictions(min(most, len(runtimes)))


def _predictions_of_run(plan: Plan, trained: int, evaluated: int) -> float:
    recipe = plan.experiment.recipe
    epochs = sum(each.fraction for each in plan.trainings if not (each.given or each.skipped))
    cells = {each.key for each in plan.evaluations if not each.skipped}
    trainings = _OF_TRAINING * recipe.epochs * epochs * trained * (1 - recipe.holdout)
    return len(cells) * evaluated + trainings


def _unscoped(plan: Plan, ran: Sequence[Evaluation]) -> tuple[PlannedAttribution, ...]:
    """List the attributions of the models and runtimes that ran."""
    row = first_of((each.row for each in plan.trainings), plan.experiment.reference.name)
    if row is None:  # none of the given models was trained with it
        return ()
    models = _models(ran, row, plan.experiment.reference.name)
    first = next(iter(models.values()), [])
    shared = tuple(each for each in first if all(each in ran_in for ran_in in models.values()))
    return tuple(
        PlannedAttribution(
            plan.experiment.reference,
            candidate,
            plan.fingerprint,
            tuple(models),
            shared,
            resamples=plan.experiment.resamples,
            skipped=candidate.missing() if models else "no cell that it begins from can run",
            cells=_keys(ran, models, shared, (plan.experiment.reference.name, candidate.name)),
        )
        for candidate in plan.experiment.paths[1:]
    )


def _models(ran: Sequence[Evaluation], row: Row, reference: str) -> dict[str, list[Runtime]]:
    """Map each of the row's models that ran aligned to its runtimes on the reference path."""
    own = [e for e in ran if (e.place.row, e.place.column.preprocess) == (row, reference)]
    models: dict[str, list[Runtime]] = {e.training.key: [] for e in own if e.aligned}
    for each in own:
        if each.training.key in models:
            models[each.training.key].append(each.runtime)
    return models


def _keys(
    ran: Sequence[Evaluation],
    models: Collection[str],
    runtimes: Collection[Runtime],
    paths: tuple[str, str],
) -> tuple[str, ...]:
    """List the keys of these models' cells on two paths, in runtimes that all of them ran in."""
    own = (e for e in ran if e.training.key in models and e.runtime in runtimes)
    return tuple(sorted({e.key for e in own if e.place.column.preprocess in paths}))
