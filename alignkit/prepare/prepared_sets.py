"""`Sets`: the data of a run, and every preprocess applied to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from alignkit.errors import NothingCompared
from alignkit.outcome import Failed, Measured, Outcome, Skipped, capture
from alignkit.prepare import Prepared, prepare
from alignkit.preprocess import Preprocess
from alignkit.progress import advancing
from alignkit.samples import Samples, Split, copies_among, digests
from alignkit.workspace import Context

Ways: TypeAlias = dict[tuple[str, Split], Outcome[Prepared]]
"""(path, split) → its prepared images."""


@dataclass(frozen=True)
class Sets:
    """The data, and its images prepared on every path."""

    train: Samples
    evaluation: Samples
    prepared: Ways

    def usable(self, path: str, split: Split) -> Prepared | None:
        """Return a path's prepared images; ``None`` if it could not run."""
        ended = self.prepared[path, split]
        return ended.value if isinstance(ended, Measured) else None

    def evaluated(self, path: str) -> Prepared:
        """Return a path's prepared evaluation images; raises `NothingCompared` without any."""
        if (prepared := self.usable(path, "eval")) is None:
            raise NothingCompared(f"{path} prepared no image to evaluate")
        return prepared

    def unusable(self, path: str) -> Skipped | Failed | None:
        """Return the reason why a path prepared nothing; ``None`` if it did."""
        for split in get_args(Split):
            ended = self.prepared[path, split]
            if not isinstance(ended, Measured):
                return ended
        return None

    @cached_property  # it reads every image where the data set knows no digests
    def digests(self) -> tuple[str, ...]:
        """SHA-256 of each image to evaluate, in hex; empty for one that cannot be read."""
        return tuple(digests(self.evaluation))

    @property
    def copies(self) -> dict[str, str]:
        """Images to evaluate with the pixels of an earlier one, see `copies_among`.

        As the first path decodes them that prepared any.
        """
        usable = (self.usable(path, split) for path, split in self.prepared if split == "eval")
        digests = (each.digests for each in usable if each is not None)
        return copies_among(self.evaluation.ids, next(digests, ()))

    @property
    def trained_on(self) -> npt.NDArray[np.int64]:
        """Indices of the training images that every usable path decoded, ascending."""
        usable = (self.usable(path, split) for path, split in self.prepared if split == "train")
        decoded = [prepared.rows >= 0 for prepared in usable if prepared is not None]
        # the same images for every path: a difference must not come from other data
        return np.flatnonzero(np.logical_and.reduce(decoded)) if decoded else np.zeros(0, np.int64)


def prepare_sets(
    preprocesses: Sequence[Preprocess],
    train: Samples,
    evaluation: Samples,
    context: Context,
    *,
    trains: bool,
) -> Sets:
    """Decode and resize both splits by every preprocess; unless ``trains``, evaluation alone."""
    samples: dict[Split, Samples] = {"train": train, "eval": evaluation}
    prepared: Ways = {}
    for preprocess in preprocesses:
        for split, chosen in samples.items():
            prepared[preprocess.name, split] = (
                Skipped("the models are given: nothing is trained")
                if split == "train" and not trains
                else _prepare(preprocess, split, chosen, context)
            )
    return Sets(train, evaluation, prepared)


def _prepare(
    preprocess: Preprocess, split: Split, samples: Samples, context: Context
) -> Outcome[Prepared]:
    if reason := preprocess.missing():
        return Skipped(reason)
    title = f"{preprocess.title} {split}"
    with context.progress.stage("prepare", len(samples), title) as stage:
        report = advancing(stage)
        return capture(
            lambda: prepare(
                samples,
                preprocess,
                context.workspace,
                split=split,
                engine=context.engine,
                progress=report,
            )
        )
