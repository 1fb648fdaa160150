"""Facts about recorded tensors, as sentences: each with what it explains, or called the nearest."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.search.match_result import AS_DECODERS, AS_RESIZERS, explained_share
from alignkit.search.recolouring import GREYS
from alignkit.text.numbers import percent, plain

if TYPE_CHECKING:
    from alignkit.search.configurations import Framing
    from alignkit.search.first_images import FirstImages
    from alignkit.search.normalisation_fit import Fit
    from alignkit.search.recorded_target import RecordedTensors
    from alignkit.search.target_guess import Colouring, Guess

_STANDING = {
    "found": "",
    "unclear": "not found, taken as ",
    "unseen": "cannot be seen in these images, taken as ",
}
Standing = Literal["found", "unclear", "unseen"]
_ADVICE = "; no option here does that: correct it where it serves"
_WITH_PIXELS = ("colour", "normalisation")
"""Facts that hold only if the nearest configuration is the target's."""
_SAME = 0.1
"""Grey levels by which rounding makes one of two equal hypotheses better."""


@dataclass(frozen=True, slots=True)
class TargetFact:
    """A name for what the tensors show, and how sure it is."""

    kind: str
    name: str
    proof: str = ""
    standing: Standing = "found"
    advice: str = ""

    def __str__(self) -> str:
        """State it in a sentence."""
        proof = f" ({self.proof})" if self.proof else ""
        return f"{self.kind}: {_STANDING[self.standing]}{self.name}{proof}{self.advice}"

    def settled(self) -> TargetFact:
        """State it of a stack that was found: its pixels are equal, whatever the guess left."""
        return replace(self, standing="found") if self.standing == "unclear" else self

    def unsettled(self) -> TargetFact:
        """Take it back of a stack that was not found: no name is a finding, nor is advice given."""
        if self.kind not in _WITH_PIXELS or self.standing == "unclear":
            return self
        return replace(self, standing="unclear", advice="")


def recorded_facts(
    recorded: RecordedTensors,
    found: Guess,
    normalisation: str,
    fits: dict[Colouring, Fit],
    first: FirstImages,
    stand_in: str = "",
) -> tuple[TargetFact | str, ...]:
    """Describe the tensors: each fact with its residual and that of the next best."""
    count = len(recorded.rows)
    stored = f"{recorded.dtype} {recorded.shape}, read as {found.layout}"
    facts: list[TargetFact | str] = [
        f"tensors: {count} of {count + recorded.without_tensor} images have one; {stored}"
    ]
    if recorded.without_image:
        facts.append(f"other images: {recorded.without_image} tensors belong to none of ours")
    order = "BGR" if found.geometry.colour.space == "bgr" else "RGB"
    if found.recolouring in GREYS:
        facts.append("channel order: none, the three channels are one grey image")
    elif first.grey:
        images = f"the {first.looked} images looked at" if first.looked < count else "all images"
        facts.append(f"channel order: cannot be told, taken as {order}: {images} are grey")
    else:
        facts.append(
            _fact("channel order", order, found.residual, found.against.get("channel order"))
        )
    where = geometry_words(found.geometry, bordered=found.bordered)
    facts += [
        _fact("geometry", where, found.residual, found.against.get("geometry")),
        *_rounding(found),
        _colour(found.colouring, fits),
        _normalisation(
            f"{stand_in}, the nearest that is known" if stand_in else normalisation,
            fits[found.colouring],
        ),
    ]
    return tuple(facts)


def _fact(kind: str, name: str, mine: float, other: float | None) -> TargetFact:
    """State a hypothesis if it explains most of ``other``, the residual of the next best.

    Residuals are in grey levels. One as small as that of a decoder needs no better proof, unless
    the next best leaves the same.
    """
    if other is None:
        return TargetFact(kind, name)
    # a share of next to nothing is no evidence
    share = explained_share(mine, other) if other - mine > _SAME else 0.0
    residual, left = f"residual {plain(mine, 3, AS_DECODERS)} levels", plain(other, 2)
    if share >= EXPLAINS_MOST:
        explains = f"explains {percent(share, 0, EXPLAINS_MOST)} of {left} otherwise"
        return TargetFact(kind, name, f"{residual}; {explains}")
    if mine <= AS_DECODERS and other - mine <= _SAME:
        return TargetFact(kind, name, f"{residual}; otherwise {plain(other, 3)}", "unseen")
    standing: Standing = "found" if mine <= AS_DECODERS else "unclear"
    return TargetFact(kind, name, f"{residual}; otherwise {left}", standing)


def _rounding(found: Guess) -> Iterator[TargetFact]:
    """State the rounding of the sides that follow from the aspect ratio, if there are any."""
    if sides := found.sides:
        words = f"{' or '.join(sides.rules)} of the sides that follow"
        yield _fact("rounding", words, sides.residual, sides.against)


def _colour(mine: Colouring, fits: dict[Colouring, Fit]) -> TargetFact:
    residuals = {each: residual for each, (*_, residual) in fits.items()}
    residual, first = residuals[mine], next(iter(fits))
    others = [other for each, other in residuals.items() if each != mine]
    # other colours are read against the plain ones, which they must explain
    other = min(others) if mine == first or mine.recolouring in GREYS else residuals[first]
    if mine.recolouring is not None:
        fact = _fact("colour", mine.recolouring.name, residual, other)
        return fact if fact.standing == "unclear" else replace(fact, advice=_ADVICE)
    if mine.colour.space.startswith("nv12"):
        return _fact("colour", f"round trip through {mine.colour.space}", residual, other)
    return _fact("colour", "BT.601, as JPEG files are written", residual, other)


def _normalisation(name: str, fitted: Fit) -> TargetFact:
    scale, offset, residual = fitted
    std = [1 / (255 * each) for each in scale]
    mean = [0.0 - shift * each for shift, each in zip(offset, std, strict=True)]
    three = ["/".join(f"{value:.5g}" for value in values) for values in (mean, std)]
    proof = (
        f"fitted on the nearest pixels: mean {three[0]}, std {three[1]}, residual "
        f"{plain(residual, 3, AS_RESIZERS)} levels"
    )
    standing: Standing = "unclear" if residual > AS_RESIZERS else "found"
    return TargetFact("normalisation", name or "none that is known", proof, standing)


def geometry_words(geometry: Framing, *, bordered: bool = True) -> str:
    """Word a geometry: ``shorter side to 256, centre crop 224x224``."""
    resize, crop = geometry.resize, geometry.crop
    size = f"{resize.size[0]}x{resize.size[1]}"
    if resize.fit == "letterbox":
        least = f" at most, in steps of {resize.stride}" if resize.auto else ""
        sides = f", sides by {resize.rounding}" if resize.rounding else ""
        half = "" if resize.half == "down" else f", odd margins {resize.half}"
        return f"letterbox to {size}{least}, border {resize.pad}{sides}{half}"
    if resize.fit == "none":
        at = "" if crop.at is None else f" at row {crop.at[0]}, column {crop.at[1]}"
        margins = "" if crop.half == "even" or at else f", odd margins {crop.half}"
        cut = f"crop {size}{at}" if at else f"centre crop {size}{margins}"
        border = f", border {resize.pad} where an image is smaller" if bordered else ""
        return f"no resize, {cut}{border}"
    if crop.size:
        half = "" if crop.half == "even" else f", odd margins {crop.half}"
        cut = f"{crop.size[0]}x{crop.size[1]}{half}"
        longer = f", the longer by {resize.rounding}" if resize.rounding else ""
        return f"shorter side to {min(resize.size)}{longer}, centre crop {cut}"
    return f"{resize.fit} to {size}"
