"""`DigitsOnPhotos`: the data set that needs no download.

It puts real handwriting (scikit-learn's 1,797 digits) on real photographs (its two), as JPEG files
of 96..192 px, 4:2:0, quality 60..90, made on this machine and kept in the user's cache. The two
splits use disjoint handwritten digits and disjoint regions of the photographs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets.cache import cache_root, explained_cache, made_once
from alignkit.errors import ConfigError, DataError
from alignkit.plugins import Plugin
from alignkit.version import DATA_LAYERS, code_version
from alignkit.workspace import content_key, file_sha256

if TYPE_CHECKING:
    from alignkit.samples import Samples, Split

_CLASSES = tuple("0123456789")
_LIBRARIES = ("scikit-learn", "numpy", "pillow")
"""Distributions that decide the bytes of the images."""


@dataclass(frozen=True, slots=True)
class DigitsOnPhotos:
    """Handwritten digits on photographs; the classes are balanced."""

    train: int = 1200
    """Training images."""
    eval: int = 1000
    """Evaluation images."""
    seed: int = 0

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

    def counts(self) -> tuple[int, int]:
        """Return ``(train, eval)``."""
        return self.train, self.eval

    def fingerprint(self, split: Split | None = None) -> str:
        """Compute the SHA-256 hex over the options, the code and the libraries' versions."""
        if split is None:
            return content_key([self.fingerprint("train"), self.fingerprint("eval")])
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

    def notes(self) -> tuple[str, ...]:
        """Return no remarks."""
        return ()

    def _count(self, split: Split) -> int:
        return self.train if split == "train" else self.eval

    def _samples(self, split: Split) -> Samples:
        from alignkit.samples import Samples

        fingerprint = self.fingerprint(split)
        folder = made_once(
            cache_root() / "digits-on-photos" / f"{split}-{fingerprint[:16]}",
            damage=_damage,
            make=partial(_make, split=split, count=self._count(split), seed=self.seed),
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


def _make(folder: Path, *, split: Split, count: int, seed: int) -> None:
    from alignkit.datasets.digit_photo import compose

    with explained_cache():
        for name in _CLASSES:
            (folder / name).mkdir(parents=True)
        for index in range(count):
            (folder / _file(index)).write_bytes(compose(split, index, seed))
        hashes = [file_sha256(folder / _file(index)) for index in range(count)]
        (folder / "index.json").write_text(json.dumps(hashes))


def _damage(folder: Path) -> str:
    """Describe the damage to a cached set; empty if every file is as it was written."""
    try:
        hashes = json.loads((folder / "index.json").read_text())
        for index, expected in enumerate(hashes):
            if file_sha256(folder / _file(index)) != expected:
                return f"{_file(index)} was changed"
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return ""
