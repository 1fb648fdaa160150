"""``published:``: figures of others, shown beside what is measured here and never mixed with it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic_core import InitErrorDetails

from alignkit.backends import Precision
from alignkit.experiment.option import wrong
from alignkit.experiment.strict_types import STRICT, Name, Number, Share
from alignkit.plugins import did_you_mean
from alignkit.record.place import FULL

MetricName = Literal[
    "top1",
    "recall.macro", "recall.micro", "recall.weighted",
    "precision.macro", "precision.micro", "precision.weighted",
]  # fmt: skip
Text = Annotated[str, Field(min_length=1, max_length=200)]


class PublishedRowOption(BaseModel):
    """One row of a published table, and the entry of this experiment that corresponds to it."""

    model_config = STRICT
    training: Text
    """As the table words it."""
    inference: Text
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
    metrics: Annotated[dict[MetricName, Share], Field(min_length=1)]
    """Under the name of what is measured here; fractions: 94.76 % is 0.9476."""


class Published(BaseModel):
    """A table from elsewhere."""

    model_config = STRICT
    source: Text
    """Whose it is and where it stands."""
    label: Text
    """What it was measured with, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    note: str = ""
    """What is not known of it, or differs here."""
    rows: Annotated[tuple[PublishedRowOption, ...], Field(min_length=1)]


def unplaced(
    published: Published, *, paths: Collection[str], backends: Sequence[str], labelled: bool
) -> list[InitErrorDetails]:
    """One line for each row that could never be measured in this file."""
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
