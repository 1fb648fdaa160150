"""Which decoders of this machine, with which options, reproduce the stored pixels of a pair.

A *rule* is a decoder with one choice of its options. Every rule that can run here decodes every
JPEG file, in worker processes; samples are counted that differ from the stored ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import cv2
import numpy as np

from alignkit.arrays import Image
from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.errors import DataError
from alignkit.isolation.worker import EVERYTHING, Begin, Encoded
from alignkit.preprocess import Preprocess, Resize
from alignkit.preprocess.image_header import decode
from alignkit.preprocess.image_taps import result_or_reason, run_isolated, warm_up
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.stages import stage_identity
from alignkit.progress import Progress
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.search.configurations import variants
from alignkit.stored_file import file_sha256, read_regular
from alignkit.studies.calibrate import kind_of
from alignkit.studies.calibrate.stored_pairs import StoredPair, StoredPairs, pixels_of

REPRODUCED_SHARE = 1e-4
"""Greatest share of samples, each off by one level, at which a rule still reproduces a decoder: two
orders of summation in float32 differ where a value lies between two levels, and nowhere else."""


class Gap(NamedTuple):
    """Differences of stored samples from those of one rule; a tuple, as thousands are sent."""

    samples: int = 0
    wrong: int = 0
    greatest: int = 0
    """In grey levels, as are the sums."""
    sum_abs: int = 0
    sum_signed: int = 0
    """Stored minus ours."""

    def plus(self, other: Gap) -> Gap:
        """Add the differences of another image."""
        sums = [a + b for a, b in zip(self, other, strict=True)]
        sums[2] = max(self.greatest, other.greatest)
        return Gap(*sums)

    @property
    def reproduced(self) -> bool:
        """Whether the rule reproduces the samples, up to `REPRODUCED_SHARE`."""
        return self.greatest <= 1 and self.samples > 0 and self.wrong <= self.allowed

    @property
    def allowed(self) -> int:
        """Number of samples that may be off by one level."""
        return math.ceil(REPRODUCED_SHARE * self.samples)


class RuleResult(NamedTuple):
    """One rule on one image."""

    gap: Gap | None
    """``None`` if the rule did not decode the image, or to another size."""
    reason: str = ""
    damaged: str = ""
    """The decoder's words for damage of a JPEG file that it decoded."""
    digest: str = ""
    """Hash of the rule's pixels; rules of equal hashes decode the image alike."""
    rows: int = 0
    """Rows from the top within one level of the stored ones."""


class PairOutcome(NamedTuple):
    """One pair against every rule."""

    pair: StoredPair
    kind: str
    """Chroma subsampling and coding."""
    rules: tuple[RuleResult, ...]
    reason: str = ""
    """Why the pair could not be compared; empty if it was."""
    sha256: tuple[str, str] = ("", "")
    """Of the JPEG file and of the file of its pixels, in hex."""
    rows: int = 0
    """Rows compared."""


@dataclass(frozen=True, slots=True)
class DecodeRule:
    """A decoder of this machine with one choice of its options."""

    decoder: Decoder
    plugin: str

    @property
    def name(self) -> str:
        """Return ``nvjpeg-model (repeat, float, truncate)``; all options, in their order."""
        if isinstance(self.decoder, NvjpegModelDecoder):
            return f"{self.plugin} ({self.decoder.rule})"
        own = stage_identity(self.decoder)  # without an option that was added later, at its default
        values = [_option(self.decoder, name) for name in own if name != "stage"]
        return f"{self.plugin} ({', '.join(values)})" if values else self.plugin

    @property
    def plain(self) -> bool:
        """Whether all options are the defaults."""
        return self.decoder == type(self.decoder)()


def _option(decoder: Any, name: str) -> str:
    value = getattr(decoder, name)
    return name if value is True else f"no {name}" if value is False else str(value)


def rules_here() -> tuple[DecodeRule, ...]:
    """List the rules of a CPU that can run on this machine; a GPU's decoder explains nothing."""
    return tuple(
        DecodeRule(decoder, name)
        for name, plugin in DECODERS.items()
        if not plugin.gpu and not plugin.missing() and not DECODERS.reason(name)
        for decoder in variants(plugin.load())
    )


@dataclass(frozen=True, slots=True)
class ComparePairs:
    """Compare pairs with every rule; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]
    """A path for each rule; only its decoder is used."""

    def warm_up(self, begin: Begin) -> None:
        """Run every rule once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[PairOutcome]:
        """Compare some pairs; ``given`` of an image is its `StoredPair`."""
        return [self._pair(image, partial(begin, n)) for n, image in enumerate(images)]

    def _pair(self, image: Encoded, begin: Any) -> PairOutcome:
        begin(EVERYTHING)
        pair: StoredPair = image.given
        header = read_jpeg_header(image.data)
        kind = kind_of(image)
        lost = dict(image.lost)
        if header is None or EVERYTHING in lost:
            return PairOutcome(pair, kind, (), lost.get(EVERYTHING, "its JPEG header is damaged"))
        try:
            stored = pixels_of(pair, header.height, header.width)
            hashes = _sha256(image.data), file_sha256(pair.pixels)
        except (DataError, MemoryError) as error:
            return PairOutcome(pair, kind, (), str(error))
        except OSError as error:  # a record names no folder of this machine
            return PairOutcome(pair, kind, (), error.strerror or str(error))
        found = []
        for number, path in enumerate(self.paths):
            outcome: RuleResult | str = lost.get(number, "")
            if not outcome:
                begin(number)
                outcome = result_or_reason(partial(_compared, path, image.data, stored))
            found.append(RuleResult(None, outcome) if isinstance(outcome, str) else outcome)
        missed = "" if any(each.gap for each in found) else f"no rule decodes it: {found[0].reason}"
        return PairOutcome(pair, kind, tuple(found), missed, hashes, len(stored))


def _compared(path: Preprocess, data: bytes, stored: Image) -> RuleResult:
    decoded: Decoded = decode(path.decode, data, path.max_pixels)
    if decoded.image is None:
        return RuleResult(None, decoded.reason or decoded.outcome)
    ours = decoded.image[: len(stored)]
    if ours.shape != stored.shape:
        return RuleResult(None, f"it decodes to {decoded.image.shape[1]}x{decoded.image.shape[0]}")
    gap = gap_of(stored, ours)
    far = np.flatnonzero(cv2.absdiff(stored, ours).max(axis=(1, 2)) > 1)
    rows = int(far[0]) if len(far) else len(stored)
    return RuleResult(gap, damaged=decoded.reason, digest=_sha256(ours.tobytes()), rows=rows)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def gap_of(stored: Image, ours: Image) -> Gap:
    """Count the differences of two images of one shape, uint8."""
    apart = np.subtract(stored, ours, dtype=np.int16)
    size = np.abs(apart)
    return Gap(
        samples=apart.size,
        wrong=int(np.count_nonzero(apart)),
        greatest=int(size.max(initial=0)),
        sum_abs=int(size.sum(dtype=np.int64)),
        sum_signed=int(apart.sum(dtype=np.int64)),
    )


def compare_pairs(
    stored: StoredPairs, rules: Sequence[DecodeRule], progress: Progress
) -> tuple[PairOutcome, ...]:
    """Compare every pair with every rule, in the order of the pairs."""
    size = Resize(OpenCVResizer(), (8, 8))  # a path needs one; no image is resized
    paths = tuple(Preprocess(rule.name, rule.decoder, size) for rule in rules)
    found: list[PairOutcome] = []
    with progress.stage("calibrate", len(stored.pairs), f"{len(rules)} rules") as stage:
        for part in run_isolated(ComparePairs(paths), paths, _encoded(stored.pairs)):
            found += part
            stage.advance(len(part))
    return tuple(found)


def _encoded(pairs: Iterable[StoredPair]) -> Iterator[Encoded]:
    for pair in pairs:
        try:
            data = read_regular(pair.jpeg)
        except OSError as error:
            yield Encoded(pair.id, b"", ((EVERYTHING, error.strerror or str(error)),), pair)
        else:
            yield Encoded(pair.id, data, (), pair)
