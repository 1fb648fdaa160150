"""The preparations of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

from alignkit.prepare import Preparation
from alignkit.samples import Split

if TYPE_CHECKING:
    from alignkit.plan import Plan


def preparations(plan: Plan) -> tuple[Preparation, ...]:
    """What the plan's trainings and cells take their pixels from; of given models no training."""
    if not plan.evaluations:
        return ()
    splits: tuple[Split, ...] = get_args(Split) if plan.trains else ("eval",)
    images = {split: plan.data.fingerprint(split) for split in splits}
    return tuple(
        Preparation(preprocess, split, images[split])
        for preprocess in plan.preprocesses
        for split in splits
    )
