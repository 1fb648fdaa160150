"""`StoredRun`, and the predictions of two runs, restricted to the same seeds and images."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, aligned
from alignkit.compare.image_table import ImageTable, read_image_table
from alignkit.errors import NothingCompared
from alignkit.place import Place
from alignkit.record import Cell, MatrixEntry, RunRecord
from alignkit.record.document import artifact_file, read_record
from alignkit.tasks import stored_answers

_Marked: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class StoredRun:
    """A run's folder: its record, and the arrays that the record names, each read once."""

    folder: Path
    record: RunRecord
    cells: dict[tuple[Place, int], Cell]

    @cache  # noqa: B019 - the object lives as long as the comparison
    def predictions(self, at: Place, seed: int) -> Answers | None:
        """Read a cell's predictions; ``None`` if it was not measured."""
        cell = self.cells.get((at, seed))
        if cell is None or cell.predictions is None:
            return None
        return stored_answers(self.record, artifact_file(self.folder, cell.predictions))

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
    """One seed's predictions in both runs, all of the same images in one order."""

    aligned: bool
    """Whether the cell is the aligned one of its row in the later run."""
    home_before: Answers
    """Of the row's aligned cell."""
    cell_before: Answers
    home_after: Answers
    cell_after: Answers

    @property
    def flips(self) -> tuple[_Marked, _Marked]:
        """Mark the images, (n,), whose answer differs from the aligned cell's, before and after.

        In an aligned cell those whose answer is not wholly right. Without labels, or if the quality
        is a score that knows no wholly right, those whose answer is another one than in the earlier
        run.
        """
        if not self.aligned:
            before = self.home_before.changed(self.cell_before)
            return before, self.home_after.changed(self.cell_after)
        if self.cell_after.labelled:
            sides = self.cell_before.quality(), self.cell_after.quality()
            if all(((side >= 0) & (side <= 1)).all() for side in sides):
                return sides[0] < 1, sides[1] < 1
        changed = self.cell_before.changed(self.cell_after)
        return np.zeros_like(changed), changed

    @property
    def turned(self) -> tuple[_Marked, _Marked, _Marked]:
        """Mark the images, (n,), that flip newly, no longer, and otherwise than before."""
        was, now = self.flips
        changed = self.cell_before.changed(self.cell_after)
        if self.aligned and self.cell_after.labelled:
            gain = self.cell_after.quality() - self.cell_before.quality()
            return changed & (gain < 0), changed & (gain > 0), changed & (gain == 0)
        return now & ~was, was & ~now, was & now & changed

    def words(self, index: int) -> tuple[str, str]:
        """Word an image's answers in both runs, each after the aligned cell's or the truth."""
        before, after = self.cell_before.said(index), self.cell_after.said(index)
        if not self.aligned:
            homes = self.home_before.said(index), self.home_after.said(index)
        elif self.cell_after.labelled:
            homes = (self.cell_after.truth_said(index),) * 2
        else:
            homes = before, before
        return _turn(homes[0], before), _turn(homes[1], after)

    @property
    def same(self) -> bool:
        """Whether both runs answer the same to every image, here and in the aligned cell."""
        homes = self.home_before.differs(self.home_after)
        return not (homes.any() or self.cell_before.differs(self.cell_after).any())


def _turn(home: str, cell: str) -> str:
    return cell if home in (cell, "") else f"{home} → {cell}"


class OtherOutputs(NothingCompared):
    """Two predictions of models with other outputs."""


def seeds_of(
    at: Place, old: MatrixEntry, new: MatrixEntry, before: StoredRun, after: StoredRun
) -> list[Seed]:
    """Return every seed that both runs measured at a place and in its row's aligned cell.

    None if the runs share no image of them. Raises `OtherOutputs` if the models of the two runs do
    not have the same.
    """
    homes = [
        {cell.seed: spot for (spot, _), cell in run.cells.items()
         if cell.aligned and spot.row == at.row}
        for run in (before, after)
    ]  # fmt: skip
    found: list[Answers] = []
    for seed in [each for each in new.seeds if each in old.seeds]:
        if any(seed not in home for home in homes):  # flips are counted from the aligned cell
            continue
        sides = (
            before.predictions(homes[0][seed], seed),
            before.predictions(at, seed),
            after.predictions(homes[1][seed], seed),
            after.predictions(at, seed),
        )
        measured = [each for each in sides if each is not None]
        if len(measured) == len(sides):
            found += measured
    shared = iter(_restricted(found))
    # four at a time: the sides of one seed
    return [Seed(new.aligned, *sides) for sides in zip(*[shared] * 4, strict=True)]


def _restricted(sides: list[Answers]) -> list[Answers]:
    """Restrict all to the ids they share, in the order of the last; empty if they share none."""
    if not sides:
        return []
    last = sides[-1]
    if any(each.outputs != last.outputs for each in sides):
        raise OtherOutputs("the models of the two runs have other outputs")
    try:
        for side in sides:
            last, _ = aligned(last, side)
    except NothingCompared:
        return []
    # once more: a later side may lack what an earlier one has
    return [aligned(last, side)[1] for side in sides]
