"""Argument of ``--preprocess``, or of a Python function → `Preprocess`.

It is a preset's name, an entry of an experiment file, a mapping, an import, or a `Preprocess`. A
mapping may have a key ``name`` besides those of an entry of ``preprocess:``. ``FILE.toml`` of
torchpipe, ``FILE.json`` of Hugging Face or its folder, and ``timm:MODEL`` are short for a mapping.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from alignkit.errors import ConfigError, ConfigWarning
from alignkit.experiment import Mistakes, problems_of
from alignkit.experiment.hugging_face_config import NAME as PROCESSOR
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_source import YAMLSource, parse
from alignkit.plugins import nearest
from alignkit.preprocess import Preprocess
from alignkit.preprocess.preset_names import preset_meant
from alignkit.preprocess.presets import PRESETS

NEEDS_MODEL = "--task says how a model's outputs are read; add --model FILE"
DEFAULT_SIZE = 224
"""Side of a preset's input in pixels, without ``--size``."""

Stack: TypeAlias = Preprocess | Mapping[str, Any] | str
"""A preprocessing path as a function takes it: a preset's name, a mapping as under ``preprocess:``
of an experiment file, or a `Preprocess`."""
_Entry: TypeAlias = PreprocessOption | Preprocess


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A `Preprocess` to compare, and the preset it was made from."""

    preprocess: Preprocess
    preset: str | None = None


def named_paths(
    arguments: Sequence[Stack],
    *,
    size: int | None = None,
    entries: Mapping[str, PreprocessOption] = {},
    max_pixels: int | None = None,
    called: str = "--preprocess",
) -> tuple[NamedPath, ...]:
    """Build the paths of the arguments, in their order; without an argument all ``entries``.

    ``size`` is the side of the input in pixels for a preset that gives none; ``max_pixels``
    replaces every path's own limit. A path that is given twice gets two names. ``called`` is the
    word for an argument in messages. Raises `ConfigError` for an unknown name, a mistake in a
    mapping, fewer than two paths, or inputs of different sizes.
    """
    found: list[tuple[str, _Entry]] = [
        _entry(each, f"{called} {number}", size, entries, called)
        for number, each in enumerate(arguments, 1)
    ]
    found = found or [*entries.items()]
    if len(found) < 2:
        raise ConfigError(
            f"give {called} twice or more: the reference first, then candidates "
            "(`alignkit list presets` names some)"
        )
    paths = []
    names = [name or f"path-{number}" for number, (name, _) in enumerate(found, 1)]
    for name, (_, entry) in zip(_distinct(names), found, strict=True):
        path = _built(entry, name)
        if max_pixels is not None:
            path = replace(path, preprocess=replace(path.preprocess, max_pixels=max_pixels))
        paths.append(path)
    first, *others = [path.preprocess for path in paths]
    for other in others:
        if other.size != first.size:
            sizes = ["x".join(map(str, each.size)) for each in (first, other)]
            raise ConfigError(
                f"{first.name!r} prepares {sizes[0]} pixels and {other.name!r} {sizes[1]}; one "
                "model takes one size, so give both the same"
            )
    return tuple(paths)


def path_of(given: Stack, name: str, *, size: int | None = None) -> Preprocess:
    """Build one path of this name, which messages use too; raises `ConfigError` as above."""
    return _built(_entry(given, name, size, {}, name)[1], name).preprocess


def _built(entry: _Entry, name: str) -> NamedPath:
    if isinstance(entry, Preprocess):
        if doubt := entry.normalise.doubt:
            warnings.warn(f"{name}: normalise: {doubt}", ConfigWarning, stacklevel=2)
        return NamedPath(replace(entry, name=name))
    return NamedPath(entry.build(name), entry.preset)


def _entry(
    given: Stack, place: str, size: int | None, entries: Mapping[str, PreprocessOption], called: str
) -> tuple[str, _Entry]:
    if isinstance(given, Preprocess):
        return given.name, given
    if isinstance(given, Mapping):
        # as text, so that a mistake is underlined as in a file
        source = parse(json.dumps(dict(given), default=str), place)
        return _of_mapping(source.value, source, size)
    if not isinstance(given, str):
        function = "; a function is compared by alignkit.assert_preprocess_aligned"
        raise ConfigError(f"{called}: {type(given).__name__} is no stack; {FORMS}"
                          f"{function * callable(given)}")  # fmt: skip
    if given in entries:
        return given, entries[given]
    if mapping := import_of(given):
        # so that a mistake in the imported file has a place to be underlined at
        return _of_mapping(mapping, parse(json.dumps(mapping), place), size)
    # an argument is YAML, so that a mapping of the file can be pasted
    source = parse(given, place)
    if isinstance(source.value, str) and not source.problems:
        if given not in PRESETS:
            meant = preset_meant(given, entries)
            raise ConfigError(f"{called} {given}: no such preset{meant}")
        return given, PreprocessOption.model_validate(
            {"preset": given, "size": size or DEFAULT_SIZE}
        )
    if isinstance(source.value, dict):
        return _of_mapping(source.value, source, size)
    if source.problems:
        raise Mistakes(source.problems)
    raise ConfigError(f"{called} {given!r}: {FORMS}")


def _of_mapping(
    given: dict[str, Any], source: YAMLSource, size: int | None
) -> tuple[str, PreprocessOption]:
    unknown = [key for key in given if key not in PreprocessOption.model_fields]
    # a misspelt "preset" is reported below; its missing size would only distract
    if "preset" in given or nearest("preset", unknown):
        given.setdefault("size", size or DEFAULT_SIZE)
    name = given.pop("name", None) or _name(given)
    return str(name), _validated(given, source)


FORMS = (
    "give a preset, an entry of the --config file, a torchpipe .toml, a preprocessor_config.json "
    "or its folder, timm:MODEL, or a mapping such as '{preset: opencv-train}'"
)


def import_of(text: str) -> dict[str, Any] | None:
    """Return the mapping that a file, a processor's folder or ``timm:MODEL`` is short for."""
    if text.startswith("timm:"):
        return {"timm": text.removeprefix("timm:")}
    folder = Path(text)
    # a folder in this one may have a word's name by chance
    if text not in PRESETS and folder.is_dir() and ("/" in text or (folder / PROCESSOR).is_file()):
        return {"huggingface": text}
    key = {".toml": "torchpipe_toml", ".json": "huggingface"}.get(Path(text).suffix)
    return {key: text} if key and not text.startswith("{") else None


def _name(given: dict[str, Any]) -> str:
    """Name a path after the source of its stages, or its libraries; empty if it names neither."""
    if isinstance(file := given.get("torchpipe_toml"), str):
        return Path(file).stem
    if isinstance(file := given.get("huggingface"), str):
        path = Path(file)
        return path.parent.name if path.suffix == ".json" else path.name
    stages = (given.get(stage) for stage in ("decode", "resize"))
    values = (each.values() if isinstance(each, dict) else [each] for each in stages)
    # libraries and options such as `area`; numbers and flags say nothing alone
    words = dict.fromkeys(each for some in values for each in some if isinstance(each, str))
    return given.get("preset") or given.get("timm") or "-".join(words)


def _validated(given: dict[str, Any], source: YAMLSource) -> PreprocessOption:
    if source.problems:
        raise Mistakes(source.problems)
    try:
        return PreprocessOption.model_validate(given)
    except ValidationError as error:
        raise Mistakes(problems_of(error, source, PreprocessOption)) from None


def _distinct(names: Sequence[str]) -> list[str]:
    """Number repeated names: ``a, a`` → ``a, a-2``."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return distinct
