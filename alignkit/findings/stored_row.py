"""`StoredRow`: the cells of a row of a run's matrix that ran, with their stored answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alignkit.compare.class_changes import of_different_files
from alignkit.compare.linear_answers import LinearAnswers
from alignkit.errors import NothingCompared
from alignkit.place import Place
from alignkit.record import Cell, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.tasks import stored_answers


@dataclass(frozen=True, eq=False)
class StoredRow:
    """The models of a row by seed: their aligned cell, and the others."""

    folder: Path
    record: RunRecord
    homes: dict[int, Cell]
    """Seed → its aligned cell that ran; never empty."""

    @property
    def place(self) -> Place:
        """The place of the aligned cells."""
        return next(iter(self.homes.values())).place

    @cache  # noqa: B019 - the object lives as long as the row is looked at
    def home(self, seed: int) -> LinearAnswers:
        """Read the answers of a seed's aligned cell; raise `NothingCompared` as `answers` does."""
        return self.answers(self.homes[seed])

    def answers(self, cell: Cell) -> LinearAnswers:
        """Read a cell's answers to different files.

        Raise `NothingCompared` if the task's bear no known change.
        Raise `DamagedRecord` if their file is missing or is not what the run wrote.
        """
        assert cell.predictions is not None, "a cell that ran"
        found = stored_answers(self.record, artifact_file(self.folder, cell.predictions))
        if not isinstance(found, LinearAnswers):
            raise NothingCompared(
                f"tolerance is not defined for the task {self.record.task.name}: {found.no_leads}"
            )
        return of_different_files(found, self.record.data.copies)

    def others(self) -> dict[Place, list[Cell]]:
        """Return the row's other cells that ran, of these seeds, by place in the matrix's order."""
        found: dict[Place, list[Cell]] = {}
        for cell in _cells_that_ran(self.record):
            own = cell.row == self.place.row and cell.seed in self.homes
            if own and not cell.aligned:
                found.setdefault(cell.place, []).append(cell)
        return found

    @property
    def served(self) -> dict[str, dict[int, Cell]]:
        """Other paths in the row's own runtime: their cells by seed."""
        runtime = self.place.column.names[1:]
        return {
            place.column.preprocess: {each.seed: each for each in cells}
            for place, cells in self.others().items()
            if place.column.names[1:] == runtime
        }


def stored_rows(folder: Path, record: RunRecord) -> tuple[StoredRow, ...]:
    """Return every row whose aligned cell ran; raise `NothingCompared` if there is none."""
    homes: dict[str, dict[int, Cell]] = {}
    for cell in _cells_that_ran(record):
        if cell.aligned:
            homes.setdefault(cell.trained_with, {})[cell.seed] = cell
    if not homes:
        raise NothingCompared(
            f"the run {record.name} has no predictions of a model where it was trained; give the "
            "folder of a run that evaluates models"
        )
    return tuple(StoredRow(folder, record, each) for each in homes.values())


def _cells_that_ran(record: RunRecord) -> Iterator[Cell]:
    return (each for each in record.cells if each.ran and each.predictions is not None)
