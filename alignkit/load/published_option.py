"""``published:``: figures of others, shown beside what is measured here and never mixed with it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from alignkit.backends import Precision
from alignkit.field import STRICT, Name, Number, Share
from alignkit.row import FULL

MetricName = Literal[
    "top1",
    "recall.macro", "recall.micro", "recall.weighted",
    "precision.macro", "precision.micro", "precision.weighted",
]  # fmt: skip
Text = Annotated[str, Field(min_length=1)]


class PublishedRowOption(BaseModel):
    """One row of a published table, in the words of this experiment."""

    model_config = STRICT
    trained_with: Name
    fraction: Annotated[Number, Field(gt=0, le=1)] = FULL
    """Share of the training images."""
    evaluated_with: Name
    backend: str | None = None
    """By default the first of ``evaluate.backends``."""
    precision: Precision | None = None
    """By default the backend's first."""
    metrics: Annotated[dict[MetricName, Share], Field(min_length=1)]
    """As published, 0..1: 94.76 % is 0.9476."""


class Published(BaseModel):
    """A table from elsewhere."""

    model_config = STRICT
    source: Text
    """Where it stands."""
    label: Text
    """What it was measured with, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    rows: Annotated[tuple[PublishedRowOption, ...], Field(min_length=1)]
