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
import json
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets import Dataset
from alignkit.datasets.image_files import cache_root, explained_cache, made_once
from alignkit.errors import ConfigError, DataError
from alignkit.extras import require_libraries
from alignkit.plugins import Plugin
from alignkit.stored_file import DamagedError, file_sha256, read_sealed, sealed
from alignkit.version import DATA_LAYERS, code_version
from alignkit.workspace import content_key

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.samples import Samples, Split

    Floats = npt.NDArray[np.float32]

_CLASSES = tuple("0123456789")
_LIBRARIES = ("scikit-learn", "numpy", "pillow")
"""Distributions that decide the bytes of the images."""
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
class DigitsOnPhotos(Dataset):
    """Handwritten digits on photographs; the classes are balanced."""

    train: int = 1200
    """Training images."""
    eval: int = 1000
    """Evaluation images."""
    seed: int = 0
    """Seed of the photographs, positions and qualities; another one makes other images."""

    def __post_init__(self) -> None:
        for name, count in (("train", self.train), ("eval", self.eval)):
            if not len(_CLASSES) <= count <= 1_000_000:
                raise ConfigError(f"{name}: {count} images; from 10 (one per class) to 1,000,000")
        if self.seed < 0:
            raise ConfigError(f"seed: {self.seed}; 0 or more")

    def training(self) -> Samples:
        """Return the training images; make them first if they are not in the cache."""
        return self._samples("train")

    def evaluation(self) -> Samples:
        """Return the evaluation images; make them first if they are not in the cache."""
        return self._samples("eval")

    def class_names(self) -> tuple[str, ...]:
        """Return the ten digits."""
        return _CLASSES

    def counts(self) -> tuple[int, int]:
        """Return ``(train, eval)``."""
        return self.train, self.eval

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the options, the code and the libraries' versions."""
        return content_key(
            {
                "split": split,
                "count": self._count(split),
                "seed": self.seed,
                "code": code_version(DATA_LAYERS),
                "libraries": self.version(),
            }
        )

    def version(self) -> str:
        """Return ``scikit-learn 1.8.0, numpy 2.4.1, pillow 12.0.0``."""
        return ", ".join(Plugin("", distributions=(name,)).version() for name in _LIBRARIES)

    def _count(self, split: Split) -> int:
        return self.train if split == "train" else self.eval

    def _samples(self, split: Split) -> Samples:
        from alignkit.samples import Samples

        fingerprint = self.fingerprint(split)
        folder = made_once(
            cache_root() / "digits-on-photos" / f"{split}-{fingerprint[:16]}",
            damage=partial(_damage, fingerprint=fingerprint),
            make=partial(_make, fingerprint, split, self._count(split), self.seed),
        )
        ids = tuple(f"{split}/{_file(index)}" for index in range(self._count(split)))
        labels = tuple(index % len(_CLASSES) for index in range(len(ids)))
        return Samples(ids, labels, _CLASSES, partial(_read, folder), fingerprint)


def _file(index: int) -> str:
    return f"{_CLASSES[index % len(_CLASSES)]}/{index:06d}.jpg"


def _read(folder: Path, index: int) -> bytes:
    try:
        return (folder / _file(index)).read_bytes()
    except OSError as error:
        raise DataError(
            f"{folder} was removed or damaged meanwhile ({error.strerror}); run the command again"
        ) from error


def _make(fingerprint: str, split: Split, count: int, seed: int, folder: Path) -> None:
    with explained_cache():
        for name in _CLASSES:
            (folder / name).mkdir(parents=True)
        for index in range(count):
            (folder / _file(index)).write_bytes(compose(split, index, seed))
        hashes = [file_sha256(folder / _file(index)) for index in range(count)]
        # last: a folder without it counts as damaged
        content = {"fingerprint": fingerprint, "files": hashes}
        (folder / "index.json").write_text(sealed(json.dumps(content)))


def _damage(folder: Path, fingerprint: str) -> str:
    """Describe the damage to a cached set; empty if every file is as it was written."""
    try:
        index = json.loads(read_sealed(folder / "index.json"))
        if index["fingerprint"] != fingerprint:
            return "index.json is that of other images"
        for number, expected in enumerate(index["files"]):
            if file_sha256(folder / _file(number)) != expected:
                return f"{_file(number)} was changed"
    except DamagedError as error:
        return f"index.json: {error}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"
    return ""


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
    for label in range(len(_CLASSES)):
        shuffled = random.permutation(np.flatnonzero(sources().labels == label))
        cut = round(len(shuffled) * TRAIN_SHARE)
        chosen = shuffled[:cut] if split == "train" else shuffled[cut:]
        pools.append(tuple(int(index) for index in chosen))
    return tuple(pools)


def compose(split: Split, index: int, seed: int) -> bytes:
    """Compose one image as a JPEG file (4:2:0); its class is ``index % 10``."""
    import numpy as np
    from PIL import Image

    random = np.random.default_rng([seed, split == "eval", index])
    height, width = (int(side) for side in random.integers(SIDE[0], SIDE[1] + 1, 2))
    pool = digits_of(split, seed)[index % len(_CLASSES)]
    digit = sources().digits[pool[index // len(_CLASSES) % len(pool)]]
    photo = _patch(random, split, height, width)
    photo += NOISE * random.standard_normal((height, width, 1), np.float32)
    ink = 255 * random.uniform(0.9, 1.0) * _stroke(random, digit, height, width)
    blended = np.abs(np.clip(photo, 0, 255) - ink[..., None])
    file = io.BytesIO()
    quality = int(random.integers(QUALITY[0], QUALITY[1] + 1))
    image = Image.fromarray(np.rint(blended).astype(np.uint8))
    # 4:2:0, because decoders differ most in the chroma of subsampled images
    image.save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


def _patch(random: np.random.Generator, split: str, height: int, width: int) -> Floats:
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


def _stroke(random: np.random.Generator, digit: Floats, height: int, width: int) -> Floats:
    """Compute each pixel's coverage, 0..1, by the digit, turned, sheared, moved and thickened."""
    import numpy as np
    from PIL import Image

    size = np.array([width, height]) * random.uniform(0.92, 1.0) * random.uniform(0.9, 1.1, 2)
    spare = np.maximum(0, np.array([width, height]) - size) / 2
    centre = np.array([width, height]) / 2 + random.uniform(-1, 1, 2) * spare
    angle = np.deg2rad(random.uniform(-5, 5))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    shear = np.array([[1, random.uniform(-0.05, 0.05)], [0, 1]])
    to_digit = turn @ shear @ np.diag(8 / size)
    margin = 4  # around the 8x8 digit, so that the interpolation meets no border inside the image
    shift = np.array([4, 4]) + margin - to_digit @ centre
    coefficients = (*to_digit[0], shift[0], *to_digit[1], shift[1])
    enlarged = Image.fromarray(np.pad(digit, margin)).transform(
        (width, height), Image.Transform.AFFINE, coefficients, Image.Resampling.BICUBIC
    )
    threshold = random.uniform(min(THICKNESS), max(THICKNESS))
    level = (np.asarray(enlarged, np.float32) - np.float32(threshold)) / np.float32(EDGE)
    covered: Floats = np.clip(level + np.float32(0.5), 0, 1)
    return covered
