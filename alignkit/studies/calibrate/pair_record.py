"""The record of stored pixels: every rule on every kind of JPEG, the pairs' hashes, the facts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from alignkit.decoders import DECODERS
from alignkit.stored_file import sealed, write_atomically
from alignkit.studies.calibrate.pair_fits import Fits, RuleFit
from alignkit.studies.calibrate.pair_rules import PairOutcome
from alignkit.studies.calibrate.pair_summary import answer
from alignkit.studies.calibrate.stored_pairs import StoredPairs
from alignkit.version import __version__

_FORMAT = 1  # 1: 2026-11, first format.
RECORD = "pairs.json"


def write_pairs(
    stored: StoredPairs, outcomes: Sequence[PairOutcome], fits: Sequence[Fits], folder: Path
) -> Path:
    """Write ``pairs.json`` into a folder; return its path."""
    path = folder / RECORD
    content = pairs_record(stored, outcomes, fits)
    write_atomically(path, sealed(json.dumps(content, indent=1, allow_nan=False) + "\n"))
    return path


def pairs_record(
    stored: StoredPairs, outcomes: Sequence[PairOutcome], fits: Sequence[Fits]
) -> dict[str, Any]:
    """Return the record as JSON; nothing in it is a path of this machine."""
    plugins = sorted({rule.plugin for each in fits for fit in each.rules for rule in fit.rules})
    return {
        "format": _FORMAT,
        "alignkit": __version__,
        "sources": [
            {
                "source": source.name,
                "facts": source.facts,
                "answer": answer(own) if own else "nothing compared",
                "kinds": {each.name: _kind(each) for each in own},
            }
            for source, own in (
                (each, [fit for fit in fits if fit.source is each]) for each in stored.sources
            )
        ],
        "rules_of": {name: DECODERS[name].load()().version() for name in plugins},
        "pairs": [_pair(stored, each) for each in outcomes],
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
    gap = fit.gap
    return {
        "rule": fit.title,
        "alike": list(fit.alike),
        "samples": gap.samples,
        "wrong": gap.wrong,
        "max_levels": gap.greatest,
        "sum_levels": gap.sum_abs,
        "sum_signed_levels": gap.sum_signed,
        "not_compared": dict(Counter(fit.refused)),
    }


def _pair(stored: StoredPairs, outcome: PairOutcome) -> dict[str, Any]:
    jpeg, pixels = outcome.sha256
    return {
        "pixels": outcome.pair.id,
        "jpeg": outcome.pair.jpeg.name,
        "source": stored.sources[outcome.pair.source].name,
        "kind": outcome.kind,
        "rows": outcome.pair.rows,
        "jpeg_sha256": jpeg,
        "samples_sha256": pixels,
        "damage": next((rule.damaged for rule in outcome.rules if rule.damaged), ""),
    }
