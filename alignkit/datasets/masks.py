"""`Masks`: images with a PNG file each whose pixels are classes, in a parallel folder.

A mask is an index image, grey or with a palette; its values are the classes. It has the size of the
image as a viewer shows it. The masks of Pascal VOC, ADE20K and most annotation programs are such
files; a mask of colours is refused, as its colours say nothing about classes.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, cast

from alignkit.annotations import IGNORED
from alignkit.datasets.annotated import TRAIN_SET, Annotated, Part, by_stem, sets_of
from alignkit.datasets.labelled import listed
from alignkit.datasets.listed_images import ImageFile, list_files, read_image
from alignkit.datasets.read_boxes import shown_size
from alignkit.datasets.regular_file import escaped_name
from alignkit.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.annotations import Mask
    from alignkit.samples import Truth

    MaskPixels = npt.NDArray[np.uint8]

_MUCH = 0.1
"""Share of the pixels from which a value that is ignored by default may hide a class."""
_STRAY = 1000
"""A class with a pixel for so many that are ignored by default, or fewer, is no evidence."""
_DEPTH = 24
"""Place in a PNG file of its bits a value."""
_SPREAD = {2: 85, 4: 17}
"""Bits a value → Pillow's factor of a grey value; values of 1 bit are 0 and 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks(Annotated):
    """Images and masks below ``root``, in parallel folders; names differ in their suffix alone."""

    truth: ClassVar[Truth] = "mask"

    classes: tuple[str, ...]
    """Classes in the order of a model's outputs."""
    values: tuple[int, ...] = ()
    """Value of each class in the masks; by default 0, 1, 2, …."""
    ignore: int | None = None
    """Value of pixels that count for nothing: 255, unless it is that of a class."""
    images_dir: str = "images"
    """Folder below ``root`` with the images."""
    masks_dir: str = "masks"
    """Folder below ``root`` with the masks."""
    train_set: str = TRAIN_SET
    """Folder in both with the training images."""
    eval_set: str = ""
    """The same of the evaluated images: by default the first that exists of ``val``, ``valid``,
    ``validation``, ``eval``, ``test``."""

    def __post_init__(self) -> None:
        Annotated.__post_init__(self)
        values = self._values()
        if not 1 <= len(self.classes) <= IGNORED or len({*self.classes}) < len(self.classes):
            raise ConfigError(f"classes: name 1 to {IGNORED}, each once")
        if len(values) != len(self.classes):
            raise ConfigError(f"values: {len(values)} for {len(self.classes)} classes")
        coded = self._coded()
        if wrong := [each for each in coded if not 0 <= each <= 255]:
            raise ConfigError(f"values: {wrong[0]} is no value of a mask, 0..255")
        if len({*coded}) < len(coded):
            raise ConfigError("values: a value is that of two classes, or of 'ignore' too")

    def sources(self) -> tuple[str | None, str]:
        """Return the folders of the two sets; ``""`` is every image."""
        return sets_of(self.folder / self.images_dir, self.train_set, self.eval_set)

    def named(self, source: str) -> str:
        """Return the folder of the images."""
        return str(self.folder / self.images_dir / source)

    def class_names(self) -> tuple[str, ...]:
        """Return ``classes``."""
        return self.classes

    def part(self, source: str) -> Part:
        """List the images that have a mask; those without are left out and counted."""
        from alignkit.annotations import Mask

        images = by_stem(self.folder, _joined(self.images_dir, source))
        masks = by_stem(self.folder, _joined(self.masks_dir, source))
        if alone := sorted(masks.keys() - images.keys()):
            raise DataError(
                f"{len(alone)} masks have no image in {self.named(source)}, the first "
                f"{escaped_name(masks[alone[0]])}; add the images or remove the masks"
            )
        stems = sorted(masks, key=lambda each: images[each])
        names = [masks[each] for each in stems]
        files = list_files(self.folder, names)
        for stem, name, file in zip(stems, names, files, strict=True):
            self._require_mask(name, file, images[stem])
        without = len(images) - len(masks)
        notes = (f"images without a mask, left out: {without}",) if without else ()
        coded = ",".join(map(str, self._coded()))
        form = self.folder, self._coded(), len(self.classes)
        readers = [_Reader(name, file, *form) for name, file in zip(names, files, strict=True)]
        if self._guesses:
            self._require_two_classes(source, readers)
        return Part(
            classes=self.classes,
            names=tuple(images[each] for each in stems),
            annotations=tuple(map(Mask, readers)),
            # the values of classes decide the mask as its bytes do
            identities=tuple(f"{coded} {each.identity}" for each in files),
            notes=notes,
        )

    def notes(self) -> Iterator[str]:
        """Name also classes without a pixel where `IGNORED`, which nobody named, has many."""
        yield from Annotated.notes(self)
        source = self.sources()[1]
        if not self._guesses:
            return
        masks = cast("Sequence[Mask]", self.part(source).annotations)
        seen = classes_seen(tuple(each.read for each in masks), len(self.classes))
        absent = [name for index, name in enumerate(self.classes) if index not in seen.classes]
        few = f"{seen.strays} pixels are" if seen.strays else "no pixel is"
        if absent and seen.ignored >= _MUCH:
            yield (
                f"{self.named(source)}: {few} {listed(absent)}, and {seen.ignored:.0%} have "
                f"the value {IGNORED}, which counts for nothing by default; name it in 'values' if "
                f"it is a class, or else write 'ignore: {IGNORED}'"
            )

    def first_look(self) -> Iterator[str]:
        """Read the first mask; warn where it has one class, and `IGNORED` besides."""
        source = self.sources()[1]
        if not (self.folder / self.masks_dir / source).is_dir():
            return
        first = min(by_stem(self.folder, _joined(self.masks_dir, source)).values(), default=None)
        if first is None:
            return
        (file,) = list_files(self.folder, [first])
        if file.fault:
            raise DataError(f"cannot read {self.folder / first}: {file.fault}")
        reader = _Reader(first, file, self.folder, self._coded(), len(self.classes))
        seen = classes_seen((reader,), 2)
        if self._guesses and seen.hides_one:
            yield self._hidden(source, "the first mask", seen)

    @property
    def _guesses(self) -> bool:
        """Whether pixels of `IGNORED` count for nothing although nothing in the file says so."""
        return self.ignore is None and IGNORED not in self._values()

    def _require_two_classes(self, source: str, readers: Sequence[_Reader]) -> None:
        """Raise `DataError` for masks that are one class, and `IGNORED` where the other should be.

        Masks are read until one shows a second class.
        """
        seen = classes_seen(tuple(readers), 2)
        if seen.hides_one:
            raise DataError(self._hidden(source, f"the {len(readers)} masks", seen))

    def _hidden(self, source: str, masks: str, seen: Seen) -> str:
        """Say that one class alone is seen besides `IGNORED`, with the next step."""
        values = self._values()
        own = "".join(f"{values[each]} ({self.classes[each]}) or " for each in seen.classes)
        advice = "'values: [0, 255]' with two 'classes'"
        if len(values) == 2:
            at = 1 - next(iter(seen.classes), 0)
            pair = [IGNORED if each == at else value for each, value in enumerate(values)]
            advice = f"'values: {pair}' if {IGNORED} is {self.classes[at]}"
        but = f" but {seen.strays}" if seen.strays else ""
        return (
            f"{self.folder / self.masks_dir / source}: all pixels{but} of {masks} have the value "
            f"{own}{IGNORED}, and {IGNORED} counts for nothing by default; write {advice}, or "
            f"'ignore: {IGNORED}' if it is no class"
        )

    def _values(self) -> tuple[int, ...]:
        return self.values or tuple(range(len(self.classes)))

    def _coded(self) -> tuple[int, ...]:
        """Return the values of the classes, and last the one that counts for nothing, if any."""
        ignored = IGNORED if self._guesses else self.ignore
        return self._values() if ignored is None else (*self._values(), ignored)

    def _require_mask(self, name: str, file: ImageFile, image: str) -> None:
        """Raise `DataError` for a mask that cannot be read or has another size, by its header."""
        path = self.folder / name
        if file.fault:
            raise DataError(f"cannot read {path}: {file.fault}")
        size, shown = shown_size(path), shown_size(self.folder / image)
        if size and shown and size[:2] != shown[:2]:
            turned = size[:2] == (shown.height, shown.width)
            advice = (
                "turn it as the image's EXIF orientation says" if turned else "make it as large"
            )
            raise DataError(
                f"{path} is {size.width}x{size.height}, and {escaped_name(image)} is "
                f"{shown.width}x{shown.height} as a viewer shows it; {advice}"
            )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of a mask; equal ones give the same pixels."""

    name: str
    file: ImageFile
    folder: Path
    coded: tuple[int, ...]
    classes: int

    def __call__(self) -> MaskPixels:
        encoded = read_image(self.folder, self.name, self.file)
        return mask_pixels(self.folder / self.name, encoded, self.coded, self.classes)


class Seen(NamedTuple):
    """The classes in masks."""

    classes: frozenset[int]
    """Those with more than strays."""
    ignored: float
    """Share of the pixels that are `IGNORED`."""
    strays: int
    """Pixels of further classes."""

    @property
    def hides_one(self) -> bool:
        """Whether pixels of `IGNORED` are where a second class should be."""
        few = self.ignored >= _MUCH if self.strays else self.ignored > 0
        return len(self.classes) < 2 and few


@lru_cache(maxsize=4)  # the parts of a run ask several times
def classes_seen(readers: tuple[Callable[[], MaskPixels], ...], enough: int) -> Seen:
    """Read masks until they show ``enough`` classes."""
    import numpy as np

    counts = np.zeros(IGNORED + 1, np.int64)
    shown = counts[:IGNORED] > 0
    for read in readers:
        counts += np.bincount(read().ravel(), minlength=IGNORED + 1)
        shown = counts[:IGNORED] * _STRAY > counts[IGNORED]
        if np.count_nonzero(shown) >= enough:
            break
    found = frozenset(np.flatnonzero(shown).tolist())
    strays = int(counts[:IGNORED][~shown].sum())
    return Seen(found, float(counts[IGNORED] / max(int(counts.sum()), 1)), strays)


def mask_pixels(path: Path, encoded: bytes, coded: tuple[int, ...], classes: int) -> MaskPixels:
    """Decode a mask: (height, width) class of each pixel, or `IGNORED`.

    ``coded`` are the values of the classes in order, and after them any that count for nothing.

    Raise `DataError` for a file of colours, a damaged one, and a value of no class.
    """
    import numpy as np
    from PIL import Image

    try:
        # of other formats, some lose values, and some store them in more than 8 bits
        with Image.open(io.BytesIO(encoded), formats=("PNG",)) as image:
            mode, stored = image.mode, np.asarray(image)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataError(f"{path} is no PNG file that can be decoded: {error}") from error
    if mode not in ("L", "P", "1"):
        raise DataError(
            f"{path} has pixels of the kind {mode}; save masks as PNG with one value of "
            "8 bits a pixel, grey or with a palette"
        )
    if mode != "P":  # Pillow spreads grey values of 1, 2 and 4 bits over 0..255
        stored = stored.astype(np.uint8) // _SPREAD.get(encoded[_DEPTH], 1)
    class_of = np.full(256, -1, np.int16)
    class_of[list(coded)] = [*range(classes)] + [IGNORED] * (len(coded) - classes)
    found = class_of[stored]
    if (found < 0).any():
        row, column = np.argwhere(found < 0)[0].tolist()
        raise DataError(
            f"{path} has the value {stored[row, column]} at row {row}, column {column}, of no "
            "class; name it in 'classes' and 'values', or as 'ignore'"
        )
    return np.asarray(found, np.uint8)


def _joined(directory: str, name: str) -> str:
    return os.path.join(directory, name) if name else directory  # noqa: PTH118 - a name, no path
