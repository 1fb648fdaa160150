"""Prediction of every evaluation of a plan, with one session for all paths of a model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from alignkit.backends import EngineBuilder
from alignkit.errors import BackendError
from alignkit.outcome import Failed, Measured, Outcome, Skipped, capture
from alignkit.predict import (
    Answer,
    cell_key,
    cell_parts,
    model_file,
    open_session,
    predict,
    stored_answer,
    tensors_of,
)
from alignkit.predict.build_spread import measure_spread, spread_stored
from alignkit.predict.rank_sessions import shared_session
from alignkit.record import BuildSpread, EngineFacts
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.plan.work import Evaluation
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.train import Trained


@dataclass(frozen=True, slots=True)
class Built(Skipped):
    """An evaluation whose engine was built, and cannot run on this machine."""

    engine: EngineFacts


@dataclass(frozen=True, slots=True)
class Predicted:
    """One evaluation and its outcome."""

    evaluation: Evaluation
    ended: Outcome[Answer]
    builds: BuildSpread | None = None
    """Spread of several builds, on the path the model was trained with; None without."""

    @property
    def seed(self) -> int:
        """Seed of the training."""
        return self.evaluation.training.seed


def predict_cells(
    plan: Plan, trained: Sequence[Trained], sets: Sets, context: Context
) -> tuple[Predicted, ...]:
    """Predict every evaluation of the plan, in its order; one session is open at a time.

    Paths that prepare the same pixels share a key and are predicted once.
    """
    models = {each.training.key: each.ended for each in trained}
    # by key, which paths that prepare equal pixels share
    done: dict[str, Predicted] = {}
    with context.progress.stage("predict", len(plan.evaluations), "every cell") as stage:
        for group in _by_session(plan.evaluations):
            stage.note(group[0].label)
            model = models[group[0].training.key]
            if isinstance(model, Measured):
                session = _SessionGroup(group, model.value, sets, plan.batch_size, context)
                done |= {each.evaluation.key: each for each in session.predict()}
            else:
                done |= {each.key: Predicted(each, _skipped(each) or model) for each in group}
            stage.advance(len(group))
    return tuple(
        Predicted(each, done[each.key].ended, done[each.key].builds) for each in plan.evaluations
    )


@contextmanager
def _named(checkpoint: Checkpoint) -> Iterator[None]:
    """Begin a runtime's refusal with the file of a given graph: it cannot know its name."""
    try:
        yield
    except BackendError as error:
        file = checkpoint.weights
        if checkpoint.format != "weights" and str(file) not in str(error):
            error.args = (f"{file}: {error}",)
        raise


def _by_session(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    groups: dict[tuple[str, str, str], list[Evaluation]] = {}
    for evaluation in evaluations:
        runtime = evaluation.runtime
        key = (evaluation.training.key, runtime.name, runtime.precision)
        groups.setdefault(key, []).append(evaluation)
    return list(groups.values())


def _skipped(evaluation: Evaluation) -> Skipped | None:
    return Skipped(evaluation.skipped) if evaluation.skipped else None


@dataclass(frozen=True, slots=True)
class _SessionGroup:
    """The evaluations of one model in one runtime, which share a session."""

    evaluations: Sequence[Evaluation]
    checkpoint: Checkpoint
    sets: Sets
    batch_size: int
    context: Context

    @property
    def runtime(self) -> Runtime:
        """Runtime of all the evaluations."""
        return self.evaluations[0].runtime

    def predict(self) -> list[Predicted]:
        """Predict each evaluation or build its engine; open a session only if one is not stored."""
        ended = self._built()
        to_run = []
        for evaluation in self.evaluations:
            if evaluation.key in ended:
                continue
            if (known := self._known(evaluation)) is not None:
                ended[evaluation.key] = known
            else:
                to_run.append(evaluation)
        if to_run:
            ended |= self._run(to_run)
        return [
            Predicted(each, ended[each.key], self._spread(each, ended[each.key]))
            for each in self.evaluations
        ]

    def _built(self) -> dict[str, Outcome[Answer]]:
        """Build the engine that cannot run here, once for all prepared paths, by their keys."""
        paths = [
            each
            for each in self.evaluations
            if each.builds_engine
            and isinstance(self.sets.prepared[each.preprocess.name, "eval"], Measured)
        ]
        if not paths:
            return {}
        made = built_engine(paths[0], self.checkpoint, self.sets, self.context.workspace)
        return {
            each.key: Built(each.skipped, made.value) if isinstance(made, Measured) else made
            for each in paths
        }

    def _known(self, evaluation: Evaluation) -> Outcome[Answer] | None:
        """Return why it cannot run, or the stored answer; None for a live endpoint or no answer."""
        skipped = _skipped(evaluation)
        if skipped and not evaluation.builds_engine:
            return skipped
        prepared = self.sets.prepared[evaluation.preprocess.name, "eval"]
        if not isinstance(prepared, Measured):
            return prepared
        # yesterday's answer of an endpoint is not its answer of today
        if self.runtime.backend.live:
            key = cell_key(evaluation, self.checkpoint)
            self.context.workspace.discard(evaluation.kind, key)
        stored = stored_answer(evaluation, self.checkpoint, self.context.workspace)
        return None if stored is None else Measured(stored)

    def _run(self, evaluations: Sequence[Evaluation]) -> dict[str, Outcome[Answer]]:
        """Open the runtime once and predict on every path; a failed path leaves the others."""
        ended: dict[str, Outcome[Answer]] = {}

        def answer(evaluation: Evaluation, session: Session) -> Answer:
            with _named(self.checkpoint):
                return self._answer(evaluation, session)

        @_named(self.checkpoint)
        def work() -> None:
            file = model_file(evaluations[0], self.checkpoint, self.sets, self.context.workspace)
            with (
                open_session(self.runtime, self.checkpoint, file) as session,
                shared_session(self.context.rank, self.runtime, self.checkpoint, file),
            ):
                for evaluation in evaluations:
                    ended[evaluation.key] = capture(partial(answer, evaluation, session))

        opened = capture(work)
        if isinstance(opened, Failed):
            ended |= {each.key: opened for each in evaluations if each.key not in ended}
        return ended

    def _answer(self, evaluation: Evaluation, session: Session) -> Answer:
        return predict(
            evaluation,
            self.checkpoint,
            session,
            self.sets.evaluated(evaluation.preprocess.name),
            self.sets.evaluation,
            batch_size=self.batch_size,
            workspace=self.context.workspace,
            rank=self.context.rank,
        )

    def _spread(self, evaluation: Evaluation, ended: Outcome[Answer]) -> BuildSpread | None:
        runtime = self.runtime
        own = evaluation.preprocess.name == evaluation.training.preprocess.name
        if runtime.builds == 1 or not own or not isinstance(ended, Measured):
            return None
        if runtime.backend.own_path or runtime.backend.live:
            reason = "what preprocesses or answers by itself is not built"
            return BuildSpread(builds=1, reason=reason)
        # each build has a workspace of its own: from the shared one it would be read, not built
        first = ended.value.predictions.logits
        prepared = self.sets.evaluated(evaluation.preprocess.name)
        inputs = tensors_of(prepared, evaluation, self.checkpoint)

        @contextmanager
        def build() -> Iterator[Session]:
            with TemporaryDirectory(prefix="alignkit-") as folder:
                file = model_file(evaluation, self.checkpoint, self.sets, Workspace(Path(folder)))
                with open_session(runtime, self.checkpoint, file) as session:
                    yield session

        return spread_stored(
            cell_parts(evaluation, self.checkpoint),
            runtime.builds,
            self.context.workspace,
            lambda: measure_spread(
                first, inputs, build, builds=runtime.builds, batch_size=self.batch_size
            ),
        )


def built_engine(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> Measured[EngineFacts] | Failed:
    """Build the engine of an evaluation that cannot run here, or find it stored; describe it."""
    backend = evaluation.runtime.backend
    assert isinstance(backend, EngineBuilder)

    @_named(checkpoint)
    def work() -> EngineFacts:
        file = model_file(evaluation, checkpoint, sets, workspace)
        assert file is not None
        return backend.described(file)

    return capture(work)
