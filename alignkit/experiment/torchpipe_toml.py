"""A torchpipe TOML file → the stages torchpipe 0.2.25 runs for it, and the keys it ignores.

A key above the first section holds for every node that does not set it; a section ``[global]`` is
dropped (``omniback.parse``). Nodes follow each other by ``next``. The import ends at the model:
TensorrtTensor's ``mean`` and ``std``, of values in 0..255, are `Normalise`.

A ``backend`` is read as the backends it calls, in order. Nesting is flattened, as it decides who
schedules and not what is computed: ``S[A,B]``, ``Sequential[A,B]`` and ``StreamGuard[S[A,B]]`` all
call A, then B. torchpipe fails for a bare ``A,B``, and passes arguments in parentheses to no
backend of an image.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from alignkit.datasets.regular_file import read_text
from alignkit.errors import ConfigError
from alignkit.experiment.imported_configuration import Stages
from alignkit.experiment.torchpipe_toml_stages import (
    GONE,
    SCHEDULING,
    TORCHPIPE_BACKENDS,
    image_stages,
)

_UNNAMED = "default_node_name"
"""The name torchpipe gives to the node of a file without sections."""
SEQUENTIAL = ("S", "Sequential")
WRAPPERS = ("SyncTensor", "StreamGuard", "With", "StreamPool", "TorchStreamPool")
"""Backends that choose a stream and wait for it; they change no pixels."""
_TOKEN = re.compile(r"[\[\],;()]|[^\[\],;()]+")


@dataclass(frozen=True, slots=True)
class Node:
    """A section of the file, with the keys that every section inherits."""

    name: str
    keys: dict[str, str]
    chain: tuple[str, ...]
    at: str
    """``file:line`` of its ``backend``."""


def stages_of_toml(file: Path, *, surrogate: bool = False) -> Stages:
    """Read the file; with ``surrogate``, CPU stand-ins replace the stages that run on a GPU.

    Raises `ConfigError` with ``file:line`` for a file that torchpipe refuses or that no
    `Preprocess` can express.
    """
    toml = _Toml.read(file)
    nodes = _in_order(toml)
    calls = [(name, node.keys, node.at) for node in nodes for name in node.chain]
    try:
        block, open_questions = image_stages(calls, surrogate=surrogate)
    except ConfigError as error:
        # errors of a call name the line already
        located = str(error).startswith(str(file))
        raise ConfigError(str(error) if located else f"{file}: {error}") from None
    warnings = [*_ignored(toml, nodes), *(f"{file}: {text}" for text in open_questions)]
    return Stages(block, "torchpipe-gpu" if surrogate else "", tuple(warnings))


@dataclass(frozen=True, slots=True)
class _Toml:
    """A file's keys by section (``""``: above the first one), each with its line from 1."""

    file: Path
    sections: dict[str, dict[str, Any]]
    lines: dict[tuple[str, str], int]

    @classmethod
    def read(cls, file: Path) -> _Toml:
        try:
            text = read_text(file)
            parsed = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{file}: not valid TOML: {error}") from None
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(f"{file}: cannot be read ({reason})") from None
        except ValueError as error:  # a number of many digits
            raise ConfigError(f"{file}: {str(error).partition(';')[0]}") from None
        except RecursionError:
            raise ConfigError(f"{file}: nested too deeply") from None
        sections = {name: keys for name, keys in parsed.items() if isinstance(keys, dict)}
        sections[""] = {key: given for key, given in parsed.items() if not isinstance(given, dict)}
        return cls(file, sections, _lines(text))

    def at(self, section: str, key: str = "") -> str:
        """Return ``file:line`` of a key, of its section, or of the file."""
        found = self.lines.get((section, key)) or self.lines.get((section, ""))
        return f"{self.file}:{found}" if found else str(self.file)


def _lines(text: str) -> dict[tuple[str, str], int]:
    """Return the line of each key and section head, which tomllib does not report."""
    section = ""
    lines: dict[tuple[str, str], int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"""\s*\[\s*["']?([^]"']+?)["']?\s*]""", line):
            section = head.group(1)
            lines.setdefault((section, ""), number)
        elif key := re.match(r"""\s*(?:"([^"]+)"|'([^']+)'|([\w-]+))\s*=""", line):
            lines.setdefault((section, next(filter(None, key.groups()))), number)
    return lines


def _in_order(toml: _Toml) -> list[Node]:
    """Return the nodes from the root on; an image must have one way through them."""
    shared = toml.sections[""]
    names = [name for name in toml.sections if name not in ("", "global")]
    given = {name: {**shared, **toml.sections[name]} for name in names} or {_UNNAMED: shared}
    nodes = {
        name: _node(toml, name, {key: _text(each) for key, each in keys.items()})
        for name, keys in given.items()
    }
    following = {name: node.keys.get("next", "") for name, node in nodes.items()}
    # an image enters at the node that no other hands it to
    roots = [name for name in nodes if name not in following.values()]
    if len(roots) != 1:
        raise ConfigError(f"{toml.file}: an image must enter at one node, not at {len(roots)}")
    order = [nodes[roots[0]]]
    while after := following[order[-1].name]:
        if after not in nodes or nodes[after] in order:
            why = "several ways for one image" if "," in after else "no such node"
            why = "back to a node before it" if after in nodes else why
            raise ConfigError(f"{toml.at(order[-1].name, 'next')}: next = {after!r}: {why}")
        order.append(nodes[after])
    if len(order) < len(nodes):
        raise ConfigError(f"{toml.file}: not every node follows from {order[0].name!r} by 'next'")
    return order


def _text(given: Any) -> str:
    """Return a value as torchpipe reads it: as text, with ``true`` as ``1``."""
    return str(int(given)) if isinstance(given, bool) else str(given)


def _node(toml: _Toml, name: str, keys: dict[str, str]) -> Node:
    at = toml.at(name if "backend" in toml.sections.get(name, {}) else "", "backend")
    if "backend" not in keys:
        raise ConfigError(f"{toml.at(name)}: node {name!r} has no 'backend'")
    for key in ("or", "map"):
        if key in keys:
            raise ConfigError(f"{toml.at(name, key)}: {key!r}: alignkit follows one way, by 'next'")
    called = {token.strip() for token in _TOKEN.findall(keys["backend"])}
    if "device_id" in keys and called & {"SyncTensor", "StreamGuard"}:
        raise ConfigError(f"{toml.at(name, 'device_id')}: 'device_id': SyncTensor refuses it")
    try:
        chain = backends_of(keys["backend"])
    except ConfigError as error:
        raise ConfigError(f"{at}: backend: {error}") from None
    return Node(name, keys, chain, at)


def _ignored(toml: _Toml, nodes: list[Node]) -> list[str]:
    """Return a line for each key that no node reads; nodes of unknown backends may read any."""
    read: dict[str, set[str] | None] = {}
    for node in nodes:
        known = all(name in TORCHPIPE_BACKENDS for name in node.chain)
        keys_read = (key for name in node.chain for key in TORCHPIPE_BACKENDS[name].reads)
        read[node.name] = {*SCHEDULING, *keys_read} if known else None
    found: list[tuple[str, str, str]] = []
    for section, keys in toml.sections.items():
        readers = {"": list(read.values()), "global": []}.get(section, [read.get(section)])
        why = {"": "no node reads it", "global": "it drops the section [global]"}.get(
            section, f"no backend of [{section}] reads it"
        )
        if None not in readers:
            used = {key for reader in readers for key in reader or ()}
            found += [(section, key, why) for key in keys if key not in used]
    return [
        f"{toml.at(section, key)}: torchpipe 0.2.25 ignores {key!r}: {why}"
        for section, key, why in found
    ]


def backends_of(chain: str) -> tuple[str, ...]:
    """Return the names called, in order, without those that only hold or schedule others.

    Raises `ConfigError` for a chain that has no fixed order, or names no backend.

    >>> backends_of("S[DecodeMat, ResizeMat, StreamGuard[Mat2Tensor]]")
    ('DecodeMat', 'ResizeMat', 'Mat2Tensor')
    """
    tokens = [token.strip() for token in _TOKEN.findall(chain) if token.strip()]
    _check_chain(chain, tokens)
    return tuple(token for token in tokens if token not in {"[", "]", ",", *SEQUENTIAL, *WRAPPERS})


def _check_chain(chain: str, tokens: list[str]) -> None:
    if gone := [token for token in tokens if token in GONE]:
        raise ConfigError(f"torchpipe 0.2.25 no longer has the backend {gone[0]!r}")
    if "(" in tokens:
        inner = tokens[tokens.index("(") + 1]
        why = (
            "a fallback decoder; an image must be decoded by one and the same"
            if inner in ("or", ")")
            else "torchpipe 0.2.25 passes it to no backend of an image; write it as a key"
        )
        raise ConfigError(f"'({inner})': {why}")
    if ";" in tokens:
        raise ConfigError(f"{chain!r}: parts joined by ';' have no one order")
    # a bracket needs a name before it
    depth = -1 if tokens[:1] == ["["] else 0
    for part, following in zip(tokens, [*tokens[1:], ""], strict=True):
        depth += {"[": 1, "]": -1}.get(part, 0)
        if depth < 0 or (part == "," and (depth == 0 or following in {"", ",", "]"})):
            break
        if following == "[" and part not in {*SEQUENTIAL, *WRAPPERS}:
            raise ConfigError(f"{part!r} holds other backends; alignkit knows not in which order")
    else:
        if depth == 0 and tokens:
            return
    raise ConfigError(f"{chain!r} is no backend; write a sequence as 'S[DecodeMat,ResizeMat]'")
