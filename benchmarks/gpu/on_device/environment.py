"""Part 1: what this machine is. Nothing here needs alignkit."""

from __future__ import annotations

import ctypes
import glob
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from common import has_cuda, main_of, said

PACKAGES = [
    "torch",
    "torchvision",
    "numpy",
    "onnx",
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxscript",
    "opencv-python-headless",
    "pandas",
    "scikit-learn",
    "jinja2",
    "pyarrow",
    "typer",
    "timm",
    "scipy",
    "pillow",
    "pydantic",
    "simplejpeg",
    "jpeglib",
    "platformdirs",
    "xxhash",
    "rich",
    "filelock",
    "triton",
    "nvidia-nvimgcodec-cu13",
    "nvidia-dali-cuda130",
    "nvidia-nvjpeg",
    "cvcuda-cu13",
    "torchpipe",
    "omniback",
    "tensorrt",
    "tensorrt-rtx-cu13",
    "nvidia-cudnn-cu13",
    "nvidia-cublas",
    "kornia",
    "pytest",
    "psutil",
]


def command(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=20)
        return (done.stdout + done.stderr).strip()[:4000]
    except Exception as error:  # noqa: BLE001
        return said(error)


def machine() -> dict:
    return {
        "python": sys.version, "platform": platform.platform(), "cpus": os.cpu_count(),
        "glibc": " ".join(platform.libc_ver()),
        "affinity": len(os.sched_getaffinity(0)),
        "cpu": next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ""),
        "flags": next((line.split(":")[1].split() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), []),
        "memory": Path("/proc/meminfo").read_text().splitlines()[:3],
        "devices": sorted(glob.glob("/dev/nvidia*")), "proc_gpus": glob.glob("/proc/driver/nvidia/gpus/*"),
        "driver_file": Path("/proc/driver/nvidia/version").read_text() if Path("/proc/driver/nvidia/version").exists() else None,
        "nvidia-smi": command("nvidia-smi"),
        "query": command("nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.sm,clocks.mem,power.limit,mig.mode.current", "--format=csv"),
        "nvcc": command("nvcc", "--version"), "gcc": command("g++", "--version").splitlines()[:1],
        "tools": {name: command("which", name) for name in ("ninja", "cmake", "xz", "zstd", "patchelf")},
        "nvjpeg_files": command("bash", "-c", "ls -l /usr/local/cuda*/lib64/libnvjpeg* /usr/local/cuda*/include/nvjpeg.h /usr/lib/x86_64-linux-gnu/libnvjpeg* 2>/dev/null; ldconfig -p | grep -iE 'nvjpeg|nvinfer|libcuda'"),
    }  # fmt: skip


def packages() -> dict:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def torch_facts() -> dict:
    import torch
    import torchvision

    facts = {
        "torch": torch.__version__,
        "torchvision": torchvision.__version__,
        "cuda": torch.version.cuda,
        "available": has_cuda(),
    }
    if has_cuda():
        facts |= {
            "name": torch.cuda.get_device_name(), "capability": torch.cuda.get_device_capability(),
            "properties": str(torch.cuda.get_device_properties(0)), "cudnn": torch.backends.cudnn.version(),
            "memory": torch.cuda.mem_get_info(), "matmul_precision": torch.get_float32_matmul_precision(),
            "allow_tf32": [torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32],
        }  # fmt: skip
    return facts


def nvjpegs() -> dict:
    """Every nvJPEG on this machine: version, and whether its hardware backend opens (0: it does)."""
    import torch
    import torchvision

    if has_cuda():
        torch.cuda.init()
    places = [Path(torchvision.__file__).parents[1] / "torchvision.libs/libnvjpeg*"]
    places += [Path(each) / "nvidia/cu13/lib/libnvjpeg.so*" for each in sys.path if each]
    places += [Path("/usr/local/cuda/lib64/libnvjpeg.so*")]
    found = {}
    for pattern in places:
        for file in sorted(glob.glob(str(pattern))):
            try:
                library, value, handle = ctypes.CDLL(file), ctypes.c_int(), ctypes.c_void_p()
                version = ".".join(
                    str((library.nvjpegGetProperty(part, ctypes.byref(value)), value.value)[1])
                    for part in range(3)
                )
                opened = {}
                for name, number in {
                    "default": 0,
                    "hybrid": 1,
                    "gpu-hybrid": 2,
                    "hardware": 3,
                    "gpu-hybrid-device": 4,
                    "hardware-device": 5,
                    "lossless": 6,
                }.items():
                    opened[name] = (
                        library.nvjpegCreateEx(
                            number, None, None, ctypes.c_uint(0), ctypes.byref(handle)
                        )
                        if has_cuda()
                        else "no CUDA"
                    )
                engines, cores = ctypes.c_uint(), ctypes.c_uint()
                if has_cuda() and hasattr(library, "nvjpegGetHardwareDecoderInfo"):
                    library.nvjpegCreateEx(3, None, None, ctypes.c_uint(0), ctypes.byref(handle))
                    status = library.nvjpegGetHardwareDecoderInfo(
                        handle, ctypes.byref(engines), ctypes.byref(cores)
                    )
                    opened["engines"] = [status, engines.value, cores.value]
                found[file] = {"version": version, "backends": opened}
            except Exception as error:  # noqa: BLE001
                found[file] = said(error)
    return found


def optional() -> dict:
    """Import each optional library, in a process of its own since one may end it."""
    found = {}
    for module in (
        "alignkit",
        "jpeglib",
        "simplejpeg",
        "nvidia.nvimgcodec",
        "nvidia.dali",
        "torchpipe",
        "onnxruntime",
        "cvcuda",
        "tensorrt",
        "tensorrt_rtx",
    ):
        code = f"import {module} as m, sys; print(getattr(m, '__version__', ''), getattr(m, '__file__', ''))"
        try:
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
            )
            found[module] = (
                (done.stdout.strip() or done.stderr.strip()[-500:])
                if done.returncode == 0
                else f"exit {done.returncode}: {done.stderr.strip()[-600:]}"
            )
        except subprocess.TimeoutExpired:
            found[module] = "timed out"
    return found


def ours() -> dict:
    from alignkit.plugins import gpu_present

    return {"gpu_present": gpu_present(), "torch_agrees": gpu_present() == has_cuda()}


if __name__ == "__main__":
    raise SystemExit(main_of("environment", {
        "machine": machine, "packages": packages, "torch": torch_facts, "nvjpeg": nvjpegs, "imports": optional, "alignkit": ours,
    }))  # fmt: skip
