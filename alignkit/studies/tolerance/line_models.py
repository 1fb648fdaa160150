"""The answers, models and prepared images of a run, read from its folder and run between paths.

Nothing is decoded or trained: where stored work is gone, the error says how to make it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import Batch
from alignkit.compare.class_changes import of_different_images
from alignkit.compare.linear_answers import LinearAnswers, greatest_changes
from alignkit.errors import AlignkitError, NothingCompared, RecordError
from alignkit.experiment import experiment_of_text
from alignkit.outcome import Measured
from alignkit.place import Place
from alignkit.plan import preparations
from alignkit.plan.plan_keys import keyed_plan
from alignkit.plan.work import Evaluation, Training
from alignkit.predict import model_file, open_session
from alignkit.predict.decoder import AnswerDecoder, KeptRecords
from alignkit.predict.places import UnknownPlaces
from alignkit.predict.session_inputs import KEPT
from alignkit.prepare import Prepared
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.preprocess import Preprocess
from alignkit.record import Cell, RunRecord
from alignkit.record.document import artifact_file
from alignkit.samples import Samples
from alignkit.tasks import stored_answers
from alignkit.train import train_models
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.progress import Progress

_BATCH = 64
"""Images whose tensors are compared together."""
_SAME = 1e-3
"""Greatest |Δ output|, over the greatest |output|, between the stored answers and a model that is
loaded again: other batches and threads give some 1e-6."""


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
        """Read a cell's answers to different images.

        Raise `NothingCompared` if the task's bear no known change.
        Raise `DamagedRecord` if their file is missing or is not what the run wrote.
        """
        assert cell.predictions is not None, "a cell that ran"
        found = stored_answers(self.record, artifact_file(self.folder, cell.predictions))
        if not isinstance(found, LinearAnswers):
            raise NothingCompared(
                f"tolerance is not defined for the task {self.record.task.name}: {found.no_leads}"
            )
        return of_different_images(found, self.record.data.copies)

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


@dataclass(frozen=True, eq=False)
class PreparedSide:
    """Images prepared on one path, by id."""

    preprocess: Preprocess
    samples: Samples
    prepared: Prepared

    @cached_property
    def decoded(self) -> dict[str, int]:
        """The index of each image that has pixels."""
        return {self.samples.ids[each]: int(each) for each in self.prepared.decoded}

    def batch(self, ids: Sequence[str]) -> Batch:
        """Return the images' tensors."""
        rows = [self.decoded[each] for each in ids]
        return self.prepared.batch(rows, self.preprocess.normalise)


@dataclass(frozen=True, eq=False)
class PixelLine:
    """Tensors ``own + t · (other - own)``."""

    own: PreparedSide
    other: PreparedSide

    def batch(self, ids: Sequence[str], factor: float) -> Batch:
        """Return tensors at ``factor``, not clipped; raise `NothingCompared` if sizes differ."""
        if self.own.preprocess.varies or self.other.preprocess.varies:
            raise NothingCompared("the sizes of the images vary, and two sizes have no line")
        own, other = self.own.batch(ids), self.other.batch(ids)
        if own.shape != other.shape:
            raise NothingCompared("the two paths give images of two sizes, which have no line")
        mixed: Batch = np.ascontiguousarray(own + np.float32(factor) * (other - own))
        return mixed

    def mean_levels(self, ids: Sequence[str]) -> float:
        """Compute mean |other - own| of the images in grey levels of the own path's tensors."""
        levels = 255.0 * np.asarray(self.own.preprocess.normalise.std)[:, None, None]
        total = 0.0
        for start in range(0, len(ids), _BATCH):
            part = ids[start : start + _BATCH]
            change = self.other.batch(part).astype(np.float64) - self.own.batch(part)
            total += float((np.abs(change) * levels).mean(axis=(1, 2, 3)).sum())
        return total / len(ids)


@dataclass(frozen=True, eq=False)
class LineModels:
    """The plan of a run, its prepared images and its models."""

    plan: Plan
    sets: Sets
    models: dict[str, Checkpoint]
    """By the key of the training."""
    context: Context

    @contextmanager
    def opened(self, row: StoredRow, seed: int) -> Iterator[LineSession]:
        """Open a seed's model in the row's runtime, and verify that it answers as in the run.

        Raises `NothingCompared` if it does not, or preprocesses images itself.
        """
        evaluation = self.evaluation(row, seed)
        runtime = evaluation.runtime
        if runtime.backend.own_path:
            raise NothingCompared(f"{runtime.name} preprocesses the images itself")
        checkpoint = self.models[evaluation.training.key]
        file = model_file(evaluation, checkpoint, self.sets, self.context.workspace)
        with open_session(runtime, checkpoint, file) as session:
            classes = self.sets.evaluation.classes
            decoder = AnswerDecoder.of(evaluation.task, checkpoint, classes)
            found = LineSession(self, evaluation, session, decoder)
            found.verify(row.home(seed))
            yield found

    @cache  # noqa: B019 - the object lives as long as the run is looked at
    def side(self, path: str) -> PreparedSide:
        """Return a path of the run; raise `NothingCompared` if the run advises it."""
        found = next((each for each in self.plan.experiment.paths if each.name == path), None)
        if found is None:
            raise NothingCompared(f"{path} is advised by the run, and not in its file")
        return PreparedSide(found, self.sets.evaluation, self.sets.evaluated(path))

    def evaluation(self, row: StoredRow, seed: int) -> Evaluation:
        """Return the planned evaluation of a row's aligned cell."""
        return next(
            each
            for each in self.plan.evaluations
            if each.place == row.place and each.training.seed == seed
        )


@dataclass(frozen=True, eq=False)
class LineSession:
    """A model, open in a runtime, that receives tensors between two paths."""

    models: LineModels
    evaluation: Evaluation
    session: Session
    decoder: AnswerDecoder

    @cached_property
    def _index(self) -> dict[str, int]:
        return {name: at for at, name in enumerate(self.models.sets.evaluation.ids)}

    def verify(self, stored: LinearAnswers) -> None:
        """Raise `NothingCompared` if the first images' outputs are not those that are stored."""
        few = stored.rows(np.arange(min(KEPT, len(stored))))
        again = self.answers(self.evaluation.preprocess.name, few.ids, 0.0)
        apart, raw = float(greatest_changes(few, again).max()), few.raw_rows()
        assert raw is not None, "linear answers keep the model's outputs"
        if apart > _SAME * float(np.abs(raw[np.isfinite(raw)]).max(initial=0.0)):
            raise NothingCompared(
                f"the model, loaded again, answers otherwise than in the run (max |Δ| {apart:.3g});"
                " run the experiment again"
            )

    def answers(self, candidate: str, ids: tuple[str, ...], factor: float) -> LinearAnswers:
        """Predict ``own + factor · (candidate - own)`` of the images.

        Raises `NothingCompared` as `LineModels.side` and `PixelLine.batch` do.
        """
        own, other = map(self.models.side, (self.evaluation.preprocess.name, candidate))
        line = PixelLine(own, other)
        size, samples = self.models.plan.experiment.batch_size, self.models.sets.evaluation
        rows = [self._index[each] for each in ids]
        kept = KeptRecords(len(ids))
        for start in range(0, len(ids), size):
            part = ids[start : start + size]
            outputs = self.session.predict(line.batch(part, factor))
            records = self.decoder.records(outputs, UnknownPlaces(len(part)))
            kept.put(start, self.decoder.kept(records, samples.take(rows[start : start + size])))
        found = self.decoder.answers(ids, kept.all, samples)
        assert isinstance(found, LinearAnswers), "the run's own task"
        return found


def line_models(folder: Path, record: RunRecord, progress: Progress) -> LineModels:
    """Read the models of the rows that have an aligned cell, and every path's evaluation images.

    Raises `RecordError`, with the run's command and the way without, if some are no longer stored.
    """
    words = shlex.split(record.command)
    try:
        experiment = experiment_of_text(
            record.yaml, Path(words[2]), record.overrides, quick=bool(record.quick)
        )
        workspace = Workspace(folder.resolve().parent.parent)
        ranks = max((each.ranks for each in record.trainings), default=1)
        plan = keyed_plan(experiment, workspace, ranks=ranks)
    except AlignkitError as error:
        raise _gone(record, f"its experiment cannot be planned here ({error})") from error
    homes = {(each.place, each.seed) for each in record.cells if each.aligned and each.ran}
    trainings = {
        each.training.key: each.training
        for each in plan.evaluations
        if (each.place, each.training.seed) in homes
    }
    paths = {each.evaluated_with for each in record.cells if each.ran}
    _require_stored(plan, trainings, paths, workspace, record)
    context = Context(workspace, progress)
    train, evaluated = plan.samples("train"), plan.samples("eval")
    # a path without a cell may be stored for its training images, or was never prepared
    own = plan.experiment.paths
    known = [each for each in own if each.name in paths or _stored(each, plan, workspace)]
    sets = prepare_sets(known, train, evaluated, context, trains=plan.trains)
    models = {}
    for each in train_models(replace(plan, trainings=tuple(trainings.values())), sets, context):
        if not isinstance(each.ended, Measured):
            raise _gone(record, f"there is no model of {each.training.label}")
        models[each.training.key] = each.ended.value
    return LineModels(plan, sets, models, context)


def _require_stored(
    plan: Plan,
    trainings: dict[str, Training],
    paths: set[str],
    workspace: Workspace,
    record: RunRecord,
) -> None:
    """Raise `RecordError` before anything that is gone would be decoded or trained again."""
    wanted = [each for each in preparations(plan) if each.preprocess.name in paths]
    works = [*wanted, *(each for each in trainings.values() if each.given is None)]
    gone = [each.label for each in works if workspace.stored(each.kind, each.key) is None]
    if gone:
        rest = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
        raise _gone(record, f"{workspace.root / '.cache'} does not hold {gone[0]!r}{rest}")


def _stored(path: Preprocess, plan: Plan, workspace: Workspace) -> bool:
    own = [each for each in preparations(plan) if each.preprocess.name == path.name]
    return all(workspace.stored(each.kind, each.key) is not None for each in own)


def _gone(record: RunRecord, why: str) -> RecordError:
    return RecordError(
        f"the line between two paths is checked with the run's models and prepared images, and "
        f"{why}; run '{record.command}' again, or add --no-check"
    )
