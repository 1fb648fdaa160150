"""`Evidence`, what a run measured as far as rules look at it, and `Observed`, one value of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from alignkit.errors import ExitCode
from alignkit.record import (
    AttributionFacts,
    BaselineFacts,
    Cell,
    CoverageDiff,
    GroupFacts,
    LatencyFacts,
    MatrixEntry,
    PathFacts,
    PixelStage,
    RunRecord,
)

BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run measured, as far as rules look at it."""

    matrix: Sequence[MatrixEntry] = ()
    cells: Sequence[Cell] = ()
    pixels: Sequence[PixelStage] = ()
    coverage_diffs: Sequence[CoverageDiff] = ()
    baseline: BaselineFacts | None = None
    paths: Sequence[PathFacts] = ()
    """The reference first; without them, every path that was compared counts."""
    attributions: Sequence[AttributionFacts] = ()
    groups: Sequence[GroupFacts] | None = None
    """``None`` where a run leaves subgroups to the gate."""
    latencies: Sequence[LatencyFacts] | None = None
    """``None`` where a run leaves timing to the gate."""

    @classmethod
    def of_record(cls, record: RunRecord) -> Evidence:
        """What a record holds of it; of the experiment's own paths."""
        whole = cls(**{each.name: getattr(record, each.name) for each in fields(cls)})
        return whole.without(each.advised for each in record.advice)

    @property
    def reference(self) -> str:
        """Name of the reference path; empty where there is none."""
        return next(iter(self._names()), "")

    @property
    def candidates(self) -> list[str]:
        """Names of the other paths."""
        return self._names()[1:]

    def _names(self) -> list[str]:
        compared = (name for each in self.pixels for name in (each.reference, each.candidate))
        return list(dict.fromkeys([path.name for path in self.paths] or compared))

    @property
    def skipped(self) -> dict[str, str]:
        """Path → why it cannot run here."""
        return {path.name: path.skipped for path in self.paths if path.skipped}

    @property
    def labels(self) -> dict[tuple[str, str], str]:
        """(path, stage) → the stage's options in words."""
        return {(path.name, each.stage): each.label for path in self.paths for each in path.stages}

    def without(self, advised: Iterable[str]) -> Evidence:
        """That of the experiment's own paths: nobody serves along an advised one yet."""
        left_out = set(advised)

        def kept(each: Cell | MatrixEntry) -> bool:
            return not left_out & {each.evaluated_with, *each.row.preprocesses}

        return replace(
            self,
            matrix=[each for each in self.matrix if kept(each)],
            cells=[each for each in self.cells if kept(each)],
            paths=[path for path in self.paths if path.name not in left_out],
        )

    def of(self, where: dict[str, str]) -> Evidence:
        """The evidence of a subgroup alone."""
        group = next(each for each in self.groups or () if each.where == where)
        return replace(
            self, matrix=group.matrix, pixels=group.pixels, coverage_diffs=group.coverage, groups=()
        )

    def images(self, where: dict[str, str]) -> int:
        """How many images a subgroup has."""
        return sum(each.images for each in self.groups or () if each.where == where)


@dataclass(frozen=True, slots=True)
class Observed:
    """One value a rule is held against, or why there is none."""

    trained_with: str
    """The reference path of a pixel metric, ``baseline``, or the row of the matrix."""
    evaluated_with: str
    backend: str = ""
    precision: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Images, each counted once."""
    seeds: int = 1
    images_error: float | None = None
    """Standard error of the value had other images been evaluated; ``None`` if not known."""
    seeds_error: float = 0.0
    """The same of other seeds."""
    unseen: float = 0.0
    """What flips may add on either side of which so few images need not show one; see
    `alignkit.compare.statistics.rule_of_three`."""
    at_least: float | None = None
    """A lower bound, where the value itself is not known."""
    different: str = ""
    """Why it fails whatever the limit is: other shapes, or values that are not finite."""
    perfect: bool = False
    """Nothing differs at all: PSNR is infinite and passes any limit."""
    cause: str = ""
    unchanged: bool = False
    """Not looked at, since nothing can have changed it."""
    reason: str = ""
    """Why there is no value."""
    missing: ExitCode = ExitCode.CRASHED
    """What the lack of a value means."""
