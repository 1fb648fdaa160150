"""Statistics of the sets of an experiment or a folder: counts, classes, sizes, mean and deviation.

There are two kinds of mean and deviation, which are often confused: of the *whole set*, where every
pixel has equal weight, as a normalisation needs them; and *per image*, where each image's own are
averaged and every image has equal weight. The second standard deviation leaves out differences
between images, so with images of one size it is never the greater. Memory does not grow with the
images: they are read one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median_low

import numpy as np

from alignkit.arrays import FloatArray, Pixels
from alignkit.datasets import Dataset
from alignkit.decoders import DECODERS, Decoded
from alignkit.errors import ConfigError, DataError, MissingDependency, UnreadableImage
from alignkit.plugins import did_you_mean
from alignkit.progress import Progress, ProgressStage
from alignkit.samples import Samples, copies_of
from alignkit.text.numbers import copies_words

Look = Callable[[bytes], "tuple[Decoded, Pixels | None]"]
"""Encoded bytes → the decode's outcome, and the pixels to measure, in 0..255."""


@dataclass(frozen=True, slots=True)
class Described:
    """The result of `alignkit data stats`."""

    source: str
    how: str
    """Preparation of an image before it was measured."""
    preprocess: str
    """Path of an experiment; empty for a folder."""
    normalise: ChannelMoments | None
    """Mean and std that the path normalises by; ``None`` for a folder."""
    sets: tuple[SetDescription, ...]
    notes: tuple[str, ...] = ()
    """Content in both splits, images of no class."""


def described(
    source: Path, overrides: Sequence[str], *, preprocess: str, decoder: str, progress: Progress
) -> Described:
    """Measure every image of an experiment file's data, or of a folder.

    Raises `ConfigError` for an unknown name, `MissingDependency` for a missing library, `DataError`
    if no image could be decoded.
    """
    from alignkit.datasets.byte_store import url_of
    from alignkit.datasets.image_source import ARCHIVES
    from alignkit.experiment import load_experiment

    if source.is_dir() or url_of(source) or source.suffix in ARCHIVES:
        if preprocess or overrides:
            raise ConfigError(f"{source} is a place of images; --preprocess and --set need a file")
        how = f"as decoded by {decoder}; 1 is the value 255"
        look, (sets, notes) = _decoding(decoder), _sets_of_folder(source)
        return Described(
            url_of(source) or str(source),
            how,
            "",
            None,
            _measured(sets, look, progress),
            (*notes, *_copied(sets)),
        )
    experiment = load_experiment(source, overrides)
    paths = {path.name: path for path in experiment.paths}
    path = paths.get(preprocess or experiment.reference.name)
    if path is None:
        raise ConfigError(f"no path {preprocess!r} in {source}{did_you_mean(preprocess, paths)}")
    if missing := path.missing():
        raise MissingDependency(missing)
    data = experiment.data
    if experiment.labelled:
        both = {"train": data.training(), "eval": data.evaluation()}
        # where models are given, the data may have no training images
        sets = {name: samples for name, samples in both.items() if len(samples)}
    else:
        sets = {"all": data.evaluation()}

    def prepared(encoded: bytes) -> tuple[Decoded, Pixels | None]:
        taps = path.taps(encoded)
        return taps.decoded, taps.last

    return Described(
        source=str(source),
        how=f"{experiment.data_name} as path {path.name} gives it to be normalised; "
        "1 is the value 255",
        preprocess=path.name,
        normalise=ChannelMoments(path.normalise.mean, path.normalise.std),
        sets=_measured(sets, prepared, progress),
        notes=(*data.notes(), *_copied(sets)),
    )


def _copied(sets: Mapping[str, Samples]) -> list[str]:
    """Say how many images of each set are copies of others."""
    found = ((name, samples, len(copies_of(samples))) for name, samples in sets.items())
    return [
        f"{name}: {copies_words(copies, len(samples))}" for name, samples, copies in found if copies
    ]


def _measured(
    sets: dict[str, Samples], look: Look, progress: Progress
) -> tuple[SetDescription, ...]:
    found = []
    for name, samples in sets.items():
        with progress.stage("measure", len(samples), name) as stage:
            found.append(describe(name, samples, look, stage))
    return tuple(found)


def _decoding(name: str) -> Look:
    from alignkit.preprocess.image_header import decode

    plugin = DECODERS.find(name)
    if missing := plugin.missing():
        raise MissingDependency(missing)
    decoder = plugin.load()()

    def look(encoded: bytes) -> tuple[Decoded, Pixels | None]:
        decoded = decode(decoder, encoded)
        return decoded, decoded.image

    return look


def _sets_of_folder(root: Path) -> tuple[dict[str, Samples], tuple[str, ...]]:
    """Return the folder's two splits, or all of its images as ``all``; and notes on them."""
    from alignkit.datasets.folder import Folder
    from alignkit.datasets.image_source import open_source
    from alignkit.datasets.labelled import (
        has_classes,
        images_by_class,
        labelled_samples,
        split_dirs,
        strays,
    )
    from alignkit.datasets.unlabelled_images import Images

    if source := open_source(root):
        folders = {name.partition("/")[0] for name in source.images.names if "/" in name}
        labelled = source.images.labels or len(folders) > 1
        data: Dataset = Folder(root).undivided() if labelled else Images(root)
        return {"all": data.evaluation()}, tuple(data.notes()) if labelled else ()
    if split_dirs(root, "train", ""):  # as `data: {name: folder}` reads it
        folder = Folder(root)
        sets = {"train": folder.training(), "eval": folder.evaluation()}
        return sets, tuple(folder.notes())
    if has_classes(root):
        sets = {"all": labelled_samples(root, images_by_class(root))}
        return sets, tuple(strays(root, [""]))
    return {"all": Images(root).evaluation()}, ()


@dataclass(frozen=True, slots=True)
class SideLengths:
    """Distribution of one side of the decoded images, in pixels."""

    least: int
    median: int
    greatest: int


@dataclass(frozen=True, slots=True)
class Remarked:
    """An image whose decode was not ``ok``."""

    id: str
    outcome: str
    reason: str


@dataclass(frozen=True, slots=True)
class SetDescription:
    """One set, e.g. the training images."""

    name: str
    images: int
    measured: int
    """Images with pixels; ``remarked`` lists the others."""
    bytes: int
    """Size of the encoded files."""
    classes: dict[str, int]
    """Class → images that have it; empty without labels."""
    sizes: int
    """Number of different sizes."""
    width: SideLengths
    height: SideLengths
    whole_set: ChannelMoments
    """Of all pixels together, each with equal weight."""
    per_image: ChannelMoments
    """Of each image alone, then averaged over the images."""
    remarked: tuple[Remarked, ...]


def describe(name: str, samples: Samples, look: Look, stage: ProgressStage) -> SetDescription:
    """Read every image once, holding one at a time.

    Raises `DataError` if none could be decoded.
    """
    moments, sizes = Moments(), Counter[tuple[int, int]]()
    remarked, encoded_bytes = [], 0
    for index, sample in enumerate(samples.ids):
        try:
            encoded = samples.read(index)
        except UnreadableImage as error:
            decoded, pixels = Decoded("failed", reason=error.reason), None
        else:
            encoded_bytes += len(encoded)
            decoded, pixels = look(encoded)
        if decoded.outcome != "ok":
            remarked.append(Remarked(sample, decoded.outcome, decoded.reason))
        # an image may decode, and a later stage refuse it
        if decoded.image is not None and pixels is not None:
            sizes[decoded.image.shape[0], decoded.image.shape[1]] += 1
            moments.add(pixels)
        stage.advance()
    if not moments.images:
        first = f"; the first, {remarked[0].id}: {remarked[0].reason}" if remarked else ""
        raise DataError(f"{name}: none of {len(samples)} images could be decoded{first}")
    of_class = Counter(samples.labels)
    for annotation in samples.annotations:
        of_class.update(annotation.present())
    return SetDescription(
        name=name,
        images=len(samples),
        measured=moments.images,
        bytes=encoded_bytes,
        classes={each: of_class[index] for index, each in enumerate(samples.classes)},
        sizes=len(sizes),
        width=_sides(sizes, 1),
        height=_sides(sizes, 0),
        whole_set=moments.whole_set,
        per_image=moments.per_image,
        remarked=tuple(remarked),
    )


def _sides(sizes: Counter[tuple[int, int]], axis: int) -> SideLengths:
    sides = sorted(size[axis] for size in sizes.elements())
    return SideLengths(sides[0], median_low(sides), sides[-1])


@dataclass(frozen=True, slots=True)
class ChannelMoments:
    """Mean and std of each channel, in the order of the pixels; 1 is the value 255."""

    mean: tuple[float, float, float]
    std: tuple[float, float, float]
    """Population standard deviation: the sum of squares is divided by n."""


@dataclass(slots=True)
class Moments:
    """Running sums over images; a result needs at least one `add`."""

    images: int = 0
    pixels: int = 0
    _mean: FloatArray = field(default_factory=lambda: np.zeros(3))
    _squares: FloatArray = field(default_factory=lambda: np.zeros(3))
    """Sum over all pixels of the squared distance from ``_mean``."""
    _means: FloatArray = field(default_factory=lambda: np.zeros(3))
    _stds: FloatArray = field(default_factory=lambda: np.zeros(3))

    def add(self, pixels: Pixels) -> None:
        """Add an image: (h, w, 3) uint8 or float32 in 0..255.

        Joined pairwise (Chan, Golub and LeVeque, The American Statistician 37(3), 1983): plain sums
        of squares over many images would lose the digits that the variance needs.
        """
        import cv2

        # OpenCV takes no array that is turned or has its channels reversed
        found = cv2.meanStdDev(np.ascontiguousarray(pixels))
        mean, std = (each[:, 0] / 255 for each in found)
        new = pixels.shape[0] * pixels.shape[1]
        shift, total = mean - self._mean, self.pixels + new
        self._squares += std**2 * new + shift**2 * (self.pixels * new / total)
        self._mean = self._mean + shift * (new / total)
        self._means += mean
        self._stds += std
        self.images, self.pixels = self.images + 1, total

    @property
    def whole_set(self) -> ChannelMoments:
        """Moments of all pixels together."""
        return ChannelMoments(_three(self._mean), _three(np.sqrt(self._squares / self.pixels)))

    @property
    def per_image(self) -> ChannelMoments:
        """Moments of each image alone, averaged over the images."""
        return ChannelMoments(_three(self._means / self.images), _three(self._stds / self.images))


def _three(values: FloatArray) -> tuple[float, float, float]:
    red, green, blue = values.tolist()
    return red, green, blue
