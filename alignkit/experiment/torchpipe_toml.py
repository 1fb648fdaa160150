"""A torchpipe TOML file → the stages torchpipe 0.2.25 runs for it, and the keys it ignores.

A key above the first section holds for every node that does not set it; a section ``[global]`` is
dropped (``omniback.parse``). Nodes follow each other by ``next``. The import ends at the model:
TensorrtTensor's ``mean`` and ``std``, of values in 0..255, are `Normalise`.

A ``backend`` is read as the backends it calls, in order. Nesting is flattened, as it decides who
schedules and not what is computed: ``S[A,B]``, ``Sequential[A,B]`` and ``StreamGuard[S[A,B]]`` all
call A, then B. torchpipe fails for a bare ``A,B``, and passes arguments in parentheses to no
backend of an image. The effect of each and the keys that it reads are taken from its sources
(``csrc/mat_torch``, ``torchplugins``, ``nvjpeg_torch``, ``tensorrt_torch``).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from alignkit.datasets.regular_file import read_text
from alignkit.errors import ConfigError
from alignkit.experiment.imported_configuration import Stages
from alignkit.plugins import did_you_mean
from alignkit.preprocess.presets import PRESETS

ImageForm = Literal["encoded", "mat", "cpu", "cuda"]
"""Form of an image: encoded bytes, an OpenCV matrix, or a tensor on the CPU or a GPU."""

_SCHEDULING = frozenset(
    {"backend", "next", "map", "or", "instance_num", "batching_timeout", "max", "min", "node_name",
     "entrypoint", "restart", "priority"}
)  # fmt: skip
"""Keys that omniback, torchpipe's scheduler, reads for every node. Its binary has ``priority``,
whose effect is not documented, so it is not reported as ignored."""

_SIZE = ("resize_h", "resize_w")


@dataclass(frozen=True, slots=True)
class TorchpipeEffect:
    """One backend's effect on an image."""

    does: Literal["decode", "resize", "letterbox", "colour", "move", "nothing", "infer"]
    takes: tuple[ImageForm, ...] = ()
    """Forms that it accepts; empty: any."""
    gives: ImageForm | None = None
    """Form that it returns; ``None``: unchanged."""
    reads: tuple[str, ...] = ()
    """Keys of the node that it reads."""


_MAT: tuple[ImageForm, ...] = ("mat",)
_TENSOR: tuple[ImageForm, ...] = ("cpu", "cuda")
_CVT_MAT = TorchpipeEffect("colour", _MAT, reads=("color",))
_CVT_TENSOR = TorchpipeEffect("colour", _TENSOR, reads=("color",))

TORCHPIPE_BACKENDS = {
    "DecodeMat": TorchpipeEffect("decode", ("encoded",), "mat"),
    "DecodeTensor": TorchpipeEffect("decode", ("encoded",), "cuda", ("color", "data_format")),
    "ResizeMat": TorchpipeEffect("resize", _MAT, reads=_SIZE),
    "ResizeTensor": TorchpipeEffect("resize", _TENSOR, reads=_SIZE),
    "LetterBoxMat": TorchpipeEffect("letterbox", _MAT, reads=(*_SIZE, "pad_val")),
    "CvtColorMat": _CVT_MAT,
    "cvtColorMat": _CVT_MAT,
    "CvtColorTensor": _CVT_TENSOR,
    "cvtColorTensor": _CVT_TENSOR,
    "Mat2Tensor": TorchpipeEffect("move", _MAT, "cuda", ("device",)),
    "GpuTensor": TorchpipeEffect("move", _TENSOR, "cuda"),
    "CpuTensor": TorchpipeEffect("move", _TENSOR, "cpu"),
    "Identity": TorchpipeEffect("nothing"),
    "ContiguousTensor": TorchpipeEffect("nothing", _TENSOR),
    "FixTensor": TorchpipeEffect("nothing", _TENSOR),
    "PrintTensor": TorchpipeEffect("nothing", _TENSOR),
    "TensorrtTensor": TorchpipeEffect(
        "infer",
        _TENSOR,
        reads=(
            "model", "model_type", "model::cache", "model::timingcache", "max_workspace_size",
            "hardward_compatibility", "log_level", "precision", "precision::fp32",
            "precision::fp16", "force_layer_norm_pattern_fp32", "mean", "std",
        ),
    ),
}  # fmt: skip

_GONE = frozenset(
    {"PillowResizeMat", "PillowResizeTensor", "ResizePadMat", "ResizePadTensor", "SaveMat",
     "SaveTensor", "LoadTensor", "Torch", "TensorSync", "Jump", "Range", "CropMat",
     "Mat2GpuTensor"}
)  # fmt: skip
"""Backends of torchpipe before 0.2 that 0.2.25 has removed."""

_NOT_NORMALISED = {"mean": [0.0, 0.0, 0.0], "std": [1 / 255, 1 / 255, 1 / 255]}
"""Of values in 0..1: the model receives 0..255."""
_SURROGATE = PRESETS["torchpipe-gpu-surrogate"]
_STAND_INS = {"decode": _SURROGATE.decode, "resize": _SURROGATE.resize}
"""The stages that replace torchpipe-cuda's."""
_NO_MEAN = (
    "no TensorrtTensor with 'mean' and 'std', so the model is handed values in 0..255; if it is "
    "normalised elsewhere, say so with 'normalise'"
)
_UNNAMED = "default_node_name"
"""The name torchpipe gives to the node of a file without sections."""
_HOLDERS = (
    "S", "Sequential", "SyncTensor", "StreamGuard", "With", "StreamPool", "TorchStreamPool",
)  # fmt: skip
"""Backends that call others in order, or choose a stream for them; they change no pixels."""
_TOKEN = re.compile(r"[\[\],;()]|[^\[\],;()]+")


@dataclass(frozen=True, slots=True)
class _Node:
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
    nodes, image = _in_order(toml), _Image()
    # nodes behind the model compute on its logits
    calls = ((node, name) for node in nodes for name in node.chain if not image.inferred)
    for node, name in calls:
        try:
            image.call(name, node.keys)
        except ConfigError as error:
            raise ConfigError(f"{node.at}: {name}: {error}") from None
    block = image.block(file, surrogate=surrogate)
    left_open = [] if "normalise" in image.stages else [f"{file}: {_NO_MEAN}"]
    imitated = "torchpipe-gpu" if surrogate else ""
    return Stages(block, imitated, (*_ignored(toml, nodes), *left_open))


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
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(f"{file}: cannot be read ({reason})") from None
        except ValueError as error:  # of a number of many digits too, with advice for Python
            raise ConfigError(f"{file}: not valid TOML: {str(error).partition(';')[0]}") from None
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


def _in_order(toml: _Toml) -> list[_Node]:
    """Return the nodes from the root on; an image must have one way through them."""
    shared = toml.sections[""]
    names = [name for name in toml.sections if name not in ("", "global")]
    given = {name: {**shared, **toml.sections[name]} for name in names} or {_UNNAMED: shared}
    nodes = {name: _node(toml, name, keys) for name, keys in given.items()}
    following = {name: node.keys.get("next", "") for name, node in nodes.items()}
    # an image enters at the node that no other hands it to
    roots = [node for name, node in nodes.items() if name not in following.values()]
    if len(roots) != 1:
        raise ConfigError(f"{toml.file}: an image must enter at one node, not at {len(roots)}")
    order = roots
    while after := following[order[-1].name]:
        if after not in nodes or nodes[after] in order:
            why = "several ways for one image" if "," in after else "no such node"
            why = "back to a node before it" if after in nodes else why
            raise ConfigError(f"{toml.at(order[-1].name, 'next')}: next = {after!r}: {why}")
        order.append(nodes[after])
    if len(order) < len(nodes):
        raise ConfigError(f"{toml.file}: not every node follows from {order[0].name!r} by 'next'")
    return order


def _node(toml: _Toml, name: str, given: dict[str, Any]) -> _Node:
    # torchpipe reads every value as text, true as 1
    keys = {key: str(int(each) if isinstance(each, bool) else each) for key, each in given.items()}
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
    return _Node(name, keys, chain, at)


def _ignored(toml: _Toml, nodes: list[_Node]) -> list[str]:
    """Return a line for each key that no node reads; nodes of unknown backends may read any."""
    read: dict[str, set[str] | None] = {}
    for node in nodes:
        known = all(name in TORCHPIPE_BACKENDS for name in node.chain)
        keys_read = (key for name in node.chain for key in TORCHPIPE_BACKENDS[name].reads)
        read[node.name] = {*_SCHEDULING, *keys_read} if known else None
    found: list[str] = []
    for section, keys in toml.sections.items():
        readers = {"": list(read.values()), "global": []}.get(section, [read.get(section)])
        why = {"": "no node reads it", "global": "it drops the section [global]"}.get(
            section, f"no backend of [{section}] reads it"
        )
        used = {key for reader in readers for key in (keys if reader is None else reader)}
        found += [
            f"{toml.at(section, key)}: torchpipe 0.2.25 ignores {key!r}: {why}"
            for key in keys
            if key not in used
        ]
    return found


def backends_of(chain: str) -> tuple[str, ...]:
    """Return the names called, in order, without those that only hold or schedule others.

    Raises `ConfigError` for a chain that has no fixed order, or names no backend.

    >>> backends_of("S[DecodeMat, ResizeMat, StreamGuard[Mat2Tensor]]")
    ('DecodeMat', 'ResizeMat', 'Mat2Tensor')
    """
    tokens = [token.strip() for token in _TOKEN.findall(chain) if token.strip()]
    _check_chain(chain, tokens)
    return tuple(token for token in tokens if token not in {"[", "]", ",", *_HOLDERS})


def _check_chain(chain: str, tokens: list[str]) -> None:
    if gone := [token for token in tokens if token in _GONE]:
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
        if following == "[" and part not in _HOLDERS:
            raise ConfigError(f"{part!r} holds other backends; alignkit knows not in which order")
    else:
        if depth == 0 and tokens:
            return
    raise ConfigError(f"{chain!r} is no backend; write a sequence as 'S[DecodeMat,ResizeMat]'")


@dataclass(slots=True)
class _Image:
    place: ImageForm = "encoded"
    order: str = ""
    """``rgb`` or ``bgr``, as torchpipe tracks it under the key ``color``."""
    stages: dict[str, Any] = field(default_factory=dict)
    inferred: bool = False

    def call(self, name: str, keys: Mapping[str, str]) -> None:
        backend = TORCHPIPE_BACKENDS.get(name)
        if backend is None:
            near = did_you_mean(name, TORCHPIPE_BACKENDS)
            raise ConfigError(f"alignkit knows not what this does to an image{near}")
        if backend.takes and self.place not in backend.takes:
            found = {"encoded": "bytes", "mat": "a Mat"}.get(self.place, "a tensor")
            raise ConfigError(f"is given {found}, which it refuses")
        steps: dict[str, Callable[[str, Mapping[str, str]], None]] = {
            "decode": self._decode, "resize": self._resize, "letterbox": self._letterbox,
            "colour": self._colour, "infer": self._infer,
        }  # fmt: skip
        if backend.does in steps:
            steps[backend.does](name, keys)
        # a GPU is torchpipe's default
        device = keys.get("device", "cuda") if name == "Mat2Tensor" else ""
        if device not in ("", "cpu", "cuda"):
            raise ConfigError(f"'device' must be cpu or cuda, not {device!r}")
        self.place = "cpu" if device == "cpu" else backend.gives or self.place

    def _decode(self, name: str, keys: Mapping[str, str]) -> None:
        # OpenCV decodes to BGR whatever the key says
        self.order = "bgr" if name == "DecodeMat" else _order(keys)
        self.stages["decode"] = {"name": "torchpipe" if name == "DecodeMat" else "torchpipe-cuda"}

    def _resize(self, name: str, keys: Mapping[str, str]) -> None:
        if "resize" in self.stages:
            raise ConfigError("a second resize; a path has one")
        smallest = 1 if name == "ResizeMat" else 2
        height, width = (_whole(keys, key, smallest) for key in ("resize_h", "resize_w"))
        resizer = {"mat": ("torchpipe", "mat"), "cpu": ("torchpipe", "tensor")}.get(self.place)
        plugin = {"name": resizer[0], "op": resizer[1]} if resizer else {"name": "torchpipe-cuda"}
        self.stages["resize"] = {**plugin, "size": [height, width]}

    def _letterbox(self, _: str, keys: Mapping[str, str]) -> None:
        self._resize("ResizeMat", keys)
        pads = {_pad(each) for each in keys.get("pad_val", "0").split(",")[:3]}
        if len(pads) > 1:
            raise ConfigError("'pad_val' of three levels; a path's border is one grey")
        self.stages["resize"] |= {"fit": "letterbox", "rounding": "nearest", "pad": pads.pop()}

    def _colour(self, name: str, keys: Mapping[str, str]) -> None:
        if name.endswith("Tensor") and "color" not in keys:
            raise ConfigError("needs the key 'color'")
        self.order = _order(keys)

    def _infer(self, _: str, keys: Mapping[str, str]) -> None:
        mean, std = _levels(keys, "mean"), _levels(keys, "std")
        if mean or std:
            self.stages["normalise"] = {
                "mean": [level / 255 for level in mean or [0.0] * 3],
                "std": [level / 255 for level in std or [1.0] * 3],
            }
        self.inferred = True

    def block(self, file: Path, *, surrogate: bool) -> dict[str, Any]:
        for stage in ("decode", "resize"):
            if stage not in self.stages:
                raise ConfigError(f"{file}: no backend that {stage}s the image")
        block = {"normalise": _NOT_NORMALISED, **self.stages, "colour": self.order}
        on_gpu = [stage for stage in _STAND_INS if block[stage]["name"] == "torchpipe-cuda"]
        if surrogate and not on_gpu:
            raise ConfigError(f"{file}: 'surrogate': nothing here runs on a GPU; leave it out")
        for stage in on_gpu if surrogate else ():
            block[stage] = {**block[stage], **_STAND_INS[stage]}
        return block


def _order(keys: Mapping[str, str]) -> str:
    order = keys.get("color", "rgb")
    if order not in ("rgb", "bgr"):
        raise ConfigError(f"'color' must be rgb or bgr, not {order!r}")
    return order


def _whole(keys: Mapping[str, str], key: str, smallest: int) -> int:
    given = keys.get(key)
    if given is None:
        raise ConfigError(f"needs the key {key!r}")
    if not given.isdigit() or int(given) < smallest:
        raise ConfigError(f"{key!r} must be a whole number from {smallest}, not {given!r}")
    return int(given)


def _pad(given: str) -> int:
    if not given.strip().isdigit() or int(given) > 255:
        raise ConfigError(f"'pad_val' must be levels in 0..255, not {given!r}")
    return int(given)


def _levels(keys: Mapping[str, str], key: str) -> list[float]:
    """Return three levels in 0..255, as TensorrtTensor takes them; none without the key."""
    if key not in keys:
        return []
    try:
        levels = [float(each) for each in keys[key].split(",")]
    except ValueError:
        raise ConfigError(f"{key!r} must be three numbers, not {keys[key]!r}") from None
    if len(levels) != 3 or min(levels) <= 1 + 1e-5:
        raise ConfigError(f"{key!r}: torchpipe takes three levels of 0..255, each over 1")
    return levels
