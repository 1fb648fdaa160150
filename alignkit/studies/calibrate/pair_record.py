"""The record of stored pixels: every rule on every pair and kind of JPEG, hashes, the facts.

Its pairs have the form of those in ``nvjpeg-model.json``, the evidence that the package ships.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.studies.calibrate import write_record
from alignkit.studies.calibrate.pair_fits import Fits, RuleFit, fits_of
from alignkit.studies.calibrate.pair_rules import DecodeRule, Gap, PairOutcome
from alignkit.studies.calibrate.pair_summary import answer
from alignkit.studies.calibrate.stored_pairs import StoredPairs
from alignkit.version import __version__

RECORD = "pairs.json"


def write_pairs(
    stored: StoredPairs,
    outcomes: Sequence[PairOutcome],
    rules: Sequence[DecodeRule],
    folder: Path,
) -> Path:
    """Write ``pairs.json`` into a folder; return its path."""
    path = folder / RECORD
    write_record(path, pairs_record(stored, outcomes, rules))
    return path


def pairs_record(
    stored: StoredPairs, outcomes: Sequence[PairOutcome], rules: Sequence[DecodeRule]
) -> dict[str, Any]:
    """Return the record, JSON-ready; nothing in it is a path of this machine."""
    fits = fits_of(stored, outcomes, rules, "kind")
    sources = [(each, [fit for fit in fits if fit.source is each]) for each in stored.sources]
    return {
        "alignkit": __version__,
        "sources": [
            {
                "source": source.name,
                "facts": source.facts,
                "summary": {"decode": answer(own)},
                "kinds": {each.name: _kind(each) for each in own},
            }
            for source, own in sources
        ],
        "versions": {
            name: DECODERS[name].load()().version()
            for name in sorted({rule.plugin for rule in rules})
        },
        "pairs": [_pair(stored, each, rules) for each in outcomes if not each.reason],
        "not_compared": [
            *({"file": name, "reason": reason} for name, reason in stored.left_out),
            *({"file": each.pair.id, "reason": each.reason} for each in outcomes if each.reason),
        ],
    }


def _kind(fits: Fits) -> dict[str, Any]:
    return {
        "images": len(fits.pairs),
        "nearest": fits.best.title,
        "reproduced": fits.best.reproduces,
        "rules": [_rule(each) for each in fits.rules],
    }


def _rule(fit: RuleFit) -> dict[str, Any]:
    return {
        "rule": fit.title,
        "alike": list(fit.alike),
        "samples": fit.gap.samples,
        **_distance(fit.gap),
        "bias_levels": fit.gap.sum_signed / fit.gap.samples,
        "reproduces": fit.reproduces,
        "not_compared": dict(Counter(fit.refused)),
    }


def _distance(gap: Gap) -> dict[str, Any]:
    return {
        "wrong": gap.wrong,
        "greatest": gap.greatest,
        "mean_levels": gap.sum_abs / gap.samples,
    }


def _pair(stored: StoredPairs, outcome: PairOutcome, rules: Sequence[DecodeRule]) -> dict[str, Any]:
    jpeg, output = outcome.sha256
    compared = [(rule, each.gap) for rule, each in zip(rules, outcome.rules, strict=True)]
    gaps = {rule.name: gap for rule, gap in compared if gap}
    return {
        "name": outcome.pair.id,
        "source": stored.sources[outcome.pair.source].name,
        "kind": outcome.kind,
        "rows_compared": outcome.rows,
        "sha256": {"jpeg": jpeg, "output": output},
        "samples": next(iter(gaps.values())).samples,
        "decoders": {name: _distance(gap) for name, gap in gaps.items()},
        "damage": next((rule.damaged for rule in outcome.rules if rule.damaged), ""),
    }
