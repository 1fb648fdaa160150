"""`alignkit data`: contents of a data set, and its division into train and eval.

Mean and deviation are those of the whole set, where every pixel has equal weight, as `normalise`
needs them; the average of images' deviations leaves out differences between images.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from errno import EXDEV
from pathlib import Path
from typing import Any

import numpy as np

from alignkit.arrays import FloatArray, Pixels
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
)  # fmt: skip
from alignkit.plugins import did_you_mean
from alignkit.preprocess import Taps
from alignkit.preprocess.image_header import decode, image_format
from alignkit.progress import Progress, ProgressStage
from alignkit.samples import Samples, copies_among
from alignkit.text.numbers import copies_words

_PLACING: dict[str, Callable[[Path, Path], object]] = {
    "copy": shutil.copy2,
    # resolved: a relative link would point elsewhere from the new folder
    "hardlink": lambda source, target: target.hardlink_to(source.resolve()),
    "symlink": lambda source, target: target.symlink_to(source.resolve()),
}


def described(
    source: Path, overrides: Sequence[str], *, preprocess: str, decoder: str, progress: Progress
) -> dict[str, Any]:
    """Measure every image of an experiment file's data, or of a folder, as JSON values.

    Raises `ConfigError` for an unknown name, `MissingDependency` for a missing library, `DataError`
    if no image could be decoded.
    """
    from alignkit.datasets.byte_store import url_of
    from alignkit.datasets.image_source import ARCHIVES
    from alignkit.experiment import load_experiment

    normalise = None
    if source.is_dir() or url_of(source) or source.suffix in ARCHIVES:
        if preprocess or overrides:
            raise ConfigError(f"{source} is a place of images; --preprocess and --set need a file")
        how, taps, (sets, notes) = f"as decoded by {decoder}", decoding(decoder), _folder(source)
    else:
        experiment = load_experiment(source, overrides)
        paths = {path.name: path for path in experiment.paths}
        path = paths.get(preprocess or experiment.reference.name)
        if path is None:
            suggested = did_you_mean(preprocess, paths)
            raise ConfigError(f"no path {preprocess!r} in {source}{suggested}")
        if missing := path.missing():
            raise MissingDependency(missing)
        normalise = {"mean": path.normalise.mean, "std": path.normalise.std}
        how = f"{experiment.data_name} as path {path.name} gives it to be normalised"
        preprocess, taps, data = path.name, path.taps, experiment.data
        sets, notes = {"eval" if experiment.labelled else "all": data.evaluation()}, [*data.notes()]
        if experiment.labelled and len(training := data.training()):
            sets = {"train": training, **sets}
    found = []
    for name, samples in sets.items():
        with progress.stage("measure", len(samples), name) as stage:
            found.append({"name": name, **describe(name, samples, taps, stage)})
        if copies := found[-1]["copies"]:
            notes.append(f"{name}: {copies_words(copies, len(samples))}")
    return {
        "source": url_of(source) or str(source), "how": f"{how}; 1 is the value 255",
        "preprocess": preprocess, "normalise": normalise, "sets": found, "notes": notes,
    }  # fmt: skip


def decoding(name: str) -> Callable[[bytes], Taps]:
    """Return what takes the pixels of a decoder; raise `MissingDependency` without its library."""
    plugin = DECODERS.find(name)
    plugin.require(name)
    decoder = plugin.load()()

    def taps(encoded: bytes) -> Taps:
        decoded = decode(decoder, encoded)
        return Taps(decoded, {} if decoded.image is None else {"colour": decoded.image})

    return taps


def _folder(root: Path) -> tuple[dict[str, Samples], list[str]]:
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
    if labelled:
        data = Folder(root).undivided()
        return {"all": data.evaluation()}, [*data.notes()]
    return {"all": Images(root).evaluation()}, []


def describe(
    name: str, samples: Samples, taps: Callable[[bytes], Taps], stage: ProgressStage
) -> dict[str, Any]:
    """Read every image once, holding one at a time; `DataError` if none could be decoded."""
    moments, sizes, remarked, digests = [], [], [], []
    formats: Counter[str] = Counter()
    encoded_bytes = 0
    for index, sample in enumerate(samples.ids):
        try:
            encoded = samples.read(index)
        except UnreadableImage as error:
            tapped = Taps(Decoded("failed", reason=error.reason))
        else:
            encoded_bytes += len(encoded)
            formats[image_format(encoded)] += 1
            tapped = taps(encoded)
        decoded, pixels = tapped.decoded, tapped.last
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
        dict(zip(("least", "median", "greatest"), sides, strict=True))
        for sides in np.percentile(sizes, (0, 50, 100), axis=0, method="lower").T.tolist()
    )
    return {
        "images": len(samples), "measured": len(moments), "bytes": encoded_bytes,
        "copies": len(copies_among(samples.ids, digests)),
        "formats": dict(formats.most_common()),
        "classes": {each: of_class[index] for index, each in enumerate(samples.classes)},
        "sizes": len({*sizes}), "width": width, "height": height,
        "whole_set": joined(moments), "remarked": remarked,
    }  # fmt: skip


def moments_of(pixels: Pixels) -> tuple[int, FloatArray, FloatArray]:
    """Return pixels, and mean and deviation of each channel of (h, w, 3) in 0..255; 1 is 255."""
    import cv2

    # OpenCV takes no array that is turned or has its channels reversed
    mean, std = (each[:, 0] / 255 for each in cv2.meanStdDev(np.ascontiguousarray(pixels)))
    return pixels.shape[0] * pixels.shape[1], mean, std


def joined(moments: Sequence[tuple[int, FloatArray, FloatArray]]) -> dict[str, list[float]]:
    """Return mean and deviation of all pixels together, each of equal weight."""
    pixels, means, stds = map(np.array, zip(*moments, strict=True))
    mean = np.average(means, axis=0, weights=pixels)
    std = np.sqrt(np.average(stds**2 + (means - mean) ** 2, axis=0, weights=pixels))
    return {"mean": mean.tolist(), "std": std.tolist()}


def write_division(root: Path, out: Path, *, share: float, seed: int, by: str) -> dict[str, Any]:
    """Write ``share`` of every class below ``out/eval``, the rest below ``out/train``.

    The division is the one that ``data: {name: folder, root: ROOT, eval_share:, seed:}`` makes.
    ``out`` appears whole or not at all.
    """
    if not 0 < share < 1:
        raise ConfigError(f"--eval {share}: a share of every class, between 0 and 1, e.g. 0.25")
    if out.exists() or out.is_symlink():
        raise ConfigError(f"{out} exists, and nothing is overwritten; name a folder that does not")
    if out.resolve().is_relative_to(root.resolve()):
        raise ConfigError(f"{out} lies in {root}, where it would be a class; name one outside")
    if dirs := split_dirs(root, "train", ""):
        both = f"{dirs['train']}/ and {dirs['eval']}/"
        raise DataError(f"{root} is divided already, into {both}; use it as it is")
    divided = divide(images_by_class(root), share, seed)
    places = {name: Path(split, name) for split in divided for name in names_of(divided[split])}
    for name, file in zip(places, list_files(root, [*places]), strict=True):
        if file.fault:
            raise DataError(f"cannot read {root / escaped_name(name)}: {file.fault}; remove it")
    notes = [*Folder(root, eval_share=share, seed=seed).notes()]
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        # beside its place, as a rename does not cross file systems
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as part:
            for name, place in places.items():
                target = Path(part, "whole", place)
                target.parent.mkdir(parents=True, exist_ok=True)
                _PLACING[by](root / name, target)
            Path(part, "whole").rename(out)
    except OSError as error:
        copied = "hard links need one file system; use --by copy"
        reason = copied if error.errno == EXDEV else error.strerror or str(error)
        advice = "see to it and run the same command again"
        raise WorkspaceError(f"{out} was not written: {reason}; {advice}") from error
    counts = [{name: len(files) for name, files in part.items()} for part in divided.values()]
    return {"folder": str(out), **dict(zip(divided, counts, strict=True)), "notes": notes}
