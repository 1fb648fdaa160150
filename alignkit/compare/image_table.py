"""Differences of two paths by image and stage: a Parquet file beside a run's record.

Its columns are ``id``, ``reference``, ``candidate`` (outcomes of the two decodes), ``max_<stage>``
and ``mean_<stage>`` (cumulative; in grey levels, for ``normalise`` in normalised units) and
``ssim`` (of the last pixels). A value is null where the stage could not be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.compare.parquet_file import ids_of, numbers_of, read_parquet
from alignkit.errors import DataError
from alignkit.preprocess import STAGES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.pixel_diff import ImageRow

LAST = "colour"
"""The last stage in grey levels."""


@dataclass(frozen=True, eq=False)
class ImageTable:
    """Columns of a file; in memory, NaN is null."""

    ids: tuple[str, ...]
    max_abs: dict[str, npt.NDArray[np.float32]]
    """Stage → (images,)."""
    mean_abs: dict[str, npt.NDArray[np.float32]]
    ssim: npt.NDArray[np.float32]


def write_image_table(rows: Sequence[ImageRow], path: Path) -> None:
    """Write one line per image, in the order given."""
    import pyarrow as pa
    from pyarrow import parquet

    columns = {
        "id": pa.array([row.id for row in rows], pa.string()),
        "reference": pa.array([row.reference for row in rows], pa.string()),
        "candidate": pa.array([row.candidate for row in rows], pa.string()),
        "ssim": pa.array([row.ssim for row in rows], pa.float32()),
    }
    for index, stage in enumerate(STAGES):
        columns[f"max_{stage}"] = pa.array([row.max_abs[index] for row in rows], pa.float32())
        columns[f"mean_{stage}"] = pa.array([row.mean_abs[index] for row in rows], pa.float32())
    parquet.write_table(pa.table(columns), path)


def read_image_table(path: Path) -> ImageTable:
    """Read a file of `write_image_table`; raise `DataError` for any other file."""
    import numpy as np

    names = [f"{kind}_{stage}" for kind in ("max", "mean") for stage in STAGES]
    try:
        table = read_parquet(path)
        ids = ids_of(table, path)
        read = {name: numbers_of(table, name, path).astype(np.float32) for name in (*names, "ssim")}
    except DataError as error:
        raise DataError(f"not a table of images: {error}; run it again") from error
    return ImageTable(
        ids,
        {stage: read[f"max_{stage}"] for stage in STAGES},
        {stage: read[f"mean_{stage}"] for stage in STAGES},
        read["ssim"],
    )
