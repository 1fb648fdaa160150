"""The matrix of two runs: cells, and their images, whose flips changed.

Seeds and images that only one run has are left out. An image counts as one trial, however many
seeds flip it: its seeds are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.compare.predictions import class_name
from alignkit.compare.statistics import holm, mcnemar
from alignkit.place import Place
from alignkit.record import MatrixEntry
from alignkit.record.cell import ALPHA
from alignkit.record.study_documents import Change, EntryChange, ImageChange
from alignkit.studies.compare_runs.seeds import Seed, StoredRun, seeds_of

FlipChange: TypeAlias = Literal["new", "fixed", "other class"]


def entry_changes(before: StoredRun, after: StoredRun) -> tuple[EntryChange, ...]:
    """Compare every place of either matrix, in the later run's order, then the earlier's."""
    old = {each.place: each for each in before.record.matrix}
    new = {each.place: each for each in after.record.matrix}
    found = [_entry(at, old.get(at), new.get(at), before, after) for at in {**new, **old}]
    tested = [each for each in found if each.p is not None]
    adjusted = dict(
        zip(map(id, tested), holm([each.p for each in tested if each.p is not None]), strict=True)
    )
    return tuple(_judged(each, adjusted.get(id(each))) for each in found)


def _entry(
    at: Place, old: MatrixEntry | None, new: MatrixEntry | None, before: StoredRun, after: StoredRun
) -> EntryChange:
    reason = _gap("earlier", old) or _gap("later", new)
    seeds = [] if reason or old is None or new is None else seeds_of(at, old, new, before, after)
    is_aligned = any(each.aligned for each in (old, new) if each is not None)
    if not seeds:
        reason = reason or "the two runs have no predictions of the same seed and images"
        return EntryChange(**at.fields, aligned=is_aligned, change="not compared", reason=reason)
    flips = [(a[0] != a[1], b[0] != b[1]) for a, b in ((s.before, s.after) for s in seeds)]
    appeared = sum(int((now & ~was).sum()) for was, now in flips)
    gone = sum(int((was & ~now).sum()) for was, now in flips)
    more, less = _signs(seeds, flips)
    return EntryChange(
        **at.fields,
        aligned=is_aligned,
        change="unchanged",
        n=sum(len(each.ids) for each in seeds),
        before=sum(int(was.sum()) for was, _ in flips),
        after=sum(int(now.sum()) for _, now in flips),
        appeared=appeared,
        gone=gone,
        p=mcnemar(more, less),
        images=_images(seeds),
    )


def _gap(which: str, entry: MatrixEntry | None) -> str:
    if entry is None:
        return f"the {which} run has no such cell"
    if entry.state != "measured":
        return f"{entry.state} in the {which} run: {entry.reason}"
    return ""


def _signs(
    seeds: Sequence[Seed], flips: Sequence[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]
) -> tuple[int, int]:
    """Count the images that flip with more seeds than before, and with fewer."""
    change: dict[str, int] = {}
    for seed, (was, now) in zip(seeds, flips, strict=True):
        for index in np.flatnonzero(was != now):
            name = seed.ids[index]
            change[name] = change.get(name, 0) + (1 if now[index] else -1)
    return sum(each > 0 for each in change.values()), sum(each < 0 for each in change.values())


def _images(seeds: Sequence[Seed]) -> tuple[ImageChange, ...]:
    """List the images whose flips changed: new, fixed, then another class, each by seeds."""
    found: dict[tuple[str, FlipChange], list[tuple[Seed, int]]] = {}
    for seed in seeds:
        was, now = seed.before[0] != seed.before[1], seed.after[0] != seed.after[1]
        other = was & now & (seed.before[1] != seed.after[1])
        for kind, which in (("new", now & ~was), ("fixed", was & ~now), ("other class", other)):
            for index in np.flatnonzero(which):
                found.setdefault((seed.ids[index], kind), []).append((seed, int(index)))  # type: ignore[arg-type]  # the literals above
    order = ("new", "fixed", "other class")
    ranked = sorted(found.items(), key=lambda each: (order.index(each[0][1]), -len(each[1])))
    return tuple(
        ImageChange(
            id=name,
            label=where[0][0].classes[where[0][0].labels[where[0][1]]],
            change=kind,
            seeds=len(where),
            before=_words(where[0][0].classes, where[0][0].before, where[0][1]),
            after=_words(where[0][0].classes, where[0][0].after, where[0][1]),
        )
        for (name, kind), where in ranked
    )


def _words(
    classes: tuple[str, ...],
    pair: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]],
    index: int,
) -> str:
    home, cell = (class_name(classes, side[index]) for side in pair)
    return cell if home == cell else f"{home} → {cell}"


def _judged(entry: EntryChange, p: float | None) -> EntryChange:
    if p is None:
        return entry
    return entry.model_copy(update={"p": p, "change": _change(entry, p)})


def _change(entry: EntryChange, p: float) -> Change:
    if not entry.aligned and entry.before == 0 and entry.after:
        return "new"
    if not entry.aligned and entry.before and entry.after == 0:
        return "fixed"
    if p >= ALPHA or entry.before == entry.after:
        return "unchanged"
    return "worse" if entry.after > entry.before else "better"
