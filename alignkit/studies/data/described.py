"""`Described`: the measured sets of an experiment, or of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError, MissingDependency
from alignkit.plugins import did_you_mean, find_plugin, name_of
from alignkit.studies.data.description import Look, SetDescription, describe
from alignkit.studies.data.moments import ChannelMoments

if TYPE_CHECKING:
    from alignkit.arrays import Pixels
    from alignkit.decoders import Decoded
    from alignkit.experiment.experiment import Experiment
    from alignkit.preprocess import Preprocess
    from alignkit.progress import Progress
    from alignkit.samples import Samples


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
    if source.is_dir():
        if preprocess or overrides:
            raise ConfigError(f"{source} is a folder; --preprocess and --set need a file")
        how = f"as decoded by {decoder}; 1 is the value 255"
        look, (sets, notes) = _decoding(decoder), _sets_of_folder(source)
        return Described(str(source), how, "", None, _measured(sets, look, progress), notes)
    path, experiment = _path_of(source, overrides, preprocess)
    how = (
        f"{name_of(experiment.data, DATASETS)} as path {path.name} gives it to be "
        "normalised; 1 is the value 255"
    )
    constants = ChannelMoments(path.normalise.mean, path.normalise.std)
    measured = _measured(_sets_of(experiment), _following(path), progress)
    notes = tuple(experiment.data.notes())
    return Described(str(source), how, path.name, constants, measured, notes)


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

    plugin = find_plugin("decoders", DECODERS, name)
    if missing := plugin.missing():
        raise MissingDependency(missing)
    decoder = plugin.load()()

    def look(encoded: bytes) -> tuple[Decoded, Pixels | None]:
        decoded = decode(decoder, encoded)
        return decoded, decoded.image

    return look


def _following(path: Preprocess) -> Look:
    def look(encoded: bytes) -> tuple[Decoded, Pixels | None]:
        taps = path.taps(encoded)
        return taps.decoded, taps.last

    return look


def _sets_of_folder(root: Path) -> tuple[dict[str, Samples], tuple[str, ...]]:
    """Return the folder's two splits, or all of its images as ``all``; and notes on them."""
    from alignkit.datasets.folder import (
        Folder,
        has_classes,
        images_by_class,
        labelled_samples,
        split_dirs,
        strays,
    )
    from alignkit.datasets.unlabelled_images import Images

    if split_dirs(root, "train", ""):
        folder = Folder(root)
        sets = {"train": folder.training(), "eval": folder.evaluation()}
        return sets, tuple(folder.notes())
    if has_classes(root):
        sets = {"all": labelled_samples(root, images_by_class(root))}
        return sets, tuple(strays(root, [""]))
    return {"all": Images(root).evaluation()}, ()


def _sets_of(experiment: Experiment) -> dict[str, Samples]:
    data = experiment.data
    if not experiment.labelled:
        return {"all": data.evaluation()}
    return {"train": data.training(), "eval": data.evaluation()}


def _path_of(
    file: Path, overrides: Sequence[str], preprocess: str
) -> tuple[Preprocess, Experiment]:
    from alignkit.experiment import load_experiment

    experiment = load_experiment(file, overrides)
    paths = {path.name: path for path in experiment.paths}
    name = preprocess or experiment.reference.name
    if name not in paths:
        raise ConfigError(f"no path {name!r} in {file}{did_you_mean(name, paths)}")
    if missing := paths[name].missing():
        raise MissingDependency(missing)
    return paths[name], experiment
