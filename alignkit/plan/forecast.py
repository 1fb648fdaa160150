"""Plan, Workspace → Forecast: the work a run would do, and how long it took here before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from alignkit.place import FULL
from alignkit.plan import Plan, preparations
from alignkit.plan.attribution import PlannedAttribution, planned_attributions
from alignkit.plan.work import Evaluation, PixelComparison
from alignkit.workspace import Finished, PlannedWork, WorkKind, Workspace

WorkState = Literal["cached", "to run", "impossible"]


@dataclass(frozen=True, slots=True)
class Outlook:
    """One unit of work, and whether a run would do it."""

    work: PlannedWork
    state: WorkState
    reason: str = ""
    """Why it is impossible, or how it differs from the work stored under its label."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Time and storage that work would take."""

    seconds: float | None
    """``None`` if some of the work has no similar work stored here."""
    bytes: int | None

    def __add__(self, other: Cost) -> Cost:
        return Cost(_sum(self.seconds, other.seconds), _sum(self.bytes, other.bytes))


@dataclass(frozen=True, slots=True)
class Forecast:
    """The work of a run, stored or not, and its cost."""

    trainings: tuple[Outlook, ...]
    cells: tuple[Outlook, ...]
    attributions: tuple[Outlook, ...]
    """One for the drift along each path, in all runtimes together."""
    estimate: Cost
    """Cost of these; preparing and comparing images, and the work of ``advise``, are extra."""
    comparisons: tuple[Outlook, ...]
    """Pixel comparisons of the reference path with each other path."""
    comparing: Cost
    """Cost of the comparisons."""
    prepared: tuple[Outlook, ...] = ()
    """One for each path and split."""


def planned_work(plan: Plan) -> dict[str, Sequence[PlannedWork]]:
    """List every unit of work of a plan, by its field of `Forecast`."""
    return {
        "prepared": preparations(plan),
        "trainings": [each for each in plan.trainings if each.given is None],
        "cells": plan.evaluations,
        "comparisons": plan.comparisons,
        "attributions": planned_attributions(plan),
    }


def forecast(plan: Plan, workspace: Workspace) -> Forecast:
    """Look up all work of a plan from `keyed_plan`; makes nothing and reads no image."""
    kinds: tuple[WorkKind, ...] = ("prepared", "trainings", "cells", "comparisons")
    finished = {kind: workspace.finished(kind) for kind in kinds}
    found = {
        name: _outlooks(works, finished[works[0].kind] if works else [])
        for name, works in planned_work(plan).items()
    }
    trained, compared = finished["trainings"], finished["comparisons"]
    images, _ = plan.data.counts()
    estimate = Cost(0.0, 0)
    for training in _to_run(found["trainings"]):
        estimate += _training_estimate(training.parts, images, trained)
    for cell in _to_run(found["cells"]):
        estimate += _cell_estimate(cell, finished["cells"], trained)
    for attribution in _to_run(found["attributions"]):
        estimate += _attribution_estimate(attribution, compared)
    comparing = Cost(0.0, 0)
    for comparison in _to_run(found["comparisons"]):
        comparing += _comparison_estimate(comparison, compared)
    return Forecast(**found, estimate=estimate, comparing=comparing)


def _outlooks(works: Sequence[PlannedWork], finished: Sequence[Finished]) -> tuple[Outlook, ...]:
    stored = {each.folder.name for each in finished}
    return tuple(_outlook(work, work.key in stored, finished) for work in works)


def _outlook(work: PlannedWork, stored: bool, finished: Sequence[Finished]) -> Outlook:
    if stored and not work.live:
        return Outlook(work, "cached")
    if work.skipped:
        return Outlook(work, "impossible", work.skipped)
    return Outlook(work, "to run", changed_parts(finished, work.parts, work.label))


def changed_parts(finished: Sequence[Finished], parts: dict[str, Any], label: str) -> str:
    """Name the parts that differ from the most similar work of this label; empty if none is."""
    changes: list[list[str]] = []
    for each in finished:
        names = parts.keys() | each.parts.keys()
        if each.label == label:
            changes.append(sorted(n for n in names if parts.get(n) != each.parts.get(n)))
    changes.sort(key=len)
    return ", ".join(changes[0]) if changes else ""


def _to_run(outlooks: Sequence[Outlook]) -> list[Any]:
    return [outlook.work for outlook in outlooks if outlook.state == "to run"]


def _training_estimate(parts: dict[str, Any], images: int, trained: Sequence[Finished]) -> Cost:
    alike = [each for each in trained if _speed_class(each.parts) == _speed_class(parts)]
    if not alike:
        return Cost(None, None)
    logs = [json.loads((each.folder / "log.json").read_text()) for each in alike]
    rates = [epoch["images_per_second"] for log in logs for epoch in log["epochs"]]
    share = parts.get("fraction", FULL) * (1 - parts["recipe"]["holdout"])
    seconds = parts["recipe"]["epochs"] * share * images / median(rates)
    return Cost(seconds, int(median(each.bytes() for each in alike)))


def _speed_class(parts: dict[str, Any]) -> tuple[Any, ...]:
    """Return what decides a training's images per second."""
    recipe, stages = parts["recipe"], parts["preprocess"]["stages"]
    size = stages["crop"]["size"] or stages["resize"]["size"]
    return recipe["model"], recipe["device"], recipe["batch_size"], tuple(size)


def _cell_estimate(
    cell: Evaluation, predicted: Sequence[Finished], trained: Sequence[Finished]
) -> Cost:
    if cell.training.given is not None:
        return Cost(None, None)
    models = {each.folder.name: each.parts for each in trained}
    wanted = (*_speed_class(cell.training.parts), cell.training.parts["data"])
    alike = []
    for each in predicted:
        model = models.get(each.parts["training"])
        same_runtime = each.parts["runtime"] == cell.parts["runtime"]
        if model and same_runtime and (*_speed_class(model), model["data"]) == wanted:
            alike.append(each)
    seconds = [each.seconds for each in alike if each.seconds is not None]
    if not seconds:
        return Cost(None, None)
    return Cost(median(seconds), int(median(each.bytes() for each in alike)))


def _attribution_estimate(wanted: PlannedAttribution, attributed: Sequence[Finished]) -> Cost:
    """Estimate from attributions of the same images, paths and runtimes, with as many models."""
    alike = [
        each
        for each in attributed
        if each.label == wanted.label
        and all(
            each.parts.get(name) == wanted.parts[name] for name in ("data", "paths", "runtimes")
        )
        and len(each.parts["models"]) == len(wanted.models)
    ]
    return _median(alike)


def _comparison_estimate(comparison: PixelComparison, compared: Sequence[Finished]) -> Cost:
    """Estimate from comparisons of the same images, whatever their paths were."""
    kind = comparison.parts.keys()
    alike = [each for each in compared if each.parts.keys() == kind]
    return _median([each for each in alike if each.parts["samples"] == comparison.images])


def _median(alike: Sequence[Finished]) -> Cost:
    seconds = [each.seconds for each in alike if each.seconds is not None]
    if not seconds:
        return Cost(None, None)
    return Cost(median(seconds), int(median(each.bytes() for each in alike)))


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b
