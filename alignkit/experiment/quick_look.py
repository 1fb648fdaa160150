"""`--quick`: the overrides that turn an experiment into a first look.

They make it smaller, and its gate informational: its paths, models, runtimes and rules stay. So
does a value that is as small already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from alignkit.decoders.decoder_switches import switches_of
from alignkit.experiment.experiment import Experiment
from alignkit.outcome import Skipped

_IMAGES = 300
"""Images of each split, drawn class by class; one of each class if there are more classes."""
_IDENTITIES = 100
"""Evaluated ones; each has several images, and every pair of these is compared."""
_ANNOTATED = 150
"""Images of each split with boxes or masks: an image has several."""
_EPOCHS = 3
_EPOCHS_OF_SMALL_CNN = 10
"""It begins without pretrained weights, and trains in seconds."""
_RESAMPLES = 200
_ATTRIBUTED = 100
_SEARCHED = 50
_KEPT = 500_000
"""Bytes of images that changed, of each pair of paths."""


@dataclass(frozen=True, slots=True)
class SmallerValue:
    """A value that ``--quick`` replaces."""

    key: str
    before: Any
    after: Any

    @property
    def override(self) -> str:
        """The change as ``--set`` takes it."""
        return f"{self.key}={json.dumps(self.after)}"

    def __str__(self) -> str:
        """Return ``train.epochs: 30 → 10``."""
        return f"{self.key}: {_written(self.before)} → {_written(self.after)}"


def _written(value: Any) -> str:
    return "none" if value is None else json.dumps(value).strip('"')


def quick_changes(experiment: Experiment) -> list[SmallerValue]:
    """List each value of an experiment that is larger than a first look needs.

    A first look fails no build, so that its gate becomes informational.
    """
    changes = [*_smaller_values(experiment)]
    if changes and not experiment.gate.informational:
        changes.append(SmallerValue("gate.informational", before=False, after=True))
    return changes


def _smaller_values(experiment: Experiment) -> Iterator[SmallerValue]:
    content = experiment.content
    yield from _of_data(experiment)
    for index, model in enumerate(content.models):
        if model.made_by and "--quick" not in model.made_by:
            made = f"{model.made_by} --quick"
            yield SmallerValue(f"models.{index}.made_by", model.made_by, made)
    if experiment.predicts:
        yield from _smaller("evaluate.resamples", content.evaluate.resamples, _RESAMPLES)
        if not content.models:
            recipe = content.train
            most = _EPOCHS_OF_SMALL_CNN if recipe.model == "small-cnn" else _EPOCHS
            yield from _smaller("train.epochs", recipe.epochs, most)
            if len(recipe.seeds) > 1:
                yield SmallerValue("train.seeds", [*recipe.seeds], [recipe.seeds[0]])
            if len(recipe.fractions) > 1:
                yield SmallerValue("train.fractions", [*recipe.fractions], [max(recipe.fractions)])
        for index, backend in enumerate(content.evaluate.backends):
            yield from _smaller(f"evaluate.backends.{index}.builds", backend.builds, 1)
        yield from _of_attribution(experiment)
        yield from _smaller("report.changed", content.report.changed, _KEPT)
    if content.advise:
        yield from _smaller("advise.images", content.advise.images, _SEARCHED)


def _of_data(experiment: Experiment) -> Iterator[SmallerValue]:
    data = experiment.content.data
    annotated = getattr(data, "truth", "") in ("boxes", "mask")
    most = max(_ANNOTATED if annotated else _IMAGES, len(data.class_names()))
    evaluated = _IDENTITIES if getattr(data, "held_out", False) else most
    for field, few in (("train", most), ("eval", evaluated)):
        if isinstance(value := getattr(data, field, None), int):
            yield from _smaller(f"data.{field}", value, few)
    if hasattr(data, "limit") and max(experiment.data.counts()) > most:
        yield SmallerValue("data.limit", data.limit, most)


def _of_attribution(experiment: Experiment) -> Iterator[SmallerValue]:
    option = experiment.content.attribute
    if option.images == "none":
        return
    _, evaluated = experiment.data.counts()
    most = min(evaluated, option.images) if isinstance(option.images, int) else evaluated
    if most > _ATTRIBUTED:
        yield SmallerValue("attribute.images", option.images, _ATTRIBUTED)
    if option.decode or (option.decode is None and _decode_is_divided(experiment)):
        yield SmallerValue("attribute.decode", option.decode, after=False)
    if option.runtimes == "all":
        yield SmallerValue("attribute.runtimes", "all", "worst")


def _decode_is_divided(experiment: Experiment) -> bool:
    """Tell whether a decoder differs from the reference's in switches, which divide decode."""
    # pairs with the reference alone are attributed
    reference, *others = (path.decode for path in experiment.paths)
    pairs = (switches_of(reference, each) for each in others)
    return any(not isinstance(both, Skipped) and both[0] != both[1] for both in pairs)


def _smaller(key: str, value: int, most: int) -> Iterator[SmallerValue]:
    if value > most:
        yield SmallerValue(key, value, most)
