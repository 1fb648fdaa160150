"""`Preparation`: a split to be decoded and resized along a path, before it is done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from alignkit.prepare import prepare_label, prepare_parts
from alignkit.preprocess import Preprocess
from alignkit.samples import Split
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.plan import Plan


@dataclass(frozen=True, slots=True)
class Preparation:
    """One path over one split."""

    path: Preprocess
    split: Split
    images: str
    """Fingerprint of the split."""

    @property
    def parts(self) -> dict[str, Any]:
        """What the prepared pixels depend on."""
        return prepare_parts(self.images, self.path)

    @property
    def key(self) -> str:
        """Content hash of ``parts``."""
        return content_key(self.parts)

    @property
    def label(self) -> str:
        """In words, the same whatever the options are."""
        return prepare_label(self.split, self.path)

    @property
    def skipped(self) -> str:
        """Why it cannot be done here; empty if it can."""
        return self.path.missing()


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
