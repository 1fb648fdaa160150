"""Attribution of a matrix row: a reference and a candidate path, in every runtime for every seed.

The mixtures of the paths are prepared once for all runtimes and seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.attribute import Attribution, MixtureValues, PathAttribution, attribute, measure
from alignkit.attribute.facts import attribution_facts
from alignkit.attribute.mixture_metrics import Metric
from alignkit.attribute.mixtures import Sessions, observe
from alignkit.attribute.switches import attribute_decode
from alignkit.backends import Session
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.outcome import Skipped
from alignkit.plan.work import PlannedAttribution
from alignkit.preprocess.stage_mixtures import (
    FromCandidate,
    StageMixtures,
    make_stage_mixtures,
    mixtures,
)
from alignkit.record import AttributionFacts
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

_Progress: TypeAlias = Callable[[int, int], None]
"""Called with images (done, total)."""
Models: TypeAlias = "Sequence[Mapping[Runtime, Session]]"
"""A model for each seed, in every runtime."""


def attribute_stored(
    planned: PlannedAttribution,
    samples: Samples,
    opened: Callable[[], AbstractContextManager[Models]],
    workspace: Workspace,
    *,
    progress: _Progress | None = None,
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

    return workspace.keep(planned.kind, planned.parts, planned.label, write, _read)


def _read(folder: Path) -> tuple[AttributionFacts, ...]:
    stored = json.loads((folder / "attributions.json").read_text())
    return tuple(AttributionFacts.model_validate(each) for each in stored)


def attribute_runs(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: Models,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
    progress: _Progress | None = None,
) -> tuple[AttributionFacts, ...]:
    """Attribute every metric, runtime by runtime, and divide ``decode`` into its switches.

    ``models``, one for each seed, were trained on ``reference``; each maps the same runtimes to a
    session, the reference runtime first. The pixel rows come first and name no runtime; without a
    model they are the only rows. A runtime's rows give the effect of swapping both path and
    runtime. Raises as `alignkit.attribute.attribute` does.
    """
    mixed = make_stage_mixtures(reference, candidate)
    runtimes = list(models[0]) if models else []
    if not mixed.factors and len(runtimes) < 2:
        return attribution_facts(attribute(reference, candidate, samples))
    observed = observe(
        samples,
        mixed,
        reference.normalise,
        _wanted(mixed.factors, runtimes[1:]),
        [_sessions(model) for model in models],
        progress=progress,
    )
    values = measure(observed, samples, resamples=resamples, seed=seed)
    whole = PathAttribution(
        reference.name,
        candidate.name,
        len(observed.rows),
        observed.left_out,
        mixed.notes,
        {},
    )
    rows: tuple[AttributionFacts, ...] = ()
    if mixed.factors:
        inside = attribute_decode(reference, candidate, samples, resamples=resamples)
        rows = _pixel_rows(whole, values, mixed, inside)
    for runtime in runtimes:
        rows += _rows(whole, values, mixed, runtime, runtimes[0])
    return rows


def _pixel_rows(
    whole: PathAttribution,
    values: MixtureValues,
    mixed: StageMixtures,
    inside: PathAttribution | Skipped,
) -> tuple[AttributionFacts, ...]:
    pixels: dict[Metric, Attribution] = {"pixels": values.attributions(mixed.factors)["pixels"]}
    return attribution_facts(
        replace(whole, metrics=pixels, notes=(*whole.notes, *_unmixed(mixed, inside))),
        inside_decode=inside if isinstance(inside, PathAttribution) else None,
    )


def _unmixed(mixed: StageMixtures, inside: PathAttribution | Skipped) -> tuple[str, ...]:
    """Return why decode is one factor, if it is."""
    if "decode" not in mixed.factors or isinstance(inside, PathAttribution):
        return ()
    return (f"inside decode: {inside.reason}",)


def _sessions(model: Mapping[Runtime, Session]) -> Sessions:
    base, *others = model
    apart = {frozenset({_name(runtime)}): model[runtime] for runtime in others}
    return {frozenset(): model[base], **apart}


def _name(runtime: Runtime) -> str:
    return f"{runtime.name} {runtime.precision}"


def _wanted(stages: Sequence[str], others: Sequence[Runtime]) -> tuple[FromCandidate, ...]:
    """List the mixtures of all runtimes' attributions, each once, the reference first."""
    chosen = [mixtures(stages), *(mixtures((*stages, _name(runtime))) for runtime in others)]
    return tuple(dict.fromkeys(taken for some in chosen for taken in some))


def _rows(
    whole: PathAttribution,
    values: MixtureValues,
    mixed: StageMixtures,
    runtime: Runtime,
    base: Runtime,
) -> tuple[AttributionFacts, ...]:
    factors = (*mixed.factors, _name(runtime)) if runtime != base else mixed.factors
    if not factors:
        return ()
    found = values.attributions(factors)
    called = {_name(runtime): _difference(runtime, base)}
    metrics: dict[Metric, Attribution] = {
        metric: replace(
            attribution,
            shares=tuple(
                replace(share, factor=called.get(share.factor, share.factor))
                for share in attribution.shares
            ),
        )
        for metric, attribution in found.items()
        if metric != "pixels"
    }
    return attribution_facts(
        replace(whole, metrics=metrics), backend=runtime.name, precision=runtime.precision
    )


def _difference(runtime: Runtime, base: Runtime) -> str:
    """Return ``backend``, ``precision`` or both: the factor in which the runtimes differ."""
    names = ["backend"] if runtime.name != base.name else []
    return "+".join([*names, *(["precision"] if runtime.precision != base.precision else [])])
