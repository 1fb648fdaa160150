"""`PlannedAttribution`: a drift to divide among stages, as known before it is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.preprocess.stage_mixtures import make_stage_mixtures, mixtures
from alignkit.version import SHARE_LAYERS, code_version
from alignkit.workspace import PlannedWork

if TYPE_CHECKING:
    from alignkit.place import Row
    from alignkit.plan import Plan
    from alignkit.plan.runtime import Runtime
    from alignkit.plan.work import Evaluation
    from alignkit.preprocess import Preprocess


@dataclass(frozen=True, slots=True)
class PlannedAttribution(PlannedWork):
    """The models of one row, served along a path and in the runtimes that all of them run in."""

    kind = "comparisons"
    reference: Preprocess
    candidate: Preprocess
    data: str
    """Fingerprint of all images: the evaluation images are mixed, and int8 engines are calibrated
    with training images."""
    models: tuple[str, ...]
    """Key of each model's training, one a seed."""
    runtimes: tuple[Runtime, ...]
    """The reference runtime first."""
    resamples: int
    skipped: str = ""
    """The reason why it cannot be done here; empty if it can."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that its shares depend on."""
        paths = (self.reference, self.candidate)
        return {
            "data": self.data,
            "paths": [[path.name, path.identity(), path.versions()] for path in paths],
            "models": list(self.models),
            "runtimes": [[each.name, each.precision, each.parts] for each in self.runtimes],
            "resamples": self.resamples,
            "code": code_version(SHARE_LAYERS),
        }

    @property
    def live(self) -> bool:
        """Whether a runtime may answer differently tomorrow: the shares are then never stored."""
        return any(each.backend.live for each in self.runtimes)

    @property
    def label(self) -> str:
        """The work in words, the same whatever the options are."""
        return f"attribute {self.reference.name} to {self.candidate.name}"

    @property
    def factors(self) -> tuple[str, ...]:
        """The stages that are swapped; each runtime after the first adds one factor."""
        return make_stage_mixtures(self.reference, self.candidate).factors

    @property
    def mixture_count(self) -> int:
        """Number of mixtures of the two paths that prepare every image."""
        return len(mixtures(self.factors))


def planned_attributions(
    plan: Plan, ran: Sequence[Evaluation] | None = None
) -> tuple[PlannedAttribution, ...]:
    """List the attributions of a run: the reference's models served along every other path.

    ``ran`` holds the evaluations that were measured; by default it is all that can run. A model is
    attributed if its aligned cell is among them, in every runtime that all such models ran in.
    """
    rows = [each.row for each in plan.trainings if each.row.is_only(plan.reference.name)]
    if not rows:  # none of the given models was trained with it
        return ()
    if ran is None:
        ran = [each for each in plan.evaluations if not each.skipped]
    models = _models(ran, rows[0], plan.reference.name)
    first = next(iter(models.values()), [])
    shared = tuple(each for each in first if all(each in ran_in for ran_in in models.values()))
    return tuple(
        PlannedAttribution(
            plan.reference,
            candidate,
            plan.fingerprint,
            tuple(models),
            shared,
            resamples=plan.resamples,
            skipped=candidate.missing() if models else "no cell that it begins from can run",
        )
        for candidate in plan.preprocesses[1:]
    )


def _models(ran: Sequence[Evaluation], row: Row, reference: str) -> dict[str, list[Runtime]]:
    """Map each of the row's models that ran aligned to its runtimes on the reference path."""
    own = [e for e in ran if (e.place.row, e.place.column.preprocess) == (row, reference)]
    models: dict[str, list[Runtime]] = {e.training.key: [] for e in own if e.aligned}
    for each in own:
        if each.training.key in models:
            models[each.training.key].append(each.runtime)
    return models
