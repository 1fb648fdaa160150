"""What IMAGES on a command line are, as `Samples`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError, DataError

if TYPE_CHECKING:
    from alignkit.load.experiment import Experiment
    from alignkit.samples import Samples

LISTS = (".txt", ".lst")
"""Files that hold the name of an image, or of a folder, in each line."""
SHOWN = 3


def samples_of(
    given: Sequence[Path], experiment: Experiment | None, limit: int | None = None
) -> tuple[Samples, str]:
    """The images, and what they are in words; without a path the evaluation data of an experiment.

    Names in a list are relative to its folder. Raises `ConfigError` if nothing is named,
    `DataError` if there is no image or a file cannot be read.
    """
    from alignkit.datasets.files import choose
    from alignkit.datasets.images import Images

    if given:
        roots = tuple(path for each in given for path in _expanded(each))
        images = Images(roots[0] if len(roots) == 1 else roots, limit=limit)
        return images.evaluation(), _in_words(given)
    if experiment is None:
        raise ConfigError("name a folder of images, or a --config file with data")
    samples = experiment.content.data.evaluation()
    if limit is not None and limit < len(samples):
        chosen = choose(samples.ids, limit, seed=0)
        samples = samples.take([n for n, name in enumerate(samples.ids) if name in chosen])
    return samples, f"the data of {experiment.file}"


def _expanded(given: Path) -> list[Path]:
    if given.suffix.lower() not in LISTS:
        return [given]
    try:
        lines = given.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"the list {given} cannot be read: {error}") from None
    return [given.parent / line.strip() for line in lines if line.strip()]


def _in_words(given: Sequence[Path]) -> str:
    shown = ", ".join(os.fspath(each) for each in given[:SHOWN])
    return shown if len(given) <= SHOWN else f"{shown} and {len(given) - SHOWN} more"
