"""`YoloYaml`: the ``data.yaml`` of Ultralytics: where the sets lie, and the names of classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from alignkit.datasets.regular_file import read_text
from alignkit.errors import DataError
from alignkit.stored_file import stamp_of

_SETS = ("train", "val", "test", "minival")


@dataclass(frozen=True, slots=True)
class YoloYaml:
    """The content of a ``data.yaml``."""

    file: Path
    folder: Path
    """Its ``path``: the folder that paths are relative to."""
    sets: dict[str, tuple[str, ...]]
    """Set → folders and lists, relative to ``folder``."""
    names: tuple[str, ...]
    """Classes by their number."""
    keypoints: bool
    """Whether a line has keypoints behind its box."""


def read_yolo_yaml(file: Path) -> YoloYaml:
    """Read the file; raise `DataError` for one that is broken."""
    try:
        return _read(file, stamp_of(file.stat()))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error


@lru_cache(maxsize=16)
def _read(file: Path, stamp: tuple[int, int, int]) -> YoloYaml:
    """Read the file; ``stamp`` is part of the cache's key."""
    import yaml

    del stamp
    try:
        # all scalars as text: names such as no and 007 stay as they are written
        content = yaml.load(read_text(file), yaml.BaseLoader)  # noqa: S506 - makes no objects
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise DataError(f"{file} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise DataError(f"{file} is no data.yaml: it has no keys; write 'val:' and 'names:'")
    folder = _folder(file, content.get("path", ""))
    sets = {key: _paths(file, folder, key, content[key]) for key in _SETS if content.get(key)}
    names = _names(file, content.get("names"))
    if content.get("nc") not in (None, "", str(len(names))):
        raise DataError(f"{file}: nc is {_shown(content['nc'])}, and there are {len(names)} names")
    return YoloYaml(file, folder, sets, names, "kpt_shape" in content)


def _shown(value: Any) -> str:
    # of lists with aliases a kilobyte would be written out as gigabytes
    return value if isinstance(value, str) else f"a {type(value).__name__}"


def _folder(file: Path, path: Any) -> Path:
    """Return the folder of ``path``: as it is, or else relative to the file."""
    if not isinstance(path, str):
        raise DataError(f"{file}: path is {_shown(path)}, expected a folder")
    candidates = (Path(path).expanduser(), file.parent / path)
    if not path:
        return file.parent
    if found := next((each for each in candidates if each.is_dir()), None):
        return found
    raise DataError(
        f"{file}: the folder {path!r} of 'path' is neither here nor beside the file; write its "
        "whole path, or leave 'path' out if it is the file's own folder"
    )


def _paths(file: Path, folder: Path, key: str, value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise DataError(
            f"{file}: {key} is {_shown(value)}, expected a folder, a .txt list, or some"
        )
    return tuple(_relative(folder, each) for each in listed)


def _relative(folder: Path, path: str) -> str:
    # Roboflow writes ../valid/images for a folder beside the file
    if path.startswith("../") and not (folder / path).exists() and (folder / path[3:]).exists():
        path = path[3:]
    return os.path.relpath(folder / path, folder).replace(os.sep, "/")


def _names(file: Path, names: Any) -> tuple[str, ...]:
    if isinstance(names, dict) and {*names} == {str(each) for each in range(len(names))}:
        names = [names[str(each)] for each in range(len(names))]
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names) or not names:
        raise DataError(f"{file}: names are not a list, or a mapping from 0, 1, 2, … to text")
    if len({*names}) < len(names):
        raise DataError(f"{file}: a name is there twice in names; correct one")
    return tuple(names)
