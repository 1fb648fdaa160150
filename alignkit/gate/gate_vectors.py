"""Judge ``gate.vectors``: do golden vectors, recorded beside an index, still come out?"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.baseline.golden_vectors import (
    GoldenVectors,
    cell_vectors,
    model_of,
    path_identity,
    read_vectors,
    vectors_array,
)
from alignkit.errors import AlignkitError, BaselineError, ExitCode
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.vectors_option import VectorsOption
from alignkit.judge.standing_rules import JudgedRule
from alignkit.record import Cell, RuleOutcome, RunRecord, VerdictState
from alignkit.samples import Samples
from alignkit.text.numbers import plain

_EXIT: dict[VerdictState, ExitCode] = {
    "pass": ExitCode.PASS,
    "fail": ExitCode.DRIFT,
    "error": ExitCode.NOTHING_COMPARED,
}


def golden_vectors(experiment: Experiment) -> GoldenVectors | None:
    """Read the file of ``gate.vectors``; ``None`` if there is no such option.

    Raise `BaselineError` if the file is missing or damaged.
    """
    option = experiment.gate.vectors
    return None if option is None else read_vectors(option.file)


def judged_vectors(
    experiment: Experiment, golden: GoldenVectors | None, record: RunRecord, run: Path
) -> list[JudgedRule]:
    """Judge each measured cell of the recorded row; none if the file has no golden vectors.

    A cell whose images or outputs are others is an error with the exit code of a gate that compared
    nothing, and so is a run in which no cell is measured.
    """
    option = experiment.gate.vectors
    if option is None or golden is None:
        return []
    cells = [each for each in record.cells if _is_meant(each, option, golden)]
    samples = experiment.data.evaluation()
    judged = [
        _judged_cell(cell, golden, option, record, run, samples) for cell in cells if cell.ran
    ]
    if judged:
        return judged
    reasons = dict.fromkeys(f"{each.place}: {each.reason}" for each in cells)
    rows = ", ".join(dict.fromkeys(each.trained_with for each in record.cells))
    observed = next(iter(reasons), f"no cell of the row {golden.row!r}; the run has {rows}")
    return [_judged(golden, None, option, ("error", observed))]


def _is_meant(cell: Cell, option: VectorsOption, golden: GoldenVectors) -> bool:
    return (
        (cell.trained_with, cell.seed) == (golden.row, golden.seed)
        and option.path in (None, cell.evaluated_with)
        and option.backend in (None, cell.backend, cell.backend.partition(" ")[0])
        and option.precision in (None, cell.precision)
    )


_ROUNDING = 1e-12
"""Difference of two cosines, as sums of 65,536 products, that rounding alone may make."""


@dataclass(frozen=True, slots=True)
class _Nearness:
    """How near the new vectors of the images are."""

    cosine: float
    """The least of all images."""
    of: str
    """The image that has it."""
    rank: int
    """The greatest of all images."""
    ranked: str
    """The image that has it."""


def _judged_cell(
    cell: Cell,
    golden: GoldenVectors,
    option: VectorsOption,
    record: RunRecord,
    run: Path,
    samples: Samples,
) -> JudgedRule:
    try:
        found = _nearness(cell, golden, record, run, samples)
    except AlignkitError as error:
        return _judged(golden, cell, option, ("error", str(error)))
    said = (
        f"least cosine {plain(found.cosine, 6)} ({found.of}), greatest rank {found.rank}"
        f"{f' ({found.ranked})' if found.rank > 1 else ''} of {len(golden.images)} images"
    )
    if others := _others(cell, golden, record):
        said += f"; recorded with {others}"
    # NaN is below every limit
    near = found.cosine >= option.cosine and found.rank <= option.rank
    return _judged(golden, cell, option, ("pass" if near else "fail", said))


def _others(cell: Cell, golden: GoldenVectors, record: RunRecord) -> str:
    """Name all that was another when the vectors were recorded."""
    changed = {
        "another model": model_of(record, cell) != golden.model,
        f"the path {golden.path}": cell.evaluated_with != golden.path,
        f"other stages of {golden.path}": cell.evaluated_with == golden.path
        and path_identity(record, cell.evaluated_with) != golden.identity,
        f"{golden.backend} {golden.precision}": (cell.backend, cell.precision)
        != (golden.backend, golden.precision),
    }
    return ", ".join(name for name, is_other in changed.items() if is_other)


def _nearness(
    cell: Cell, golden: GoldenVectors, record: RunRecord, run: Path, samples: Samples
) -> _Nearness:
    """Compare a cell's vectors with the golden ones.

    Raise `BaselineError` if an image is missing, is another file, or has another number of values.
    """
    answers, rows = cell_vectors(record, run, cell)
    place = {name: index for index, name in enumerate(answers.ids)}
    at = {name: index for index, name in enumerate(samples.ids)}
    for image in golden.images:
        if image.id not in place or image.id not in at:
            raise BaselineError(
                f"{image.id} of {len(golden.images)} golden images was not predicted"
            )
        if hashlib.sha256(samples.read(at[image.id])).hexdigest() != image.sha256:
            raise BaselineError(f"{image.id} is another file than the one that was recorded")
    if rows.shape[1] != golden.dimensions:
        raise BaselineError(
            f"the model gives {rows.shape[1]} values an image, and the golden vectors have "
            f"{golden.dimensions}: it is another model, and the index must be built again"
        )
    names = [image.id for image in golden.images]
    kept, now = vectors_array(golden), rows[[place[name] for name in names]]
    cosines = _unit(now) @ _unit(kept).T
    # a sum's rounding makes no difference between equal vectors
    equal = (now == kept).all(axis=1) & now.any(axis=1)
    own = np.where(equal, 1.0, cosines.diagonal())
    nearer = (cosines > own[:, None] + _ROUNDING).sum(axis=1)
    ranks = np.where(np.isnan(own), len(names), 1 + nearer)
    least, most = int(np.argmin(np.nan_to_num(own, nan=-2))), int(np.argmax(ranks))
    return _Nearness(float(own[least]), names[least], int(ranks[most]), names[most])


def _unit(rows: npt.NDArray[np.float32]) -> FloatArray:
    """Scale (n, dimensions) to length 1, in float64; NaN for a vector of zeros."""
    wide = rows.astype(np.float64)
    length = np.linalg.norm(wide, axis=1, keepdims=True)
    unit: FloatArray = np.divide(wide, length, out=np.full_like(wide, np.nan), where=length > 0)
    return unit


def _judged(
    golden: GoldenVectors,
    cell: Cell | None,
    option: VectorsOption,
    found: tuple[VerdictState, str],
) -> JudgedRule:
    state, observed = found
    outcome = RuleOutcome(
        metric="vectors",
        limit=f"golden vectors: cosine {option.cosine:g} or more, rank {option.rank} or less",
        trained_with=golden.row,
        evaluated_with=cell.evaluated_with if cell else golden.path,
        backend=cell.backend if cell else "",
        precision=cell.precision if cell else "",
        state=state,
        observed=observed,
        rule="vectors",
    )
    return JudgedRule(outcome, _EXIT[state], compared=state != "error")
