"""Engines of an experiment, built on this machine and not run: `alignkit run --engines-only`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.backends import EngineBuilder
from alignkit.engines import build_engine, engine_parts
from alignkit.errors import ConfigError, MissingDependency
from alignkit.outcome import Failed, Measured, Skipped, capture
from alignkit.plan.made_models import with_made_models
from alignkit.plan.plan_keys import keyed_plan
from alignkit.predict import model_source
from alignkit.record.study_documents import BuiltEngine
from alignkit.train import train_chosen
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.workspace import Context, Workspace


def build_engines(
    experiment: Experiment, context: Context, *, cells: Sequence[str] = ()
) -> tuple[BuiltEngine, ...]:
    """Build the engine of every model, seed, backend and precision.

    Models are prepared, trained and exported as in a run, and stored work is not repeated. Engines
    that cannot be built here come last. Raises `ConfigError` if the experiment has no backend that
    builds engines, `MissingDependency` if none can be built here.
    """
    experiment = with_made_models(experiment, context)
    plan = keyed_plan(experiment, context.workspace, cells=cells)
    chosen, impossible = _chosen(plan)
    own, sets, ended = train_chosen(plan, chosen, context)
    built = []
    with context.progress.stage("build", len(own.evaluations), "every engine") as stage:
        for each in own.evaluations:
            stage.note(each.label)
            model = ended[each.training.key]
            if isinstance(model, Measured):
                built.append(_built(each, model.value, sets, context.workspace))
            else:
                reason = model.reason if isinstance(model, Skipped) else model.message
                built.append(BuiltEngine(**_place(each), reason=f"there is no model: {reason}"))
            stage.advance(1)
    built += [BuiltEngine(**_place(e), reason=e.skipped, missing=True) for e in impossible]
    return tuple(built)


def _chosen(plan: Plan) -> tuple[list[Evaluation], list[Evaluation]]:
    """Choose one evaluation of each model and runtime: those to build, and those impossible here.

    All paths of a model share its engine, so that the first that can build it is chosen.
    """
    first: dict[tuple[str, str, str], Evaluation] = {}
    for each in sorted(plan.evaluations, key=lambda each: not _can_build(each)):
        if isinstance(each.runtime.backend, EngineBuilder):
            first.setdefault((each.training.key, each.runtime.name, each.runtime.precision), each)
    if not first:
        raise ConfigError(
            "evaluate.backends: none builds an engine; add {name: tensorrt-rtx, precision: [fp16]}"
        )
    chosen = [each for each in first.values() if _can_build(each)]
    if not chosen:
        raise MissingDependency(next(iter(first.values())).skipped)
    return chosen, [each for each in first.values() if not _can_build(each)]


def _can_build(evaluation: Evaluation) -> bool:
    return evaluation.builds_engine or not evaluation.skipped


def _place(evaluation: Evaluation) -> dict[str, str | int]:
    return {
        "trained_with": str(evaluation.training.row),
        "seed": evaluation.training.seed,
        "backend": evaluation.runtime.name,
        "precision": evaluation.runtime.precision,
    }


def _built(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    sets: Sets,
    workspace: Workspace,
) -> BuiltEngine:
    backend, precision = evaluation.runtime.backend, evaluation.runtime.precision
    assert isinstance(backend, EngineBuilder)

    def work() -> BuiltEngine:
        source = model_source(evaluation, checkpoint, sets, workspace)
        folder = build_engine(backend, source, precision, workspace)
        return BuiltEngine(
            **_place(evaluation),
            engine=backend.described(folder),
            key=content_key(engine_parts(backend, source, precision)),
            folder=folder.relative_to(workspace.root).as_posix(),
        )

    ended = capture(work)
    if isinstance(ended, Failed):
        return BuiltEngine(**_place(evaluation), reason=ended.message)
    return ended.value
