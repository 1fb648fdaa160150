"""`Yolo`: images with text files of boxes, as Ultralytics takes them.

A line is ``class cx cy width height`` in shares of the oriented image's sides, or ``class x1 y1 x2
y2 x3 y3 …``, a polygon, of which the surrounding box is taken. The file of ``images/a.jpg`` is
``labels/a.txt``, beside the folder ``images``; one without the file has no objects. The format is
that of https://docs.ultralytics.com/datasets/detect/.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from alignkit.datasets.annotated import TRAIN_SET, Annotated, Part, sets_of
from alignkit.datasets.image_files import image_files, is_image
from alignkit.datasets.read_boxes import FileBoxes, boxes_part, required_size
from alignkit.datasets.regular_file import read_text
from alignkit.errors import DataError
from alignkit.limits import TABLE_BYTES
from alignkit.stored_file import stamp_of

if TYPE_CHECKING:
    from alignkit.samples import Truth

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
        return _read_yaml(file, stamp_of(file.stat()))
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error


@lru_cache(maxsize=16)
def _read_yaml(file: Path, stamp: tuple[int, int, int]) -> YoloYaml:
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


_SHARES = (-1.0, 2.0)
"""Least and greatest coordinate: beyond them, a file holds pixels and not shares."""
_Line: TypeAlias = tuple[int, tuple[float, float, float, float]]
"""Class, and left, top, right, bottom in shares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Yolo(Annotated):
    """The images of a ``data.yaml``, or of a folder with ``images/`` and ``labels/``."""

    truth: ClassVar[Truth] = "boxes"

    root: Path
    """A ``data.yaml``, or its folder, or a folder with ``images/`` and ``labels/``."""
    train_set: str = TRAIN_SET
    """Key of the training images in ``data.yaml``, or their folder in ``images/``."""
    eval_set: str = ""
    """The same of the evaluated images: by default ``val``, or the first folder that exists of
    ``val``, ``valid``, ``validation``, ``eval``, ``test``."""
    classes: tuple[str, ...] = ()
    """Classes by their number; by default those of ``data.yaml``, or the lines of
    ``classes.txt``."""

    @property
    def folder(self) -> Path:
        """The folder that ``data.yaml`` names as ``path``, or ``root``."""
        described = self._yaml()
        return described.folder if described else self.root.expanduser()

    def sources(self) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
        """Return folders and lists of training and of evaluation, relative to ``folder``."""
        if described := self._yaml():
            evaluation = described.sets.get(self.eval_set or "val", ())
            if not evaluation:
                known = ", ".join(described.sets) or "none"
                raise DataError(
                    f"{described.file} has no set {self.eval_set or 'val'!r}; name one of its sets "
                    f"({known}) with 'eval_set'"
                )
            return described.sets.get(self.train_set), evaluation
        images = "images" if (self.folder / "images").is_dir() else ""
        train, held = sets_of(self.folder / images, self.train_set, self.eval_set)
        above = f"{images}/" if images and held else images
        return None if train is None else (f"{above}{train}",), (f"{above}{held}",)

    def named(self, source: tuple[str, ...]) -> str:
        """Return the paths of folders and lists."""
        return ", ".join(str(self.folder / each) for each in source)

    def class_names(self) -> tuple[str, ...]:
        """Return the classes by their number; nothing without the files."""
        return self._classes() if self.root.expanduser().exists() else self.classes

    def part(self, source: tuple[str, ...]) -> Part:
        """Read the text files of the images in these folders and lists."""
        classes = self._classes()
        names = sorted({name for each in source for name in self._images(each)})
        found, without, twice = [], 0, 0
        for name in names:
            lines = self._lines(name)
            without += lines is None
            once = list(dict.fromkeys(lines or ()))
            twice += len(lines or ()) - len(once)
            found.append(self._found(name, once, len(classes)))
        notes = [f"images without a text file, taken as without objects: {without}"] * bool(without)
        notes += [f"boxes that are there twice, dropped: {twice}"] * bool(twice)
        alone = sum(self._without_image(each, names) for each in source)
        notes += [f"text files without an image: {alone}"] * bool(alone)
        return boxes_part(classes, found, notes)

    def _yaml(self) -> YoloYaml | None:
        root = self.root.expanduser()
        file = root / "data.yaml" if root.is_dir() else root
        if not root.exists():
            raise DataError(f"{root} does not exist; name a data.yaml, or a folder of images")
        return read_yolo_yaml(file) if file.is_file() else None

    def _classes(self) -> tuple[str, ...]:
        described = self._yaml()
        if self.classes or described:
            return self.classes or (described.names if described else ())
        for file in (self.folder / "classes.txt", self.folder / "labels" / "classes.txt"):
            if file.is_file():
                return tuple(line.strip() for line in _read(file).splitlines() if line.strip())
        raise DataError(f"{self.folder} has no data.yaml and no classes.txt; name 'classes'")

    def _images(self, source: str) -> Iterator[str]:
        """Yield the images of a folder or a list, relative to ``folder``."""
        path = self.folder / source
        if path.is_dir():
            prefix = "" if source in ("", ".") else f"{source.rstrip('/')}/"
            yield from (prefix + name for name in image_files(path))
            return
        if path.suffix != ".txt" or not path.is_file():
            raise DataError(f"{path} is no folder of images and no .txt list of them")
        for place, line in enumerate(_read(path).splitlines(), start=1):
            if not line.strip():
                continue
            # as Ultralytics has it: ./ is the folder of the list
            image = (path.parent if line.startswith("./") else self.folder) / line.strip()
            if not is_image(image.name) or not os.path.lexists(image):
                raise DataError(f"{path}, line {place}: {line.strip()!r} is no image that is there")
            yield os.path.relpath(image, self.folder).replace(os.sep, "/")

    def _without_image(self, source: str, names: list[str]) -> int:
        """Count the text files beside a folder of images that belong to none of them."""
        labels = Path(label_file(os.fspath(self.folder / source / "any.jpg"))).parent
        if not (self.folder / source).is_dir() or not labels.is_dir():
            return 0
        files = {os.fspath(each) for each in labels.rglob("*.txt") if each.name != "classes.txt"}
        return len(files - {label_file(os.fspath(self.folder / name)) for name in names})

    def _lines(self, name: str) -> tuple[_Line, ...] | None:
        """Read the text file of an image; ``None`` if there is none."""
        file = Path(label_file(os.fspath(self.folder / name)))
        try:
            return _parsed(os.fspath(file), stamp_of(file.stat()), self._keypoints())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DataError(f"cannot read {file}: {error.strerror}") from error

    def _keypoints(self) -> bool:
        described = self._yaml()
        return described is not None and described.keypoints

    def _found(self, name: str, lines: list[_Line], count: int) -> FileBoxes:
        if not lines:
            return FileBoxes(name, (0, 0), [], [], [])
        size = required_size(self.folder / name, "YOLO's boxes are shares of it")
        for label, _ in lines:
            if label >= count:
                file = label_file(os.fspath(self.folder / name))
                raise DataError(f"{file}: class {label}, and there are {count}, from 0")
        scale = (size.width, size.height) * 2
        return FileBoxes(
            name=name,
            size=size[:2],
            corners=[
                [side * by for side, by in zip(sides, scale, strict=True)] for _, sides in lines
            ],
            classes=[label for label, _ in lines],
            crowd=[False] * len(lines),
        )


def label_file(image: str) -> str:
    """Return the path of an image's text file, in ``labels`` beside the last folder ``images``.

    >>> label_file("/data/images/val/a.jpg"), label_file("/data/a.jpg")
    ('/data/labels/val/a.txt', '/data/a.txt')
    """
    stem = os.path.splitext(image)[0]  # noqa: PTH122 - a Path for each costs more than the file
    # a relative path may begin with the folder, or be inside it
    stem = os.path.abspath(stem)  # noqa: PTH100 - as above
    before, images, after = stem.rpartition(f"{os.sep}images{os.sep}")
    return f"{before}{os.sep}labels{os.sep}{after}.txt" if images else f"{stem}.txt"


def _read(file: Path) -> str:
    try:
        return read_text(file, TABLE_BYTES)
    except OSError as error:
        raise DataError(f"cannot read {file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise DataError(f"{file} is not UTF-8 text") from error


@lru_cache(maxsize=1 << 17)
def _parsed(file: str, stamp: tuple[int, int, int], keypoints: bool) -> tuple[_Line, ...]:
    """Parse a text file; ``stamp`` is part of the cache's key."""
    del stamp
    lines = enumerate(_read(Path(file)).splitlines(), start=1)
    return tuple(
        _line(f"{file}, line {place}", text.split(), keypoints)
        for place, text in lines
        if text.strip()
    )


def _line(where: str, words: list[str], keypoints: bool) -> _Line:
    try:
        label = float(words[0])
        values = [*map(float, words[1:])]
    except ValueError:
        raise DataError(f"{where}: {' '.join(words)[:80]!r} are no numbers") from None
    # some programs write the class as 3.0
    if not label.is_integer() or label < 0:
        raise DataError(f"{where}: the class {words[0]!r} is no number from 0")
    if keypoints:
        values = values[:4]
    if not all(map(math.isfinite, values)):
        raise DataError(f"{where}: {' '.join(words[1:])[:80]} are no coordinates")
    if len(values) != 4 and (len(values) < 6 or len(values) % 2):
        raise DataError(
            f"{where}: {len(values)} numbers after the class; 4 of a box, or 6 or more of a polygon"
        )
    if not all(_SHARES[0] <= each <= _SHARES[1] for each in values):
        raise DataError(f"{where}: these are pixels; boxes are shares of the image's sides, 0..1")
    if len(values) == 4:
        x, y, width, height = values
        return int(label), (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
    across, down = values[::2], values[1::2]
    return int(label), (min(across), min(down), max(across), max(down))
