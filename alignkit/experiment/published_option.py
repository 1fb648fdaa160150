"""``published:``: figures of others, shown beside measured ones and never mixed with them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic_core import InitErrorDetails

from alignkit.backends import Precision
from alignkit.experiment.option import STRICT_MODEL, Fraction, Name, Number, wrong
from alignkit.place import FULL
from alignkit.plugins import did_you_mean

PublishedMetric = Literal[
    "top1",
    "recall.macro", "recall.micro", "recall.weighted",
    "precision.macro", "precision.micro", "precision.weighted",
]  # fmt: skip
PublishedText = Annotated[str, Field(min_length=1, max_length=200)]


class PublishedRowOption(BaseModel):
    """One row of a published table, and the entry of this experiment that corresponds to it."""

    model_config = STRICT_MODEL
    training: PublishedText
    """As the table words it."""
    inference: PublishedText
    """As the table words it."""
    trained_with: Name
    """The path here."""
    fraction: Annotated[Number, Field(gt=0, le=1)] = FULL
    """Share of the training images."""
    evaluated_with: Name
    backend: str | None = None
    """By default that of the path's aligned cell, the first of ``evaluate.backends``."""
    precision: Precision | None = None
    """By default that of the aligned cell."""
    metrics: Annotated[dict[PublishedMetric, Fraction], Field(min_length=1)]
    """Value by the name of the metric measured here; as a fraction: 94.76 % is 0.9476."""


class Published(BaseModel):
    """A table from elsewhere."""

    model_config = STRICT_MODEL
    source: PublishedText
    """Its author and where it was published."""
    label: PublishedText
    """Data and hardware of the figures, e.g. ``internal data set, 3080 Ti``; shown with each."""
    note: str = ""
    """Facts about it that are unknown, or different here."""
    rows: Annotated[tuple[PublishedRowOption, ...], Field(min_length=1)]


def unplaced(
    published: Published, *, paths: Collection[str], backends: Sequence[str], labelled: bool
) -> list[InitErrorDetails]:
    """Return one line for each row that this file can never measure."""
    if not labelled:
        message = "needs a model, and these images have no labels to train one with"
        return [wrong("published", message, "published", given=published.source)]
    return [
        wrong("published", message, "published", "rows", index, key, given=getattr(row, key))
        for index, row in enumerate(published.rows)
        for key, message in _mistakes(row, paths, backends)
    ]


def _mistakes(
    row: PublishedRowOption, paths: Collection[str], backends: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for key in ("trained_with", "evaluated_with"):
        name = getattr(row, key)
        if name not in paths:
            yield key, f"no path {name!r}{did_you_mean(name, paths)}"
    if row.backend is not None and row.backend not in backends:
        yield "backend", f"no backend {row.backend!r}{did_you_mean(row.backend, backends)}"
