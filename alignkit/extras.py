"""Optional libraries: the extra of alignkit that installs each, and what is said without one.

The core computes with pixels alone. Models, runtimes and other stacks come with extras. Every
reason that a library is not here is made here, so that all surfaces name the same fix.
"""

from __future__ import annotations

import importlib.util
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from alignkit.errors import MissingDependency

EXTRAS = {
    "aiohttp": "http-json",
    "dask": "dask",
    "distributed": "dask",
    "faiss": "embedding",
    "fsspec": "remote",
    "nncf": "nncf",
    "omniback": "torchpipe",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "openvino": "openvino",
    "pandas": "train",
    "pycocotools": "detection",
    "pytorch_metric_learning": "embedding",
    "ray": "ray",
    "scipy": "train",
    "sklearn": "train",
    "tensorboard": "tensorboard",
    "timm": "timm",
    "torch": "train",
    "torchpipe": "torchpipe",
    "torchvision": "train",
    "tritonclient": "kserve",
}
"""Import name of a library outside the core → the extra that installs it."""
_CORE = {
    "PIL": "pillow", "cv2": "opencv-python", "filelock": "", "jinja2": "", "jpeglib": "",
    "numpy": "", "platformdirs": "", "pyarrow": "", "simplejpeg": "", "xxhash": "",
    "yaml": "pyyaml",
}  # fmt: skip
"""Import name of a library of the core → its distribution, if it has another name."""
_NOT_ON_WINDOWS = ("fcntl", "resource")


def missing_library(module: str, *, extra: str = "", distribution: str = "") -> str:
    """Say that a library is not installed, with the fix; empty if it is. Does not import it.

    ``extra`` is by default that of `EXTRAS`; where there is none, the fix is the ``distribution``.
    """
    if _importable(module):
        return _misfit_torch() if module == "torchpipe" else ""
    if not has_wheel(module):
        machine = f"{platform.system()} on {platform.machine()}"
        return f"{module} is not installed, and has no wheel for {machine}"
    extra = extra or EXTRAS.get(module, "")
    fix = f"alignkit[{extra}]" if extra else distribution or module
    return f"{module} is not installed: pip install '{fix}'"


def require_libraries(*modules: str) -> None:
    """Raise one `MissingDependency` that names every library that is not installed, and the fix."""
    reasons = {module: reason for module in modules if (reason := missing_library(module))}
    # one command installs these; the others have reasons of their own
    joined = [e for e in reasons if e in EXTRAS and has_wheel(e) and not _importable(e)]
    if len(joined) > 1:
        extras = ",".join(sorted({EXTRAS[each] for each in joined}))
        *first, last = joined
        text = f"{', '.join(first)} and {last} are not installed: pip install 'alignkit[{extras}]'"
        reasons = {each: text if each in joined else reasons[each] for each in reasons}
    if reasons:
        raise MissingDependency("; ".join(dict.fromkeys(reasons.values())))


def missing_dependency(error: ModuleNotFoundError) -> MissingDependency | None:
    """Return the error to show for a failed import; ``None`` if it is a defect."""
    module = (error.name or "").partition(".")[0]
    if module in _NOT_ON_WINDOWS:
        return MissingDependency(
            "alignkit decodes images in forked processes, which Windows does not have: run it in "
            "WSL 2 or in its Docker image (docs/install.md)"
        )
    if module in _CORE and not _importable(module):
        fix = _CORE[module] or module
        return MissingDependency(
            f"{module} is not installed, and alignkit needs it: pip install {fix}"
        )
    reason = missing_library(module) if module in EXTRAS else ""
    return MissingDependency(reason) if reason else None


@cache
def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package of a dotted name is absent
        return False


def has_wheel(module: str) -> bool:
    """Tell whether a library has a wheel for this platform, as the markers of pyproject.toml do."""
    linux, x86 = platform.system() == "Linux", platform.machine() == "x86_64"
    if module == "torchpipe":
        return linux and x86
    return module != "jpeglib" or x86 or not linux


@cache
def _misfit_torch() -> str:
    """Say that torchpipe has no CPU core for the installed torch; empty if it has one."""
    try:
        torch = metadata.version("torch")
    except metadata.PackageNotFoundError:
        return missing_library("torch", extra="torchpipe")
    spec = importlib.util.find_spec("torchpipe")
    folders = (spec and spec.submodule_search_locations) or ()
    release = "".join(torch.split(".")[:2])
    if any(True for each in folders for _ in Path(each, "lib").glob(f"*_core-torch{release}-*")):
        return ""
    return (
        f"torchpipe {metadata.version('torchpipe')} has no core for torch {torch}: "
        "pip install 'alignkit[torchpipe]' replaces torch by a version that it has"
    )
