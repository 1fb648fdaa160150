"""The share of a difference that a known mechanism explains, measured on a few images.

A mechanism is named only where it explains most of the difference: some images are prepared again
with the one path doing as the other in this alone, and half of the mean difference must go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter

import numpy as np

from alignkit.datasets.image_files import choose
from alignkit.isolation import Limits
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record.diff_document import SUFFICIENT_SHARE, Mechanism
from alignkit.samples import Samples
from alignkit.studies.diff.mechanisms import KNOWN, Known, kernel_of

_IMAGES = 16


@dataclass(frozen=True, slots=True)
class _Applied:
    """Two paths without some mechanisms."""

    removed: tuple[tuple[Known, str], ...]
    """Each mechanism removed, with its sentence."""
    reference: Preprocess
    candidate: Preprocess

    @property
    def paths(self) -> tuple[Preprocess, Preprocess]:
        """The two, reference first."""
        return self.reference, self.candidate


def main_mechanism(
    reference: Preprocess, candidate: Preprocess, samples: Samples, limits: Limits
) -> Mechanism | None:
    """Return the known mechanism that explains most of the difference on a few drawn images.

    If no single one explains half of it, the best one is tried with each other. The result is
    ``None`` if the paths differ in no known one, or not at all on these images.
    """
    whole = _Applied((), reference, candidate)
    alone = _without_each(whole)
    if not alone:
        return None
    images, before, after = _distances([whole, *alone], samples, limits)
    if not before:
        return None
    best, left = min(zip(alone, after, strict=True), key=itemgetter(1))
    if left > (1 - SUFFICIENT_SHARE) * before and (more := _without_each(best)):
        _, _, after = _distances([whole, *more], samples, limits)
        two, remains = min(zip(more, after, strict=True), key=itemgetter(1))
        # two are named only where they suffice
        if remains <= (1 - SUFFICIENT_SHARE) * before:
            best, left = two, remains
    return Mechanism(
        sentence="; ".join(sentence for _, sentence in best.removed),
        evidence="; ".join(dict.fromkeys(known.evidence for known, _ in best.removed)),
        images=images,
        before=before,
        after=left,
        published=tuple(known.published for known, _ in best.removed if known.published),
    )


def _without_each(given: _Applied) -> list[_Applied]:
    """Remove each known mechanism by itself that one of the paths has and the other has not."""
    found = []
    for known in KNOWN:
        for a, b in (given.paths[::-1], given.paths):
            changed = known.without(a, b)
            if changed is None or changed == a or changed.missing():
                continue
            sentence = known.sentence.format(a=a.name, b=b.name, ka=kernel_of(a), kb=kernel_of(b))
            found.append(
                _Applied(
                    (*given.removed, (known, sentence)),
                    changed if a is given.reference else given.reference,
                    changed if a is given.candidate else given.candidate,
                )
            )
            break
    return found


def _distances(
    pairs: Sequence[_Applied], samples: Samples, limits: Limits
) -> tuple[int, float, list[float]]:
    """Return the images compared, and mean |Δ| of the first pair and of each other.

    It is of the pixels before normalisation, in grey levels. Images that some path does not decode
    are left out; without any other, all are 0.
    """
    chosen = choose(samples.ids, _IMAGES, seed=0)
    places = [place for place, name in enumerate(samples.ids) if name in chosen]
    paths: list[Preprocess] = []
    for path in (path for pair in pairs for path in pair.paths):
        if path not in paths:
            paths.append(path)
    sides = [tuple(map(paths.index, pair.paths)) for pair in pairs]
    totals, images = np.zeros(len(pairs)), 0
    for taken in take_pixels(paths, encoded_images(samples, places, changed="fail"), limits=limits):
        pixels = [each.pixels for each in taken if each.pixels is not None]
        if len(pixels) == len(taken):
            floats = [each.astype(np.float64) for each in pixels]
            totals += [np.abs(floats[b] - floats[a]).mean() for a, b in sides]
            images += 1
    first, *others = (totals / max(images, 1)).tolist()
    return images, first, others
