"""Cells of two runs: how far their drift changed, and the images that flip in one run alone.

Seeds and images that only one run has are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import numpy as np

from alignkit.compare import drift, drift_change
from alignkit.compare.answers import mean_metrics
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.statistics import holm
from alignkit.place import Place
from alignkit.record import DriftChange, Estimate, MatrixEntry
from alignkit.record.study_documents import Change, EntryChange, ImageChange
from alignkit.samples import NO_LABELS
from alignkit.studies.compare_runs.compared_runs import OtherOutputs, Seed, StoredRun, seeds_of
from alignkit.text.names import state_words

FlipChange: TypeAlias = Literal["new", "fixed", "other class"]


def entry_changes(before: StoredRun, after: StoredRun) -> tuple[EntryChange, ...]:
    """Compare every place of either matrix, in the later run's order, then the earlier's."""
    old = {each.place: each for each in before.record.matrix}
    new = {each.place: each for each in after.record.matrix}
    found = [_entry(at, old.get(at), new.get(at), before, after) for at in {**new, **old}]
    task = after.record.task
    for metric in task.matrices:
        found = _corrected(found, metric)
    return tuple(
        each.model_copy(update={"change": _word(each, task.matrices[0])})
        if each.change == "no change shown"
        else each
        for each in found
    )


def _corrected(entries: Sequence[EntryChange], metric: str) -> list[EntryChange]:
    """Adjust a metric's p-values for their number (Holm): one family of tests."""
    tested = [
        i for i, e in enumerate(entries) if metric in e.metrics and e.metrics[metric].p is not None
    ]
    adjusted = holm([p for i in tested if (p := entries[i].metrics[metric].p) is not None])
    found = list(entries)
    for index, p in zip(tested, adjusted, strict=True):
        entry = found[index]
        change = replace(entry.metrics[metric], p=p)
        found[index] = entry.model_copy(update={"metrics": entry.metrics | {metric: change}})
    return found


def _word(entry: EntryChange, headline: str) -> Change:
    """Name the change that the test of churn shows, or of an aligned cell that of the headline."""
    tested = entry.metrics[headline if entry.aligned else "churn"]
    if not tested.is_shown or not tested.change.value:
        return "no change shown"
    if entry.aligned:
        return "better" if tested.change.value > 0 else "worse"
    if tested.change.value > 0:
        return "worse" if entry.before else "new"
    return "better" if entry.after else "fixed"


def _entry(
    at: Place, old: MatrixEntry | None, new: MatrixEntry | None, before: StoredRun, after: StoredRun
) -> EntryChange:
    reason = _gap("earlier", old) or _gap("later", new)
    seeds: list[Seed] = []
    if old is not None and new is not None and not reason:
        try:
            seeds = seeds_of(at, old, new, before, after)
        except OtherOutputs as error:  # another class is no flip; other cells are still compared
            reason = str(error)
    is_aligned = any(each.aligned for each in (old, new) if each is not None)
    if not seeds:  # a reason, never a zero
        reason = reason or "the two runs have no predictions of the same seed and images"
        return EntryChange(**at.fields, aligned=is_aligned, change="not compared", reason=reason)
    flips, turned = [each.flips for each in seeds], [each.turned for each in seeds]
    same = all(each.same for each in seeds)
    names = after.record.task.matrices
    draws = SharedDraws(copies=after.record.data.copies)
    labelled = seeds[0].cell_after.labelled
    untested = is_aligned and not labelled and not same
    return EntryChange(
        **at.fields,
        aligned=is_aligned,
        change="unchanged" if same else "not compared" if untested else "no change shown",
        reason=f"{NO_LABELS}: nothing says which predictions are better" if untested else "",
        n=sum(len(each.cell_after) for each in seeds),
        seeds=len(seeds),
        before=sum(int(was.sum()) for was, _ in flips),
        after=sum(int(now.sum()) for _, now in flips),
        appeared=sum(int(each[0].sum()) for each in turned),
        gone=sum(int(each[1].sum()) for each in turned),
        metrics=(_values if is_aligned else _drifts)(seeds, names, draws),
        images=_images(seeds),
    )


def _drifts(
    seeds: Sequence[Seed], names: Sequence[str], draws: SharedDraws
) -> dict[str, DriftChange]:
    """Compare the drift from the aligned cell in both runs."""
    before = [s.home_before for s in seeds], [s.cell_before for s in seeds]
    after = [s.home_after for s in seeds], [s.cell_after for s in seeds]
    return drift_change(before, after, names, draws=draws)


def _values(
    seeds: Sequence[Seed], names: Sequence[str], draws: SharedDraws
) -> dict[str, DriftChange]:
    """Compare the values of an aligned cell, which has no drift."""
    before, after = [s.cell_before for s in seeds], [s.cell_after for s in seeds]
    pair = drift(before, after, draws=draws)
    was, now = mean_metrics(before), mean_metrics(after)
    return {
        name: DriftChange(
            Estimate(was.get(name), None, None, pair.metrics[name].reason),
            Estimate(now.get(name), None, None, pair.metrics[name].reason),
            pair.metrics[name],
            pair.p_values.get(name),
        )
        for name in names
        if name in pair.metrics
    }


def _gap(which: str, entry: MatrixEntry | None) -> str:
    if entry is None:
        return f"the {which} run has no such cell"
    if not entry.ran:
        return f"{state_words(entry.state)} in the {which} run: {entry.reason}"
    return ""


def _images(seeds: Sequence[Seed]) -> tuple[ImageChange, ...]:
    """List the images whose flips changed: new, fixed, then another class, each by seeds."""
    found: dict[tuple[str, FlipChange], list[tuple[Seed, int]]] = {}
    for seed in seeds:
        kinds: tuple[FlipChange, ...] = ("new", "fixed", "other class")
        for kind, which in zip(kinds, seed.turned, strict=True):
            for index in np.flatnonzero(which):
                found.setdefault((seed.cell_after.ids[index], kind), []).append((seed, int(index)))
    order = ("new", "fixed", "other class")
    ranked = sorted(found.items(), key=lambda each: (order.index(each[0][1]), -len(each[1])))
    return tuple(
        ImageChange(
            id=name,
            label=seed.cell_after.truth_said(index),
            change=kind,
            seeds=len(where),
            before=seed.words(index)[0],
            after=seed.words(index)[1],
        )
        for (name, kind), where in ranked
        for seed, index in where[:1]  # the first seed as an example
    )
