"""One cell of an experiment → the inputs of a bisection: its reference runtime, and its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import ConfigError, NothingCompared
from alignkit.outcome import Measured, Skipped
from alignkit.plan import Plan
from alignkit.plan.rekey import keyed_plan
from alignkit.plan.runtime import Runtime
from alignkit.plan.work import Evaluation
from alignkit.predict.model_file import model_source
from alignkit.prepare.sets import Sets, prepare_sets
from alignkit.studies.bisect.graph import Layer, layers_of, load_graph
from alignkit.studies.bisect.onnx_side import ONNXSide
from alignkit.studies.bisect.runtime import require_followed
from alignkit.studies.bisect.torch_side import TorchSide
from alignkit.train import train_models

if TYPE_CHECKING:
    from alignkit.arrays import Batch
    from alignkit.experiment.experiment import Experiment
    from alignkit.models.checkpoint import EngineSource
    from alignkit.studies.bisect import BisectSide, Candidate
    from alignkit.workspace import Context

_FORM = "TRAINED/EVALUATED/BACKEND/PRECISION"


@dataclass(frozen=True, slots=True, eq=False)
class BisectInputs:
    """Two sides and the layers to compare."""

    reference: BisectSide
    candidate: Candidate
    layers: tuple[Layer, ...]
    model: str
    images: int


def inputs_from_cell(
    experiment: Experiment,
    cell: str,
    *,
    reference: Runtime | None,
    count: int,
    context: Context,
) -> BisectInputs:
    """Prepare the cell's model and images; work that a run stored is not repeated.

    ``reference`` replaces the row's reference runtime. An empty ``cell`` is the first cell in
    another runtime that runs a graph. Raises `ConfigError` for a cell the plan does not have, or
    whose runtime runs no graph.
    """
    plan = keyed_plan(experiment, context.workspace)
    evaluation = chosen_cell(plan, cell)
    training = evaluation.training
    base = next(each for each in plan.evaluations if each.aligned and each.training == training)
    own = replace(plan, trainings=(training,), evaluations=(evaluation,))
    sets = prepare_sets(
        own.preprocesses, own.data.training(), own.data.evaluation(), context, trains=own.trains
    )
    [trained] = train_models(own, sets, context)
    if not isinstance(trained.ended, Measured):
        ended = trained.ended
        why = ended.reason if isinstance(ended, Skipped) else ended.message
        raise NothingCompared(f"there is no model for {evaluation.place}: {why}")
    checkpoint = trained.ended.value
    batch = _batch(evaluation, sets, count)
    source = model_source(evaluation, checkpoint, sets, context.workspace)
    graph = load_graph(source.onnx)
    return BisectInputs(
        _reference(reference or base.runtime, source, batch),
        ONNXSide(evaluation.runtime, checkpoint, source.onnx, batch, source.calibration),
        layers_of(graph),
        f"{training.label} on {evaluation.preprocess.name}",
        len(batch),
    )


def chosen_cell(plan: Plan, cell: str) -> Evaluation:
    """Return the evaluation that ``TRAINED/EVALUATED/BACKEND/PRECISION`` names, of the first seed.

    Raises `ConfigError`.
    """
    followed = {
        str(each.place): each
        for each in reversed(plan.evaluations)
        if each.runtime.backend.needs_onnx and not each.aligned and not each.runtime.backend.live
    }
    if cell in followed:
        return followed[cell]
    known = [*dict.fromkeys(str(each.place) for each in plan.evaluations)]
    if cell in known:
        evaluation = next(each for each in plan.evaluations if str(each.place) == cell)
        require_followed(evaluation.runtime.name, needs_onnx=evaluation.runtime.backend.needs_onnx)
        raise ConfigError(f"--cell {cell!r} is in the reference runtime; name another runtime's")
    if cell or not followed:
        listed = "\n  ".join(reversed(followed)) or "none: no other backend runs an ONNX graph"
        raise ConfigError(f"--cell {cell!r}: write it as {_FORM}; there are\n  {listed}")
    return [*followed.values()][-1]


def _batch(evaluation: Evaluation, sets: Sets, count: int) -> Batch:
    prepared = sets.evaluated(evaluation.preprocess.name)
    chosen = prepared.decoded[:count]
    return np.ascontiguousarray(prepared.batch(chosen, evaluation.preprocess.normalise))


def _reference(runtime: Runtime, source: EngineSource, batch: Batch) -> BisectSide:
    if runtime.backend.needs_onnx:
        return ONNXSide(runtime, source.checkpoint, source.onnx, batch, source.calibration)
    if runtime.precision != "fp32":
        raise ConfigError(
            f"the reference runtime is {runtime.name} {runtime.precision}; bisect knows torch's "
            "layers in fp32 only: give --reference 'onnxruntime fp32'"
        )
    return TorchSide(source.checkpoint, load_graph(source.onnx), batch)
