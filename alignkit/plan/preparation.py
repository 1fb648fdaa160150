"""The preparations of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from alignkit.datasets import Split
from alignkit.prepare import Preparation

if TYPE_CHECKING:
    from alignkit.plan import Plan


def preparations(plan: Plan) -> tuple[Preparation, ...]:
    """What the plan's trainings and cells take their pixels from; of given models no training."""
    if not plan.evaluations:
        return ()
    content = plan.experiment.content
    splits: tuple[Split, ...] = ("eval",) if content.models else get_args(Split)
    images = {split: content.data.fingerprint(split) for split in splits}
    return tuple(
        Preparation(path, split, images[split])
        for path in plan.experiment.paths
        for split in splits
    )
