"""Where two paths differ in words: the mechanism that the pixels show, scale and shift."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from alignkit.record import SpatialFacts
from alignkit.record.blame_facts import MechanismName, ShownBy
from alignkit.record.stored import Estimate
from alignkit.text.numbers import DASH, count, grouped, listed, percent, plain, signed, written

_SENTENCES: dict[MechanismName, str] = {
    "corners": "{a} lays its grid through the centres of the corner pixels (align_corners), {b} "
    "through the edges of the image",
    "asymmetric": "{a} samples at the corners of pixels (asymmetric), {b} at their centres "
    "(half-pixel)",
    "half_pixel": "the grid of {a} lies half an output pixel away from that of {b}",
    "half_pixel_or_asymmetric": "the grid of {a} lies half an output pixel away from that of {b}, "
    "or samples at the corners of pixels (asymmetric); their shifts are too alike to tell",
    "antialias": "{a} filters when it shrinks an image (antialias), {b} does not",
    "chroma": "{a} repeats the samples of chroma, {b} interpolates between them",
    "inverse_dct": "{a} and {b} differ in the inverse DCT",
}


def mechanism_sentences(
    spatial: Iterable[SpatialFacts], short: Callable[[str], str] = str
) -> list[str]:
    """Name the mechanisms that pixels show, a sentence a stage; ``short`` shortens paths' names."""
    return [words for each in spatial if (words := mechanism_sentence(each, short))]


def mechanism_sentence(facts: SpatialFacts, short: Callable[[str], str] = str) -> str:
    """Name the mechanisms of one stage and the remainder; empty if the pixels show none."""
    named = mechanism_names(facts, short)
    return f"{facts.stage}: {named}; {_remainder(facts)}, {drawn_words(facts)}" if named else ""


def mechanism_names(facts: SpatialFacts, short: Callable[[str], str]) -> str:
    """Name the mechanisms of one stage; empty if the pixels show none."""
    named = []
    for each in facts.mechanisms:
        sides = short(facts.candidate), short(facts.reference)
        a, b = sides if each.by != "reference" else sides[::-1]
        named.append(_SENTENCES[each.name].format(a=a, b=b))
    return listed(named)


def _remainder(facts: SpatialFacts) -> str:
    """Say how much of the difference remains without the named mechanisms."""
    if facts.after is not None and facts.before is not None:
        without = "it" if len(facts.mechanisms) == 1 else "them"
        left, before = plain(facts.after, 2), plain(facts.before, 2)
        # the terms of a resize are of luma
        of = "luma's RMS" if facts.stage == "resize" else "RMS"
        return f"without {without}, {left} of {before} levels ({of} about the mean) remain"
    if facts.mechanisms[0].name == "inverse_dct":
        times = _range(facts.mechanisms[0].measured, 1)
        return (
            f"luma's differences vary within blocks of 8 pixels {times} times as much as within "
            f"blocks of 7 or 9; pixels do not tell how much remains without it"
        )
    share = percent(1 - (facts.displacement.share if facts.displacement else 0.0), 0)
    return f"without shift and scale, {share} of the smoothed luma's power remains"


def drawn_words(facts: SpatialFacts) -> str:
    """Say over how many images the estimate is made; all of these differ."""
    if facts.drawn == facts.images:
        return f"over {count(facts.images, 'image')}"
    return f"over {grouped(facts.drawn)} that differ, of {count(facts.images, 'image')}"


def displacement_sentence(facts: SpatialFacts) -> str:
    """Give the estimated scale and shift with the power that they leave; empty without one."""
    found = facts.displacement
    if found is None:
        return ""
    right, down = (_range(each, 2, sign=True) for each in (found.shift_x, found.shift_y))
    removed, left = percent(found.share, 0), percent(1 - found.share, 0)
    return (
        f"Estimated scale about the centre: {_range(found.scale_x, 4)} across, "
        f"{_range(found.scale_y, 4)} down; shift {right} px right, {down} px down (95 %). Moving "
        f"the reference's pixels so removes {removed} of the smoothed luma difference's power; "
        f"{left} remains."
    )


def _range(estimate: Estimate, decimals: int, *, sign: bool = False) -> str:
    if estimate.value is None or estimate.high is None:
        return DASH
    form = signed if sign else (lambda value, digits: written(value, f".{digits}f"))
    return f"{form(estimate.value, decimals)} ± {plain(estimate.high - estimate.value, decimals)}"


def confirmation(
    expected: Sequence[tuple[MechanismName, ShownBy] | None], spatial: Iterable[SpatialFacts]
) -> str:
    """Say whether the pixels show the mechanisms that the options tell; empty if none can show.

    ``expected`` is `Mechanism.shown_as`.
    """
    wanted = {each for each in expected if each}
    if not wanted:
        return ""
    found = {(each.name, each.by) for facts in spatial for each in facts.mechanisms}
    if wanted <= found and None not in expected:
        return "the pixels show it too"
    if wanted & found:
        return "the pixels show only a part of it"
    return "the pixels alone do not show it"
