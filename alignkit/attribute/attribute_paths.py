"""Attribution over a whole plan: the cost of each stage for the models of the reference path.

A reference and a candidate path are attributed in every runtime for every seed; their mixtures are
prepared once for all of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.attribute import (
    Attribution,
    MixtureValues,
    PathAttribution,
    attribute,
    attribution_facts,
    measure,
    not_attributed,
)
from alignkit.attribute.attribute_decode import attribute_decode
from alignkit.attribute.attributed_mixtures import observe
from alignkit.attribute.shares import Metric
from alignkit.backends import QUANTISED_GRAPH, Session
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.errors import NothingCompared
from alignkit.outcome import Measured, Skipped
from alignkit.plan.work import PlannedAttribution, planned_attributions
from alignkit.predict import model_file, open_session
from alignkit.preprocess.stage_mixtures import (
    StageMixtures,
    make_stage_mixtures,
    mixtures,
)
from alignkit.progress import advancing
from alignkit.record import AttributionFacts
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.plan.work import Evaluation
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples
    from alignkit.workspace import Context

Models: TypeAlias = "Sequence[Mapping[Runtime, Session]]"
"""A model for each seed, in every runtime."""


def attribute_paths(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    context: Context,
) -> tuple[AttributionFacts, ...]:
    """Attribute the drift of the reference path's models on every other path and in every runtime.

    ``checkpoints`` maps a training's planned key to its model.
    """
    ran = [each.evaluation for each in predicted if isinstance(each.ended, Measured)]
    found: tuple[AttributionFacts, ...] = ()
    for planned in planned_attributions(plan, ran):
        names = planned.reference.name, planned.candidate.name
        # the plan or the cells give the reason
        if planned.skipped or not sets.usable(names[1], "eval"):
            continue
        opened = partial(_opened, planned, ran, checkpoints, sets, context.workspace)
        with context.progress.stage("attribute", len(sets.evaluation), " to ".join(names)) as stage:
            try:
                found += attribute_stored(
                    planned,
                    sets.evaluation,
                    opened,
                    context.workspace,
                    progress=advancing(stage),
                )
            except NothingCompared as error:
                found += not_attributed(*names, str(error))
    return found


@contextmanager
def _opened(
    planned: PlannedAttribution,
    ran: Sequence[Evaluation],
    checkpoints: Mapping[str, Checkpoint],
    sets: Sets,
    workspace: Workspace,
) -> Iterator[list[dict[Runtime, Session]]]:
    """Open each model's sessions, by runtime; close all when the block ends."""
    cells = {
        (each.training.key, each.runtime): each
        for each in ran
        if each.place.column.preprocess == planned.reference.name
    }

    def session(model: str, runtime: Runtime) -> Session:
        checkpoint = checkpoints[model]
        file = model_file(cells[model, runtime], checkpoint, sets, workspace)
        return stack.enter_context(open_session(runtime, checkpoint, file))

    # sessions may hold a GPU's memory, so all are closed before the next pair
    with ExitStack() as stack:
        yield [
            {runtime: session(model, runtime) for runtime in planned.runtimes}
            for model in planned.models
        ]


def attribute_stored(
    planned: PlannedAttribution,
    samples: Samples,
    opened: Callable[[], AbstractContextManager[Models]],
    workspace: Workspace,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[AttributionFacts, ...]:
    """Return the stored result of `attribute_runs`, or run and store it.

    ``opened`` gives the planned models in the planned runtimes; it is called only if nothing is
    stored. With a live runtime nothing is read or stored: it may answer differently today.
    """

    def attributed() -> tuple[AttributionFacts, ...]:
        paths = planned.reference, planned.candidate
        with opened() as models:
            return attribute_runs(
                *paths, samples, models, resamples=planned.resamples, progress=progress
            )

    if planned.live:
        return attributed()

    def write(folder: Path) -> None:
        content = json.dumps([each.model_dump(mode="json") for each in attributed()])
        (folder / "attributions.json").write_text(content)

    def read(folder: Path) -> tuple[AttributionFacts, ...]:
        stored = json.loads((folder / "attributions.json").read_text())
        return tuple(AttributionFacts.model_validate(each) for each in stored)

    return workspace.keep(planned.kind, planned.parts, planned.label, write, read)


def attribute_runs(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: Models,
    *,
    resamples: int = RESAMPLES,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[AttributionFacts, ...]:
    """Attribute every metric, runtime by runtime, and divide ``decode`` into its switches.

    ``models``, one for each seed, were trained on ``reference``; each maps the same runtimes to a
    session, the reference runtime first. The pixel rows come first and name no runtime; without a
    model they are the only rows. A runtime's rows give the effect of swapping both path and
    runtime. ``progress`` is called with images (done, total). Raises as `attribute` does.
    """
    mixed = make_stage_mixtures(reference, candidate)
    runtimes = list(models[0]) if models else []
    if not mixed.factors and len(runtimes) < 2:
        return attribution_facts(attribute(reference, candidate, samples))
    # the mixtures of all runtimes' attributions, each once, the reference first
    chosen = [mixed.factors, *((*mixed.factors, _factor(runtime)) for runtime in runtimes[1:])]
    wanted = tuple(dict.fromkeys(taken for factors in chosen for taken in mixtures(factors)))
    sessions = [
        {frozenset[str](): model[runtimes[0]]}
        | {frozenset({_factor(runtime)}): model[runtime] for runtime in runtimes[1:]}
        for model in models
    ]
    observed = observe(samples, mixed, reference.normalise, wanted, sessions, progress=progress)
    values = measure(observed, samples, resamples)
    whole = PathAttribution(
        reference.name, candidate.name, len(observed.rows), observed.left_out, mixed.notes, {}
    )
    rows: tuple[AttributionFacts, ...] = ()
    if mixed.factors:
        inside = attribute_decode(reference, candidate, samples, resamples=resamples)
        rows = _pixel_rows(whole, values, mixed, inside)
    for runtime in runtimes:
        unfused = _unfused(runtime, models)
        rows += _runtime_rows(whole, values, mixed, runtime, runtimes[0], unfused)
    return rows


def _unfused(runtime: Runtime, models: Models) -> Runtime | None:
    """Find the runtime that executes the int8 graph of another unfused, for every model.

    Neither of them is the reference runtime: that one is no factor.
    """
    first, *others = models[0]
    if runtime == first or runtime.simulation:
        return None
    graphs = [model[runtime].effective().get(QUANTISED_GRAPH) for model in models]
    if not all(graphs):
        return None
    for each in others:
        if each.simulation and graphs == [
            model[each].effective().get(QUANTISED_GRAPH) for model in models
        ]:
            return each
    return None


def _pixel_rows(
    whole: PathAttribution,
    values: MixtureValues,
    mixed: StageMixtures,
    inside: PathAttribution | Skipped,
) -> tuple[AttributionFacts, ...]:
    notes = whole.notes
    if "decode" in mixed.factors and isinstance(inside, Skipped):
        notes = (*notes, f"inside decode: {inside.reason}")
    pixels: dict[Metric, Attribution] = {"pixels": values.attributions(mixed.factors)["pixels"]}
    return attribution_facts(
        replace(whole, metrics=pixels, notes=notes),
        inside_decode=None if isinstance(inside, Skipped) else inside,
    )


def _factor(runtime: Runtime) -> str:
    """Name a runtime among the factors of mixtures."""
    return f"{runtime.name} {runtime.precision}"


def _runtime_rows(
    whole: PathAttribution,
    values: MixtureValues,
    mixed: StageMixtures,
    runtime: Runtime,
    base: Runtime,
    unfused: Runtime | None,
) -> tuple[AttributionFacts, ...]:
    factors = (*mixed.factors, _factor(runtime)) if runtime != base else mixed.factors
    if not factors:
        return ()
    # a reader asks whether the backend or the precision is the cause; the runtime is the row's
    changed = ["backend"] if runtime.name != base.name else []
    changed += ["precision"] if runtime.precision != base.precision else []
    called = {_factor(runtime): "+".join(changed)}
    if unfused:
        shares = values.divided(factors, _factor(unfused), ("quantisation", "kernel"))
    else:
        shares = values.attributions(factors)
    metrics: dict[Metric, Attribution] = {
        metric: replace(
            attribution,
            shares=tuple(
                replace(share, factor=called.get(share.factor, share.factor))
                for share in attribution.shares
            ),
        )
        for metric, attribution in shares.items()
        if metric != "pixels"
    }
    return attribution_facts(
        replace(whole, metrics=metrics), backend=runtime.name, precision=runtime.precision
    )
