"""Torch's process-wide settings: numbers, threads and log levels, set for a block and restored.

The float32 precision is set by torch's newer per-operator switches; its older ``allow_tf32`` ones
raise when the two disagree, and are left alone.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Literal

from alignkit.errors import MissingDependency
from alignkit.extras import missing_library
from alignkit.plugins import NO_GPU, Plugin, gpu_present

if TYPE_CHECKING:
    import torch
    from torch import nn

CUBLAS = "CUBLAS_WORKSPACE_CONFIG"
DETERMINISTIC_KERNELS: dict[str, Any] = {"deterministic": True}
"""Options of inductor: it chooses no kernel by timing it."""
TORCH_EXTENSIONS = "torch.utils.cpp_extension"
"""Logger that warns on its first import where there is a CUDA toolkit and no GPU."""


@contextmanager
def quiet(logger: str = "") -> Iterator[None]:
    """Silence what a logger (by default the root) logs below errors while the block runs.

    For messages of a library that the user cannot act on.
    """
    # the level and not a filter: a filter of a logger does not hold for its children
    silenced = logging.getLogger(logger)
    level = silenced.level
    silenced.setLevel(logging.ERROR)
    try:
        yield
    finally:
        silenced.setLevel(level)


def missing_device(device: Literal["cpu", "cuda"]) -> str:
    """Explain why torch cannot compute on a device here; empty if it can. Does not import torch."""
    if device == "cpu":
        return ""
    if not gpu_present():
        return f"cuda: {NO_GPU}; set device: cpu"
    if Plugin(target="", distributions=("torch",)).version().endswith("+cpu"):
        return "cuda: the installed torch is a CPU build; install one for CUDA from pytorch.org"
    return ""


def require_device(device: Literal["cpu", "cuda"]) -> torch.device:
    """Return the torch device; raise `MissingDependency` instead of returning another one."""
    import torch

    if reason := missing_device(device):
        raise MissingDependency(reason)
    if device == "cuda" and not torch.cuda.is_available():
        raise MissingDependency(
            "cuda: torch sees no usable GPU; compare its CUDA version "
            f"({torch.version.cuda}) with the driver's (nvidia-smi)"
        )
    return torch.device(device)


def usable_cpus() -> int:
    """Count the CPUs this process may use: the threads that decode images. No import of torch."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_ASKED: ContextVar[int] = ContextVar("threads")


@contextmanager
def threads_of(number: int) -> Iterator[None]:
    """Give the sessions that open in the block so many threads, those of another process.

    Sums depend on their number, so that a worker computes with the driver's.
    """
    before = _ASKED.set(number)
    try:
        yield
    finally:
        _ASKED.reset(before)


def available_threads() -> int:
    """Return torch's number of CPU threads, which every runtime gets and the record names.

    The default is one for each core this process may use; ``OMP_NUM_THREADS`` lowers it. Without
    torch the two numbers are read here. Inside `threads_of` it is the number given there.
    """
    if asked := _ASKED.get(0):
        return asked
    if missing_library("torch"):
        limit = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
        return min(usable_cpus(), int(limit)) if limit.isdecimal() else usable_cpus()
    import torch

    return torch.get_num_threads()


@contextmanager
def float32_precision(precision: Literal["ieee", "tf32"]) -> Iterator[None]:
    """Compute float32 convolutions and matrix products as IEEE float32, or in TF32 on a GPU."""
    import torch

    backends: Any = torch.backends
    switches = (
        backends.cuda.matmul,
        backends.cudnn.conv,
        backends.cudnn.rnn,
        backends.mkldnn.matmul,
        backends.mkldnn.conv,
        backends.mkldnn.rnn,
    )
    # each is restored to its own value, which a user may have set one by one
    before = [switch.fp32_precision for switch in switches]
    try:
        for switch in switches:
            # a CPU has no TF32; oneDNN would use bfloat16 in its place
            switch.fp32_precision = precision if switch in switches[:3] else "ieee"
        yield
    finally:
        for switch, value in zip(switches, before, strict=True):
            switch.fp32_precision = value


@contextmanager
def reproducible(
    device: torch.device, threads: int, float32: Literal["ieee", "tf32"] = "ieee"
) -> Iterator[None]:
    """Run a block with deterministic kernels, one float32 precision and ``threads`` CPU threads.

    Random draws inside do not disturb torch's generators outside. An operation without a
    deterministic kernel raises `RuntimeError`. Compile with `DETERMINISTIC_KERNELS` inside it.
    """
    import torch

    memory: Any = torch.utils.deterministic
    cudnn = torch.backends.cudnn
    before = (
        torch.get_deterministic_debug_mode(),
        memory.fill_uninitialized_memory,
        cudnn.benchmark,
        torch.get_num_threads(),
        os.environ.get(CUBLAS),
    )
    try:
        _choose_deterministic(2)
        # every buffer that torch allocates here is written before it is read
        memory.fill_uninitialized_memory = False
        cudnn.benchmark = False
        torch.set_num_threads(threads)
        os.environ[CUBLAS] = ":4096:8"  # cuBLAS is deterministic with a fixed workspace only
        forked = [device] if device.type == "cuda" else []
        with float32_precision(float32), torch.random.fork_rng(devices=forked):
            yield
    finally:
        _choose_deterministic(before[0])
        memory.fill_uninitialized_memory = before[1]
        cudnn.benchmark = before[2]
        torch.set_num_threads(before[3])
        if before[4] is None:
            os.environ.pop(CUBLAS, None)
        else:
            os.environ[CUBLAS] = before[4]


def _choose_deterministic(mode: int) -> None:
    """Set torch's mode of deterministic kernels: 0 any, 1 warn of others, 2 raise for others."""
    import torch

    # it also sets an option of inductor, and would import it for that, which takes seconds
    if "torch._inductor.config" in sys.modules:
        torch.use_deterministic_algorithms(mode > 0, warn_only=mode == 1)
    else:
        torch.set_deterministic_debug_mode(mode)


def named_arithmetic(survives: Callable[[float], bool]) -> Literal["ieee", "tf32", "bf16"]:
    """Name the arithmetic of float32 products by the values that they leave unchanged.

    1 + 2⁻¹² is exact with float32's 23 bits of mantissa and rounds to 1 with the 10 of TF32;
    1 + 2⁻⁹ survives TF32 and rounds to 1 with the 7 of bfloat16.
    """
    if survives(1 + 2.0**-12):
        return "ieee"
    return "tf32" if survives(1 + 2.0**-9) else "bf16"


def observed_float32(device: torch.device) -> Literal["ieee", "tf32", "bf16"]:
    """Measure the arithmetic that torch's float32 products and convolutions use now."""
    import torch
    from torch.nn import functional

    def survives(value: float) -> bool:
        filled = torch.full((1, 64, 32, 32), value, device=device)
        weights = torch.eye(64, device=device)
        product = filled[0].reshape(64, -1).T @ weights
        image = functional.conv2d(filled, weights[:, :, None, None])
        return bool((product == value).all() and (image == value).all())

    with torch.inference_mode():
        return named_arithmetic(survives)


_WEIGHTED = ("convolution", "conv2d", "linear", "addmm", "mm", "bmm", "_convolution")
"""Operators that multiply by weights; a graph without layers is judged by them."""


@contextmanager
def recorded_dtypes(model: nn.Module) -> Iterator[set[str]]:
    """Record the dtypes that a module's layers return in the block, e.g. ``{"float16"}``."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: set[str] = set()

    def record(_layer: nn.Module, _inputs: Any, output: Any) -> None:
        if isinstance(output, torch.Tensor):
            seen.add(str(output.dtype).removeprefix("torch."))

    class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            output = func(*args, **(kwargs or {}))
            if func.overloadpacket.__name__ in _WEIGHTED:
                record(model, args, output)
            return output

    # a loaded graph has no layers to hook: its operators are recorded
    if isinstance(model, torch.jit.ScriptModule | torch.fx.GraphModule):
        with Operators():  # type: ignore[no-untyped-call]
            yield seen
        return
    # only innermost layers compute; a container returns what its last layer did
    layers = [each for each in model.modules() if next(each.children(), None) is None]
    handles = [layer.register_forward_hook(record) for layer in layers]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
