"""How near each rule comes to the stored pixels, by source and kind of JPEG, nearest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Literal

from alignkit.studies.calibrate.pair_rules import DecodeRule, Gap, PairOutcome
from alignkit.studies.calibrate.stored_pairs import Source, StoredPairs

Grouping = Literal["kind", "pair"]
NVJPEG = "nvjpeg-model"
LIBJPEG = {
    ("smooth", "islow"): "libjpeg-turbo (interpolate, islow, round)",
    ("nearest", "islow"): "libjpeg-turbo (repeat, islow, round)",
}
"""Switches of simplejpeg → libjpeg-turbo's rule in the words of `NVJPEG`'s options. The first is
the ordinary decode; the second stood in for nvJPEG before its own rule was known."""


@dataclass(frozen=True, slots=True)
class RuleFit:
    """Rules that decode some files alike, and their distance from the stored pixels."""

    rules: tuple[DecodeRule, ...]
    gap: Gap
    refused: tuple[str, ...]
    """A reason for each image that these rules did not decode, or to another size."""
    alone: int
    """Images that are reproduced, taken one by one."""

    @property
    def title(self) -> str:
        """Return the name of the best known of these rules."""
        for rule in self.rules:
            if rule.plugin == NVJPEG and rule.plain:
                return rule.name
        for rule in self.rules:
            if title := _libjpeg(rule):
                return title
        return self.rules[0].name

    @property
    def landmark(self) -> bool:
        """Whether it is shown whatever its place: nvJPEG's rule, and libjpeg-turbo's two."""
        return any((rule.plugin == NVJPEG and rule.plain) or _libjpeg(rule) for rule in self.rules)

    @property
    def alike(self) -> tuple[str, ...]:
        """Return the names of the rules, except the one that is the `title`."""
        return tuple(rule.name for rule in self.rules if rule.name != self.title)

    @property
    def untold(self) -> str:
        """Return libjpeg-turbo's name if these are nvJPEG's rule too; empty if they are not both.

        Files of one even colour have the same pixels by every rule.
        """
        libjpeg = next(filter(None, map(_libjpeg, self.rules)), "")
        plain = any(rule.plugin == NVJPEG and rule.plain for rule in self.rules)
        return libjpeg if plain else ""

    @property
    def reproduces(self) -> bool:
        """Whether every image was compared, and reproduced up to ties of rounding."""
        return not self.refused and self.gap.reproduced


def _libjpeg(rule: DecodeRule) -> str:
    if rule.plugin != "simplejpeg":
        return ""
    switches = (getattr(rule.decoder, "chroma", ""), getattr(rule.decoder, "dct", ""))
    return LIBJPEG.get(switches, "")


@dataclass(frozen=True, slots=True)
class Fits:
    """All rules on the pairs of one kind, of one source."""

    source: Source
    name: str
    """Kind of JPEG, or the pair's id."""
    pairs: tuple[PairOutcome, ...]
    rules: tuple[RuleFit, ...]
    """Nearest first."""

    @property
    def best(self) -> RuleFit:
        """Return the nearest."""
        return self.rules[0]


def fits_of(
    stored: StoredPairs, outcomes: Sequence[PairOutcome], rules: Sequence[DecodeRule], by: Grouping
) -> tuple[Fits, ...]:
    """Group the compared pairs by source, and by kind or one by one."""
    groups: dict[tuple[int, str], list[PairOutcome]] = {}
    for each in outcomes:
        if not each.reason:
            name = each.kind if by == "kind" else each.pair.id
            groups.setdefault((each.pair.source, name), []).append(each)
    return tuple(
        Fits(stored.sources[source], name, tuple(pairs), _ranked(pairs, rules))
        for (source, name), pairs in sorted(groups.items(), key=lambda group: group[0])
    )


def _ranked(pairs: Sequence[PairOutcome], rules: Sequence[DecodeRule]) -> tuple[RuleFit, ...]:
    alike: dict[tuple[str, ...], list[int]] = {}
    for number in range(len(rules)):
        outcomes = [pair.rules[number] for pair in pairs]
        if any(each.gap for each in outcomes):  # else it says nothing here
            digests = tuple(each.digest or each.reason for each in outcomes)
            alike.setdefault(digests, []).append(number)
    fits = []
    for numbers in alike.values():
        outcomes = [pair.rules[numbers[0]] for pair in pairs]
        gaps = [each.gap for each in outcomes if each.gap]
        refused = tuple(each.reason for each in outcomes if not each.gap)
        chosen = tuple(rules[number] for number in numbers)
        alone = sum(gap.reproduced for gap in gaps)
        fits.append(RuleFit(chosen, reduce(Gap.plus, gaps, Gap()), refused, alone))
    return tuple(sorted(fits, key=_distance))


def _distance(fit: RuleFit) -> tuple[int, float, bool]:
    gap = fit.gap
    # of rules that are equally near, the one that is known by name comes first
    return len(fit.refused), gap.sum_abs / gap.samples, not fit.landmark
