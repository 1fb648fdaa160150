"""Names of outputs: as the user gives them, and the words of a model's file about itself.

Ultralytics and YOLOv5 write such words. An ONNX file has the names of its classes as the entry
``names`` of its metadata, the text of a Python mapping or list; a TorchScript file in
``extra/config.txt`` of its archive, as JSON. Beside them lie the ``task``, and ``kpt_shape`` of
keypoints. Nothing is executed.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal
from zipfile import BadZipFile, ZipFile

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from alignkit.datasets.regular_file import read_text
from alignkit.errors import DataError, MissingDependency
from alignkit.limits import TEXT_BYTES, OverLimit, parsed_json, read_member
from alignkit.models.checkpoint import CheckpointFormat
from alignkit.models.onnx_header import read_onnx_header
from alignkit.models.pretrained import imagenet_classes
from alignkit.stored_file import Stamp, open_regular, stamp_of

_NO_CLASS = "N/A"
"""Name of an output that is no class, as torchvision's COCO weights have it."""


def _class_names(given: Any) -> Any:
    """Return the names of outputs; each that is no class has a name of its own."""
    names = _lines_of_file(given)
    if not isinstance(names, list | tuple):
        return names
    # one alone may be a class of the data
    gaps = (None, _NO_CLASS) if [*names].count(_NO_CLASS) > 1 else (None,)
    numbered = enumerate(names)
    return tuple(f"{_NO_CLASS} {place}" if name in gaps else name for place, name in numbered)


def _lines_of_file(given: Any) -> Any:
    """Return ImageNet's classes or the lines of the file that the YAML names; else the value."""
    if not isinstance(given, str):
        return given
    if given == "imagenet":
        try:
            return imagenet_classes()
        except MissingDependency as error:  # reported with its place, as every mistake of the file
            raise PydanticCustomError("classes", "{reason}", {"reason": str(error)}) from error
    try:
        # other line ends of Python's splitlines may stand within a name
        lines = read_text(Path(given).expanduser()).rstrip().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "") or "it is not UTF-8"
        named = {"file": given, "reason": reason}
        message = "{file} cannot be read ({reason}); give a file with one name a line, or a list"
        raise PydanticCustomError("classes", message, named) from error
    names = [line.strip() for line in lines]
    if "" in names:
        empty = {"file": given, "line": names.index("") + 1}
        raise PydanticCustomError(
            "classes", "line {line} of {file} is empty: it names no output", empty
        )
    if unfit := next((each for each in names if "\0" in each), None):
        held = {"file": given, "line": names.index(unfit) + 1}
        raise PydanticCustomError(
            "classes", "line {line} of {file} holds a NUL character; save it as UTF-8 text", held
        )
    return names


ClassNames = Annotated[
    tuple[str, ...],
    Field(min_length=1),
    BeforeValidator(
        _class_names,
        json_schema_input_type=tuple[str | None, ...] | Literal["imagenet"] | Path,
    ),
]
"""Names of outputs as a file of an experiment gives them: a list, a file, or ``imagenet``."""


def names_in(file: Path, kind: CheckpointFormat) -> tuple[str, ...]:
    """Return the names in the order of the outputs; empty if the file holds none.

    Numbers in place of names, as Ultralytics writes them for a model without, are none. A damaged
    file holds none: `alignkit.models.entry_faults.entry_faults` says so.
    """
    names = _in_order(_held(file, kind))
    numbered = all(re.fullmatch(rf"(class_?)?{place}", name) for place, name in enumerate(names))
    return () if numbered or len({*names}) < len(names) else names


_TASKS = {
    "detect": ("detection",),
    "segment": (),
    "classify": ("classification", "multi-label", "embedding"),
    "pose": (),
    "obb": (),
    "semantic": ("segmentation",),
}
"""Ultralytics' task → the tasks that read its outputs."""
_TASK_KEYS = ("task", "task_type", "problem_type")
_NUMBERS = re.compile("regress|estimation|landmark|keypoint|depth|counting", re.IGNORECASE)
"""Tasks of other exporters whose outputs are numbers and no scores."""
_BY_SCORE = (
    "Compare them by the task 'score' with a function of your own, as in '{name: score, score: "
    "FILE.py:FUNCTION, outputs: [OUTPUT]}' (docs/tasks.md)"
)
_HELD = {
    "segment": "scores, coefficients of masks and their prototypes",
    "pose": "a score and keypoints",
    "obb": "scores and an angle",
}


def other_task(file: Path, kind: CheckpointFormat, task: str) -> str:
    """Say that a file's model solves another task; empty if it does not say so."""
    found = (str(_held(file, kind, key) or "") for key in _TASK_KEYS)
    own = next(filter(None, found), "") or "pose" * bool(_held(file, kind, "kpt_shape"))
    if task in _READ and own not in _TASKS and _NUMBERS.search(own):
        return (
            f"{file} says of itself that its task is {own}: it gives numbers, which no task of "
            f"alignkit's own reads. {_BY_SCORE}"
        )
    if own not in _TASKS or task in _TASKS[own] or task not in _READ:
        return ""
    says = f"{file} says of itself that its task is {own}"
    if fitting := _TASKS[own]:
        return f"{says}; write the task {fitting[0]}"
    return (
        f"{says}: beside the boxes its output has {_HELD[own]}, which no task of alignkit's own "
        f"reads. {_BY_SCORE}, or export a model that detects"
    )


_READ = frozenset({"classification", "detection", "segmentation", "multi-label", "embedding"})
"""Tasks that take outputs for what they are not; any other is the user's own."""


def numbered_names(file: Path, kind: CheckpointFormat) -> int:
    """Count the names in a file, also where they are numbers in place of names; 0 without any."""
    return len(_in_order(_held(file, kind)))


def doubtful_names(file: Path, kind: CheckpointFormat) -> str:
    """Say why names in a file do not name its outputs in order; empty if they do, or it has none.

    Without them the outputs would be taken in the data's order, which may be another.
    """
    held = _held(file, kind)
    if isinstance(held, Mapping):
        texts = [each for each in held.values() if isinstance(each, str)]
        if texts and not _in_order(held):
            numbers = ", ".join(map(str, [*held][:4])) + ", …" * (len(held) > 4)
            return f"numbers the names of its outputs {numbers}"
    names = _in_order(held)
    twice = next((each for each, count in Counter(names).items() if count > 1), "")
    return f"names two outputs {twice!r}" if twice else ""


def in_other_order(given: Sequence[str], held: Sequence[str]) -> str:
    """Name the first of the names that have another place in a file; empty if none has."""
    place, other = ({name: at for at, name in enumerate(names)} for names in (held, given))
    moved = [name for name in place if name in other and other[name] != place[name]]
    places = [f"{place[name]} is {name}" for name in moved[:3]]
    return ", ".join(places)


def matched_by_name(held: Sequence[str], classes: Sequence[str]) -> str:
    """Say how the data's ``classes`` are found among the names in a file; empty if there are none.

    The text continues a sentence.
    """
    if not held:
        return ""
    if not classes:
        return f"; the file names its {len(held)} classes"
    more = len({*held} - {*classes})
    order = "in the data's order" if [*held[: len(classes)]] == [*classes] else "in another order"
    beside = f", with {more} that the data has not" * bool(more)
    return f"; the file names its classes, {order}{beside}, and they are matched by name"


def _held(file: Path, kind: CheckpointFormat, key: str = "names") -> object:
    if kind == "onnx":
        return _literal(file, key)
    if kind != "torchscript":
        return None
    try:
        return _configuration(file, stamp_of(file.stat())).get(key)
    except OSError:  # whoever loads it says why it cannot be
        return None


def _literal(file: Path, key: str) -> object:
    try:
        text = dict(read_onnx_header(file).metadata).get(key, "")
    except DataError:  # whoever loads it says why it cannot be
        return None
    try:
        return ast.literal_eval(text) if len(text) <= TEXT_BYTES() else None
    # a word, or a text that another exporter wrote under this key
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return text if re.fullmatch(r"[\w-]+", text) else None


@lru_cache(maxsize=16)
def _configuration(file: Path, _stamp: Stamp) -> Mapping[str, object]:
    try:
        with open_regular(file) as opened, ZipFile(opened) as archive:
            entries = [each for each in archive.infolist() if each.filename.endswith(_EXTRA)]
            text = read_member(archive, entries[0], TEXT_BYTES) if entries else b""
        held: Any = parsed_json(text) if text else None
    # whoever loads it says why it cannot be
    except (BadZipFile, ValueError, OverLimit):
        return {}
    return held if isinstance(held, dict) else {}


_EXTRA = "/extra/config.txt"


def _in_order(held: object) -> tuple[str, ...]:
    if isinstance(held, Mapping):
        numbered = {int(key): name for key, name in held.items() if str(key).isdecimal()}
        if len(numbered) < len(held) or sorted(numbered) != [*range(len(held))]:
            return ()
        held = [numbered[place] for place in range(len(held))]
    if not isinstance(held, list | tuple) or not all(isinstance(each, str) for each in held):
        return ()
    return tuple(held)
