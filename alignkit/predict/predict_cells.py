"""Prediction of all evaluations of a model, with one session for all its paths in a runtime."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

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
from alignkit.predict.decoder import AnswerDecoder
from alignkit.predict.rank_sessions import shared_session
from alignkit.predict.session_inputs import records_of
from alignkit.record import BuildSpread, EngineFacts
from alignkit.stored_file import write_atomically
from alignkit.workspace import Context, Workspace, content_key

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.compare.answers import Answers
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation, Runtime
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
    plan: Plan, trained: Trained, sets: Sets, context: Context
) -> Generator[Predicted, None, None]:
    """Predict each evaluation of a model of the plan; give each cell as soon as it ended.

    One session is open at a time. Stored cells come first, then the others; of each the aligned one
    is first, unless it is built several times. Paths that prepare the same pixels share a key and
    are predicted once.
    """
    evaluations = [each for each in plan.evaluations if each.training == trained.training]
    model = trained.ended
    if not isinstance(model, Measured):
        yield from (Predicted(each, _skipped(each) or model) for each in evaluations)
        return
    title = trained.training.title
    with context.progress.stage("predict", sum(map(is_worked_on, evaluations)), title) as stage:

        def cells() -> Iterator[Predicted]:
            for group in _by_runtime(evaluations):
                stage.note(f"{group[0].runtime.name} {group[0].runtime.precision}")
                batch = plan.experiment.batch_size
                sessions = _SessionGroup(group, model.value, sets, batch, context)
                for each in sessions.predict():
                    stage.advance(is_worked_on(each.evaluation))
                    yield each

        yield from read_alike(cells(), model.value)


def read_alike(cells: Iterable[Predicted], checkpoint: Checkpoint) -> Iterator[Predicted]:
    """Give a model's cells; those that alone leave open what its outputs are come last.

    All cells then decide for each of them, or the aligned one where a side must. They fail if the
    outputs are not what they were taken for.
    """
    known: list[Answers] = []
    waiting: list[tuple[Predicted, Answer]] = []
    for each in cells:
        if isinstance(each.ended, Measured):
            answers = each.ended.value.predictions
            known.insert(0 if each.evaluation.aligned else len(known), answers)
            if answers.misread():
                waiting.append((each, each.ended.value))
                continue
        yield each
    reason = known[0].misread(*known[1:]) if waiting else ""
    for each, answer in waiting:

        def judged(cell: Predicted = each, found: Answer = answer) -> Answer:
            with _named(checkpoint, cell.evaluation.runtime):
                if reason:
                    raise BackendError(reason)
            return replace(found, predictions=found.predictions.as_read())

        yield replace(each, ended=capture(judged))


def is_worked_on(evaluation: Evaluation) -> bool:
    """Return whether this machine predicts the cell or builds its engine, as the plan knows."""
    return evaluation.builds_engine or not evaluation.skipped


@contextmanager
def _named(checkpoint: Checkpoint, runtime: Runtime) -> Iterator[None]:
    """Begin a runtime's refusal with the file of a given graph: it cannot know its name."""
    try:
        yield
    except BackendError as error:
        own = checkpoint.weights if checkpoint.format != "weights" else None
        file = checkpoint.graph or own if runtime.backend.needs_onnx else own
        if file and str(file) not in str(error):
            error.args = (f"{file}: {error}",)
        raise


def _by_runtime(evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
    groups: dict[tuple[str, str], list[Evaluation]] = {}
    for each in evaluations:
        groups.setdefault((each.runtime.name, each.runtime.precision), []).append(each)
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

    def predict(self) -> Iterator[Predicted]:
        """Predict each evaluation or build its engine; open a session only if one is not stored."""
        built = self._built()
        ordered = sorted(self.evaluations, key=lambda each: not each.aligned)
        known = {each.key: built.get(each.key) or self._known(each) for each in ordered}
        stored = ((each, ended) for each in ordered if (ended := known[each.key]) is not None)
        several = []
        for evaluation, ended in chain(
            stored, self._run([each for each in ordered if known[each.key] is None])
        ):
            if isinstance(ended, Measured) and self._is_built_again(evaluation):
                several.append((evaluation, ended))
            else:
                yield Predicted(evaluation, ended)
        # now that the session is closed: one engine is in memory at a time
        for evaluation, measured in several:
            yield Predicted(evaluation, measured, self._spread(evaluation, measured.value))

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

    def _run(
        self, evaluations: Sequence[Evaluation]
    ) -> Iterator[tuple[Evaluation, Outcome[Answer]]]:
        """Open the runtime once and predict each key; a failed path leaves the others."""
        if not evaluations:
            return
        with ExitStack() as stack:
            opened = capture(partial(self._open, evaluations[0], stack))
            ended: dict[str, Outcome[Answer]] = {}
            for each in evaluations:
                if not isinstance(opened, Measured):
                    yield each, opened
                    continue
                if each.key not in ended:
                    ended[each.key] = capture(partial(self._answer, each, opened.value))
                yield each, ended[each.key]

    def _open(self, evaluation: Evaluation, stack: ExitStack) -> Session:
        with _named(self.checkpoint, self.runtime):
            file = model_file(evaluation, self.checkpoint, self.sets, self.context.workspace)
            opened = open_session(self.runtime, self.checkpoint, file)
            session = stack.enter_context(opened)
        shared = shared_session(self.context.rank, self.runtime, self.checkpoint, file)
        stack.enter_context(shared)
        return session

    def _answer(self, evaluation: Evaluation, session: Session) -> Answer:
        with _named(self.checkpoint, self.runtime):
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

    def _is_built_again(self, evaluation: Evaluation) -> bool:
        own = evaluation.preprocess.name == evaluation.training.preprocess.name
        return own and self.runtime.builds > 1

    def _spread(self, evaluation: Evaluation, answer: Answer) -> BuildSpread:
        runtime = self.runtime
        if runtime.backend.own_path or runtime.backend.live:
            reason = "what preprocesses or answers by itself is not built"
            return BuildSpread(builds=1, reason=reason)
        # each build has a workspace of its own: from the shared one it would be read, not built
        first, samples = answer.predictions, self.sets.evaluation
        prepared = self.sets.evaluated(evaluation.preprocess.name)
        inputs = tensors_of(prepared, evaluation, self.checkpoint)
        decoder = AnswerDecoder.of(evaluation.task, self.checkpoint, samples.classes)

        def predicted(session: Session) -> Answers:
            raw = records_of(session, inputs, decoder, samples, self.batch_size)
            return decoder.answers(first.ids, raw.records, samples)

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
            lambda: measure_spread(first, predicted, build, builds=runtime.builds),
        )


def built_engine(
    evaluation: Evaluation, checkpoint: Checkpoint, sets: Sets, workspace: Workspace
) -> Measured[EngineFacts] | Failed:
    """Build the engine of an evaluation that cannot run here, or find it stored; describe it."""
    backend = evaluation.runtime.backend
    assert isinstance(backend, EngineBuilder)

    @_named(checkpoint, evaluation.runtime)
    def work() -> EngineFacts:
        file = model_file(evaluation, checkpoint, sets, workspace)
        assert file is not None
        return backend.described(file)

    return capture(work)


def measure_spread(
    first: Answers,
    predicted: Callable[[Session], Answers],
    build: Callable[[], AbstractContextManager[Session]],
    *,
    builds: int,
) -> BuildSpread:
    """Compare ``builds`` builds, of which ``first`` are the answers of one; open one at a time.

    ``predicted`` gives a session's answers to the same images. If a build fails, the result holds
    its reason and no spread.
    """
    several = [first]

    def again() -> None:
        for _ in range(1, builds):
            with build() as session:
                several.append(predicted(session))

    if isinstance(ended := capture(again), Failed):
        return BuildSpread(builds=len(several), reason=ended.message)
    return spread_of(several)


def spread_of(several: Sequence[Answers]) -> BuildSpread:
    """Count the images that builds answer differently, and compute the range of every number."""
    first, *others = several
    flipped = np.zeros(len(first), np.bool_)
    for other in others:
        flipped |= first.changed(other)
    counts = {"builds": len(several), "images": len(first), "flips": int(flipped.sum())}
    numbers = [found for each in several if (found := each.raw_rows()) is not None]
    if len(numbers) < len(several):
        return BuildSpread(**counts, reason=f"outputs are not compared: {first.no_logits}")
    if not all(np.isfinite(each).all() for each in numbers):
        return BuildSpread(**counts, reason="a build gives outputs that are not finite")
    # float64: a difference of float32 logits is not rounded once more
    least, greatest = numbers[0].astype(np.float64), numbers[0].astype(np.float64)
    for each in numbers[1:]:
        np.minimum(least, each, out=least)
        np.maximum(greatest, each, out=greatest)
    apart = greatest - least
    return BuildSpread(**counts, max_abs=float(apart.max()), mean_abs=float(apart.mean()))


def spread_stored(
    cell: dict[str, Any], builds: int, workspace: Workspace, measure: Callable[[], BuildSpread]
) -> BuildSpread:
    """Return the spread stored for a cell's parts, or measure it; a failed build is not stored."""
    parts = {**cell, "builds": builds}
    label = f"{builds} builds"
    known = workspace.recall("spreads", content_key(parts), label, _read_spread)
    if known is not None:
        return known
    spread = measure()
    # a failure may be gone tomorrow
    if spread.builds == builds:
        with workspace.store("spreads", parts, label) as filling:
            write_atomically(filling / "spread.json", json.dumps(spread.model_dump(mode="json")))
    return spread


def _read_spread(folder: Path) -> BuildSpread:
    return BuildSpread.model_validate_json((folder / "spread.json").read_text())
