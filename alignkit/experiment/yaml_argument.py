"""Argument of ``--preprocess`` → `Preprocess`: a preset, an entry, a mapping, or an import.

A mapping may have a key ``name`` besides those of an entry of ``preprocess:``. ``FILE.toml`` of
torchpipe, ``FILE.json`` of Hugging Face or its folder, and ``timm:MODEL`` are short for a mapping.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from alignkit.errors import ConfigError
from alignkit.experiment import problems_of
from alignkit.experiment.hugging_face_config import NAME as PROCESSOR
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_source import Problem, YAMLSource, parse
from alignkit.plugins import nearest
from alignkit.preprocess import Preprocess
from alignkit.preprocess.preset_names import preset_meant
from alignkit.preprocess.presets import PRESETS

DEFAULT_SIZE = 224
"""Side of a preset's input in pixels, without ``--size``."""


@dataclass(frozen=True, slots=True)
class NamedPath:
    """A `Preprocess` to compare, and the preset it was made from."""

    preprocess: Preprocess
    preset: str | None = None


def named_paths(
    arguments: Sequence[str],
    *,
    size: int | None = None,
    entries: Mapping[str, PreprocessOption] = {},
    max_pixels: int | None = None,
) -> tuple[NamedPath, ...]:
    """Build the paths of the arguments, in their order; without an argument all ``entries``.

    ``size`` is the side of the input in pixels for a preset that gives none; ``max_pixels``
    replaces every path's own limit. A path that is given twice gets two names. Raises `ConfigError`
    for an unknown name, a mistake in a mapping, fewer than two paths, or inputs of different sizes.
    """
    found = [_option(text, number, size, entries) for number, text in enumerate(arguments, 1)]
    found = found or list(entries.items())
    if len(found) < 2:
        raise ConfigError(
            "give --preprocess (-p) twice or more, the reference first, then candidates; "
            "'alignkit list presets' shows the names"
        )
    paths = []
    for name, (_, option) in zip(_distinct([name for name, _ in found]), found, strict=True):
        preprocess = option.build(name)
        if max_pixels is not None:
            preprocess = replace(preprocess, max_pixels=max_pixels)
        paths.append(NamedPath(preprocess, option.preset))
    first, *others = [path.preprocess for path in paths]
    for path in others:
        if path.size != first.size:
            sizes = ["x".join(map(str, each.size)) for each in (first, path)]
            raise ConfigError(
                f"{first.name!r} prepares {sizes[0]} pixels and {path.name!r} {sizes[1]}; one "
                "model takes one size, so give both the same"
            )
    return tuple(paths)


def _option(
    text: str, number: int, size: int | None, entries: Mapping[str, PreprocessOption]
) -> tuple[str, PreprocessOption]:
    if text in entries:
        return text, entries[text]
    # an argument is YAML, so that a mapping of the file can be pasted
    source = parse(text, f"--preprocess {number}")
    given = source.value
    if mapping := import_of(text):
        # so that a mistake in the imported file has a place to be underlined at
        given, source = mapping, parse(json.dumps(mapping), f"--preprocess {number}")
    if isinstance(given, str) and not source.problems:
        if given not in PRESETS:
            meant = preset_meant(given, entries)
            raise ConfigError(f"--preprocess {given}: no such preset{meant}")
        return given, PreprocessOption.model_validate(
            {"preset": given, "size": size or DEFAULT_SIZE}
        )
    if isinstance(given, dict):
        unknown = [key for key in given if key not in PreprocessOption.model_fields]
        # a misspelt "preset" is reported below; its missing size would only distract
        if "preset" in given or nearest("preset", unknown):
            given.setdefault("size", size or DEFAULT_SIZE)
        name = given.pop("name", None) or _name(given) or f"path-{number}"
        return str(name), _validated(given, source)
    raise ConfigError(_in_words(source.problems) or f"--preprocess {text!r}: {FORMS}")


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


def _name(given: dict[str, Any]) -> str | None:
    """Name a path after the source of its stages; ``None`` without a source."""
    if isinstance(file := given.get("torchpipe_toml"), str):
        return Path(file).stem
    if isinstance(file := given.get("huggingface"), str):
        path = Path(file)
        return path.parent.name if path.suffix == ".json" else path.name
    return given.get("preset") or given.get("timm")


def _validated(given: dict[str, Any], source: YAMLSource) -> PreprocessOption:
    if source.problems:
        raise ConfigError(_in_words(source.problems))
    try:
        return PreprocessOption.model_validate(given)
    except ValidationError as error:
        raise ConfigError(_in_words(problems_of(error, source, PreprocessOption))) from None


def _in_words(problems: Sequence[Problem]) -> str:
    return "\n".join(map(str, sorted(set(problems))))


def _distinct(names: Sequence[str]) -> list[str]:
    """Number repeated names: ``a, a`` → ``a, a-2``."""
    seen: Counter[str] = Counter()
    distinct = []
    for name in names:
        seen[name] += 1
        distinct.append(name if seen[name] == 1 else f"{name}-{seen[name]}")
    return distinct
