"""Stages and images of two runs whose pixels changed.

A pixel has one value, so that any change of it is one: nothing is tested.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from alignkit.compare.image_table import LAST, ImageTable
from alignkit.record import PixelStage, RunRecord
from alignkit.record.study_documents import Change, PixelChange, PixelImage, StageChange
from alignkit.studies.compare_runs.compared_runs import StoredRun

_SHOWN = 20
"""Images listed for each pair of paths."""


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
