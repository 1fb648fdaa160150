"""A `Match` as text: sentences, the YAML block to paste, and JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.findings.stage_yaml import changed_options, stage_block
from alignkit.plugins import PluginTable, name_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.presets import decoder_evidence
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.resizers import RESIZERS, AsIs
from alignkit.search.configurations import Configuration
from alignkit.search.match_result import (
    AS_DECODERS,
    AS_EQUAL,
    AS_RESIZERS,
    AS_ROUNDING,
    Match,
    Ranked,
)
from alignkit.text.names import brief_evidence
from alignkit.text.numbers import at_most, copies_sentence, count, estimated, percent, plain

_NAMES_SHOWN = 4
"""Number of configurations with the same pixels that a row names; the others are counted."""


def levels(distance: float) -> str:
    """Return a distance in grey levels; it does not round to a limit that decides a state."""
    return plain(distance, 3, AS_EQUAL, AS_ROUNDING, AS_DECODERS, AS_RESIZERS)


def label(configuration: Configuration) -> str:
    """Name a configuration: ``simplejpeg chroma=nearest ▸ torch bilinear align_corners=True``."""
    rounding = "" if configuration.rounding == "none" else f" ▸ {configuration.rounding}"
    decode, resizer = configuration.decode, configuration.resizer
    resize = "no resize" if isinstance(resizer, AsIs) else _called(resizer, RESIZERS)
    return f"{_called(decode, DECODERS)} ▸ {resize}{rounding}"


def _called(plugin: Any, table: PluginTable) -> str:
    options = "".join(f" {key}={value}" for key, value in changed_options(plugin).items())
    return f"{name_of(plugin, table)}{options}"


def alternatives(ranked: Ranked, names: Mapping[Configuration, str]) -> str:
    """List the other configurations with the same pixels; empty if there is none."""
    others = [names.get(each, label(each)) for each in ranked.configurations[1:]]
    more = len(others) - _NAMES_SHOWN
    shown = "; ".join(others[:_NAMES_SHOWN])
    return f"{shown}; {more} more" if more > 0 else shown


def paste(match: Match, name: str) -> str:
    """Return the block of the nearest configuration; empty if it is not the target's."""
    if match.state == "not found":
        return ""
    assert match.block is not None
    notes = []
    if match.recolouring:
        notes.append(f"# without this, which no option makes: {match.recolouring}\n")
    if match.state == "near":
        notes.append(f"# near, not the same: {_remains(match)}{_undecided(match)}\n")
    return "".join(notes) + yaml_block(match.block, name)


def yaml_block(preprocess: Preprocess, name: str) -> str:
    """Return the lines to paste below ``preprocess:``."""
    import yaml

    # wide, so that no line is folded where it is pasted
    lines: str = yaml.safe_dump(
        {name: stage_block(preprocess)}, sort_keys=False, default_flow_style=None, width=10_000
    )
    return lines


def headline(match: Match, names: Mapping[Configuration, str]) -> str:
    """Say whether a configuration was found, which is the nearest, and what remains."""
    best, first = match.named, match.named.configurations[0]
    copied = copies_sentence(match.copies, match.images + match.unseen)
    nearest = names.get(first, label(first))
    if match.state == "found":
        everywhere = f"on all {match.images} images of the search"
        if best.identical < match.images:
            everywhere += f" except for rounding, {levels(match.remains)} levels in the mean"
        found = f"found: {nearest} gives {match.target}'s pixels {everywhere}."
        return " ".join(filter(None, (found, _untold(match), _checked(match), copied)))
    remains = _remains(match)
    if match.state == "not found":
        why = f": {match.doubt}" if match.doubt else ""
        start = (
            f"not found: no configuration explains {match.target}{why}. The nearest is {nearest};"
        )
    else:
        scaled = f", with {match.stand_in} as normalisation," if match.stand_in else ""
        start = f"{match.state}: {nearest}{scaled} comes nearest to {match.target};"
    said = [f"{start} {remains}. That is {_weighed(match, names)}."]
    if not match.names_nearest:
        other = match.winner.configurations[0]
        left = levels(match.winner.mean_abs.value or 0.0)
        name = names.get(other, label(other))
        said.append(f"{name} leaves {left}, too little less to tell them apart.")
    return " ".join(filter(None, (*said, _checked(match), copied)))


def _untold(match: Match) -> str:
    """Say that several resizers give these pixels, as where images have the result's size."""
    resizers = {each.resizer for each in match.named.configurations}
    if len(resizers) == 1:
        return ""
    return f"These images do not tell the resizer: {len(resizers)} give the same pixels."


def _remains(match: Match) -> str:
    """Say what remains, and on how many images: a mean hides some that differ far more."""
    best, images = match.named, count(match.images + match.unseen, "image")
    equal = best.identical + best.unseen_identical
    parts = f"of {images}, {equal or 'none'} {'are' if equal > 1 else 'is'} equal"
    if best.groups:
        parts = best.groups.words(best.worst)
    return (
        f"{levels(match.remains)} grey levels remain in the mean, {at_most(best.max_abs)} at most, "
        f"over {match.images} images; {parts}"
    )


def _undecided(match: Match) -> str:
    """Say that the decoder is no finding, unless one explains most of what the plainest leaves."""
    told = match.plain.decode not in {each.decode for each in match.named.configurations}
    return "" if told or match.known else "; no decoder explains most of it, this is the plainest"


def _weighed(match: Match, names: Mapping[Configuration, str]) -> str:
    """Say how much of the plainest configuration's distance is explained."""
    groups = match.named.groups
    more = "no more" if (groups.far_most if groups else match.remains) <= AS_DECODERS else "more"
    bound = f"{more} than two correct decoders differ by"
    if match.explained is None:
        return f"{bound}; no option explains more than the plainest configuration"
    first = names.get(match.plain, label(match.plain))
    left = f"the {levels(match.plain_mean)} that {first} leaves"
    return f"{bound}; {percent(match.explained, 0, EXPLAINS_MOST)} of {left} is explained"


def _checked(match: Match) -> str:
    best = match.named
    if match.holds is None or best.unseen is None:
        return "No image was left to check it on: give five different ones or more."
    if match.state == "found":
        equal = "" if best.unseen_identical == match.unseen else ", except for rounding,"
        return f"It also does{equal} on {count(match.unseen, 'image')} that the search did not see."
    left = levels(best.unseen)
    if not match.names_nearest:
        return f"On {match.unseen} images the search did not see, {left} remain."
    place = "still the nearest" if match.holds else "no longer the nearest"
    return f"On {match.unseen} images the search did not see it is {place}, {left} away."


def fewer_changes(match: Match, names: Mapping[Configuration, str]) -> str:
    """Name the finalist that changes the fewest predictions, in a sentence.

    Empty if none changes fewer than the nearest, and without a model.
    """
    churns = [each.churn for each in match.ranking if each.churn is not None]
    shares = [each.value for each in churns if each.value is not None]
    if not shares or min(shares) == shares[0]:
        return ""
    place = shares.index(min(shares))
    first = match.ranking[place].configurations[0]
    return (
        f"Of the model's predictions, number {place + 1} changes fewer than the nearest: "
        f"{names.get(first, label(first))} {estimated(churns[place], share=True)}, "
        f"the nearest {estimated(churns[0], share=True)}."
    )


def surrogates(match: Match, names: Mapping[Configuration, str]) -> dict[str, str]:
    """Return the surrogates of the ranking, each with its evidence in brief.

    They are decoders, and under their options' names where serving options are matched.
    """
    ranked = [each for ranked in match.ranking for each in ranked.configurations]
    found = {
        names.get(each, _called(each.decode, DECODERS)): decoder_evidence(each.decode)
        for each in ranked
    }
    return {name: brief_evidence(evidence) for name, evidence in found.items() if evidence}


def as_json(match: Match, names: Mapping[Configuration, str]) -> dict[str, Any]:
    """Return the whole match, JSON-ready."""
    return {
        "target": match.target,
        "state": match.state,
        "remains": match.remains,
        "plain": names.get(match.plain, label(match.plain)),
        "plain_mean_abs": match.plain_mean,
        "explained": match.explained,
        "named": names.get(match.named.configurations[0], label(match.named.configurations[0])),
        "groups": asdict(match.named.groups) if match.named.groups else None,
        "worst": match.named.worst,
        "not_reproduced": match.recolouring,
        "surrogates": surrogates(match, names),
        "tried": match.tried,
        "rungs": [list(rung) for rung in match.rungs],
        "images": match.images,
        "unseen": match.unseen,
        "copies": match.copies,
        "holds": match.holds,
        "left_out": [list(each) for each in match.left_out],
        "facts": list(match.facts),
        "ranking": [
            {
                "labels": [names.get(each, label(each)) for each in ranked.configurations],
                # a block that is not the target's would be pasted all the same
                "preprocess": None if match.state == "not found" else stage_block(preprocess),
                "mean_abs": asdict(ranked.mean_abs),
                "max_abs": ranked.max_abs,
                "identical": ranked.identical,
                "unseen_mean_abs": ranked.unseen,
                "unseen_identical": ranked.unseen_identical,
                "churn": asdict(ranked.churn) if ranked.churn else None,
            }
            for ranked, preprocess in zip(match.ranking, match.preprocesses, strict=True)
        ],
    }
