"""Cells, images and stages of two runs whose flips or pixels changed.

Seeds and images that only one run has are left out. An image counts as one trial, however many
seeds flip it: its seeds are not independent of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Labels
from alignkit.compare.image_table import LAST, ImageTable
from alignkit.compare.predictions import class_name
from alignkit.compare.statistics import holm, mcnemar
from alignkit.place import Place
from alignkit.record import MatrixEntry, PixelStage, RunRecord
from alignkit.record.cell_facts import ALPHA
from alignkit.record.study_documents import (
    Change,
    EntryChange,
    ImageChange,
    PixelChange,
    PixelImage,
    StageChange,
)
from alignkit.studies.compare_runs.compared_runs import Seed, StoredRun, seeds_of
from alignkit.text.names import state_words

_SHOWN = 20
"""Images listed for each pair of paths."""
FlipChange: TypeAlias = Literal["new", "fixed", "other class"]


def entry_changes(before: StoredRun, after: StoredRun) -> tuple[EntryChange, ...]:
    """Compare every place of either matrix, in the later run's order, then the earlier's."""
    old = {each.place: each for each in before.record.matrix}
    new = {each.place: each for each in after.record.matrix}
    found = [_entry(at, old.get(at), new.get(at), before, after) for at in {**new, **old}]
    # one family of tests: adjusted together, in the order of the entries that have a p-value
    adjusted = iter(holm([each.p for each in found if each.p is not None]))
    return tuple(each if each.p is None else _judged(each, next(adjusted)) for each in found)


def _judged(entry: EntryChange, p: float) -> EntryChange:
    """Give an entry its adjusted p-value, and the change that it shows."""
    change: Change = "unchanged"
    if not entry.aligned and entry.after and not entry.before:
        change = "new"
    elif not entry.aligned and entry.before and not entry.after:
        change = "fixed"
    elif p < ALPHA and entry.before != entry.after:
        change = "worse" if entry.after > entry.before else "better"
    return entry.model_copy(update={"p": p, "change": change})


def _entry(
    at: Place, old: MatrixEntry | None, new: MatrixEntry | None, before: StoredRun, after: StoredRun
) -> EntryChange:
    reason = _gap("earlier", old) or _gap("later", new)
    seeds = [] if reason or old is None or new is None else seeds_of(at, old, new, before, after)
    is_aligned = any(each.aligned for each in (old, new) if each is not None)
    if not seeds:  # a reason, never a zero
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
    if not entry.ran:
        return f"{state_words(entry.state)} in the {which} run: {entry.reason}"
    return ""


def _signs(
    seeds: Sequence[Seed], flips: Sequence[tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]]
) -> tuple[int, int]:
    """Count the images that flip with more seeds than before, and with fewer."""
    change: dict[str, int] = {}
    for seed, (was, now) in zip(seeds, flips, strict=True):
        for index in np.flatnonzero(was != now):  # few of the images: the others need no step
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
            label=seed.outputs[seed.labels[index]] if len(seed.labels) else "",
            change=kind,
            seeds=len(where),
            before=_words(seed.outputs, seed.before, index),
            after=_words(seed.outputs, seed.after, index),
        )
        for (name, kind), where in ranked
        for seed, index in where[:1]  # the first seed as an example
    )


def _words(outputs: tuple[str, ...], pair: tuple[Labels, Labels], index: int) -> str:
    home, cell = (class_name(outputs, side[index]) for side in pair)
    return cell if home == cell else f"{home} → {cell}"


def stage_changes(before: RunRecord, after: RunRecord) -> tuple[StageChange, ...]:
    """Compare each isolated stage, where both runs compared the two paths."""
    old = {_place(each): each for each in before.pixels if each.mode == "isolated"}
    return tuple(
        _stage(old[_place(each)], each)
        for each in after.pixels
        if each.mode == "isolated" and _place(each) in old
    )


def _place(stage: PixelStage) -> tuple[str, str, str]:
    return stage.reference, stage.candidate, stage.stage


def _stage(old: PixelStage, new: PixelStage) -> StageChange:
    reason = old.reason or new.reason
    change: Change = "not compared"
    if old.mean_abs is not None and new.mean_abs is not None:
        change = _of(old.mean_abs, new.mean_abs)
        # an equal mean may hide differences that moved between images
        if change == "unchanged" and (old.max_abs, old.identical) != (new.max_abs, new.identical):
            change = "worse" if (new.max_abs or 0.0) > (old.max_abs or 0.0) else "better"
    return StageChange(
        reference=new.reference,
        candidate=new.candidate,
        stage=new.stage,
        change=change,
        before=old.mean_abs,
        after=new.mean_abs,
        reason=reason if change == "not compared" else "",
    )


def _of(old: float, new: float) -> Literal["new", "worse", "fixed", "better", "unchanged"]:
    if old == new:
        return "unchanged"
    if old == 0:
        return "new"
    if new == 0:
        return "fixed"
    return "worse" if new > old else "better"


def pixel_changes(before: StoredRun, after: StoredRun) -> tuple[PixelChange, ...]:
    """Compare each pair of paths whose images both runs measured."""
    found = []
    for facts in after.record.images:
        old = before.images(facts.reference, facts.candidate)
        new = after.images(facts.reference, facts.candidate)
        if old is not None and new is not None:
            found.append(_pair(facts.reference, facts.candidate, old, new))
    return tuple(found)


def _pair(reference: str, candidate: str, old: ImageTable, new: ImageTable) -> PixelChange:
    was = dict(zip(old.ids, old.mean_abs[LAST].tolist(), strict=True))
    now = dict(zip(new.ids, new.mean_abs[LAST].tolist(), strict=True))
    both = {
        name: (was[name], now[name])
        for name in now
        if name in was and np.isfinite(was[name]) and np.isfinite(now[name])
    }
    kinds = {name: _of(*pair) for name, pair in both.items()}
    counts = [*kinds.values()]
    ranked = sorted(both, key=lambda name: -abs(both[name][1] - both[name][0]))[:_SHOWN]
    return PixelChange(
        reference=reference,
        candidate=candidate,
        images=len(both),
        new=counts.count("new"),
        worse=counts.count("worse"),
        fixed=counts.count("fixed"),
        better=counts.count("better"),
        unchanged=counts.count("unchanged"),
        not_compared=len(was.keys() | now.keys()) - len(both),
        greatest=tuple(
            PixelImage(id=name, change=kind, before=both[name][0], after=both[name][1])
            for name in ranked
            if (kind := kinds[name]) != "unchanged"
        ),
    )
