"""`DigitsOnPhotos`: the data set that needs no download.

It puts real handwriting (scikit-learn's 1,797 digits) on real photographs (its two), as JPEG files
of 96..192 px, 4:2:0, quality 60..90, made on this machine and kept in the user's cache. The two
splits use disjoint handwritten digits and disjoint regions of the photographs.

The recipe is MNIST-M's (Ganin et al., *Domain-Adversarial Training of Neural Networks*, 2016): the
absolute difference of photograph and digit, so that the digit inverts the photograph below it.
Sharp strokes and sensor noise, finer than a network's input resolves, make the images sensitive to
the resize. Everything follows from (seed, split, index): an image does not depend on the number of
images.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from alignkit.datasets.image_files import cache_root
from alignkit.datasets.made_files import MadeImages, MadeReads, made_files
from alignkit.extras import require_libraries

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.samples import Samples, Split

    Floats = npt.NDArray[np.float32]

CLASSES = tuple("0123456789")
TRAIN_SHARE = 0.6
"""Share of each class's handwritten digits that is used for training images."""
SIDE = (96, 192)
"""Least and greatest side of an image, in pixels."""
QUALITY = (60, 90)
"""Least and greatest JPEG quality."""
ZOOM = (2.0, 5.0)
"""Least and greatest enlargement of the patch of the photograph."""
NOISE = 8.0
"""Standard deviation of the noise, in grey levels."""
THICKNESS = (0.6, 0.4)
"""Level of the enlarged 8x8 digit, in 0..1, at which a stroke ends: thinnest and thickest."""
EDGE = 0.3
"""Levels over which a stroke fades out."""


@dataclass(frozen=True, slots=True)
class DigitsOnPhotos(MadeImages):
    """Handwritten digits on photographs; the classes are balanced."""

    least: ClassVar[int] = len(CLASSES)

    train: int = 1200
    """Training images."""
    eval: int = 1000
    """Evaluation images."""

    def class_names(self) -> tuple[str, ...]:
        """Return the ten digits."""
        return CLASSES

    def samples(self, split: Split) -> Samples:
        """Return the images of a split; make them first if they are not in the cache."""
        from alignkit.samples import Samples

        fingerprint, count = self.fingerprint(split), self.count(split)
        folder = made_files(
            cache_root() / "digits-on-photos" / f"{split}-{fingerprint[:16]}",
            fingerprint,
            lambda: ((_file(i), compose(split, i, self.seed)) for i in range(count)),
        )
        names = tuple(map(_file, range(count)))
        ids = tuple(f"{split}/{name}" for name in names)
        labels = tuple(index % len(CLASSES) for index in range(count))
        return Samples(ids, labels, CLASSES, MadeReads(folder, names), fingerprint)


def _file(index: int) -> str:
    return f"{CLASSES[index % len(CLASSES)]}/{index:06d}.jpg"


@dataclass(frozen=True, slots=True)
class Sources:
    """scikit-learn's bundled data."""

    digits: Floats
    """(1797, 8, 8) in 0..1."""
    labels: npt.NDArray[np.int64]
    photos: tuple[npt.NDArray[np.uint8], ...]
    """Two, (427, 640, 3) RGB."""


@cache
def sources() -> Sources:
    """Load the digits and photographs."""
    require_libraries("sklearn")
    import numpy as np
    from sklearn.datasets import load_digits, load_sample_images

    digits = load_digits()
    photos = tuple(np.asarray(photo) for photo in load_sample_images().images)
    return Sources((digits.images / 16).astype(np.float32), digits.target.astype(np.int64), photos)


@cache
def digits_of(split: Split, seed: int) -> tuple[tuple[int, ...], ...]:
    """List, for each class, the shuffled indices into `Sources.digits` that a split may use.

    The two splits share none.
    """
    import numpy as np

    # a stream of its own: images draw from [seed, 0 or 1, index]
    random = np.random.default_rng([seed, 2])
    pools = []
    for label in range(len(CLASSES)):
        shuffled = random.permutation(np.flatnonzero(sources().labels == label))
        cut = round(len(shuffled) * TRAIN_SHARE)
        chosen = shuffled[:cut] if split == "train" else shuffled[cut:]
        pools.append(tuple(int(index) for index in chosen))
    return tuple(pools)


def compose(split: Split, index: int, seed: int) -> bytes:
    """Compose one image as a JPEG file (4:2:0); its class is ``index % 10``."""
    import numpy as np

    random = np.random.default_rng([seed, split == "eval", index])
    height, width = (int(side) for side in random.integers(SIDE[0], SIDE[1] + 1, 2))
    pool = digits_of(split, seed)[index % len(CLASSES)]
    digit = sources().digits[pool[index // len(CLASSES) % len(pool)]]
    photo = noisy_patch(random, split, height, width)
    level = ink(random)
    return as_jpeg(random, inverted(photo, level * stroke(random, digit, height, width)))


def noisy_patch(random: np.random.Generator, split: Split, height: int, width: int) -> Floats:
    """Return a piece of a photograph with sensor noise: (height, width, 3) in 0..255."""
    import numpy as np

    photo = patch(random, split, height, width)
    photo += NOISE * random.standard_normal((height, width, 1), np.float32)
    return np.clip(photo, 0, 255)


def ink(random: np.random.Generator) -> float:
    """Draw the grey level of a digit's strokes."""
    return 255 * random.uniform(0.9, 1.0)


def inverted(photo: Floats, strokes: Floats) -> Floats:
    """Return the difference of a photograph and strokes, (height, width), in grey levels."""
    import numpy as np

    difference: Floats = np.abs(photo - strokes[..., None])
    return difference


def as_jpeg(random: np.random.Generator, pixels: Floats) -> bytes:
    """Encode pixels as a JPEG file of a random quality."""
    import numpy as np
    from PIL import Image

    file = io.BytesIO()
    quality = int(random.integers(QUALITY[0], QUALITY[1] + 1))
    image = Image.fromarray(np.rint(pixels).astype(np.uint8))
    # 4:2:0, because decoders differ most in the chroma of subsampled images
    image.save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


def patch(random: np.random.Generator, split: Split, height: int, width: int) -> Floats:
    """Enlarge a random piece of a photograph: left half for training, right for evaluation."""
    import numpy as np
    from PIL import Image

    photo = sources().photos[random.integers(len(sources().photos))]
    zoom = random.uniform(*ZOOM)
    piece_height, piece_width = round(height / zoom), round(width / zoom)
    half = photo.shape[1] // 2
    top = random.integers(photo.shape[0] - piece_height + 1)
    left = random.integers(half - piece_width + 1) + (half if split == "eval" else 0)
    piece = photo[top : top + piece_height, left : left + piece_width]
    if random.random() < 0.5:
        piece = piece[:, ::-1]
    enlarged = Image.fromarray(np.ascontiguousarray(piece)).resize(
        (width, height), Image.Resampling.BICUBIC
    )
    return np.asarray(enlarged, np.float32)


def stroke(random: np.random.Generator, digit: Floats, height: int, width: int) -> Floats:
    """Compute each pixel's coverage, 0..1, by the digit, turned, sheared, moved and thickened."""
    import numpy as np

    size = np.array([width, height]) * random.uniform(0.92, 1.0) * random.uniform(0.9, 1.1, 2)
    spare = np.maximum(0, np.array([width, height]) - size) / 2
    centre = np.array([width, height]) / 2 + random.uniform(-1, 1, 2) * spare
    angle, slant = random.uniform(-5, 5), random.uniform(-0.05, 0.05)
    threshold = random.uniform(min(THICKNESS), max(THICKNESS))
    place = DigitPlace(centre, size, angle, slant, threshold)
    return coverage(digit, place, height, width)


@dataclass(frozen=True, slots=True)
class DigitPlace:
    """The place of a digit on an image, and its stroke."""

    centre: npt.NDArray[np.float64]
    """(2,): x and y in pixels."""
    size: npt.NDArray[np.float64]
    """(2,): width and height in pixels of the digit's field."""
    angle: float
    """Degrees."""
    slant: float
    """Shift of a row by each row below it."""
    threshold: float
    """Level, 0..1, at which a stroke ends: a lower one makes it thicker."""


def coverage(digit: Floats, place: DigitPlace, height: int, width: int) -> Floats:
    """Compute each pixel's coverage, (height, width) in 0..1, by a digit, (8, 8) in 0..1."""
    import numpy as np
    from PIL import Image

    angle = np.deg2rad(place.angle)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    to_digit = turn @ np.array([[1, place.slant], [0, 1]]) @ np.diag(8 / place.size)
    margin = 4  # around the 8x8 digit, so that the interpolation meets no border inside the image
    shift = np.array([4, 4]) + margin - to_digit @ place.centre
    coefficients = (*to_digit[0], shift[0], *to_digit[1], shift[1])
    enlarged = Image.fromarray(np.pad(digit, margin)).transform(
        (width, height), Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC
    )
    level = (np.asarray(enlarged, np.float32) - np.float32(place.threshold)) / np.float32(EDGE)
    covered: Floats = np.clip(level + np.float32(0.5), 0, 1)
    return covered
