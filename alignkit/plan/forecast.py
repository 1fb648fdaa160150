"""Forecast of a plan: the work a run would do, the time it took here before, and its memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.machine import available_bytes
from alignkit.outcome import PlannedWork
from alignkit.place import FULL
from alignkit.plan import Plan, preparations
from alignkit.plan.planned_attribution import PlannedAttribution, planned_attributions
from alignkit.plan.work import Evaluation, PixelComparison
from alignkit.prepare import pixel_identity
from alignkit.stored_file import DamagedError
from alignkit.torch_settings import usable_cpus
from alignkit.workspace import Finished, WorkKind, Workspace, content_key

WorkState = Literal["cached", "to run", "to build", "impossible"]
"""``to build``: an engine that cannot run here."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """One unit of work, and whether a run would do it."""

    work: PlannedWork
    state: WorkState
    reason: str = ""
    """Why it is impossible, or has to be done again; empty for work that is new or cached."""


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
        name: _outlooks(works, finished[works[0].kind] if works else [], workspace)
        for name, works in planned_work(plan).items()
    }
    trained, compared = finished["trainings"], finished["comparisons"]
    images, _ = plan.data.counts()
    costs = [
        *(_training_estimate(each.parts, images, trained) for each in _to_run(found["trainings"])),
        *(_cell_estimate(each, finished["cells"], trained) for each in _to_run(found["cells"])),
        *(_attribution_estimate(each, compared) for each in _to_run(found["attributions"])),
    ]
    comparing = [_comparison_estimate(each, compared) for each in _to_run(found["comparisons"])]
    none = Cost(0.0, 0)
    return Forecast(**found, estimate=sum(costs, none), comparing=sum(comparing, none))


def _outlooks(
    works: Sequence[PlannedWork], finished: Sequence[Finished], workspace: Workspace
) -> tuple[Outlook, ...]:
    stored = {each.folder.name for each in finished}
    outlooks = []
    for work in works:
        # stored first: work that was done here is there even if it cannot be done today
        if work.key in stored and not work.live:
            outlooks.append(Outlook(work, "cached"))
        elif work.skipped:
            builds = isinstance(work, Evaluation) and work.builds_engine
            outlooks.append(Outlook(work, "to build" if builds else "impossible", work.skipped))
        else:
            changed = changed_parts(finished, work.parts, work.label)
            reason = f"{changed} changed" if changed else ""
            if workspace.stored(work.kind, work.key) and not work.live:
                reason = "the stored work is damaged"
            outlooks.append(Outlook(work, "to run", reason))
    return tuple(outlooks)


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
    from statistics import median

    alike = [each for each in trained if _speed_class(each.parts) == _speed_class(parts)]
    if not alike:
        return Cost(None, None)
    # images per second and not seconds: the stored training may have had other epochs
    rates = [rate for each in alike for rate in _rates(each)]
    if not rates:
        return Cost(None, None)
    share = parts.get("fraction", FULL) * (1 - parts["recipe"]["holdout"])
    seconds = parts["recipe"]["epochs"] * share * images / median(rates)
    return Cost(seconds, int(median(each.bytes() for each in alike)))


def _rates(trained: Finished) -> list[float]:
    """Return the images per second of every epoch; none if the log is damaged."""
    try:
        trained.verify(["log.json"])
    except DamagedError:
        return []
    log = json.loads((trained.folder / "log.json").read_text())
    return [epoch["images_per_second"] for epoch in log["epochs"]]


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
    return _median(alike)


def _attribution_estimate(wanted: PlannedAttribution, attributed: Sequence[Finished]) -> Cost:
    """Estimate from attributions of the same images, paths and runtimes, with as many models."""
    alike = [
        each
        for each in attributed
        if each.label == wanted.label
        and all(each.parts.get(n) == wanted.parts[n] for n in ("data", "paths", "runtimes"))
        and len(each.parts["models"]) == len(wanted.models)
    ]
    return _median(alike)


def _comparison_estimate(comparison: PixelComparison, compared: Sequence[Finished]) -> Cost:
    """Estimate from comparisons of the same images, whatever their paths were."""
    kind = comparison.parts.keys()
    alike = [each for each in compared if each.parts.keys() == kind]
    return _median([each for each in alike if each.parts["samples"] == comparison.images])


def _median(alike: Sequence[Finished]) -> Cost:
    from statistics import median

    # the median: one run on a busy machine must not decide
    seconds = [each.seconds for each in alike if each.seconds is not None]
    if not seconds:
        return Cost(None, None)
    return Cost(median(seconds), int(median(each.bytes() for each in alike)))


def _sum(a: Any, b: Any) -> Any:
    return None if a is None or b is None else a + b


_WIDEST = 4
"""Bytes of a float32 value; a path of ``uint8`` pixels needs a quarter."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Upper bounds, in bytes."""

    workers: int
    """Images that workers have prepared and that are not written yet."""
    caches: int
    """Prepared pixels of every path and split: mapped files; the rest is read from disk again."""
    batch: int
    """One input batch of the model."""
    available: int | None
    """Available now, in this container; ``None`` if the system does not say."""

    @property
    def fits(self) -> bool | None:
        """Whether all stays in memory; ``None`` if the available memory is not known."""
        if self.available is None:
            return None
        return self.workers + self.caches + self.batch <= self.available


def memory(plan: Plan) -> Memory:
    """Bound the memory of a run of the whole plan; reads and makes nothing."""
    height, width = plan.reference.size
    image = height * width * 3 * _WIDEST
    distinct = {content_key(pixel_identity(each)) for each in plan.preprocesses}
    images = sum(plan.data.counts())
    sizes = (plan.recipe.batch_size, plan.batch_size)
    return Memory(
        workers=worker_bytes(
            image, batch=IMAGES_A_TASK, workers=usable_cpus(), prefetch=TASKS_A_WORKER
        ),
        caches=images * len(distinct) * image,
        batch=max(sizes) * image,
        available=available_bytes(),
    )


def worker_bytes(image: int, *, batch: int, workers: int, prefetch: int = 2) -> int:
    """Compute the bytes that loader workers hold ready: image × batch × workers × prefetch.

    ``prefetch`` is 2 by default in a ``DataLoader`` too. Batches of 32 images, 512×512 in float32,
    each with an int64 mask, in 8 workers:

    >>> worker_bytes(512 * 512 * (3 * 4 + 8), batch=32, workers=8, prefetch=1)
    1342177280
    """
    return image * batch * workers * prefetch
