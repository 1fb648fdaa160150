"""The serving options of a plan: path × backend × precision of a model, ready to be served."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import ConfigError, NothingCompared
from alignkit.findings.provenance import state_of
from alignkit.outcome import Failed, Measured, Skipped, capture
from alignkit.predict import model_file
from alignkit.serve.serving import Serving
from alignkit.train import train_chosen

if TYPE_CHECKING:
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.record.bench_facts import ServedStage
    from alignkit.workspace import Context

SIMULATED_TIME = "a simulation's time is not that of the hardware"
SURROGATE_TIME = "a surrogate's time is not that of the stack that it imitates"
IMAGES = 64
"""Most evaluation images that the requests take in turn."""
_BYTES = 64 << 20
"""Encoded bytes of them from which on no further image is taken."""


@dataclass(frozen=True, slots=True)
class ReadyOption:
    """A serving option before it is timed."""

    evaluation: Evaluation
    serving: Measured[Serving] | Skipped | Failed

    @property
    def name(self) -> str:
        """The place in the matrix of the run."""
        return str(self.evaluation.place)

    @property
    def reference(self) -> bool:
        """Whether the others of its row are compared with it."""
        return self.evaluation.aligned

    @property
    def live(self) -> bool:
        """Whether an endpoint answers."""
        return self.evaluation.runtime.backend.live

    @property
    def stages(self) -> tuple[ServedStage, ...]:
        """The stages that this side of the option runs."""
        own_path = self.evaluation.runtime.backend.own_path
        here: tuple[ServedStage, ...] = () if own_path else ("decode", "resize")
        return (*here, "run") if self.live else (*here, "wait", "run")


def chosen_evaluations(plan: Plan) -> list[Evaluation]:
    """Choose one evaluation of each column and kind of model, each row's reference first.

    Models that differ only in their training serve alike: the first one is timed. Models of the
    user's own are all timed. An endpoint brings along the row that it serves. A backend that does
    not run a model's format is chosen too, to be skipped with its reason. Raises `ConfigError` if
    the plan has no model, and `NothingCompared` if no backend of the file runs one.
    """
    if not plan.evaluations:
        raise ConfigError("the file serves no model: 'train' or 'models' gives bench one to time")
    first: dict[tuple[str, str], Evaluation] = {}
    # the suited first; and another row's endpoint is no option of this one
    for each in sorted(plan.evaluations, key=lambda one: one.unsuited):
        if not (each.unsuited and each.runtime.holds):
            first.setdefault((each.training.row.model, str(each.place.column)), each)
    if all(each.unsuited for each in first.values()):
        raise NothingCompared(f"no backend runs a model of the file: {plan.evaluations[0].skipped}")
    wanted = {each.key for each in first.values()}
    models = dict.fromkeys(each.training.key for each in first.values())
    of_models = [
        [
            each
            for each in plan.evaluations
            if each.training.key == model and (each.aligned or each.key in wanted)
        ]
        for model in models
    ]
    return [each for some in of_models for each in sorted(some, key=lambda one: not one.aligned)]


def ready_options(
    plan: Plan, context: Context, batch: int
) -> tuple[list[ReadyOption], tuple[bytes, ...]]:
    """Prepare, train, export and build as a run does; return the options, and the images.

    Stored work is not repeated. A fault belongs to the options that it stops. Raises
    `NothingCompared` if there is no image that every path decodes.
    """
    chosen = chosen_evaluations(plan)
    own, sets, ended = train_chosen(plan, chosen, context)
    images = _images(sets, {each.preprocess.name for each in own.evaluations})

    def serving(each: Evaluation) -> Measured[Serving] | Skipped | Failed:
        model = ended[each.training.key]
        reason = each.skipped or _untimed(each)
        if not reason and batch > 1 and each.preprocess.varies:
            reason = "its images differ in size, and are no batch; --batch 1"
        if reason:
            return Skipped(reason)
        prepared = sets.prepared[each.preprocess.name, "eval"]
        if not isinstance(prepared, Measured):
            return prepared
        if not isinstance(model, Measured):
            return Failed(f"there is no model: {state_of(model)[1]}", "")
        runtime, checkpoint = each.runtime, model.value
        return capture(
            lambda: Serving(
                each.preprocess,
                runtime,
                checkpoint,
                model_file(each, checkpoint, sets, context.workspace),
                images,
                batch,
            )
        )

    return [ReadyOption(each, serving(each)) for each in own.evaluations], images


def _untimed(evaluation: Evaluation) -> str:
    """Explain why the time of an option would not be that of its name; empty if it is."""
    if evaluation.runtime.simulation:
        return SIMULATED_TIME
    own = evaluation.runtime.backend.own_path
    return SURROGATE_TIME if evaluation.preprocess.surrogate_of and not own else ""


def shared_images(sets: Sets, paths: Iterable[str], most: int) -> list[int]:
    """Choose evaluation images that all usable paths decode, spread evenly over the data set.

    Raises `NothingCompared` if there is none.
    """
    usable = [found for each in paths if (found := sets.usable(each, "eval")) is not None]
    decoded = [each.rows >= 0 for each in usable]
    shared = np.flatnonzero(np.logical_and.reduce(decoded)) if decoded else np.zeros(0, np.int64)
    if not len(shared):
        raise NothingCompared("there is no evaluation image that every path decodes")
    spread = np.unique(np.linspace(0, len(shared) - 1, min(most, len(shared))).round())
    return [int(shared[int(each)]) for each in spread]


def _images(sets: Sets, paths: Iterable[str]) -> tuple[bytes, ...]:
    return _within(sets.evaluation.read(each) for each in shared_images(sets, paths, IMAGES))


def _within(images: Iterable[bytes]) -> tuple[bytes, ...]:
    taken: list[bytes] = []
    for each in images:
        taken.append(each)
        if sum(map(len, taken)) >= _BYTES:
            break
    return tuple(taken)
