"""Sessions of torch: a module on its device in a verified precision, eager or compiled whole."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import nn

from alignkit.backends.session_outputs import as_outputs, wanted_names
from alignkit.errors import BackendError
from alignkit.models.module_outputs import named_outputs, takes_a_list
from alignkit.models.user_model import LONE_OUTPUT
from alignkit.torch_settings import DETERMINISTIC_KERNELS, TORCH_EXTENSIONS, quiet

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.backends import Precision
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.tasks import Outputs

NARROW = {"fp16": "float16", "bf16": "bfloat16"}


@dataclass(slots=True, eq=False)
class TorchSession:
    """A module on its device."""

    model: nn.Module
    device: torch.device
    layout: torch.memory_format
    precision: Precision
    threads: int
    outputs: tuple[str, ...] = ()
    """Names of the wanted outputs; empty for the only one."""
    observed: dict[str, str] = field(default_factory=dict)
    compiled: Compiled | None = None

    def predict(self, batch: Batch) -> Outputs:
        """Return the wanted outputs for (samples, 3, height, width) float32.

        Raises `BackendError` if the module returns none of them, or no tensors.
        """
        with self._arithmetic(), torch.inference_mode():
            images = torch.from_numpy(batch).to(
                self.device, getattr(torch, NARROW.get(self.precision, "float32"))
            )
            run = self.compiled or self.model
            images = images.contiguous(memory_format=self.layout)
            found = named_outputs(run([*images] if takes_a_list(self.model) else images))
            # a tensor that is returned alone has no name of its own
            lone = [*found] == [LONE_OUTPUT] and len(self.outputs) == 1
            names = [LONE_OUTPUT] if lone else wanted_names(self.outputs, [*found])
            return as_outputs(_array(found[each]) for each in names)

    def verify(self, height: int, width: int) -> None:
        """Run one image; raise `BackendError` unless it is computed in the session's precision."""
        from alignkit.torch_settings import observed_float32, recorded_dtypes

        wanted = NARROW.get(self.precision, "float32")
        with recorded_dtypes(self.model) as seen:  # any image shows them
            self.predict(np.zeros((1, 3, height, width), np.float32))
        if not seen:
            raise BackendError(
                f"torch {self.precision}: no layer with weights ran, so that its precision cannot "
                "be verified"
            )
        if seen != {wanted}:
            raise BackendError(f"torch {self.precision}: layers return {', '.join(sorted(seen))}")
        self.observed["device"] = str(self.device)
        self.observed["layers return"] = f"{wanted}, verified"
        if wanted == "float32":
            with self._arithmetic():
                products = observed_float32(self.device)
            if products != self._products:
                raise BackendError(f"torch {self.precision}: products are computed in {products}")
            self.observed["float32 products"] = f"{products}, verified"
        self.observed["layout"] = str(self.layout).removeprefix("torch.")
        self.observed["threads"] = str(self.threads)

    @property
    def _products(self) -> Literal["ieee", "tf32"]:
        return "tf32" if self.precision == "tf32" else "ieee"

    def compile(self, height: int, width: int, compiler: str) -> None:
        """Replace the eager module by generated kernels, and run one image through them.

        Raises `BackendError` if the graph cannot be compiled whole.
        """
        self.compiled = Compiled(self.model, compiler)
        self.predict(np.zeros((1, 3, height, width), np.float32))

    def effective(self) -> dict[str, str]:
        """Return the verified facts of the run."""
        compiled = self.compiled.facts() if self.compiled else {}
        return {"precision": self.precision, **self.observed, **compiled}

    def close(self) -> None:
        """Free the weights, and the kernels."""
        if self.compiled:
            self.compiled.close()
        del self.model

    def _arithmetic(self) -> AbstractContextManager[None]:
        from alignkit.torch_settings import reproducible

        return reproducible(self.device, self.threads, self._products)


def _array(output: torch.Tensor) -> npt.NDArray[Any]:
    """Copy an output to the CPU, as float32 unless it holds whole numbers."""
    kind = torch.float32 if output.is_floating_point() else output.dtype
    array: npt.NDArray[Any] = output.to("cpu", kind).numpy()
    return array


@dataclass(slots=True, eq=False)
class Compiled:
    """A module compiled by inductor, with the sizes of its graphs."""

    module: nn.Module
    compiler: str
    """Name and version of the compiler of the kernels."""
    graphs: list[int] = field(default_factory=list)
    """Number of operations of each graph, one for each batch size; each is the whole module."""
    run: Any = field(init=False)

    def __post_init__(self) -> None:
        with quiet(TORCH_EXTENSIONS):
            import torch.utils.cpp_extension  # torch.compile imports it, and it logs

        # fullgraph: a graph that cannot be captured whole raises and does not run eagerly
        self.run = torch.compile(self.module, backend=self._inductor, fullgraph=True, dynamic=False)

    def __call__(self, images: Any) -> Any:
        """Return what the module returns; raise `BackendError` if torch cannot compile it."""
        from torch._dynamo.exc import TorchDynamoException

        try:
            output = self.run(images)
        except TorchDynamoException as error:
            reason = next(filter(None, map(str.strip, str(error).splitlines())), "")
            raise BackendError(f"torch.compile: {type(error).__name__}: {reason}") from error
        if not self.graphs:
            raise BackendError("torch.compile ran this module without compiling it")
        return output

    def facts(self) -> dict[str, str]:
        """Describe for a report how much was compiled, and in how many versions."""
        return {
            "compiled by": f"inductor, whole graph, {self.compiler}",
            "compiled graphs": f"{len(self.graphs)}, one a batch size",
            "compiled operations": str(self.graphs[0]) if self.graphs else "none yet",
        }

    def close(self) -> None:
        """Free the kernels."""
        torch.compiler.reset()  # torch keeps at most eight versions of a module's code
        del self.run

    def _inductor(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with warnings.catch_warnings():  # inductor's own import uses what torch deprecates
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            from torch._inductor.compile_fx import compile_fx
        self.graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return compile_fx(graph, inputs, config_patches=DETERMINISTIC_KERNELS)


def round_pools_up(model: nn.Module, checkpoint: Checkpoint) -> str:
    """Set ``ceil_mode`` in every max-pool; say how many of them then give another size.

    This is the only difference between training and serving that changes the model itself.
    Raises `BackendError` for a model without a max-pool that rounds down.
    """
    pools = [each for each in model.modules() if isinstance(each, nn.MaxPool2d)]
    changed = [pool for pool in pools if not pool.ceil_mode]
    if not changed:
        raise BackendError(
            f"torch ceil_mode: {checkpoint.model} has no max-pooling layer that rounds down"
        )
    for pool in changed:
        pool.ceil_mode = True
    larger: list[nn.Module] = []

    def note(pool: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        assert isinstance(pool, nn.MaxPool2d)
        down = nn.functional.max_pool2d(
            inputs[0], pool.kernel_size, pool.stride, pool.padding, pool.dilation
        )
        if down.shape != output.shape:
            larger.append(pool)

    # ceil_mode changes only sizes that the stride does not divide
    handles = [pool.register_forward_hook(note) for pool in changed]
    with torch.inference_mode():
        model(torch.zeros(1, 3, checkpoint.height, checkpoint.width))
    for handle in handles:
        handle.remove()
    return f"ceil mode; {len(larger)} of {len(pools)} layers give another size by it"
