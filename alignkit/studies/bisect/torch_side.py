"""A side that runs torch in float32: outputs of a module's layers, by their names in the export.

The exporter names a node by the modules around it (``/layer1/layer1.0/conv1/Conv``). A layer's
output is that of the last node in its scope; a batch norm that was folded into the convolution
before it takes over that convolution's output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from alignkit.studies.bisect.isolated_layer import Activations

if TYPE_CHECKING:
    import torch

    from alignkit.arrays import Batch
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.studies.bisect import Values
    from alignkit.studies.bisect.graph import Layer


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
    scopes = {
        _module_of(node.name): node.output[0] for node in graph.graph.node if "/" in node.name
    }
    found = Activations()
    before = ""

    def record(path: str, kind: str, output: Values) -> None:
        nonlocal before
        if path in scopes:
            before = scopes[path]
            found.keep(before, output)
        elif kind.startswith("BatchNorm") and before:
            found.keep(before, output)

    found.keep(graph.graph.output[0].name, _run(checkpoint, batch, record))
    return found


def _module_of(node: str) -> str:
    """Return a node's module: ``/layer1/layer1.0/conv1/Conv`` → ``layer1.0.conv1``."""
    parts: list[str] = []
    before = ""
    for each in node.strip("/").split("/")[:-1]:
        inside = before and each.startswith(f"{before}.")
        parts.append(each[len(before) + 1 :] if inside else each)
        before = each
    return ".".join(parts)


def _run(
    checkpoint: Checkpoint, batch: Batch, record: Callable[[str, str, Values], None]
) -> Values:
    """Return the logits; ``record`` is called with (path, class, output) of each layer call.

    The second call of a layer has the suffix ``_1`` at its path, as in the export.
    """
    import torch

    from alignkit.models.architectures import load_model
    from alignkit.torch_settings import available_threads, reproducible

    model = load_model(checkpoint)
    calls = Counter[str]()

    def hook(path: str) -> Any:
        def called(layer: torch.nn.Module, _inputs: Any, output: Any) -> None:
            if isinstance(output, torch.Tensor):
                number = calls[path]
                calls[path] += 1
                name = f"{path}_{number}" if number else path
                record(name, type(layer).__name__, output.numpy())

        return called

    if not isinstance(model, torch.jit.ScriptModule | torch.fx.GraphModule):
        for path, layer in model.named_modules():
            if path and next(layer.children(), None) is None:
                layer.register_forward_hook(hook(path))
    with reproducible(torch.device("cpu"), available_threads()), torch.inference_mode():
        logits: Values = model(torch.from_numpy(batch)).numpy()
    return logits
