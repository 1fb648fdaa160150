"""IMAGES of a command line → `Samples`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError, DataError

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.samples import Samples

_LISTS = (".txt", ".lst")
"""Files that hold the name of an image, or of a folder, in each line."""
_SHOWN = 3


def samples_of(
    given: Sequence[Path],
    experiment: Experiment | None,
    limit: int | None = None,
    only: Sequence[str] = (),
) -> tuple[Samples, str]:
    """Return the images and their description; without a path an experiment's evaluation data.

    Names in a list are relative to its folder; ``only`` names the ids to keep. Raises `ConfigError`
    if no path is given or an id is unknown, `NothingCompared` if there is no image, and `DataError`
    if a file cannot be read.
    """
    from alignkit.datasets.image_files import choose
    from alignkit.datasets.unlabelled_images import Images

    if given:
        roots = tuple(path for each in given for path in _expanded(each))
        images = Images(roots[0] if len(roots) == 1 else roots, limit=limit)
        return _only(images.evaluation(), only), _in_words(given)
    if experiment is None:
        raise ConfigError("name a folder of images, or a --config file with data")
    samples = experiment.data.evaluation()
    if limit is not None and limit < len(samples):
        chosen = choose(samples.ids, limit, seed=0)
        samples = samples.take([n for n, name in enumerate(samples.ids) if name in chosen])
    return _only(samples, only), f"the data of {experiment.file}"


def _only(samples: Samples, names: Sequence[str]) -> Samples:
    if not names:
        return samples
    places = {name: place for place, name in enumerate(samples.ids)}
    for name in names:
        if name not in places:
            near = get_close_matches(name, places, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"--only {name}: none of the {len(samples)} images{hint}")
    return samples.take([places[name] for name in dict.fromkeys(names)])


def _expanded(given: Path) -> list[Path]:
    if given.suffix.lower() not in _LISTS:
        return [given]
    try:
        lines = given.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the list {given} cannot be read: {error}") from None
    return [given.parent / line.strip() for line in lines if line.strip()]


def _in_words(given: Sequence[Path]) -> str:
    shown = ", ".join(os.fspath(each) for each in given[:_SHOWN])
    return shown if len(given) <= _SHOWN else f"{shown} and {len(given) - _SHOWN} more"
