"""The share of a difference that a known mechanism explains, measured on a few images.

A mechanism is named only where it explains most of the difference: some images are prepared again
with the one path doing as the other in this alone, and half of the mean difference must go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from alignkit.isolation import Limits
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record import Mechanism
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.record.spatial_facts import MechanismName, ShownBy
from alignkit.samples import Samples, choose
from alignkit.studies.diff.mechanisms import KNOWN, Known

_IMAGES = 16
_Pair: TypeAlias = tuple[Preprocess, Preprocess]


@dataclass(frozen=True, slots=True)
class _Applied:
    """Two paths without some mechanisms, and the measurements that tell what each explains."""

    removed: tuple[tuple[Known, str, ShownBy], ...]
    """Each mechanism removed, with its sentence and the side of `Known.done_by`."""
    reference: Preprocess
    candidate: Preprocess
    steps: tuple[tuple[_Pair, _Pair], ...] = ()
    """Of each mechanism the pair with it and the pair without it, both in the same library."""

    @property
    def paths(self) -> _Pair:
        """The two, reference first."""
        return self.reference, self.candidate


def main_mechanism(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    limits: Limits,
    threads: int | None = None,
) -> Mechanism | None:
    """Return the known mechanism that explains most of the difference on a few drawn images.

    If no single one explains half of it, the best one is tried with each other. The result is
    ``None`` if the paths differ in no known one, or not at all on these images. ``threads`` is the
    number of worker processes, by default one for each CPU.
    """
    chosen = choose(samples.ids, _IMAGES, seed=0)
    places = [place for place, name in enumerate(samples.ids) if name in chosen]
    images = list(encoded_images(samples, places, changed="fail"))
    whole = _Applied((), reference, candidate)
    measure = partial(_best, whole.paths, images=images, limits=limits, threads=threads)
    found = measure(_without_each(whole, images))
    if found is None:
        return None
    best, measured = found
    if not measured.suffices:
        two = measure(_without_each(best, images))
        # two are named only where they suffice
        if two is not None and two[1].suffices:
            best, measured = two
    return Mechanism(
        sentence="; ".join(sentence for _, sentence, _ in best.removed),
        evidence="; ".join(dict.fromkeys(known.evidence for known, *_ in best.removed)),
        images=measured.images,
        before=measured.before,
        after=measured.after,
        shown_as=tuple(map(_shown_as, best.removed)),
        published=tuple(known.published for known, *_ in best.removed if known.published),
    )


def _shown_as(removed: tuple[Known, str, ShownBy]) -> tuple[MechanismName, ShownBy] | None:
    known, _, side = removed
    if known.shown_as is None:
        return None
    # a lattice of blocks does not tell whose it is
    return known.shown_as, "" if known.shown_as == "inverse_dct" else side


def _without_each(given: _Applied, images: Sequence[Encoded]) -> list[_Applied]:
    """Return the two paths once for each known mechanism, without it."""
    found = []
    for known in KNOWN:
        for a, b in (given.paths[::-1], given.paths):
            if not any(known.acts_on(a, image.data) for image in images):
                continue
            without = known.without(a, b)
            control, changed = without if isinstance(without, tuple) else (a, without)
            if changed is None or changed == a or changed.missing():
                continue
            first = a is given.reference
            side: ShownBy = "reference" if first == (known.done_by == "a") else "candidate"
            pairs = [(each, b) if first else (b, each) for each in (control, changed)]
            found.append(
                _Applied(
                    (*given.removed, (known, known.said(a, b), side)),
                    *pairs[1],
                    (*given.steps, (pairs[0], pairs[1])),
                )
            )
            break
    return found


@dataclass(frozen=True, slots=True)
class _Measured:
    images: int
    before: float
    """Mean |Δ| of the pixels before normalisation, in grey levels."""
    after: float
    """The same less all that goes with the mechanisms."""

    @property
    def suffices(self) -> bool:
        return self.after <= (1 - EXPLAINS_MOST) * self.before


def _best(
    whole: _Pair,
    tried: Sequence[_Applied],
    images: Sequence[Encoded],
    limits: Limits,
    threads: int | None,
) -> tuple[_Applied, _Measured] | None:
    """Return the one that explains most of the whole difference, all on the same images.

    Images that some path does not decode are left out. The result is ``None`` if nothing is tried,
    no image is left, nothing differs, or none explains anything.
    """
    pairs = [whole, *(pair for each in tried for step in each.steps for pair in step)]
    paths: list[Preprocess] = []
    for path in (path for pair in pairs for path in pair):
        if path not in paths:
            paths.append(path)
    sides = [tuple(map(paths.index, pair)) for pair in pairs]
    totals, compared = np.zeros(len(pairs)), 0
    for taken in take_pixels(paths, images, processes=threads, limits=limits) if tried else ():
        pixels = [each.pixels for each in taken if each.pixels is not None]
        if len(pixels) == len(taken):
            floats = [each.astype(np.float64) for each in pixels]
            totals += [np.abs(floats[b] - floats[a]).mean() for a, b in sides]
            compared += 1
    if not totals[0]:
        return None
    before, *others = (totals / compared).tolist()
    means = iter(others)
    left = [before - sum(next(means) - next(means) for _ in each.steps) for each in tried]
    best = min(range(len(tried)), key=left.__getitem__)
    if left[best] >= before:
        return None
    # a control may differ more than the path itself does
    return tried[best], _Measured(compared, before, max(left[best], 0.0))
