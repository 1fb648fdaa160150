"""Plugins as data: their class is imported when it is used, the only dynamic import of the package.

Each family (`decoders`, `resizers`, `backends`, `datasets`, `tasks`) has one `PluginTable` in its
`__init__`. The class a plugin names is a frozen dataclass whose fields are its options; its module
imports no heavy library at the top, so that `alignkit plan` can check options in milliseconds.
Other packages add plugins by the entry-point group ``alignkit.<family>``: docs/plugins.md.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from alignkit.errors import ConfigError, MissingDependency
from alignkit.extras import missing_library

NO_GPU = "needs an NVIDIA GPU, and this machine has none"
"""Part of every reason that a GPU would remove."""


UNPROVEN = "not yet run on hardware"
"""Label of an adapter that follows its library's documentation and that no GPU has run yet."""
ADDED_LATER = "added later"
"""Key in the metadata of a field: see `option_added_later`."""


def option_added_later(*, default: Any) -> Any:
    """Declare a field whose default is what the stage did before it had the option.

    At its default it is no part of the stage's identity: records, keys and approved baselines of
    before stay those of the same path.
    """
    return field(default=default, metadata={ADDED_LATER: True})


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
    package: str = ""
    """Distribution whose entry point adds it; empty for a plugin of alignkit."""
    broken: str = ""
    """Why its entry point cannot be used; such a plugin has no class."""

    def load(self) -> type[Any]:
        """Import and return the class. Its library is imported only when it is used."""
        module, _, name = self.target.partition(":")
        loaded: type[Any] = getattr(importlib.import_module(module), name)
        return loaded

    def library(self) -> Any:
        """Import and return the library's module."""
        return importlib.import_module(self.module)

    def version(self) -> str:
        """Return ``distribution version`` of the installed library without importing it.

        Of another package's plugin also the package's version and a hash of the class's module: a
        package that is being written changes without a new version.
        """
        installed = (each for each in self.distributions if _distribution_version(each))
        names = [next(installed, ""), self.package]
        parts = [f"{name} {_distribution_version(name)}" for name in dict.fromkeys(names) if name]
        if self.package and (source := _source_hash(self.target)):
            parts.append(f"source {source}")
        return ", ".join(parts)

    def missing(self) -> str:
        """Explain why this plugin cannot run here, with the fix; empty if it can."""
        if self.broken:
            return self.broken
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
    """Tell whether the NVIDIA driver shows a device, without importing torch.

    A container may be given another GPU than the first, and gVisor shows no ``/proc/driver``.
    """
    gpus = (Path("/proc/driver/nvidia/gpus").glob("*"), Path("/dev").glob("nvidia[0-9]*"))
    return any(map(any, gpus))


class PluginTable(MutableMapping[str, Plugin]):
    """The plugins of a family by name: alignkit's own, then those of other packages.

    Entry points are read when a name is not alignkit's own or all names are asked for.
    """

    def __init__(self, family: str, own: Mapping[str, Plugin]) -> None:
        self.family = family
        self.own = dict(own)

    @cached_property
    def outside(self) -> dict[str, Plugin]:
        """The plugins of other packages. No package replaces one of alignkit's own."""
        group = f"alignkit.{self.family}"
        found: dict[str, Plugin] = {}
        for entry in metadata.entry_points(group=group):
            package = entry.dist.name if entry.dist else ""
            plugin = _outside_plugin(entry, package)
            if before := found.get(entry.name):
                both = " and ".join(sorted({before.package or "?", package or "?"}))
                plugin = Plugin("", package=package, broken=f"{both} both add it; remove one")
            found[entry.name] = plugin
        return {name: plugin for name, plugin in found.items() if name not in self.own}

    def known(self) -> dict[str, Plugin]:
        """Return alignkit's own, and the others if they were read already."""
        return {**self.own, **self.__dict__.get("outside", {})}

    def find(self, name: str) -> Plugin:
        """Return the plugin of that name.

        Raises `ConfigError` with the nearest known name if there is none, and with the reason if
        another package's class cannot be imported.
        """
        if name not in self:
            raise ConfigError(f"no {self.kind} {name!r}{did_you_mean(name, self)}")
        if reason := self.reason(name):
            raise ConfigError(f"{self.kind} {name!r}: {reason}")
        return self[name]

    def reason(self, name: str) -> str:
        """Explain why the class of a plugin cannot be imported; empty if it can."""
        plugin = self[name]
        if plugin.broken or not plugin.package:
            return plugin.broken
        try:
            plugin.load()
        except Exception as error:  # noqa: BLE001 - whatever another package's module raises
            return _unusable(plugin.package, error)
        return ""

    @property
    def kind(self) -> str:
        """The family's name in the singular."""
        return self.family.removesuffix("s")

    def __getitem__(self, name: str) -> Plugin:
        return self.own[name] if name in self.own else self.outside[name]

    def __setitem__(self, name: str, plugin: Plugin) -> None:
        self.own[name] = plugin

    def __delitem__(self, name: str) -> None:
        del self.own[name]

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from self.outside

    def __len__(self) -> int:
        return len(self.own) + len(self.outside)


def _outside_plugin(entry: metadata.EntryPoint, package: str) -> Plugin:
    """Read an entry point: it names a `Plugin`, or the plugin's class."""
    try:
        found = entry.load()
    except Exception as error:  # noqa: BLE001 - whatever another package's module raises
        return Plugin("", package=package, broken=_unusable(package, error))
    if isinstance(found, Plugin):
        return replace(found, package=package)
    if isinstance(found, type) and is_dataclass(found):
        summary = (found.__doc__ or "").strip().split("\n")[0]
        target = f"{found.__module__}:{found.__qualname__}"
        return Plugin(target, package=package, summary=summary)
    wanted = "a frozen dataclass or an alignkit.plugins.Plugin"
    reason = f"its entry point of {package or 'a package'} is {entry.value}, expected {wanted}"
    return Plugin("", package=package, broken=reason)


def _unusable(package: str, error: Exception) -> str:
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return f"its package {package or '(unnamed)'} cannot be imported: {said}; install it again"


@cache
def _source_hash(target: str) -> str:
    """Hash the file of a target's module: 8 hex digits; empty for a module without a file."""
    spec = importlib.util.find_spec(target.partition(":")[0])
    if spec is None or not spec.origin or not Path(spec.origin).is_file():
        return ""
    return hashlib.sha256(Path(spec.origin).read_bytes()).hexdigest()[:8]


def name_of(instance: Any, table: PluginTable) -> str:
    """Return the name under which the table holds an instance's class; else the class's name."""
    target = f"{type(instance).__module__}:{type(instance).__qualname__}"
    for name, plugin in table.known().items():
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
