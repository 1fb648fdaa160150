"""What is stored of figures that others published, beside what this run measured."""

from __future__ import annotations

from typing import Literal

from alignkit.record.stored import Estimate, Stored

Reading = Literal[
    "holds here", "does not hold here", "inside the noise floor", "undecided", "not measured"
]


class PublishedRow(Stored):
    """One published row, and the entry of the matrix it corresponds to."""

    trained_with: str
    """As the matrix names its row: with the share of the data."""
    evaluated_with: str
    backend: str
    precision: str
    metrics: dict[str, float]
    """Published; fractions."""
    measured: dict[str, float | None]
    """Here; ``null`` with ``reason``."""
    reason: str = ""


class Claim(Stored):
    """A difference between two published rows, read against the same difference here."""

    words: str
    metric: str
    published: float
    """Difference of the two published figures; no interval was published with them."""
    measured: Estimate
    floor: float | None
    """What another seed alone does to the row's metric here; of two rows the greater."""
    reading: Reading
    why: str


class PublishedFacts(Stored):
    """A published table."""

    source: str
    label: str
    """Of the circumstances, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
