"""`Evidence`, the measurements of a run that rules read, and `Observed`, one value of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace

from alignkit.errors import ExitCode
from alignkit.place import Row, first_of
from alignkit.record import (
    AdviceFacts,
    AttributionFacts,
    BaselineFacts,
    Cell,
    Coverage,
    CoverageDiff,
    DataFacts,
    GroupFacts,
    MatrixEntry,
    NoiseFloor,
    PathFacts,
    PixelStage,
    RunRecord,
    SpatialFacts,
)
from alignkit.task_facts import CLASSIFICATION, TaskFacts

EARLIER_STAGE = "all of it comes from an earlier stage"
"""Cause of a stage that changed no image by itself."""
BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Evidence:
    """The measurements of a run that rules read."""

    matrix: Sequence[MatrixEntry] = ()
    cells: Sequence[Cell] = ()
    pixels: Sequence[PixelStage] = ()
    coverage_diffs: Sequence[CoverageDiff] = ()
    coverage: Sequence[Coverage] = ()
    baseline: BaselineFacts | None = None
    paths: Sequence[PathFacts] = ()
    """The reference first; without them, every path that was compared counts."""
    attributions: Sequence[AttributionFacts] = ()
    groups: Sequence[GroupFacts] | None = None
    """``None`` if a run leaves subgroups to the gate."""
    overrides: Sequence[str] = ()
    """``--set`` arguments, as given."""
    labelled: bool = True
    """Whether the metrics of the task have values."""
    task: TaskFacts = CLASSIFICATION
    quick: Sequence[str] = ()
    """Values that ``--quick`` made smaller, in words."""
    partial: bool = False
    """Whether the run was interrupted before every cell was done."""
    spatial: Sequence[SpatialFacts] = ()
    advice: Sequence[AdviceFacts] = ()
    data: DataFacts | None = None
    noise_floor: Sequence[NoiseFloor] = ()
    command: str = ""
    """Shell command that made it; empty where none did."""

    @classmethod
    def of_record(cls, record: RunRecord) -> Evidence:
        """Take it from a record, without advised paths."""
        whole = cls(**{each.name: getattr(record, each.name) for each in fields(cls)})
        return whole.without(each.advised for each in record.advice)

    @property
    def reference(self) -> str:
        """Name of the reference path; empty if there is none."""
        return next(iter(self._names()), "")

    @property
    def own_row(self) -> Row | None:
        """The row whose models shares and advice are measured of, of several on the reference."""
        return first_of((each.row for each in self.matrix), self.reference)

    @property
    def candidates(self) -> list[str]:
        """Names of the paths to be compared with it."""
        repeats = self.repeats
        return [name for name in self._names()[1:] if name not in repeats]

    @property
    def repeats(self) -> list[str]:
        """Names of paths that have the reference's stages and options, and not on purpose."""
        return [name for name in self._names()[1:] if self.alike(self.reference, name)]

    def alike(self, a: str, b: str) -> bool:
        """Return whether two paths are the same, and not on purpose."""
        known = {each.name: each for each in self.paths}
        pair = [known[name] for name in (a, b) if name in known]
        same = len({each.same_as or each.name for each in pair}) == 1
        return a == b or (len(pair) == 2 and same and not any(each.same for each in pair))

    def _names(self) -> list[str]:
        compared = (name for each in self.pixels for name in (each.reference, each.candidate))
        return list(dict.fromkeys([path.name for path in self.paths] or compared))

    @property
    def skipped(self) -> dict[str, str]:
        """Path → why it cannot run here."""
        return {path.name: path.skipped for path in self.paths if path.skipped}

    def without(self, advised: Iterable[str]) -> Evidence:
        """Leave the advised paths out: nobody serves along them yet."""
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
        """Narrow it to a subgroup."""
        group = next(each for each in self.groups or () if each.where == where)
        return replace(
            self, matrix=group.matrix, pixels=group.pixels, coverage_diffs=group.coverage, groups=()
        )

    def images(self, where: dict[str, str]) -> int:
        """Count the images of a subgroup."""
        return sum(each.images for each in self.groups or () if each.where == where)


@dataclass(frozen=True, slots=True)
class Observed:
    """One value that a rule is compared with, or the reason why there is none."""

    trained_with: str
    """The reference path of a pixel metric, ``baseline``, or the row of the matrix."""
    evaluated_with: str
    backend: str = ""
    precision: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    """Images, each counted once, or the groups of those that depend on each other."""
    grouped: bool = False
    """Whether ``n`` counts groups."""
    seeds: int = 1
    images_error: float | None = None
    """Standard error of the value over the choice of images; ``None`` if not known."""
    seeds_error: float = 0.0
    """Standard error over the choice of seeds."""
    unseen: float = 0.0
    """Change on either side by flips too rare to show in so few images; see
    `alignkit.compare.statistics.rule_of_three`."""
    at_least: float | None = None
    """A lower bound, if the value itself is not known."""
    different: str = ""
    """Reason why it fails whatever the limit is: other shapes, or values that are not finite."""
    amount: str = ""
    """How far the pixels of a share of images differ, in words."""
    perfect: bool = False
    """Whether nothing differs: PSNR is infinite and passes any limit."""
    cause: str = ""
    unchanged: bool = False
    """Whether it was not compared, since nothing can have changed it."""
    idle: bool = False
    """Whether both sides run the same stages with the same options, so that nothing can differ."""
    reason: str = ""
    """Reason why there is no value, or no interval."""
    missing: ExitCode = ExitCode.CRASHED
    """Exit code if there is no value."""
