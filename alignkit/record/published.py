"""Stored types of published figures beside the values of this run."""

from __future__ import annotations

from typing import Literal

from alignkit.record.stored import Estimate, Placed, Stored

Reading = Literal[
    "holds here", "does not hold here", "inside the noise floor", "undecided", "not measured"
]


class PublishedRow(Placed):
    """One published row, and the entry of the matrix it corresponds to.

    ``backend`` and ``precision`` are empty where it was not part of this run and names none.
    """

    training: str
    """As published."""
    inference: str
    """As published."""
    metrics: dict[str, float]
    """Published values; fractions."""
    measured: dict[str, float | None]
    """Values of this run, mean over seeds; ``null`` with ``reason``."""
    reason: str = ""


class Claim(Stored):
    """A difference of published figures, read against the same difference here."""

    words: str
    metric: str
    published: float
    """Candidate minus reference; no interval was published with it."""
    measured: Estimate
    floor: float | None
    """Noise floor of the metric over seeds in the row here; the greater one of two rows."""
    reading: Reading
    why: str


class PublishedFacts(Stored):
    """A published table."""

    source: str
    label: str
    """Circumstances, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    note: str = ""
    """Facts that are not known of it, or that differ here."""
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
    """Each row compared with the published row served as trained; then, if models were trained on
    several shares of the data, how much greater that change is with fewer images."""
