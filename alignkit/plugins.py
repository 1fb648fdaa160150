"""Plugins and optional libraries as data: imported when used, or the extra that is missing named.

Each family (`decoders`, `resizers`, `backends`, `datasets`) has one table of `Plugin` in its
`__init__`. The class a plugin names is a frozen dataclass whose fields are its options; its module
imports no heavy library at the top, so that `alignkit plan` can check options in milliseconds.
Third parties add plugins by the entry-point group ``alignkit.<family>``.

The core computes with pixels alone. Models, runtimes and other stacks come with extras. Every
reason that a library is not here is made here, so that all surfaces name the same fix.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from alignkit.errors import ConfigError, MissingDependency

NO_GPU = "needs an NVIDIA GPU, and this machine has none"
"""Part of every reason that a GPU would remove."""


UNPROVEN = "not yet run on hardware"
"""Label of an adapter that follows its library's documentation and that no GPU has run yet."""

EXTRAS = {
    "aiohttp": "kserve",
    "nncf": "nncf",
    "omniback": "torchpipe",
    "onnx": "onnx",
    "onnxruntime": "onnx",
    "openvino": "openvino",
    "pandas": "train",
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


@dataclass(frozen=True, slots=True)
class Plugin:
    """Location of a plugin's class, and the distribution on which its numbers depend."""

    target: str
    """``package.module:Class``."""
    distributions: tuple[str, ...] = ()
    """Distributions any one of which provides the library; the first installed one is named in
    cache keys."""
    module: str = ""
    """Import name of the library; looked for, not imported, to see whether it is here."""
    extra: str = ""
    """The extra of alignkit that installs it; empty if the core has it."""
    gpu: bool = False
    """Needs an NVIDIA GPU."""
    unproven: bool = False
    """Whether `UNPROVEN` is shown wherever the plugin is listed, and in the record."""
    summary: str = ""
    """One line for `alignkit list`."""
    needs: tuple[str, ...] = ()
    """Import names of the other libraries that it uses, each of an extra of its own."""

    def load(self) -> type[Any]:
        """Import and return the class. Its library is imported only when it is used."""
        module, _, name = self.target.partition(":")
        loaded: type[Any] = getattr(importlib.import_module(module), name)
        return loaded

    def library(self) -> Any:
        """Import and return the library's module."""
        return importlib.import_module(self.module)

    def version(self) -> str:
        """Return ``distribution version`` of the installed library without importing it."""
        for distribution in self.distributions:
            if version := _distribution_version(distribution):
                return f"{distribution} {version}"
        return ""

    def missing(self) -> str:
        """Explain why this plugin cannot run here, with the fix; empty if it can."""
        # the GPU comes first: installing the library would not help without one
        if self.gpu and not gpu_present():
            return NO_GPU
        if not self.module:
            return ""
        distribution = next(iter(self.distributions), "")
        own = missing_library(self.module, extra=self.extra, distribution=distribution)
        return own or next(filter(None, map(missing_library, self.needs)), "")

    def require(self, name: str) -> None:
        """Raise `MissingDependency` if the plugin cannot run here."""
        reason = self.missing()
        if reason:
            raise MissingDependency(f"{name}: {reason}")


@cache
def _distribution_version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


@cache
def gpu_present() -> bool:
    """Tell whether the NVIDIA driver shows a device, without importing torch."""
    return any(Path("/proc/driver/nvidia/gpus").glob("*")) or Path("/dev/nvidia0").exists()


def find_plugin(family: str, table: dict[str, Plugin], name: str) -> Plugin:
    """Return the plugin of that name, from the family's table or from entry points.

    Raise `ConfigError` with the nearest known name if there is none.
    """
    # the table first: no third party can replace a plugin of alignkit
    if name in table:
        return table[name]
    entries = metadata.entry_points(group=f"alignkit.{family}", name=name)
    for entry in entries:
        return Plugin(target=entry.value, distributions=(entry.dist.name,) if entry.dist else ())
    raise ConfigError(f"no {family.rstrip('s')} {name!r}{did_you_mean(name, table)}")


def name_of(instance: Any, table: dict[str, Plugin]) -> str:
    """Return the name under which the table holds an instance's class; else the class's name."""
    target = f"{type(instance).__module__}:{type(instance).__qualname__}"
    for name, plugin in table.items():
        if plugin.target == target:
            return name
    return type(instance).__name__


def did_you_mean(word: str, known: Any) -> str:
    """Return ``; did you mean 'x'?``, or the list of known words."""
    # late: only a mistake needs it
    import difflib

    names = [str(each) for each in known]
    near = difflib.get_close_matches(word, names, n=1, cutoff=0.55)
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; known: {', '.join(sorted(names))}" if names else ""


def missing_library(module: str, *, extra: str = "", distribution: str = "") -> str:
    """Say that a library is not installed, with the fix; empty if it is. Does not import it.

    ``extra`` is by default that of `EXTRAS`; where there is none, the fix is the ``distribution``.
    """
    if _importable(module):
        return _misfit_torch() if module == "torchpipe" else ""
    if not _has_wheel(module):
        machine = f"{platform.system()} on {platform.machine()}"
        return f"{module} is not installed, and has no wheel for {machine}"
    extra = extra or EXTRAS.get(module, "")
    fix = f"alignkit[{extra}]" if extra else distribution or module
    return f"{module} is not installed: pip install '{fix}'"


def require_libraries(*modules: str) -> None:
    """Raise one `MissingDependency` that names every library that is not installed, and the fix."""
    reasons = {module: reason for module in modules if (reason := missing_library(module))}
    if len(reasons) > 1 and all(each in EXTRAS for each in reasons):
        extras = ",".join(sorted({EXTRAS[each] for each in reasons}))
        *first, last = reasons
        text = f"{', '.join(first)} and {last} are not installed: pip install 'alignkit[{extras}]'"
        raise MissingDependency(text)
    if reasons:
        raise MissingDependency("; ".join(reasons.values()))


def missing_dependency(error: ModuleNotFoundError) -> MissingDependency | None:
    """Return the error to show for a failed import; ``None`` if no extra installs the module."""
    module = (error.name or "").partition(".")[0]
    reason = missing_library(module) if module in EXTRAS else ""
    return MissingDependency(reason) if reason else None


@cache
def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package of a dotted name is absent
        return False


def _has_wheel(module: str) -> bool:
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
