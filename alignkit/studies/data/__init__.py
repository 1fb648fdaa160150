"""`alignkit data`: statistics of a data set, and its division into train and eval.

There are two kinds of mean and deviation, which are often confused: of the *whole set*, where every
pixel has equal weight, as a normalisation needs them; and *per image*, averaged. The second
deviation leaves out differences between images.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from errno import EXDEV
from pathlib import Path
from statistics import median_low
from typing import Literal, NamedTuple

import numpy as np

from alignkit.arrays import FloatArray, Pixels
from alignkit.datasets import Dataset
from alignkit.datasets.folder import Folder
from alignkit.datasets.labelled import divide, has_classes, images_by_class, names_of, split_dirs
from alignkit.datasets.listed_images import list_files
from alignkit.datasets.regular_file import escaped_name
from alignkit.decoders import DECODERS, Decoded
from alignkit.errors import (
    ConfigError,
    DataError,
    MissingDependency,
    UnreadableImage,
    WorkspaceError,
)
from alignkit.plugins import did_you_mean
from alignkit.progress import Progress, ProgressStage
from alignkit.samples import Samples, copies_among
from alignkit.text.numbers import copies_words

By = Literal["copy", "hardlink", "symlink"]
_PLACING: dict[By, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    # resolved: a relative link would point elsewhere from the new folder
    "hardlink": lambda source, target: target.hardlink_to(source.resolve()),
    "symlink": lambda source, target: target.symlink_to(source.resolve()),
}
Look = Callable[[bytes], "tuple[Decoded, Pixels | None]"]
"""Encoded bytes → the decode's outcome, and the pixels to measure, in 0..255."""


@dataclass(frozen=True, slots=True)
class ChannelMoments:
    """Mean and population std of each channel, in the order of the pixels; 1 is the value 255."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


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
    width: dict[str, int]
    """Least, median and greatest, in pixels."""
    height: dict[str, int]
    whole_set: ChannelMoments
    per_image: ChannelMoments
    remarked: tuple[dict[str, str], ...]
    """Id, outcome and reason of each image whose decode was not ``ok``."""
    copies: int
    """Images with the pixels of an earlier one."""


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
    notes: tuple[str, ...]
    """Content in both splits, images of no class, copies."""


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
        name, normalise, look = "", None, decoding(decoder)
        how = f"as decoded by {decoder}; 1 is the value 255"
        sets, notes = _sets_of_folder(source)
    else:
        experiment = load_experiment(source, overrides)
        paths = {path.name: path for path in experiment.paths}
        name = preprocess or experiment.reference.name
        if name not in paths:
            raise ConfigError(f"no path {name!r} in {source}{did_you_mean(name, paths)}")
        path, data = paths[name], experiment.data
        if missing := path.missing():
            raise MissingDependency(missing)
        normalise = ChannelMoments(path.normalise.mean, path.normalise.std)
        how = f"{experiment.data_name} as path {name} gives it to be normalised; 1 is the value 255"
        sets = {"eval" if experiment.labelled else "all": data.evaluation()}
        notes = [*data.notes()]
        if experiment.labelled and len(training := data.training()):
            sets = {"train": training, **sets}

        def look(encoded: bytes) -> tuple[Decoded, Pixels | None]:
            taps = path.taps(encoded)
            return taps.decoded, taps.last

    measured = []
    for each, samples in sets.items():
        with progress.stage("measure", len(samples), each) as stage:
            measured.append(describe(each, samples, look, stage))
    copies = [
        f"{each.name}: {copies_words(each.copies, each.images)}" for each in measured if each.copies
    ]
    place = url_of(source) or str(source)
    return Described(place, how, name, normalise, tuple(measured), (*notes, *copies))


def decoding(name: str) -> Look:
    """Return a look at the pixels of a decoder; raise `MissingDependency` without its library."""
    from alignkit.preprocess.image_header import decode

    plugin = DECODERS.find(name)
    if missing := plugin.missing():
        raise MissingDependency(missing)
    decoder = plugin.load()()

    def look(encoded: bytes) -> tuple[Decoded, Pixels | None]:
        decoded = decode(decoder, encoded)
        return decoded, decoded.image

    return look


def _sets_of_folder(root: Path) -> tuple[dict[str, Samples], list[str]]:
    """Return the folder's two splits, or all of its images as ``all``; and notes on them."""
    from alignkit.datasets.image_source import open_source
    from alignkit.datasets.unlabelled_images import Images

    if source := open_source(root):
        folders = {name.partition("/")[0] for name in source.images.names if "/" in name}
        labelled = bool(source.images.labels) or len(folders) > 1
    elif split_dirs(root, "train", ""):  # as `data: {name: folder}` reads it
        folder = Folder(root)
        return {"train": folder.training(), "eval": folder.evaluation()}, [*folder.notes()]
    else:
        labelled = has_classes(root)
    data: Dataset = Folder(root).undivided() if labelled else Images(root)
    return {"all": data.evaluation()}, [*data.notes()] if labelled else []


class Moments(NamedTuple):
    """Moments of one image."""

    pixels: int
    mean: FloatArray
    std: FloatArray


def describe(name: str, samples: Samples, look: Look, stage: ProgressStage) -> SetDescription:
    """Read every image once, holding one at a time.

    Raises `DataError` if none could be decoded.
    """
    moments: list[Moments] = []
    sizes: list[tuple[int, ...]] = []
    remarked: list[dict[str, str]] = []
    digests: list[str] = []
    encoded_bytes = 0
    for index, sample in enumerate(samples.ids):
        try:
            encoded = samples.read(index)
        except UnreadableImage as error:
            decoded, pixels = Decoded("failed", reason=error.reason), None
        else:
            encoded_bytes += len(encoded)
            decoded, pixels = look(encoded)
        digests.append(decoded.digest)
        if decoded.outcome != "ok":
            remarked.append({"id": sample, "outcome": decoded.outcome, "reason": decoded.reason})
        # an image may decode, and a later stage refuse it
        if decoded.image is not None and pixels is not None:
            sizes.append(decoded.image.shape[:2])
            moments.append(moments_of(pixels))
        stage.advance()
    if not moments:
        first = f"; the first, {remarked[0]['id']}: {remarked[0]['reason']}" if remarked else ""
        raise DataError(f"{name}: none of {len(samples)} images could be decoded{first}")
    of_class = Counter(samples.labels)
    for annotation in samples.annotations:
        of_class.update(annotation.present())
    height, width = (
        {"least": min(sides), "median": median_low(sides), "greatest": max(sides)}
        for sides in zip(*sizes, strict=True)
    )
    whole_set, per_image = joined(moments)
    return SetDescription(
        name, len(samples), len(moments), encoded_bytes,
        {each: of_class[index] for index, each in enumerate(samples.classes)},
        len({*sizes}), width, height, whole_set, per_image, tuple(remarked),
        len(copies_among(samples.ids, digests)),
    )  # fmt: skip


def moments_of(pixels: Pixels) -> Moments:
    """Measure an image: (h, w, 3) uint8 or float32 in 0..255."""
    import cv2

    # OpenCV takes no array that is turned or has its channels reversed
    mean, std = (each[:, 0] / 255 for each in cv2.meanStdDev(np.ascontiguousarray(pixels)))
    return Moments(pixels.shape[0] * pixels.shape[1], mean, std)


def joined(moments: Sequence[Moments]) -> tuple[ChannelMoments, ChannelMoments]:
    """Return the moments of all pixels together, and those of an image averaged over images."""
    pixels, means, stds = map(np.array, zip(*moments, strict=True))
    mean = np.average(means, axis=0, weights=pixels)
    variance = np.average(stds**2 + (means - mean) ** 2, axis=0, weights=pixels)
    whole, each = (mean, np.sqrt(variance)), (means.mean(0), stds.mean(0))
    return ChannelMoments(*map(_floats, whole)), ChannelMoments(*map(_floats, each))


def _floats(values: FloatArray) -> tuple[float, ...]:
    return tuple(values.tolist())


@dataclass(frozen=True, slots=True)
class Divided:
    """The folder that `alignkit data split` wrote."""

    folder: Path
    train: dict[str, int]
    """Class → images."""
    eval: dict[str, int]
    notes: tuple[str, ...]
    """Content in both splits, images of no class."""


def write_division(root: Path, out: Path, *, share: float, seed: int, by: By) -> Divided:
    """Write ``share`` of every class below ``out/eval``, the rest below ``out/train``.

    The division is the one that ``data: {name: folder, root: ROOT, eval_share:, seed:}`` makes.
    ``out`` appears whole or not at all. Raises `ConfigError` for an impossible option,
    `DataError` if ``root`` cannot be divided or read, `WorkspaceError` if ``out`` cannot be
    written.
    """
    if not 0 < share < 1:
        raise ConfigError(f"--eval {share}: a share of every class, between 0 and 1, e.g. 0.25")
    if os.path.lexists(out):
        raise ConfigError(f"{out} exists, and nothing is overwritten; name a folder that does not")
    if out.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{out} lies in {root}, where it would be a class; name one outside")
    if dirs := split_dirs(root, "train", ""):
        raise DataError(
            f"{root} is divided already, into {dirs['train']}/ and {dirs['eval']}/; use it as it is"
        )
    divided = divide(images_by_class(root), share, seed)
    names = {split: names_of(labelled) for split, labelled in divided.items()}
    every = [*names["train"], *names["eval"]]
    for name, file in zip(every, list_files(root, every), strict=True):
        if file.fault:
            raise DataError(f"cannot read {root / escaped_name(name)}: {file.fault}; remove it")
    notes = tuple(Folder(root, eval_share=share, seed=seed).notes())  # reads every image once
    try:
        _write(
            out, [(root / each, Path(split, each)) for split in names for each in names[split]], by
        )
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno == EXDEV:
            reason = "hard links need one file system; use --by copy"
        raise WorkspaceError(
            f"{out} was not written: {reason}; see to it and run the same command again"
        ) from error
    train, evaluation = (
        {name: len(files) for name, files in divided[split].items()} for split in ("train", "eval")
    )
    return Divided(out, train, evaluation, notes)


def _write(out: Path, files: Sequence[tuple[Path, Path]], by: By) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    # beside its place, as a rename does not cross file systems
    with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as part:
        for source, name in files:
            target = Path(part, "whole", name)
            target.parent.mkdir(parents=True, exist_ok=True)
            _PLACING[by](source, target)
        Path(part, "whole").rename(out)
