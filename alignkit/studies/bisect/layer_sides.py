"""The two sides of a bisection: a graph in a backend, cut off behind a layer, or torch in float32.

torch gives the outputs of a module's layers, by their names in the export. The exporter names a
node by the modules around it (``/layer1/layer1.0/conv1/Conv``). A layer's output is that of the
last node in its scope; a batch norm that was folded into the convolution before it takes over that
convolution's output.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from alignkit.arrays import Batch
from alignkit.backends import Builder
from alignkit.engines import build_engine
from alignkit.errors import BackendError
from alignkit.models.checkpoint import Calibration, Checkpoint, EngineSource
from alignkit.plan.work import Runtime
from alignkit.predict import open_session
from alignkit.studies.bisect.layer_graph import (
    Activations,
    Layer,
    Values,
    cut,
    inputs_of,
    isolated_graph,
    load_graph,
    packed,
    tensors_of,
)
from alignkit.workspace import Workspace


@dataclass(eq=False)
class ONNXSide:
    """A graph in a backend; each cut is built, verified to run in its precision, and closed."""

    runtime: Runtime
    checkpoint: Checkpoint
    """Names, shapes and key; the weights are those of the graph."""
    file: Path
    batch: Batch
    calibration: Calibration | None = None
    label: str = ""
    """Addition to the runtime's name, e.g. the file it runs."""

    @property
    def name(self) -> str:
        """The runtime, its precision and the label, e.g. ``onnxruntime fp16``."""
        return " ".join(filter(None, (self.runtime.name, self.runtime.precision, self.label)))

    @cached_property
    def graph(self) -> Any:
        """The file, read."""
        return load_graph(self.file)

    @cached_property
    def _tensors(self) -> frozenset[str]:
        return frozenset(tensors_of(self.graph))

    def values(self, layer: Layer) -> Values | None:
        """Return the layer's output for the batch; ``None`` if this side has no such layer.

        Raises `BackendError` if the runtime cannot run the graph up to that layer.
        """
        if layer.tensor not in self._tensors:
            return None
        return self._run(cut(self.graph, layer.tensor), self.batch, layer.tensor)

    def isolated(self, layer: Layer, held: Activations) -> Values:
        """Return the layer's output for the reference's activations ``held``.

        Raises `BackendError` if the runtime cannot run the layer by itself.
        """
        backend, precision = self.runtime.backend, self.runtime.precision
        if isinstance(backend, Builder) and backend.calibration(precision):
            raise BackendError(
                f"{precision} takes its scales from images; alone, the layer would have others"
            )
        images = len(self.batch)
        [own_input] = inputs_of(self.graph)
        if own_input.name not in held.shapes:
            held.keep(own_input.name, self.batch)
        graph, fed = isolated_graph(self.graph, layer.tensor, held.shapes, images)
        return self._run(graph, packed(held, fed, images), f"{layer.tensor} alone")

    def _run(self, graph: Any, batch: Batch, what: str) -> Values:
        import onnx

        # a cut is another graph with one output
        checkpoint = replace(
            self.checkpoint,
            key=f"{self.checkpoint.key} to {what}",
            outputs=(),
            height=batch.shape[2],
            width=batch.shape[3],
        )
        with TemporaryDirectory(prefix="alignkit-") as folder:
            file = Path(folder) / "cut.onnx"
            onnx.save(graph, file)
            source = EngineSource(checkpoint, file, self.calibration)
            engine = build_engine(
                self.runtime.backend, source, self.runtime.precision, Workspace(Path(folder))
            )
            with open_session(self.runtime, checkpoint, engine) as session:
                return session.predict(batch)[0]


@dataclass(eq=False)
class TorchSide:
    """A module whose layers are all recorded on disk in one forward pass on the CPU."""

    checkpoint: Checkpoint
    graph: Any
    """The module's export."""
    batch: Batch
    name: str = "torch fp32"

    @cached_property
    def _known(self) -> Activations:
        return torch_layers(self.checkpoint, self.graph, self.batch)

    def values(self, layer: Layer) -> Values | None:
        """Return the recorded output; ``None`` if the module has no layer of that name."""
        return self._known.read(layer.tensor) if layer.tensor in self._known.shapes else None


def torch_layers(checkpoint: Checkpoint, graph: Any, batch: Batch) -> Activations:
    """Run torch and return its values of every exported tensor it has, and of the logits."""
    import torch

    from alignkit.models.architectures import load_model
    from alignkit.torch_settings import available_threads, reproducible

    scopes = {
        _module_of(node.name): node.output[0] for node in graph.graph.node if "/" in node.name
    }
    found, calls, before = Activations(), Counter[str](), ""

    def hook(path: str) -> Any:
        def called(layer: torch.nn.Module, _inputs: Any, output: Any) -> None:
            nonlocal before
            if not isinstance(output, torch.Tensor):
                return
            # the export too names the second call of a layer with the suffix ``_1``
            name = f"{path}_{calls[path]}" if calls[path] else path
            calls[path] += 1
            before = scopes.get(name, before)
            if name in scopes or (before and type(layer).__name__.startswith("BatchNorm")):
                found.keep(before, output.numpy())

        return called

    model = load_model(checkpoint)
    if not isinstance(model, torch.jit.ScriptModule | torch.fx.GraphModule):
        for path, layer in model.named_modules():
            # only a module without others inside is a layer
            if path and next(layer.children(), None) is None:
                layer.register_forward_hook(hook(path))
    with reproducible(torch.device("cpu"), available_threads()), torch.inference_mode():
        found.keep(graph.graph.output[0].name, model(torch.from_numpy(batch)).numpy())
    return found


def _module_of(node: str) -> str:
    """Return a node's module: ``/layer1/layer1.0/conv1/Conv`` → ``layer1.0.conv1``."""
    parts: list[str] = []
    before = ""
    for each in node.strip("/").split("/")[:-1]:
        # the exporter repeats a container's name in those of its children
        inside = before and each.startswith(f"{before}.")
        parts.append(each[len(before) + 1 :] if inside else each)
        before = each
    return ".".join(parts)
