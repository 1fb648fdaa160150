"""Comparison with a stored file."""

import os
from pathlib import Path

import pytest

GOLD = Path(__file__).resolve().parents[1] / "gold" / "report"


def compare_gold(name, text):
    """Fail unless ``text`` is the stored file; ``ALIGNKIT_UPDATE_GOLD=1`` stores it instead."""
    expected = GOLD / name
    if os.environ.get("ALIGNKIT_UPDATE_GOLD") == "1":
        GOLD.mkdir(parents=True, exist_ok=True)
        expected.write_text(text)
        return
    if expected.exists() and expected.read_text() == text:
        return
    actual = expected.with_name(f"{expected.stem}.actual{expected.suffix}")
    actual.write_text(text)
    pytest.fail(
        f"{name} changed: compare {actual} with {expected}; "
        "if the change is meant, run again with ALIGNKIT_UPDATE_GOLD=1"
    )
