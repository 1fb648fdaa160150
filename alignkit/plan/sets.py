"""The data of a run, and every preprocess applied to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from alignkit.datasets import Split
from alignkit.errors import NothingCompared
from alignkit.outcome import Failed, Measured, Outcome, Skipped, capture
from alignkit.plan import Plan
from alignkit.prepare import Prepared, prepare
from alignkit.preprocess import Preprocess
from alignkit.progress import Progress, advancing
from alignkit.samples import Samples
from alignkit.workspace import Workspace

Ways: TypeAlias = dict[tuple[str, Split], Outcome[Prepared]]
"""(path, split) → what it decoded and resized to."""


@dataclass(frozen=True, slots=True)
class Sets:
    """The data, and what every path made of it."""

    train: Samples
    evaluation: Samples
    prepared: Ways

    def usable(self, path: str, split: Split) -> Prepared | None:
        """What a path prepared; ``None`` if it could not."""
        ended = self.prepared[path, split]
        return ended.value if isinstance(ended, Measured) else None

    def evaluated(self, path: str) -> Prepared:
        """What a path prepared of the evaluation images; raises `NothingCompared` if it did not."""
        if (prepared := self.usable(path, "eval")) is None:
            raise NothingCompared(f"{path} prepared no image to evaluate")
        return prepared

    def unusable(self, path: str) -> Skipped | Failed | None:
        """Why a path prepared nothing; ``None`` if it did."""
        for split in get_args(Split):
            ended = self.prepared[path, split]
            if not isinstance(ended, Measured):
                return ended
        return None


def prepare_sets(plan: Plan, workspace: Workspace, progress: Progress) -> Sets:
    """Decode and resize both splits on every path, once; for given models evaluation alone."""
    data = plan.experiment.content.data
    samples: dict[Split, Samples] = {"train": data.training(), "eval": data.evaluation()}
    prepared: dict[tuple[str, Split], Outcome[Prepared]] = {}
    for path in plan.experiment.paths:
        for split, chosen in samples.items():
            if split == "train" and plan.experiment.content.models:
                prepared[path.name, split] = Skipped("the models are given: nothing is trained")
                continue
            prepared[path.name, split] = _prepare(path, split, chosen, workspace, progress)
    return Sets(samples["train"], samples["eval"], prepared)


def _prepare(
    path: Preprocess, split: Split, samples: Samples, workspace: Workspace, progress: Progress
) -> Outcome[Prepared]:
    if reason := path.missing():
        return Skipped(reason)
    with progress.stage("prepare", len(samples), f"{path.name} {split}") as stage:
        return capture(
            lambda: prepare(samples, path, workspace, split=split, progress=advancing(stage))
        )


def training_images(plan: Plan, sets: Sets) -> npt.NDArray[np.int64]:
    """Indices of the training images that every usable path decoded, ascending."""
    usable = (sets.usable(path.name, "train") for path in plan.experiment.paths)
    decoded = [prepared.rows >= 0 for prepared in usable if prepared is not None]
    return np.flatnonzero(np.logical_and.reduce(decoded)) if decoded else np.zeros(0, np.int64)
