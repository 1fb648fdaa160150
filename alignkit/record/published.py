"""What is stored of figures that others published, beside what this run measured."""

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
    """Published; fractions."""
    measured: dict[str, float | None]
    """Here, mean over seeds; ``null`` with ``reason``."""
    reason: str = ""


class Claim(Stored):
    """A difference of published figures, read against the same difference here."""

    words: str
    metric: str
    published: float
    """Candidate less reference; no interval was published with it."""
    measured: Estimate
    floor: float | None
    """What another seed alone does to the metric of the row here; of two rows the greater."""
    reading: Reading
    why: str


class PublishedFacts(Stored):
    """A published table."""

    source: str
    label: str
    """Of the circumstances, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    note: str = ""
    """What is not known of it, or differs here."""
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
    """Each row against the published row served as trained; then, where models were trained on
    several shares of the data, how much greater that change is with fewer images."""
