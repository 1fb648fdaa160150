"""``torch.compile`` of a whole graph, its requirements, and the proof that nothing ran eagerly."""

from __future__ import annotations

import os
import shutil
import subprocess
import warnings
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from alignkit.errors import BackendError
from alignkit.torch_settings import TORCH_EXTENSIONS, quiet

if TYPE_CHECKING:
    import torch
    from torch import nn


def missing_compiler(device: Literal["cpu", "cuda"]) -> str:
    """Return why inductor cannot generate kernels for a device; empty if it can."""
    if device == "cuda":
        return "" if find_spec("triton") else "compile: triton is not installed: pip install triton"
    if shutil.which(_compiler()):
        return ""
    return f"compile: there is no C++ compiler {_compiler()!r}: apt-get install g++, or set CXX"


def _compiler() -> str:
    return os.environ.get("CXX", "g++")


def compiler_version(device: Literal["cpu", "cuda"]) -> str:
    """Name the compiler, which decides the kernels' arithmetic; empty if there is none.

    It is the C++ compiler, as in ``g++ (Debian 12.2.0-14) 12.2.0``, or Triton.
    """
    if missing_compiler(device):
        return ""
    if device == "cuda":
        return f"triton {metadata.version('triton')}"
    return _first_line(_compiler())


@cache
def _first_line(compiler: str) -> str:
    command = [compiler, "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - the user's own compiler, as inductor calls it
    return done.stdout.partition("\n")[0]


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
        import torch

        with quiet(TORCH_EXTENSIONS):
            import torch.utils.cpp_extension  # torch.compile imports it, and it logs

        # fullgraph: a graph that cannot be captured whole raises and does not run eagerly
        self.run = torch.compile(self.module, backend=self._inductor, fullgraph=True, dynamic=False)

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return the module's output; raise `BackendError` if torch cannot compile the module."""
        from torch._dynamo.exc import TorchDynamoException

        try:
            output: torch.Tensor = self.run(images)
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
        import torch

        torch.compiler.reset()  # torch keeps at most eight versions of a module's code
        del self.run

    def _inductor(self, graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        with warnings.catch_warnings():  # inductor's own import uses what torch deprecates
            warnings.filterwarnings("ignore", "`torch.jit", DeprecationWarning)
            from torch._inductor.compile_fx import compile_fx
        self.graphs.append(sum(node.op.startswith("call") for node in graph.graph.nodes))
        return compile_fx(graph, inputs)
