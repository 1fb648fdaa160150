"""Environment of a run: versions, codec builds, GPU, flags that change numbers, git revision."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from alignkit.backends import BACKENDS
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.machine import (
    command_output,
    cpu_name,
    gpu_name,
    library_settings,
    vector_extensions,
)
from alignkit.record import Environment
from alignkit.resizers import RESIZERS
from alignkit.tasks import TASKS
from alignkit.version import __version__

_LIBRARIES = ("numpy", "onnx", "pandas", "pyarrow", "scikit-learn", "scipy")
"""Libraries that every run computes with, besides those of the plugins."""
_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_VISIBLE_DEVICES",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "OPENCV_FOR_THREADS_NUM",
)
"""Environment variables that change times or choose devices; recorded if set, as
`library_settings` are, which keys have too."""
_version = cache(metadata.version)  # an upgrade changes nothing that this process has loaded


def environment(decoders: Collection[str] = tuple(DECODERS.own)) -> Environment:
    """Describe this process and machine.

    Imports the libraries of the decoders named, by default of all of alignkit's own.
    """
    return Environment(
        python=platform.python_version(),
        platform=platform.platform(),
        cpu=cpu_name(),
        cores=os.cpu_count() or 1,
        gpu=gpu_name(),
        versions=versions(),
        codecs=codecs(decoders),
        flags=flags(),
        git=git_revision(Path.cwd()),
        extensions=vector_extensions(),
    )


def versions() -> dict[str, str]:
    """Return the version of every installed distribution that a run may compute with."""
    names = {
        distribution
        for family in (BACKENDS, DATASETS, DECODERS, RESIZERS, TASKS)
        for plugin in family.known().values()
        for distribution in (*plugin.distributions, *filter(None, [plugin.package]))
    }
    found = {"alignkit": __version__}
    for name in sorted(names.union(_LIBRARIES)):
        with suppress(metadata.PackageNotFoundError):  # the plugins that need it say so
            found[name] = _version(name)
    return found


def codecs(decoders: Collection[str] = tuple(DECODERS.own)) -> dict[str, str]:
    """Return the library and codec build that each decoder really runs; by default our own."""
    return {
        name: plugin.load()().version()
        for name, plugin in DECODERS.known().items()
        if name in decoders and not plugin.missing()
    }


def flags() -> dict[str, str]:
    """Return settings of this process that change numbers or times; torch's if it is imported."""
    import cv2

    found = {"cv2 threads": str(cv2.getNumThreads()), **_torch_flags()}
    named = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    return found | named | library_settings()


def _torch_flags() -> dict[str, str]:
    torch = sys.modules.get("torch")
    if torch is None:  # nothing was computed with it
        return {}
    return {
        "torch threads": str(torch.get_num_threads()),
        "torch deterministic algorithms": _on(torch.are_deterministic_algorithms_enabled()),
        "torch float32 matmul precision": torch.get_float32_matmul_precision(),
        "cudnn TF32": _on(torch.backends.cudnn.allow_tf32),
        "cudnn benchmark": _on(torch.backends.cudnn.benchmark),
        "torch CPU capability": torch.backends.cpu.get_cpu_capability(),
    }


def _on(value: bool) -> str:
    return "on" if value else "off"


def git_revision(folder: Path) -> str:
    """Return the commit of the repository around ``folder``; empty outside git.

    ``-dirty`` follows it if tracked files differ from it.
    """
    if not shutil.which("git"):  # a record needs no git
        return ""
    git = ["git", "-C", str(folder)]
    revision = command_output([*git, "rev-parse", "HEAD"])
    if not revision:
        return ""
    changed = command_output([*git, "status", "--porcelain", "--untracked-files=no"])
    return f"{revision}-dirty" if changed else revision
