"""`DigitIdentities`: numbers in handwriting on photographs, to tell apart and to find again.

An identity is a number of two handwritten digits of scikit-learn's 1,797, which differ from all
others, of the same numerals too. Its images show it in bright ink on several darkened photographs,
at other places and sizes, slightly turned, in other light; they are JPEG files as those of
`DigitsOnPhotos`. The identities of evaluation consist of digits that no training image shows, on
other regions of the photographs.

Ink hides the photograph, where `DigitsOnPhotos` inverts it: a small network learns to find most
images of an evaluated identity within ten epochs of ArcFace, and far fewer on inverted photographs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, ClassVar

from alignkit.datasets.digits_on_photos import (
    DigitPlace,
    as_jpeg,
    coverage,
    digits_of,
    noisy_patch,
    sources,
)
from alignkit.datasets.image_files import cache_root
from alignkit.datasets.made_files import MOST_MADE, MadeImages, MadeReads, made_files
from alignkit.errors import ConfigError
from alignkit.workspace import content_key

if TYPE_CHECKING:
    import numpy as np

    from alignkit.samples import Samples, Split

MOST_IDENTITIES = 100_000
"""Greatest number of identities of a split; its digits suffice for four times as many."""
SIDE = (96, 160)
"""Least and greatest side of an image, in pixels."""
SCALE = (0.7, 0.95)
"""Least and greatest height of a digit's field, as a share of the image's shorter side."""
TURN = 10.0
"""Greatest turn, in degrees."""
THICKNESS = 0.5
"""Level, 0..1, at which a stroke ends; the same for all images, as a stroke is what an identity
is known by."""
INK = (0.75, 1.0)
"""Least and greatest grey level of a stroke, as a share of white."""
LIGHT = (0.3, 0.7)
"""Least and greatest brightness of the photograph, as a share of its own."""


@dataclass(frozen=True, slots=True)
class DigitIdentities(MadeImages):
    """Handwritten digits, each on several photographs; evaluated ones are never trained on."""

    held_out: ClassVar[bool] = True

    train: int = 600
    """Training identities."""
    eval: int = 250
    """Evaluation identities, none of them a training identity."""
    images: int = 6
    """Images of each identity."""

    def __post_init__(self) -> None:
        for name, count in (("train", self.train), ("eval", self.eval)):
            if not 2 <= count <= MOST_IDENTITIES:
                raise ConfigError(f"{name}: {count} identities; from 2 to {MOST_IDENTITIES:,}")
        most = MOST_MADE // max(self.train, self.eval)
        if not 2 <= self.images <= most:
            raise ConfigError(f"images: {self.images} of each identity; from 2 to {most:,}")
        self.require_seed()

    def class_names(self) -> tuple[str, ...]:
        """Return the identities of evaluation."""
        return identities("eval", self.eval)

    def trained_names(self) -> tuple[str, ...]:
        """Return the identities of training."""
        return identities("train", self.train)

    def counts(self) -> tuple[int, int]:
        """Return the number of images of each split."""
        return self.train * self.images, self.eval * self.images

    def fingerprint(self, split: Split) -> str:
        """Compute the SHA-256 hex over the options, the code and the libraries' versions."""
        return content_key([self.images, self.images_key(split)])

    def samples(self, split: Split) -> Samples:
        """Return the images of a split, identity by identity; make them if they are absent."""
        from alignkit.samples import Samples

        key, names = self.fingerprint(split), identities(split, self.count(split) // self.images)
        files = [f"{name}/{image:03d}.jpg" for name in names for image in range(self.images)]
        folder = made_files(
            cache_root() / "digit-identities" / f"{split}-{key[:16]}",
            key,
            lambda: (
                (file, compose(split, *divmod(index, self.images), self.seed))
                for index, file in enumerate(files)
            ),
        )
        return Samples(
            ids=tuple(f"{split}/{file}" for file in files),
            labels=tuple(index // self.images for index in range(len(files))),
            classes=names,
            read=MadeReads(folder, tuple(files)),
            fingerprint=key,
        )


def identities(split: Split, count: int) -> tuple[str, ...]:
    """Name the identities of a split."""
    return tuple(f"{split}-{number:05d}" for number in range(count))


@cache
def digits_in(place: int, split: Split, seed: int) -> tuple[int, ...]:
    """List the digits of a split, indices into `Sources.digits`, in an order of each place."""
    import numpy as np

    pool = [digit for numeral in digits_of(split, seed) for digit in numeral]
    # `digits_of` draws from [seed, 2]
    return tuple(np.random.default_rng([seed, 7, place]).permutation(pool).tolist())


def digits_shown(split: Split, identity: int, seed: int) -> tuple[int, int]:
    """Return the two digits of an identity; no two identities have the same two in this order."""
    left, right = (digits_in(place, split, seed) for place in (0, 1))
    turn, first = divmod(identity, len(left))
    return left[first], right[(first + turn) % len(right)]


def compose(split: Split, identity: int, image: int, seed: int) -> bytes:
    """Compose one image as a JPEG file (4:2:0); it depends on these four alone."""
    import numpy as np

    # streams of its own: those of `digits_on_photos` and `objects_on_photos` begin with 0 to 4
    random = np.random.default_rng([seed, 6 if split == "eval" else 5, identity, image])
    height, width = (int(side) for side in random.integers(SIDE[0], SIDE[1] + 1, 2))
    photo = noisy_patch(random, split, height, width) * np.float32(random.uniform(*LIGHT))
    ink = np.float32(255 * random.uniform(*INK))
    covered = np.zeros((height, width), np.float32)
    places = _places(random, height, width)
    for digit, place in zip(digits_shown(split, identity, seed), places, strict=True):
        covered = np.maximum(covered, coverage(sources().digits[digit], place, height, width))
    return as_jpeg(random, photo + (ink - photo) * covered[..., None])


def _places(random: np.random.Generator, height: int, width: int) -> tuple[DigitPlace, DigitPlace]:
    """Draw the places of two digits side by side, wholly on the image."""
    import numpy as np

    side = min(height, width) * random.uniform(*SCALE)
    spare = np.array([width - side, height - side]) / 2
    centre = np.array([width, height]) / 2 + random.uniform(-1, 1, 2) * spare
    angle = random.uniform(-TURN, TURN)
    # a digit leaves the outer columns of its field empty, so that the fields may overlap
    size = np.array([0.6 * side, 0.9 * side])
    aside = 0.22 * side * np.array([np.cos(np.deg2rad(angle)), np.sin(np.deg2rad(angle))])
    first, second = (
        DigitPlace(each, size, angle, 0.0, THICKNESS) for each in (centre - aside, centre + aside)
    )
    return first, second
