"""``gate.vectors``: vectors that were recorded beside an index, and how near new ones must be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, Field

from alignkit.experiment.option import STRICT_MODEL, Name


class VectorsOption(BaseModel):
    """``gate.vectors``: encode the images of golden vectors again, and compare."""

    model_config = STRICT_MODEL
    file: Annotated[Path, Field(strict=False)]
    """File of ``alignkit baseline vectors``."""
    cosine: Annotated[float, Field(strict=False, gt=-1, le=1)] = 0.999
    """Least cosine of an image's new vector with its golden one."""
    rank: Annotated[int, Field(ge=1)] = 1
    """Greatest rank of an image's golden vector among all golden ones, by cosine with its new one;
    1: each image still finds itself."""
    path: Name | None = None
    """Only where the images are preprocessed by this path."""
    backend: str | None = None
    """Only in this backend."""
    precision: str | None = None
    """Only in this precision."""
