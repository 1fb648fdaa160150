"""Outlooks of a plan: the work that is stored, the work of a run, and a bound of its memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from alignkit.isolation import IMAGES_A_TASK, TASKS_A_WORKER
from alignkit.machine import available_bytes
from alignkit.outcome import PlannedWork
from alignkit.plan import Plan, preparations
from alignkit.plan.planned_attribution import planned_attributions
from alignkit.plan.work import Evaluation
from alignkit.prepare import pixel_identity
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
class Outlooks:
    """The work of a run, stored or not, by kind."""

    prepared: tuple[Outlook, ...]
    """One for each path and split."""
    trainings: tuple[Outlook, ...]
    cells: tuple[Outlook, ...]
    comparisons: tuple[Outlook, ...]
    """Pixel comparisons of the reference path with each other path."""
    attributions: tuple[Outlook, ...]
    """One for the drift along each path, in all runtimes together."""


def planned_work(plan: Plan) -> dict[str, Sequence[PlannedWork]]:
    """List every unit of work of a plan, by its field of `Outlooks`."""
    return {
        "prepared": preparations(plan),
        "trainings": [each for each in plan.trainings if each.given is None],
        "cells": plan.evaluations,
        "comparisons": plan.comparisons,
        "attributions": planned_attributions(plan),
    }


def outlooks(plan: Plan, workspace: Workspace) -> Outlooks:
    """Look up all work of a plan from `keyed_plan`; makes nothing and reads no image."""
    kinds: tuple[WorkKind, ...] = ("prepared", "trainings", "cells", "comparisons")
    finished = {kind: workspace.finished(kind) for kind in kinds}
    ran_before = workspace.has_run(plan.experiment.name)
    found = {
        name: _outlooks(
            works, finished[works[0].kind] if works else [], workspace, ran_before=ran_before
        )
        for name, works in planned_work(plan).items()
    }
    return Outlooks(**found)


def _outlooks(
    works: Sequence[PlannedWork],
    finished: Sequence[Finished],
    workspace: Workspace,
    *,
    ran_before: bool,
) -> tuple[Outlook, ...]:
    stored = {each.folder.name for each in finished}
    found = []
    for work in works:
        # stored first: work that was done here is there even if it cannot be done today
        if work.key in stored and not work.live:
            found.append(Outlook(work, "cached"))
        elif work.skipped:
            builds = isinstance(work, Evaluation) and work.builds_engine
            found.append(Outlook(work, "to build" if builds else "impossible", work.skipped))
        else:
            # similar work of another experiment is not done again
            changed = changed_parts(finished, work.parts, work.label) if ran_before else ""
            reason = f"{changed} changed" if changed else ""
            if workspace.stored(work.kind, work.key) and not work.live:
                reason = "the stored work is damaged"
            found.append(Outlook(work, "to run", reason))
    return tuple(found)


def changed_parts(finished: Sequence[Finished], parts: dict[str, Any], label: str) -> str:
    """Name the parts that differ from the most similar work of this label; empty if none is."""
    changes: list[list[str]] = []
    for each in finished:
        names = parts.keys() | each.parts.keys()
        if each.label == label:
            changes.append(sorted(n for n in names if parts.get(n) != each.parts.get(n)))
    changes.sort(key=len)
    return ", ".join(changes[0]) if changes else ""


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
    identities: IdentityMemory | None = None
    """The classifier beside an embedding, if one is trained."""

    @property
    def fits(self) -> bool | None:
        """Whether all stays in memory; ``None`` if the available memory is not known."""
        if self.available is None:
            return None
        trained = self.identities.training if self.identities else 0
        return self.workers + self.caches + self.batch + trained <= self.available


@dataclass(frozen=True, slots=True)
class IdentityMemory:
    """The classifier of the training identities, on one process.

    A million identities, each a vector of 512, trained by SGD with momentum:

    >>> million = IdentityMemory(1_000_000, 512, copies=3)
    >>> million.weights, million.training
    (2048000000, 6144000000)
    """

    count: int
    """Training identities."""
    embedding: int
    """Length of a vector."""
    copies: int
    """Arrays of that size in a step: weights, gradient and the optimiser's moments."""
    shards: int = 1
    """Processes that hold a part each."""

    @property
    def weights(self) -> int:
        """Bytes of the weights: a float32 value for each identity and dimension."""
        return -(-self.count // self.shards) * self.embedding * _WIDEST

    @property
    def training(self) -> int:
        """Bytes of all copies."""
        return self.weights * self.copies


def memory(plan: Plan) -> Memory:
    """Bound the memory of a run of the whole plan; reads and makes nothing."""
    height, width = plan.experiment.reference.size
    image = height * width * 3 * _WIDEST
    distinct = {content_key(pixel_identity(each)) for each in plan.experiment.paths}
    images = sum(plan.experiment.data.counts())
    sizes = (plan.experiment.recipe.batch_size, plan.experiment.batch_size)
    return Memory(
        workers=worker_bytes(
            image, batch=IMAGES_A_TASK, workers=usable_cpus(), prefetch=TASKS_A_WORKER
        ),
        caches=images * len(distinct) * image,
        batch=max(sizes) * image,
        available=available_bytes(),
        identities=_identities(plan),
    )


def _identities(plan: Plan) -> IdentityMemory | None:
    recipe = plan.experiment.recipe
    loss = recipe.identities
    if not plan.trains or loss is None or not loss.classifies:
        return None
    # a folder's classes are known once it is listed, as its fingerprint did
    names = plan.experiment.data.trained_names() or plan.samples("train").classes
    count = len(names) - round(recipe.holdout * len(names))
    copies = loss.weight_copies(recipe.optimiser, recipe.momentum)
    return IdentityMemory(count, loss.embedding, copies, plan.ranks if loss.shard else 1)


def worker_bytes(image: int, *, batch: int, workers: int, prefetch: int = 2) -> int:
    """Compute the bytes that loader workers hold ready: image × batch × workers × prefetch.

    ``prefetch`` is 2 by default in a ``DataLoader`` too. Batches of 32 images, 512×512 in float32,
    each with an int64 mask, in 8 workers:

    >>> worker_bytes(512 * 512 * (3 * 4 + 8), batch=32, workers=8, prefetch=1)
    1342177280
    """
    return image * batch * workers * prefetch
