"""Attribution over a whole plan: the cost of each stage for the models of the reference path.

A reference and a candidate path are attributed for every seed in the reference runtime and in the
worst one; their mixtures are prepared once for all of these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alignkit.attribute import (
    DecodeModels,
    MixtureValues,
    attribute,
    attribute_decode,
    measure,
    not_attributed,
)
from alignkit.attribute.attributed_cells import AttributedCells, draw_by_class, unfused_of
from alignkit.attribute.attributed_mixtures import observe, task_of
from alignkit.attribute.mixture_records import ModelSession
from alignkit.backends import QUANTISED_GRAPH
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.errors import NothingCompared
from alignkit.outcome import Measured, Skipped
from alignkit.plan.planned_attribution import PlannedAttribution, planned_attributions
from alignkit.preprocess.stage_mixtures import (
    StageMixtures,
    make_stage_mixtures,
    mixtures_in_runtimes,
)
from alignkit.progress import advancing
from alignkit.record import AttributionFacts
from alignkit.text.numbers import plain
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.work import Runtime
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples
    from alignkit.workspace import Context

Models: TypeAlias = "Sequence[Mapping[Runtime, ModelSession]]"
"""A model for each seed, in every runtime."""


def attribute_paths(
    plan: Plan,
    checkpoints: Mapping[str, Checkpoint],
    predicted: Sequence[Predicted],
    sets: Sets,
    context: Context,
) -> tuple[AttributionFacts, ...]:
    """Attribute the drift of the reference path's models on every other path.

    ``checkpoints`` maps a training's planned key to its model.
    """
    ran = [each.evaluation for each in predicted if isinstance(each.ended, Measured)]
    workspace = context.workspace
    found: tuple[AttributionFacts, ...] = ()
    for planned in planned_attributions(plan, ran):
        names = planned.reference.name, planned.candidate.name
        # the plan or the cells give the reason
        if planned.skipped or not all(sets.usable(each, "eval") for each in names):
            continue
        cells = AttributedCells.of(planned, predicted)
        batch = plan.experiment.batch_size
        opened = partial(cells.opened, checkpoints, sets, batch, workspace)
        decoded, every = _decoded(sets, names), len(sets.evaluation)
        images, untimed = cells.images(every, workspace)
        # nothing is drawn: those that a path did not decode are left out with their reason
        images = every if images >= len(decoded) else images
        title = f"{planned.reference.title} to {planned.candidate.title}"
        with context.progress.stage("attribute", images, title) as stage:
            try:
                found += attribute_stored(
                    planned,
                    sets.evaluation,
                    opened,
                    workspace,
                    images=images,
                    untimed=untimed,
                    decoded=decoded,
                    progress=advancing(stage),
                )
            except NothingCompared as error:
                found += (not_attributed(*names, str(error)),)
    return found


def _decoded(sets: Sets, paths: Sequence[str]) -> list[int]:
    """List the evaluation images that all paths decoded, by ascending index."""
    rows = [sets.evaluated(each).rows >= 0 for each in paths]
    return np.flatnonzero(np.logical_and.reduce(rows)).tolist()


def attribute_stored(
    planned: PlannedAttribution,
    samples: Samples,
    opened: Callable[[], AbstractContextManager[Models]],
    workspace: Workspace,
    *,
    images: int | None = None,
    untimed: bool = False,
    decoded: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[AttributionFacts, ...]:
    """Return the stored result of `attribute_runs`, or run it on ``images`` and store it.

    If these are not all, they are drawn from ``decoded``, the indices of the samples that both
    paths decoded (all by default). ``untimed`` is that of `AttributedCells.images`. ``opened``
    gives the planned models in their runtimes; it is called only if nothing is stored.
    With a live runtime nothing is read or stored: it may answer differently today.
    """
    able = samples if decoded is None or len(decoded) == len(samples) else samples.take(decoded)
    count = len(samples) if images is None else images

    def attributed() -> tuple[AttributionFacts, ...]:
        paths = planned.reference, planned.candidate
        drawn = able.take(draw_by_class(able, count)) if count < len(able) else samples
        with opened() as models:
            rows = attribute_runs(
                *paths,
                drawn,
                models,
                inside_decode=planned.scope.predictions_inside,
                inside_images=planned.scope.inside_decode,
                resamples=planned.resamples,
                progress=progress,
            )
        noted = _with_seconds(rows, planned, len(drawn), len(samples), untimed=untimed)
        return _drawn_from(noted, len(able))

    if planned.live:
        return attributed()

    def write(folder: Path) -> None:
        content = json.dumps([each.model_dump(mode="json") for each in attributed()])
        (folder / "attributions.json").write_text(content)

    def read(folder: Path) -> tuple[AttributionFacts, ...]:
        stored = json.loads((folder / "attributions.json").read_text())
        return tuple(AttributionFacts.model_validate(each) for each in stored)

    work = planned.kind, planned.parts, planned.label
    return workspace.keep(*work, write, read)


def _drawn_from(rows: tuple[AttributionFacts, ...], of: int) -> tuple[AttributionFacts, ...]:
    """Say in each row that its images were drawn."""
    return tuple(
        each.model_copy(update={"drawn_from": of}) if each.images + each.left_out < of else each
        for each in rows
    )


def _with_seconds(
    rows: tuple[AttributionFacts, ...],
    planned: PlannedAttribution,
    drawn: int,
    of: int,
    *,
    untimed: bool,
) -> tuple[AttributionFacts, ...]:
    """Say in the first row how a budget in seconds chose the images, or that it could not."""
    seconds = planned.scope.seconds
    if seconds is None or not rows or (drawn == of and not untimed):
        return rows
    if untimed:
        note = (
            "attribute.seconds chose no number of images: the time of a cell is not stored; "
            "attribute.images limits them"
        )
    else:
        note = (
            f"{drawn} images are as many as {plain(seconds, 1)} s allow by the time that the cells "
            f"took on this machine; attribute.images: {drawn} mixes the same ones on any other"
        )
    first, *others = rows
    return first.model_copy(update={"notes": (*first.notes, note)}), *others


def attribute_runs(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: Models,
    *,
    inside_decode: bool = False,
    inside_images: int | None = None,
    resamples: int = RESAMPLES,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[AttributionFacts, ...]:
    """Attribute every metric, runtime by runtime, and divide ``decode`` into its switches.

    ``models``, one for each seed, were trained on ``reference``; each maps the same runtimes to a
    session, the reference runtime first. The pixel rows come first and name no runtime; without a
    model they are the only rows. A runtime's rows give the effect of swapping both path and
    runtime. With ``inside_decode``, the changes of predictions in the reference runtime are divided
    among the decoders' switches too. Pixels and predictions are divided on the same images:
    ``inside_images`` of those that are mixed, or all of them.
    ``progress`` is called with images (done, total). Raises as `attribute` does.
    """
    mixed = make_stage_mixtures(reference, candidate)
    runtimes = list(models[0]) if models else []
    sessions = [
        {frozenset[str](): model[runtimes[0]]}
        | {frozenset({_factor(runtime)}): model[runtime] for runtime in runtimes[1:]}
        for model in models
    ]
    if not mixed.factors and len(runtimes) < 2:
        return tuple(attribute(reference, candidate, samples, sessions).values())
    wanted = mixtures_in_runtimes(mixed.factors, [_factor(each) for each in runtimes[1:]])
    observed = observe(samples, mixed, reference.normalise, wanted, sessions, progress=progress)
    values = measure(observed, mixed, task_of(sessions), resamples)
    rows: tuple[AttributionFacts, ...] = ()
    if mixed.factors:
        predicting = None
        if inside_decode and runtimes:
            base = runtimes[0]
            own = [each[base] for each in models]
            predicting = DecodeModels(own, base.name, base.precision)
        able = samples.take(observed.rows.tolist())
        if inside_images is not None and inside_images < len(able):
            able = able.take(draw_by_class(able, inside_images))
        paths = reference, candidate
        inside = attribute_decode(*paths, able, predicting, resamples=resamples)
        rows = _pixel_rows(values, mixed, inside)
    for runtime in runtimes:
        unfused = _unfused(runtime, models)
        rows += _runtime_rows(values, mixed, runtime, runtimes[0], unfused)
    return rows


def _unfused(runtime: Runtime, models: Models) -> Runtime | None:
    """Find `unfused_of` a runtime; neither is the reference runtime, which is no factor."""
    first, *others = models[0]
    if runtime == first:
        return None
    graphs = {
        each: [model[each].effective().get(QUANTISED_GRAPH, "") for model in models]
        for each in others
    }
    return unfused_of(runtime, graphs)


def _pixel_rows(
    values: MixtureValues,
    mixed: StageMixtures,
    inside: tuple[AttributionFacts, ...] | Skipped,
) -> tuple[AttributionFacts, ...]:
    pixels = values.attributions(mixed.factors)["pixels"]
    if not isinstance(inside, Skipped):
        return (pixels, *inside)
    if "decode" not in mixed.factors:
        return (pixels,)
    notes = (*pixels.notes, f"inside decode: {inside.reason}")
    return (pixels.model_copy(update={"notes": notes}),)


def _factor(runtime: Runtime) -> str:
    """Name a runtime among the factors of mixtures."""
    return f"{runtime.name} {runtime.precision}"


def _runtime_rows(
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
    return tuple(
        attribution.model_copy(
            update={
                "backend": runtime.name,
                "precision": runtime.precision,
                "shares": tuple(
                    replace(share, factor=called.get(share.factor, share.factor))
                    for share in attribution.shares
                ),
            }
        )
        for metric, attribution in shares.items()
        if metric != "pixels"
    )
