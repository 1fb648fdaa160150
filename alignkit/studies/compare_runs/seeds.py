"""`StoredRun`, and the predictions of two runs, restricted to the same seeds and images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignkit.compare.image_table import ImageTable, read_image_table
from alignkit.compare.predictions import Predictions, aligned
from alignkit.errors import NothingCompared
from alignkit.place import Place
from alignkit.record import Cell, MatrixEntry, RunRecord
from alignkit.record.document import existing, read_record


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run's folder: its record, and the arrays that the record names, each read once."""

    folder: Path
    record: RunRecord
    cells: dict[tuple[Place, int], Cell]

    @cache  # noqa: B019 - the object lives as long as the comparison
    def predictions(self, at: Place, seed: int) -> Predictions | None:
        """Read a cell's predictions; ``None`` if it was not measured."""
        cell = self.cells.get((at, seed))
        if cell is None or cell.predictions is None:
            return None
        return Predictions.from_parquet(existing(self.folder, cell.predictions.path))

    def images(self, reference: str, candidate: str) -> ImageTable | None:
        """Read every image's difference between two paths; ``None`` if they were not compared."""
        for each in self.record.images:
            if (each.reference, each.candidate) == (reference, candidate):
                return read_image_table(existing(self.folder, each.table.path))
        return None


def stored_run(folder: Path) -> StoredRun:
    """Read a run's record; raises `RecordError` if there is none."""
    record = read_record(folder)
    return StoredRun(folder, record, {(each.place, each.seed): each for each in record.cells})


@dataclass(frozen=True, eq=False)
class Seed:
    """One seed's predictions in both runs, of the same images: class indices (n,)."""

    ids: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    classes: tuple[str, ...]
    before: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
    """Predictions of the aligned cell (in an aligned cell: the labels), and of this cell."""
    after: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def seeds_of(
    at: Place, old: MatrixEntry, new: MatrixEntry, before: StoredRun, after: StoredRun
) -> list[Seed]:
    """Return every seed that both runs measured at a place and in its row's aligned cell."""
    homes = [
        {cell.seed: spot for (spot, _), cell in run.cells.items()
         if cell.aligned and spot.row == at.row}
        for run in (before, after)
    ]  # fmt: skip
    found = []
    for seed in [each for each in new.seeds if each in old.seeds]:
        if seed not in homes[0] or seed not in homes[1]:
            continue
        read = [
            (run.predictions(home[seed], seed), run.predictions(at, seed))
            for run, home in zip((before, after), homes, strict=True)
        ]
        (home_a, cell_a), (home_b, cell_b) = read
        if home_a is None or cell_a is None or home_b is None or cell_b is None:
            continue
        if (
            seed_found := _seed(home_a, cell_a, home_b, cell_b, is_aligned=new.aligned)
        ) is not None:
            found.append(seed_found)
    return found


def _seed(
    home_a: Predictions,
    cell_a: Predictions,
    home_b: Predictions,
    cell_b: Predictions,
    *,
    is_aligned: bool,
) -> Seed | None:
    try:
        cell_b, cell_a = aligned(cell_b, cell_a)
        cell_b, home_a = aligned(cell_b, home_a)
        cell_b, home_b = aligned(cell_b, home_b)
        cell_b, cell_a = aligned(cell_b, cell_a)
        _, home_a = aligned(cell_b, home_a)
    except NothingCompared:
        return None
    own = (cell_b.labels, cell_b.labels) if is_aligned else (home_a.predicted, home_b.predicted)
    return Seed(
        cell_b.ids,
        cell_b.labels,
        cell_b.classes,
        (own[0], cell_a.predicted),
        (own[1], cell_b.predicted),
    )
