"""`StoredRun`, and the predictions of two runs, restricted to the same seeds and images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alignkit.arrays import Labels
from alignkit.compare.image_table import ImageTable, read_image_table
from alignkit.compare.predictions import Predictions, aligned
from alignkit.errors import NothingCompared
from alignkit.place import Place
from alignkit.record import Cell, MatrixEntry, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.record.document import read_record


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
        return Predictions.from_parquet(artifact_file(self.folder, cell.predictions))

    def images(self, reference: str, candidate: str) -> ImageTable | None:
        """Read every image's difference between two paths; ``None`` if they were not compared."""
        for each in self.record.images:
            if (each.reference, each.candidate) == (reference, candidate):
                return read_image_table(artifact_file(self.folder, each.table))
        return None


def stored_run(folder: Path) -> StoredRun:
    """Read a run's record; raises `RecordError` if there is none."""
    record = read_record(folder)
    return StoredRun(folder, record, {(each.place, each.seed): each for each in record.cells})


@dataclass(frozen=True, eq=False)
class Seed:
    """One seed's predictions in both runs, of the same images: class indices (n,)."""

    ids: tuple[str, ...]
    labels: Labels
    outputs: tuple[str, ...]
    """Names of the classes, the data's first."""
    before: tuple[Labels, Labels]
    """Predictions of the aligned cell (in an aligned cell: the labels, or without labels its own
    earlier predictions), and of this cell."""
    after: tuple[Labels, Labels]


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
        if any(seed not in home for home in homes):  # flips are counted from the aligned cell
            continue
        sides = (
            before.predictions(at, seed),
            before.predictions(homes[0][seed], seed),
            after.predictions(homes[1][seed], seed),
            after.predictions(at, seed),
        )
        measured = [each for each in sides if each is not None]
        if len(measured) < len(sides) or not (shared := _restricted(measured)):
            continue
        cell_a, home_a, home_b, cell_b = shared
        labels = cell_b.labels
        # without labels an aligned cell is compared with what it predicted before
        truth = labels if cell_b.labelled else cell_a.predicted
        own = (truth, truth) if new.aligned else (home_a.predicted, home_b.predicted)
        was, now = (own[0], cell_a.predicted), (own[1], cell_b.predicted)
        found.append(Seed(cell_b.ids, labels, cell_b.outputs, was, now))
    return found


def _restricted(sides: list[Predictions]) -> list[Predictions]:
    """Restrict all to the ids they share, in the order of the last; empty if they share none."""
    last = sides[-1]
    try:
        for side in sides:
            last, _ = aligned(last, side)
    except NothingCompared:
        return []
    # once more: a later side may lack what an earlier one has
    return [aligned(last, side)[1] for side in sides]
