"""Two runs' folders → `RunComparison`: the cells, stages and images that changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from alignkit.compare.image_table import ImageTable, read_image_table
from alignkit.compare.predictions import Predictions
from alignkit.errors import NothingCompared, RecordError
from alignkit.place import Place
from alignkit.record import Artifact, Cell, RunRecord
from alignkit.record.document import read_record
from alignkit.record.run_comparison import RunComparison, Side
from alignkit.studies.compare_runs.comparable import check_comparable, differences
from alignkit.studies.compare_runs.entries import entry_changes
from alignkit.studies.compare_runs.seeds import Run
from alignkit.studies.compare_runs.stages import pixel_changes, stage_changes
from alignkit.version import __version__


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
        return Predictions.from_parquet(self._file(cell.predictions))

    def images(self, reference: str, candidate: str) -> ImageTable | None:
        """Read every image's difference between two paths; ``None`` if they were not compared."""
        for each in self.record.images:
            if (each.reference, each.candidate) == (reference, candidate):
                return read_image_table(self._file(each.table))
        return None

    def _file(self, artifact: Artifact) -> Path:
        path = self.folder / artifact.path
        if not path.is_file():
            raise RecordError(
                f"{path} is missing, which record.json names; copy the whole folder of the run"
            )
        return path


def stored_run(folder: Path) -> StoredRun:
    """Read a run's record; raises `RecordError` if there is none."""
    record = read_record(folder)
    return StoredRun(folder, record, {(each.place, each.seed): each for each in record.cells})


def compare_runs(before: Path, after: Path, *, force: bool, command: str) -> RunComparison:
    """Compare the run in ``after`` with the one in ``before``.

    Raises `NotComparable` with the reasons if that would mislead, unless ``force``, and
    `NothingCompared` if the two have neither a cell nor a pair of paths in common.
    """
    runs: tuple[Run, Run] = (stored_run(before), stored_run(after))
    a, b = (run.record for run in runs)
    forced = check_comparable(a, b, force=force)
    entries, stages, pixels = entry_changes(*runs), stage_changes(a, b), pixel_changes(*runs)
    changes = {each.change for each in entries} | {each.change for each in stages}
    if not changes - {"not compared"} and not pixels:
        raise NothingCompared(
            f"{a.name} and {b.name} have no cell and no pair of paths in common; compare two runs "
            "of one experiment"
        )
    return RunComparison(
        alignkit=__version__,
        command=command,
        before=_side(before, a),
        after=_side(after, b),
        forced=forced,
        differences=differences(a, b),
        entries=entries,
        stages=stages,
        pixels=pixels,
    )


def _side(folder: Path, record: RunRecord) -> Side:
    return Side(
        folder=folder.resolve().name,
        name=record.name,
        key=record.key,
        started=record.started,
        verdict=record.verdict.state,
        sentence=record.verdict.sentence,
    )
