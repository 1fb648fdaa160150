"""The models and prepared images of a run, read from its work folder, and run between two paths.

Nothing is decoded or trained: where stored work is gone, the error says how to make it again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alignkit.arrays import Batch, Labels
from alignkit.compare.linear_answers import LinearAnswers, greatest_changes
from alignkit.errors import AlignkitError, NothingCompared, RecordError
from alignkit.experiment import experiment_of_text
from alignkit.outcome import Measured
from alignkit.plan import preparations
from alignkit.plan.plan_keys import keyed_plan
from alignkit.plan.work import Evaluation, Training
from alignkit.predict import model_file, open_session
from alignkit.predict.decoder import AnswerDecoder, KeptRecords
from alignkit.predict.places import UnknownPlaces
from alignkit.predict.session_inputs import KEPT
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.record import RunRecord
from alignkit.train import train_models
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.findings.stored_row import StoredRow
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.progress import Progress

_SAME = 1e-3
"""Greatest |Δ output|, over the greatest |output|, between the stored answers and a model that is
loaded again: other batches and threads give some 1e-6."""


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
        """Predict the images' tensors ``own + factor · (candidate - own)``, which are not clipped.

        Raises `NothingCompared` if the two paths' tensors have no line between them.
        """
        indices = np.array([self._index[each] for each in ids], np.int64)
        samples, size = self.models.sets.evaluation, self.models.plan.batch_size
        kept = KeptRecords(len(indices))
        for start in range(0, len(indices), size):
            part = indices[start : start + size]
            outputs = self.session.predict(self._batch(candidate, part, factor))
            records = self.decoder.records(outputs, UnknownPlaces(len(part)))
            kept.put(start, self.decoder.kept(records, samples.take(part.tolist())))
        found = self.decoder.answers(ids, kept.all, samples)
        assert isinstance(found, LinearAnswers), "the run's own task"
        return found

    def _batch(self, candidate: str, part: Labels, factor: float) -> Batch:
        own = self.evaluation.preprocess
        other = next((e for e in self.models.plan.preprocesses if e.name == candidate), None)
        if other is None:
            raise NothingCompared(f"{candidate} is advised by the run, and not in its file")
        if own.varies or other.varies:
            raise NothingCompared("the sizes of the images vary, and two sizes have no line")
        sides = [
            self.models.sets.evaluated(each.name).batch(part, each.normalise)
            for each in (own, other)
        ]
        if sides[0].shape != sides[1].shape:
            raise NothingCompared("the two paths give images of two sizes, which have no line")
        mixed: Batch = np.ascontiguousarray(sides[0] + np.float32(factor) * (sides[1] - sides[0]))
        return mixed


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
    sets = prepare_sets(plan.preprocesses, train, evaluated, context, trains=plan.trains)
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


def _gone(record: RunRecord, why: str) -> RecordError:
    return RecordError(
        f"the line between two paths is checked with the run's models and prepared images, and "
        f"{why}; run '{record.command}' again, or add --no-check"
    )
