"""ONNX Runtime's execution providers: their options and their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.plugins import NO_GPU, gpu_present

if TYPE_CHECKING:
    from alignkit.backends import Precision

PROVIDERS = {
    "cpu": "CPUExecutionProvider",
    "cuda": "CUDAExecutionProvider",
    "tensorrt": "TensorrtExecutionProvider",
}
OPTIMISATION_LEVELS = {
    "all": "ORT_ENABLE_ALL",
    "extended": "ORT_ENABLE_EXTENDED",
    "basic": "ORT_ENABLE_BASIC",
    "disabled": "ORT_DISABLE_ALL",
}


def why_impossible(precision: Precision, provider: str, optimisation: str) -> str:
    """Return why the provider cannot run a precision here; empty if it can be tried."""
    if precision == "int8" and provider != "cpu":
        return "int8 kernels are those of the CPU provider"
    if precision == "int8" and optimisation != "all":
        return (
            "int8 kernels are made by fusing, at 'optimisation: all'; below it every layer "
            "computes in float32"
        )
    if precision == "tf32" and provider == "cpu":
        return "tf32 is the arithmetic of NVIDIA GPUs; a CPU has none"
    if precision == "fp16" and provider == "tensorrt":
        return (
            "ONNX Runtime does not tell what its TensorRT engines compute in, so fp16 cannot be "
            "verified; the backend tensorrt inspects its own"
        )
    if provider != "cpu" and not gpu_present():
        return f"{PROVIDERS[provider]} {NO_GPU}"
    return ""


def provider_options(provider: str, precision: Precision) -> dict[str, str]:
    """Return the options of a provider for a precision."""
    if provider != "cuda":
        return {}
    # CUDA's defaults are TF32, and kernels that are chosen by timing them
    return {
        "use_tf32": "1" if precision == "tf32" else "0",
        "cudnn_conv_algo_search": "HEURISTIC",
    }
