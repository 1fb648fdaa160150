"""Plugins as data: their class is imported when it is used, the only dynamic import of the package.

Each family (`decoders`, `resizers`, `backends`, `datasets`) has one table of `Plugin` in its
`__init__`. The class a plugin names is a frozen dataclass whose fields are its options; its module
imports no heavy library at the top, so that `alignkit plan` can check options in milliseconds.
Third parties add plugins by the entry-point group ``alignkit.<family>``.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from typing import Any

from alignkit.errors import ConfigError, MissingDependency

NO_GPU = "needs an NVIDIA GPU, and this machine has none"
"""Part of every reason that a GPU would remove."""


UNPROVEN = "not yet run on hardware"
"""Label of an adapter that follows its library's documentation and that no GPU has run yet."""


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
    """The extra of alignkit that installs it; empty if the base install does."""
    gpu: bool = False
    """Needs an NVIDIA GPU."""
    unproven: bool = False
    """Whether `UNPROVEN` is shown wherever the plugin is listed, and in the record."""
    summary: str = ""
    """One line for `alignkit list`."""

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
        if self.module and not _importable(self.module):
            fix = (
                f"alignkit[{self.extra}]"
                if self.extra
                else (self.distributions or (self.module,))[0]
            )
            return f"{self.module} is not installed: pip install '{fix}'"
        return ""

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
def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package of a dotted name is absent
        return False


@cache
def gpu_present() -> bool:
    """Tell whether the NVIDIA driver shows a device, without importing torch."""
    from pathlib import Path

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
    if near := nearest(word, known):
        *others, last = map(repr, near)
        return f"; did you mean {' or '.join([', '.join(others), last] if others else [last])}?"
    names = sorted(map(str, known))
    return f"; known: {', '.join(names)}" if names else ""


def nearest(word: str, known: Any) -> list[str]:
    """Return the known names that ``word`` may mean, at most three, the likeliest first.

    These are the names that begin with it, first those that run here, by ``missing()`` of the
    values of ``known`` if they have it; or else one of a similar spelling.

    >>> nearest("onnx", ["torch", "onnxruntime"]), nearest("pilow", ["pillow"]), nearest("x", ["y"])
    (['onnxruntime'], ['pillow'], [])
    """
    # late: only a mistake needs it
    from difflib import SequenceMatcher, get_close_matches

    names = {str(each): each for each in known}

    def absent(name: str) -> bool:
        plugin: Any = known[names[name]] if isinstance(known, Mapping) else None
        return hasattr(plugin, "missing") and bool(plugin.missing())

    begun = [name for name in names if name.casefold().startswith(word.casefold())]
    if begun and word:
        return sorted(begun, key=absent)[:3]
    close = get_close_matches(word, names, cutoff=0.55)
    likeness = [SequenceMatcher(None, name, word).ratio() for name in close]
    # a name that runs here goes before one that is spelt as nearly
    alike = [name for name, each in zip(close, likeness, strict=True) if each > likeness[0] - 0.1]
    return sorted(alike, key=absent)[:1]
