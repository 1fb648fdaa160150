"""`PlannedAttribution`: a drift to be divided among stages, as known before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.preprocess.stage_mixtures import make_hybrids, mixtures
from alignkit.record.place import is_row_of
from alignkit.workspace import code_version, content_key

if TYPE_CHECKING:
    from alignkit.plan import Evaluation, Plan
    from alignkit.preprocess import Preprocess

Runtime: TypeAlias = tuple[str, str]
"""(backend, precision)."""
CODE = (
    "attribute",
    "compare",
    "preprocess",
    "decoders",
    "resizers",
)
"""The modules that decide the shares."""


@dataclass(frozen=True, slots=True)
class PlannedAttribution:
    """The models of one row, served along a path and in the runtimes that all of them run in."""

    reference: Preprocess
    candidate: Preprocess
    samples: str
    """Fingerprint of the evaluation images."""
    models: tuple[str, ...]
    """Key of each model's training, one a seed."""
    runtimes: tuple[Runtime, ...]
    """The reference runtime first."""
    resamples: int
    skipped: str = ""
    """Why it cannot be done here; empty if it can."""

    @property
    def parts(self) -> dict[str, Any]:
        """What its shares depend on."""
        paths = (self.reference, self.candidate)
        return {
            "samples": self.samples,
            "paths": [[path.name, path.identity(), path.versions()] for path in paths],
            "models": list(self.models),
            "runtimes": [list(runtime) for runtime in self.runtimes],
            "resamples": self.resamples,
            "code": code_version(*CODE),
        }

    @property
    def key(self) -> str:
        """Content hash of ``parts``."""
        return content_key(self.parts)

    @property
    def label(self) -> str:
        """In words, the same whatever the options are."""
        return f"attribute {self.reference.name} to {self.candidate.name}"

    @property
    def factors(self) -> tuple[str, ...]:
        """The stages that are swapped; a runtime besides the first is one factor more."""
        return make_hybrids(self.reference, self.candidate).factors

    @property
    def wanted(self) -> int:
        """Mixtures of the two paths that every image is prepared by."""
        return len(mixtures(self.factors))


def planned_attributions(plan: Plan) -> tuple[PlannedAttribution, ...]:
    """What a run attributes if every cell runs that can: the reference's models on other paths."""
    experiment = plan.experiment
    rows = [each.row for each in plan.trainings if is_row_of(each.row, experiment.reference.name)]
    if not rows:  # none of the given models was trained with it
        return ()
    own = [
        each
        for each in plan.evaluations
        if each.training.row == rows[0]
        and each.evaluated_with == experiment.reference.name
        and not each.skipped
    ]
    samples = experiment.content.data.fingerprint("eval")
    resamples = experiment.content.evaluate.resamples
    return tuple(
        PlannedAttribution(
            experiment.reference,
            candidate,
            samples,
            *_models(own),
            resamples=resamples,
            skipped=candidate.missing() if own else "no cell that it begins from can run",
        )
        for candidate in experiment.paths[1:]
    )


def _models(own: Sequence[Evaluation]) -> tuple[tuple[str, ...], tuple[Runtime, ...]]:
    """Trainings and runtimes, each once, in the order of the plan."""
    models = dict.fromkeys(each.training.key for each in own)
    runtimes = dict.fromkeys((each.runtime.name, each.runtime.precision) for each in own)
    return tuple(models), tuple(runtimes)
