"""The share of a difference that a known mechanism explains, measured on a few images.

A mechanism is named only where it explains most of the difference: some images are prepared again
with the one path doing as the other in this alone, and half of the mean difference must go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alignkit.arrays import FloatArray
from alignkit.datasets.image_files import choose
from alignkit.isolation import Limits
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record.diff_document import MOST, Mechanism
from alignkit.samples import Samples
from alignkit.studies.diff.mechanisms import KNOWN, kernel_of

_IMAGES = 16


@dataclass(frozen=True, slots=True)
class _Applied:
    """Two paths without one mechanism, or without several."""

    sentence: str
    evidence: str
    reference: Preprocess
    candidate: Preprocess


def main_mechanism(
    reference: Preprocess, candidate: Preprocess, samples: Samples, limits: Limits
) -> Mechanism | None:
    """Return the known mechanism that explains most of the difference on a few drawn images.

    If none explains half of it, all of them together are tried, and the nearest is returned. The
    result is ``None`` if the paths differ in no known one, or not at all on these images.
    """
    known = known_differences(reference, candidate)
    if not known:
        return None
    tried = [*known, _together(known, reference, candidate)] if len(known) > 1 else known
    distances = _distances(
        [(reference, candidate), *((each.reference, each.candidate) for each in tried)],
        samples,
        limits,
    )
    if not len(distances) or not (before := float(distances[:, 0].mean())):
        return None
    left = distances[:, 1:].mean(axis=0)
    alone = int(np.argmin(left[: len(known)]))
    # several are named only where no single one suffices
    best = alone if left[alone] <= (1 - MOST) * before else int(np.argmin(left))
    return Mechanism(
        sentence=tried[best].sentence,
        evidence=tried[best].evidence,
        images=len(distances),
        before=before,
        after=float(left[best]),
    )


def known_differences(reference: Preprocess, candidate: Preprocess) -> list[_Applied]:
    """List the known mechanisms that one of the paths has and the other has not."""
    found = []
    for known in KNOWN:
        for a, b in ((candidate, reference), (reference, candidate)):
            changed = known.without(a, b)
            if changed is None or changed == a or changed.missing():
                continue
            pair = (reference, changed) if a is candidate else (changed, candidate)
            words = {"a": a.name, "b": b.name, "ka": kernel_of(a), "kb": kernel_of(b)}
            sentence = known.sentence.format(**words)
            found.append(_Applied(sentence, known.evidence, *pair))
            break
    return found


def _together(
    applied: Sequence[_Applied], reference: Preprocess, candidate: Preprocess
) -> _Applied:
    """Remove every mechanism at once."""
    for known in KNOWN:
        changed = known.without(candidate, reference)
        candidate = candidate if changed is None else changed
        changed = known.without(reference, candidate)
        reference = reference if changed is None else changed
    sentences, evidence = zip(*((each.sentence, each.evidence) for each in applied), strict=True)
    return _Applied("; ".join(sentences), "; ".join(dict.fromkeys(evidence)), reference, candidate)


def _distances(
    pairs: Sequence[tuple[Preprocess, Preprocess]], samples: Samples, limits: Limits
) -> FloatArray:
    """Return mean |Δ| of the pixels before normalisation, (images, pairs), in grey levels.

    Images that some path does not decode are left out.
    """
    chosen = choose(samples.ids, _IMAGES, seed=0)
    places = [place for place, name in enumerate(samples.ids) if name in chosen]
    paths: list[Preprocess] = []
    for path in (path for pair in pairs for path in pair):
        if path not in paths:
            paths.append(path)
    rows = []
    images = encoded_images(samples, places, changed="fail")
    for taken in take_pixels(paths, images, limits=limits):
        pixels = [None if each.pixels is None else each.pixels.astype(np.float64) for each in taken]
        sides = [(pixels[paths.index(a)], pixels[paths.index(b)]) for a, b in pairs]
        if all(a is not None and b is not None for a, b in sides):
            rows.append([float(np.abs(b - a).mean()) for a, b in sides])  # type: ignore[operator]  # none is None
    return np.asarray(rows).reshape(len(rows), len(pairs))
