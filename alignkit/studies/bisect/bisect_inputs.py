"""A cell of an experiment, or ONNX files and a folder of images → the inputs of a bisection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

import numpy as np
from pydantic import ValidationError

from alignkit.arrays import Batch, Pixels
from alignkit.backends import BACKENDS, Precision
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment import Mistakes
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.option import plugin_from
from alignkit.experiment.yaml_source import parse
from alignkit.models.checkpoint import Checkpoint, EngineSource
from alignkit.outcome import Measured, Skipped
from alignkit.plan import Plan
from alignkit.plan.made_models import with_made_models
from alignkit.plan.plan_keys import keyed_plan
from alignkit.plan.work import Evaluation, Runtime
from alignkit.plugins import did_you_mean
from alignkit.predict import model_source
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, take_pixels
from alignkit.stored_file import file_sha256
from alignkit.studies.bisect.layer_graph import Layer, inputs_of, layers_of, load_graph
from alignkit.studies.bisect.layer_sides import ONNXSide, TorchSide
from alignkit.train import train_models
from alignkit.workspace import Context

_FORM = "TRAINED/EVALUATED/BACKEND/PRECISION"


@dataclass(frozen=True, slots=True, eq=False)
class BisectInputs:
    """Two sides and the layers to compare."""

    reference: TorchSide | ONNXSide
    candidate: ONNXSide
    layers: tuple[Layer, ...]
    model: str
    images: int

    def __post_init__(self) -> None:
        """Raise `NothingCompared` if one runtime runs one graph on both sides, or a copy of it."""
        one, other = self.reference, self.candidate
        if isinstance(one, ONNXSide) and _runs(one) == _runs(other):
            raise NothingCompared(
                f"both sides run the same graph in {other.runtime.name} "
                f"{other.runtime.precision}; name another runtime or another graph"
            )


def _runs(side: ONNXSide) -> tuple[str, str, str]:
    return side.runtime.name, side.runtime.precision, file_sha256(side.file)


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
    experiment = with_made_models(experiment, context)
    plan = keyed_plan(experiment, context.workspace)
    evaluation = chosen_cell(plan, cell)
    training = evaluation.training
    base = next(each for each in plan.evaluations if each.aligned and each.training == training)
    # nothing else is prepared or trained
    own = replace(plan, trainings=(training,), evaluations=(evaluation,))
    train, evaluated = plan.samples("train"), plan.samples("eval")
    sets = prepare_sets(own.experiment.paths, train, evaluated, context, trains=own.trains)
    [trained] = train_models(own, sets, context)
    if not isinstance(trained.ended, Measured):
        ended = trained.ended
        why = ended.reason if isinstance(ended, Skipped) else ended.message
        raise NothingCompared(f"there is no model for {evaluation.place}: {why}")
    checkpoint = trained.ended.value
    prepared = sets.evaluated(evaluation.preprocess.name)
    # the first images of one size, where a path's varies
    _, stop = prepared.spans(prepared.decoded, count)[0]
    pixels = prepared.batch(prepared.decoded[:stop], evaluation.preprocess.normalise)
    batch = np.ascontiguousarray(pixels)  # runtimes take no view
    source = model_source(evaluation, checkpoint, sets, context.workspace)
    return BisectInputs(
        _reference(reference or base.runtime, source, batch),
        ONNXSide(evaluation.runtime, checkpoint, source.onnx, batch, source.calibration),
        layers_of(load_graph(source.onnx)),
        f"{training.label} on {evaluation.preprocess.name}",
        len(batch),
    )


def chosen_cell(plan: Plan, cell: str) -> Evaluation:
    """Return the evaluation that ``TRAINED/EVALUATED/BACKEND/PRECISION`` names, of the first seed.

    Raises `ConfigError`.
    """
    # from the end, so that a place keeps its first seed, and the plan's first place comes last
    followed = {
        str(each.place): each
        for each in reversed(plan.evaluations)
        if each.runtime.backend.needs_onnx and not each.aligned and not each.runtime.backend.live
    }
    if cell in followed:
        return followed[cell]
    if evaluation := next((each for each in plan.evaluations if str(each.place) == cell), None):
        require_followed(evaluation.runtime.name, needs_onnx=evaluation.runtime.backend.needs_onnx)
        raise ConfigError(f"--cell {cell!r} is in the reference runtime; name another runtime's")
    if cell or not followed:
        listed = "\n  ".join(reversed(followed)) or "none: no other backend runs an ONNX graph"
        raise ConfigError(f"--cell {cell!r}: write it as {_FORM}; there are\n  {listed}")
    return [*followed.values()][-1]


def _reference(runtime: Runtime, source: EngineSource, batch: Batch) -> TorchSide | ONNXSide:
    if runtime.backend.needs_onnx:
        return ONNXSide(runtime, source.checkpoint, source.onnx, batch, source.calibration)
    if runtime.precision != "fp32":
        raise ConfigError(
            f"the reference runtime is {runtime.name} {runtime.precision}; bisect knows torch's "
            "layers in fp32 only: give --reference 'onnxruntime fp32'"
        )
    return TorchSide(source.checkpoint, load_graph(source.onnx), batch)


def inputs_from_files(
    model: Path,
    against: Path | None,
    images: Sequence[Path],
    preprocess: str,
    *,
    reference: Runtime,
    candidate: Runtime,
    count: int,
    size: int | None = None,
) -> BisectInputs:
    """Prepare one graph in two runtimes, or two graphs whose tensors have the same names.

    ``against`` is the second graph. ``preprocess`` is an argument of
    `alignkit.search.target.preprocess_of`; ``size`` is the input's side in pixels where the graph
    leaves it open.
    """
    graph = load_graph(model)
    height, width = _size(model, graph, size, count)
    batch = _batch(_path(preprocess, height, width), images, count)
    other = against or model
    labels = (f"({model.name})", f"({other.name})") if against else ("", "")
    sides = [
        ONNXSide(
            runtime,
            Checkpoint(file.stem, 0, height, width, file, file_sha256(file), "onnx"),
            file,
            batch,
            label=label,
        )
        for runtime, file, label in zip((reference, candidate), (model, other), labels, strict=True)
    ]
    return BisectInputs(sides[0], sides[1], layers_of(graph), str(model), len(batch))


def _size(file: Path, graph: Any, asked: int | None, count: int) -> tuple[int, int]:
    """Return the graph's (height, width); ``asked`` where it leaves them open."""
    inputs = inputs_of(graph)
    shape = [each.dim_value for each in inputs[0].type.tensor_type.shape.dim] if inputs else []
    if len(inputs) != 1 or len(shape) != 4 or shape[1] not in (0, 3):
        raise ConfigError(f"{file}: a model of images with one input, Nx3xHxW, is needed")
    if shape[0] not in (0, count):
        raise ConfigError(
            f"{file} takes exactly {shape[0]} images at a time; give --count {shape[0]}"
        )
    height, width = shape[2] or asked, shape[3] or asked
    if not height or not width:
        raise ConfigError(f"{file} leaves the size of its input open; give --size")
    return height, width


def _path(text: str, height: int, width: int) -> Preprocess:
    from alignkit.search.target import preprocess_of

    path = preprocess_of(text, height)
    if path.varies:
        raise ConfigError(
            f"--preprocess {text} gives images of varying sizes, and one batch runs on both sides; "
            "name a path without 'auto'"
        )
    if path.size != (height, width):
        prepared = "x".join(map(str, path.size))
        raise ConfigError(
            f"--preprocess {text} prepares {prepared}, and the model takes {height}x{width}; name "
            "a path of a file, FILE.yaml:NAME"
        )
    return path


def _batch(path: Preprocess, images: Sequence[Path], count: int) -> Batch:
    from alignkit.datasets.unlabelled_images import Images

    samples = Images(tuple(images)).evaluation()
    taken: list[Pixels] = []
    for (found,) in take_pixels([path], encoded_images(samples)):
        if found.pixels is not None:
            taken.append(found.pixels)
        if len(taken) == count:  # the rest of a large folder is not decoded
            break
    if not taken:
        raise NothingCompared(f"{path.name} decodes none of {len(samples)} images")
    return np.ascontiguousarray(path.normalise(cast("Pixels", np.stack(taken))))


def runtime_named(text: str) -> Runtime:
    """Parse a backend's name, its options as KEY=VALUE, and a precision (by default fp32).

    Raises `ConfigError` for a mistake, or a backend that bisect cannot follow.
    """
    name, *words = text.split() or [""]
    precision: Any = "fp32"
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            source = parse(value, text)  # typed as in a file: 3 is a number
            if source.problems:
                raise Mistakes(source.problems)
            options[key] = source.value
        elif word in get_args(Precision):
            precision = word
        else:
            known = did_you_mean(word, get_args(Precision))
            raise ConfigError(f"{text!r}: {word!r} is no precision and no KEY=VALUE{known}")
    plugin = BACKENDS.find(name)
    try:
        backend = plugin_from(BACKENDS, {"name": name, **options})
    except ValidationError as error:
        raise ConfigError(f"{text!r}: {error.errors()[0]['msg']}") from None
    require_followed(name, needs_onnx=backend.needs_onnx)
    label = " ".join((name, *(f"{key}={value}" for key, value in sorted(options.items()))))
    reason = plugin.missing() or backend.impossible(precision)
    return Runtime(label, backend, precision, plugin.version(), reason)


def require_followed(name: str, *, needs_onnx: bool) -> None:
    """Raise `ConfigError` for a backend that does not run an ONNX graph."""
    if not needs_onnx:
        raise ConfigError(
            f"{name}: bisect follows the layers of an ONNX graph; compare a backend that runs one "
            "(onnxruntime, openvino). torch fp32 is the reference where the cell's model is torch's"
        )
