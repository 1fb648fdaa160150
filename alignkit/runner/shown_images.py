"""The images whose pixels a run keeps: `Comparison`, `Predicted` → pictures of each pair.

Of each pair: those that changed their prediction, as far as they fit, the greatest differences of
pixels, and some others by chance. An image that is kept for two reasons has two entries, whose
files are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from alignkit.compare.shown_stages import ImageTaker
from alignkit.prepare.prepared_sets import Sets
from alignkit.record import PictureMap, ShownImage, ShownPair
from alignkit.record.picture_facts import picture_map, write_shown
from alignkit.runner.changed_predictions import ServedImages, ranked_changes, served_between
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.plan import Plan
    from alignkit.predict.predict_cells import Predicted
    from alignkit.preprocess import Preprocess, StageName
    from alignkit.runner.comparison_stage import Comparison


def shown_images(
    plan: Plan,
    predicted: Sequence[Predicted],
    compared: Sequence[Comparison],
    sets: Sets,
    folder: Path,
) -> tuple[tuple[ShownImage, ...], tuple[ShownPair, ...]]:
    """Write the pictures and pixels of the images to show; return them, and what each pair had."""
    worst = {(each.reference, each.candidate): each.worst for each in compared}
    option = plan.experiment.report
    paths = {each.name: each for each in plan.experiment.paths if sets.usable(each.name, "eval")}
    samples = sets.evaluation
    task = plan.evaluations[0].task.facts()
    shown: list[ShownImage] = []
    written: list[ShownImage] = []
    pairs: list[ShownPair] = []
    # the reference path's pairs first, as they alone are compared stage by stage
    for reference, candidate in combinations(paths, 2):
        served = served_between(predicted, (reference, candidate))
        changes = [each.id for each in ranked_changes(served)]
        images = ServedImages(served, task)
        ids = images.ids
        pair = _Pair(paths[reference], paths[candidate], images, sets, folder)
        kept = pair.written("changed", changes, limit=option.changed)
        largest = worst.get((reference, candidate), ())[: option.worst]
        kept += pair.written("pixels", largest)
        others = {*changes, *largest}
        unchanged = [each for each in ids if each not in others]
        drawn = drawn_by_chance(unchanged, option.random, plan.key, reference, candidate)
        kept += pair.written("random", drawn)
        taker = ImageTaker(
            paths[reference],
            paths[candidate],
            samples,
            folder,
            most=option.changed,
            # answers are looked at on the image as it was decoded
            equal_decodes=any(each.maps for each in kept),
        )
        shown += map(pair.with_places, taker.with_stages(kept))
        written += pair.done.values()
        if served:
            pairs.append(
                ShownPair(
                    reference=reference,
                    candidate=candidate,
                    images=len(ids),
                    changed=len(changes),
                    limit=option.changed,
                )
            )
    for path in _files(written) - _files(shown):
        (folder / path).unlink()
    return tuple(shown), tuple(pairs)


def drawn_by_chance(images: Sequence[str], number: int, *seed: str) -> list[str]:
    """Draw at most ``number`` images; the same for the same words of ``seed``."""
    draw = np.random.default_rng(int(content_key(list(seed))[:16], 16))
    chosen = draw.choice(len(images), min(number, len(images)), replace=False)
    return [images[place] for place in sorted(chosen)]


@dataclass
class _Pair:
    """One pair of paths, whose images are written in turn."""

    reference: Preprocess
    candidate: Preprocess
    images: ServedImages
    sets: Sets
    folder: Path
    places: dict[str, int] = field(init=False)
    done: dict[str, ShownImage] = field(default_factory=dict)
    """Every image that is written, even where the limit leaves it out."""

    def __post_init__(self) -> None:
        self.places = {name: place for place, name in enumerate(self.sets.evaluation.ids)}

    def written(
        self,
        why: Literal["changed", "pixels", "random"],
        images: Sequence[str],
        limit: int | None = None,
    ) -> list[ShownImage]:
        """Write as many of the images, in their order, as have no more than ``limit`` bytes."""
        kept = []
        for image in images:
            if limit is not None and limit <= 0:
                break
            shown = self.done.get(image) or self._write(image, why)
            if shown is None:
                continue
            self.done[image] = shown
            if limit is not None:
                limit -= sum((self.folder / path).stat().st_size for path in _files([shown]))
                if limit < 0:
                    break
            kept.append(shown.model_copy(update={"why": why}))
        return kept

    def _write(self, image: str, why: Literal["changed", "pixels", "random"]) -> ShownImage | None:
        """Write an image from its prepared pixels; ``None`` if a side has none."""
        samples = self.sets.evaluation
        sides = [self.sets.evaluated(each.name) for each in (self.reference, self.candidate)]
        index = self.places[image]
        if min(each.rows[index] for each in sides) < 0:
            return None  # a worker died of it when it was prepared
        predictions, truth = self.images.of(image, self.folder)
        shown = write_shown(
            self.folder,
            *(each.image(index) for each in sides),
            why=why,
            reference=self.reference.name,
            candidate=self.candidate.name,
            id=image,
            label=samples.classes[samples.labels[index]] if samples.labels else "",
            # the last stage whose values are grey levels
            stage="colour",
            predictions=predictions,
        )
        if not any(each.drawn for each in predictions):
            return shown
        return shown.model_copy(update={"truth": truth, "maps": self._maps(image, "colour")})

    def with_places(self, shown: ShownImage) -> ShownImage:
        """Add where the earlier stages of an image have its points, if answers are drawn on it."""
        if not shown.maps:
            return shown
        stages = (
            each.model_copy(update={"maps": self._maps(shown.id, each.stage)})
            for each in shown.stages
        )
        return shown.model_copy(update={"stages": tuple(stages)})

    def _maps(self, image: str, stage: StageName) -> tuple[PictureMap, PictureMap]:
        """Find where each side has the points of the image after a stage."""
        index = self.places[image]
        places = (
            self.sets.evaluated(path.name).places([index], path, stage)[0]
            for path in (self.reference, self.candidate)
        )
        a, b = (picture_map(each.width, each.height, each.to_input) for each in places)
        return a, b


def _files(images: Sequence[ShownImage]) -> set[str]:
    return {file.path for each in images for file in each.artifacts}
