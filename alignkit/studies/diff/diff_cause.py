"""The end of a diff: the first stage and options that change, why, and whether it matters.

A known mechanism is named only where it explains most of the difference: some images are prepared
again with the one path doing as the other in this alone, and half of the mean difference must go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alignkit.isolation import Limits
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import STAGES, Preprocess
from alignkit.preprocess.image_kinds import DEEP_GREY
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.record import KnownEffect, Mechanism, PathFacts
from alignkit.record.blame_facts import MechanismName, ShownBy
from alignkit.record.diff_document import (
    GivenModel,
    PairDiff,
    PredictionDrift,
    StageCause,
)
from alignkit.samples import Samples, choose
from alignkit.studies.diff.mechanisms import CLIPPED, KNOWN, Known
from alignkit.text.diff_words import NO_MODEL, flips_sentence
from alignkit.text.numbers import count, plain
from alignkit.text.stage_changes import stage_change

if TYPE_CHECKING:
    from alignkit.predict.given_model import Opened
    from alignkit.studies.diff import DiffRequest

_IMAGES = 16
"""Images on which mechanisms are tried."""
_Pair: TypeAlias = tuple[Preprocess, Preprocess]
_MEASURED = (
    ("torch's antialiased bicubic, rounded, for Pillow's", 0.17, "0.8 % [0.0, 1.8]"),
    ("nvJPEG's rule for Pillow's decoder", 0.53, "0.5 % [0.0, 1.2]"),
    ("OpenCV's area for Pillow's bicubic", 1.02, "1.2 % [0.2, 2.5]"),
    ("the fast inverse DCT for the accurate one", 1.10, "0.5 % [0.0, 1.2]"),
    ("Pillow's bilinear for its bicubic", 1.27, "1.8 % [0.5, 3.2]"),
    ("NV12 for RGB", 1.29, "0.8 % [0.0, 1.8]"),
    ("OpenCV's linear for Pillow's bicubic", 1.37, "1.0 % [0.2, 2.2]"),
    ("torchpipe's resize of tensors for Pillow's bicubic", 1.68, "0.8 % [0.0, 1.8]"),
    ("OpenCV's cubic for Pillow's bicubic", 1.86, "2.5 % [1.0, 4.2]"),
    ("OpenCV's nearest for Pillow's bicubic", 7.68, "7.2 % [5.0, 9.8]"),
    ("torchpipe's resize straight to 224 for Pillow's with a crop", 39.7, "11.5 % [8.5, 14.8]"),
)
"""Stacks, mean |Δ| in grey levels, and share of predictions that change; by size.

They are of other images and another model than the reader's: a comparison, never a forecast. Each
was measured by ``alignkit diff --model`` against Pillow's decoder and bicubic resize to 256, centre
crop to 224; docs/evidence.md has the same table."""
EFFECTS = tuple(
    KnownEffect(
        stacks=stacks,
        levels=levels,
        effect=f"{churn} of predictions change",
        kind="measured",
        source="EfficientNet-Lite0, 400 ImageNet photographs: docs/evidence.md",
    )
    for stacks, levels, churn in _MEASURED
)


def nearest_effects(levels: float) -> tuple[KnownEffect, ...]:
    """Return the greatest known effect of at most this size and the smallest above it."""
    below = [each for each in EFFECTS if (each.levels or 0) <= levels]
    above = [each for each in EFFECTS if (each.levels or 0) > levels]
    return (*below[-1:], *above[:1])


def with_causes(
    pairs: Sequence[PairDiff],
    begun: Mapping[str, Mapping[str, int]],
    paths: Sequence[PathFacts],
    request: DiffRequest,
    model: Opened | None,
    drifts: Mapping[str, PredictionDrift],
) -> tuple[PairDiff, ...]:
    """Add causes, mechanism, predictions and their meaning to each measured pair.

    ``begun`` maps candidate to stage → images that it is the first to change; ``drifts`` candidate
    to the predictions of the model.
    """
    known = {each.preprocess.name: each.preprocess for each in request.usable}
    facts = {each.name: each for each in paths}
    found = []
    for pair in pairs:
        if not pair.compared:
            found.append(pair)
            continue
        both = known[pair.reference], known[pair.candidate]
        causes = _causes(pair, begun[pair.candidate], facts, _clipped_grey(pair, both))
        mechanism = None
        if causes:
            mechanism = main_mechanism(*both, request.samples, request.limits, request.threads)
        drift = drifts.get(pair.candidate)
        effects = () if drift or not causes else _effects(pair, causes, mechanism)
        found.append(
            pair.model_copy(
                update={
                    "causes": causes,
                    "mechanism": mechanism,
                    "predictions": drift,
                    "effects": effects,
                    "matter": _matter(drift, model, effects, differs=bool(causes)),
                }
            )
        )
    return tuple(found)


def given_model_facts(model: Opened) -> GivenModel:
    """Describe the model that predicted."""
    return GivenModel(
        name=model.name,
        sha256=model.sha256,
        runtime=model.runtime,
        outputs=len(model.outputs),
        size=model.size,
        recognised=model.recognised,
    )


def _causes(
    pair: PairDiff, begun: Mapping[str, int], facts: Mapping[str, PathFacts], of_decode: str
) -> tuple[StageCause, ...]:
    differs = {each.stage for each in pair.stages if each.mode == "isolated" and each.differs}
    return tuple(
        StageCause(
            stage=stage,
            begun=begun.get(stage, 0),
            change=stage_change(facts[pair.reference], facts[pair.candidate], stage)
            + of_decode * (stage == "decode"),
        )
        for stage in STAGES
        if stage in differs
    )


def _clipped_grey(pair: PairDiff, paths: tuple[Preprocess, Preprocess]) -> str:
    """Name the cause of what 16-bit grey images differ by, few as they may be in the set."""
    deep = next((each for each in pair.kinds if each.kind == DEEP_GREY), None)
    if deep is None or not deep.decode.mean_abs:
        return ""
    for a, b in (paths, paths[::-1]):
        if CLIPPED.without(a, b):
            apart = f"{plain(deep.decode.mean_abs, 2)} levels apart"
            return f"; {CLIPPED.said(a, b)} ({count(deep.decode.images, 'image')}, {apart})"
    return ""


def _effects(
    pair: PairDiff, causes: Sequence[StageCause], mechanism: Mechanism | None
) -> tuple[KnownEffect, ...]:
    # another normalisation changes every value of the tensor, which levels do not show
    if causes[-1].stage == "normalise":
        return ()
    last = next(each for each in pair.stages if (each.stage, each.mode) == ("colour", "cumulative"))
    published = mechanism.published if mechanism and mechanism.explains_most else ()
    return (*(nearest_effects(last.mean_abs) if last.mean_abs else ()), *published)


def _matter(
    drift: PredictionDrift | None,
    model: Opened | None,
    effects: Sequence[KnownEffect],
    *,
    differs: bool,
) -> tuple[str, ...]:
    """Say in sentences whether it matters, from evidence alone."""
    if drift is not None and model is not None:
        return (flips_sentence(drift, model.name),)
    if not differs:
        return ()
    return NO_MODEL, *map(_comparison, effects)


def _comparison(known: KnownEffect) -> str:
    levels = "" if known.levels is None else f", {plain(known.levels, 2)} levels apart"
    return f"for comparison, {known.kind}: {known.stacks}{levels}: {known.effect} ({known.source})"


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
    best = measure(_without_each(whole, images))
    if best is None or best[1].explains_most:
        return best and best[1]
    two = measure(_without_each(best[0], images))
    # two are named only where they suffice
    return two[1] if two is not None and two[1].explains_most else best[1]


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


def _best(
    whole: _Pair,
    tried: Sequence[_Applied],
    images: Sequence[Encoded],
    limits: Limits,
    threads: int | None,
) -> tuple[_Applied, Mechanism] | None:
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
    removed = tried[best].removed
    return tried[best], Mechanism(
        sentence="; ".join(sentence for _, sentence, _ in removed),
        evidence="; ".join(dict.fromkeys(known.evidence for known, *_ in removed)),
        images=compared,
        before=before,
        # a control may differ more than the path itself does
        after=max(left[best], 0.0),
        shown_as=tuple(map(_shown_as, removed)),
        published=tuple(known.published for known, *_ in removed if known.published),
    )
