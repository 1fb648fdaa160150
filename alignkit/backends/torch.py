"""PyTorch, eager or compiled by inductor.

fp32 is IEEE float32, whatever torch's global settings are; tf32 is a precision of its own, on a
GPU. bf16 and fp16 convert weights and inputs (no autocast). Opening a model verifies its precision:
by the type that every layer returns, and for fp32 and tf32 by a probe of exact products.

``compile: true`` verifies the eager module in the same way and then runs inductor's kernels.
They are generated for each batch size, on a CPU by a C++ compiler. In the narrow precisions too,
fused operations may keep their intermediate values in float32.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from importlib.util import find_spec
from typing import TYPE_CHECKING, ClassVar, Literal

from alignkit.backends import Backend
from alignkit.errors import BackendError
from alignkit.machine import processor_flags
from alignkit.torch_settings import missing_device

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Device, Precision
    from alignkit.backends.torch_session import TorchSession
    from alignkit.models.checkpoint import Checkpoint


_NATIVE_FLAGS = {
    "bf16": frozenset({"avx512_bf16", "amx_bf16", "avx_ne_convert", "bf16"}),
    "fp16": frozenset({"avx512_fp16", "amx_fp16", "avx_ne_convert", "asimdhp"}),
}
"""Precision → processor flags, x86's and ARM's, of which torch's CPU kernels need one."""


@dataclass(frozen=True, slots=True)
class TorchBackend(Backend):
    """PyTorch, which runs the module as it was trained."""

    needs_onnx: ClassVar[bool] = False
    precisions: ClassVar[tuple[Precision, ...]] = ("fp32", "tf32", "fp16", "bf16")
    own_path: ClassVar[str] = ""
    any_size: ClassVar[bool] = True
    device: Literal["cpu", "cuda"] = "cpu"
    """``cpu``, or ``cuda`` for an NVIDIA GPU."""
    channels_last: bool = True
    """Whether weights and inputs are channels-last, which decides the convolution kernels."""
    ceil_mode: bool = False
    """Whether max-pooling rounds its output size up, as some runtimes do: a noise of SysNoise
    (Wang et al., MLSys 2023). Training always rounds down."""
    compile: bool = False
    """``torch.compile`` of the whole graph; nothing runs eagerly."""

    @property
    def on_cpu(self) -> bool:
        return self.device == "cpu"

    def impossible(self, precision: Precision) -> str:
        if precision not in self.precisions:
            return f"{precision} is not a precision of torch; {', '.join(self.precisions)} are"
        if precision == "tf32" and self.device == "cpu":
            return "tf32 is the arithmetic of NVIDIA GPUs; a CPU has none"
        compiler = missing_compiler(self.device) if self.compile else ""
        return missing_device(self.device) or compiler

    def emulated(self, precision: Precision) -> str:
        flags, native = processor_flags(), _NATIVE_FLAGS.get(precision, frozenset())
        # a system may hide its processor's flags: then nothing is known to be lacking
        if not self.on_cpu or not native or not flags or flags & native:
            return ""
        wide = precision == "bf16" and "avx512bw" in flags
        cost = "1.5 to 3.5 times as long as fp32" if wide else "5 to 15 times as long as fp32"
        held = "AVX-512" if wide else "AVX2"
        return (
            f"this processor has no {precision} instructions and torch emulates them, which took "
            f"{cost} on an Intel Xeon held to {held} (docs/evidence.md); not measured here"
        )

    def compiler(self) -> str:
        """Name the compiler of the kernels, C++ or Triton; empty without ``compile``."""
        return compiler_version(self.device) if self.compile else ""

    def open(self, checkpoint: Checkpoint, onnx: Path | None, precision: Precision) -> TorchSession:  # noqa: ARG002 - it is for other backends
        """Load the weights and verify the precision; raise `BackendError` if it differs."""
        import torch

        from alignkit.backends.torch_session import NARROW, TorchSession, round_pools_up
        from alignkit.models.architectures import load_model
        from alignkit.torch_settings import available_threads, require_device

        device = require_device(self.device)
        if reason := self.impossible(precision):
            raise BackendError(f"torch {precision}: {reason}")
        layout = torch.channels_last if self.channels_last else torch.contiguous_format
        model = load_model(checkpoint)
        # before the conversion: its trial runs in float32 on the CPU
        pools = round_pools_up(model, checkpoint) if self.ceil_mode else ""
        model = model.to(device, getattr(torch, NARROW.get(precision, "float32")))
        model = model.to(memory_format=layout)  # type: ignore[call-overload]
        threads = available_threads()
        session = TorchSession(model, device, layout, precision, threads, checkpoint.outputs)
        session.verify(checkpoint.height, checkpoint.width)
        if pools:
            session.observed["max-pooling"] = pools
        if self.compile:
            session.compile(checkpoint.height, checkpoint.width, self.compiler())
        return session

    def version(self) -> str:
        """Name torch and its CPU instructions or GPU: ``torch 2.12.1+cu130, AVX512``."""
        import torch

        if self.device == "cuda" and torch.cuda.is_available():
            return f"torch {torch.__version__}, {torch.cuda.get_device_name()}"
        return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}"


def missing_compiler(device: Device) -> str:
    """Return why inductor cannot generate kernels for a device; empty if it can."""
    if device == "cuda":
        return "" if find_spec("triton") else "compile: triton is not installed: pip install triton"
    compiler = os.environ.get("CXX", "g++")  # the choice that inductor makes
    if shutil.which(compiler):
        return ""
    return f"compile: there is no C++ compiler {compiler!r}: apt-get install g++, or set CXX"


def compiler_version(device: Device) -> str:
    """Name the compiler, which decides the kernels' arithmetic; empty if there is none.

    It is the C++ compiler, as in ``g++ (Debian 12.2.0-14) 12.2.0``, or Triton.
    """
    if missing_compiler(device):
        return ""
    if device == "cuda":
        return f"triton {metadata.version('triton')}"
    return _first_line(os.environ.get("CXX", "g++"))


@cache  # a plan asks for every cell's key
def _first_line(compiler: str) -> str:
    command = [compiler, "--version"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - the user's own compiler, as inductor calls it
    return done.stdout.partition("\n")[0]
