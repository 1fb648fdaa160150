"""`ObjectsOnPhotos`: several handwritten digits on a photograph, with boxes, masks or labels.

The images are made as those of `DigitsOnPhotos`, of the same digits and photographs: JPEG files of
unequal sides, so that a letterbox has something to pad, with no digit to five of 24..104 px that do
not overlap. The mask is each pixel of which a stroke covers at least half, and the box is the
smallest that holds them: both are exact by construction. The splits use disjoint handwritten digits
and disjoint regions of the photographs, divided before anything is composed.

The same images serve as boxes, masks or labels: only the option ``truth`` differs.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from alignkit.datasets.digits_on_photos import (
    CLASSES,
    as_jpeg,
    digits_of,
    ink,
    inverted,
    noisy_patch,
    sources,
    stroke,
)
from alignkit.datasets.image_files import cache_root
from alignkit.datasets.made_files import MadeImages, MadeReads, made_files, read_made
from alignkit.workspace import content_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.annotations import Annotation
    from alignkit.samples import Samples, Split

BACKGROUND = "background"
LONG, SHORT = (208, 320), (144, 224)
"""Least and greatest length of an image's longer and shorter side, in pixels."""
MOST_OBJECTS = 5
"""Greatest number of objects."""
EMPTY = 0.08
"""Share of images without an object."""
HEIGHT = (28, 104)
"""Least and greatest height of a digit's field, in pixels; the digit fills most of it."""
_OBJECTS = "objects.json"
_TRIES = 20
"""Places that are tried for an object; one that fits nowhere is left out."""
_APART = 2
"""Pixels between two fields."""


class Object(NamedTuple):
    """A digit on an image."""

    label: int
    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True, slots=True)
class ObjectsOnPhotos(MadeImages):
    """Several handwritten digits on each photograph, and on a few none."""

    train: int = 1000
    """Training images."""
    eval: int = 500
    """Evaluation images."""
    truth: Literal["boxes", "mask", "labels"] = "boxes"
    """Annotation of an image: boxes of digits, the class of each pixel, or the set of digits."""

    def class_names(self) -> tuple[str, ...]:
        """Return the ten digits; of a mask the background before them."""
        return (BACKGROUND, *CLASSES) if self.truth == "mask" else CLASSES

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the options, the code and the libraries' versions."""
        return content_key([self.truth, self.images_key(split)])

    def samples(self, split: Split) -> Samples:
        """Return the images of a split; make them first if they are not in the cache."""
        from alignkit.samples import Samples

        key, count = self.images_key(split), self.count(split)
        folder = made_files(
            cache_root() / "objects-on-photos" / f"{split}-{key[:16]}",
            key,
            lambda: _files(split, count, self.seed),
        )
        objects = json.loads(read_made(folder / _OBJECTS))
        return Samples(
            ids=tuple(f"{split}/{index:06d}.jpg" for index in range(count)),
            labels=(),
            classes=self.class_names(),
            read=MadeReads(folder, tuple(f"{index:06d}.jpg" for index in range(count))),
            fingerprint=self.fingerprint(split),
            annotations=tuple(
                self._annotation(folder / f"{index:06d}.png", [Object(*each) for each in found])
                for index, found in enumerate(objects)
            ),
        )

    def _annotation(self, mask: Path, objects: list[Object]) -> Annotation:
        import numpy as np

        from alignkit.annotations import Boxes, LabelSet, Mask

        labels = [each.label for each in objects]
        if self.truth == "labels":
            return LabelSet(tuple(sorted({*labels})))
        if self.truth == "mask":
            return Mask(lambda: _read_mask(mask))
        corners = np.array([each[1:] for each in objects], np.float64).reshape(-1, 4)
        return Boxes(corners, np.array(labels, np.int64), np.zeros(len(labels), np.bool_))


def _read_mask(file: Path) -> npt.NDArray[np.uint8]:
    import numpy as np
    from PIL import Image

    return np.array(Image.open(io.BytesIO(read_made(file))))


def _files(split: Split, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield the image and the mask of each index, and last the objects of all."""
    from PIL import Image

    objects = []
    for index in range(count):
        composed = compose(split, index, seed)
        mask = io.BytesIO()
        Image.fromarray(composed.mask).save(mask, "PNG")
        yield f"{index:06d}.jpg", composed.jpeg
        yield f"{index:06d}.png", mask.getvalue()
        objects.append(composed.objects)
    yield _OBJECTS, json.dumps(objects).encode()


class Composed(NamedTuple):
    """An image with everything that is known of it."""

    jpeg: bytes
    mask: npt.NDArray[np.uint8]
    """(height, width): 0 for the background, 1 more than the digit for a stroke."""
    objects: list[Object]


def compose(split: Split, index: int, seed: int) -> Composed:
    """Compose one image; it depends on these three alone."""
    import numpy as np

    # streams of its own: those of `digits_on_photos` begin with 0, 1 and 2
    random = np.random.default_rng([seed, 4 if split == "eval" else 3, index])
    sides = int(random.integers(LONG[0], LONG[1] + 1)), int(random.integers(SHORT[0], SHORT[1] + 1))
    width, height = sides if random.random() < 0.5 else sides[::-1]
    photo = noisy_patch(random, split, height, width)
    strokes, mask = np.zeros((height, width), np.float32), np.zeros((height, width), np.uint8)
    objects = []
    for left, top, right, bottom in _fields(random, width, height):
        label = int(random.integers(len(CLASSES)))
        pool = digits_of(split, seed)[label]
        digit = sources().digits[pool[random.integers(len(pool))]]
        level = ink(random)
        covered = stroke(random, digit, bottom - top, right - left)
        strokes[top:bottom, left:right] = level * covered
        rows, columns = np.nonzero(covered >= 0.5)
        mask[top + rows, left + columns] = label + 1
        objects.append(
            Object(
                label,
                left + int(columns.min()),
                top + int(rows.min()),
                left + int(columns.max()) + 1,
                top + int(rows.max()) + 1,
            )
        )
    return Composed(as_jpeg(random, inverted(photo, strokes)), mask, objects)


def _fields(random: np.random.Generator, width: int, height: int) -> list[Any]:
    """Draw the fields of the digits, left, top, right, bottom, none over another."""
    count = 0 if random.random() < EMPTY else int(random.integers(1, MOST_OBJECTS + 1))
    fields: list[tuple[int, int, int, int]] = []
    for _ in range(count):
        # as many small ones as large ones by ratio, not by pixels
        tall = round(HEIGHT[0] * (HEIGHT[1] / HEIGHT[0]) ** random.random())
        wide = round(tall * random.uniform(0.7, 1.0))
        for _ in range(_TRIES):
            left = int(random.integers(width - wide + 1))
            top = int(random.integers(height - tall + 1))
            field = (left, top, left + wide, top + tall)
            if all(_is_apart(field, other) for other in fields):
                fields.append(field)
                break
    return fields


def _is_apart(a: tuple[int, int, int, int], b: tuple[int, int, int, int]) -> bool:
    return (
        a[0] >= b[2] + _APART
        or b[0] >= a[2] + _APART
        or a[1] >= b[3] + _APART
        or b[1] >= a[3] + _APART
    )
