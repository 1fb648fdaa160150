"""Comparison of two runs' folders → `RunComparison`: the cells, stages and images that changed.

Two runs that may not be compared are refused here, and their other differences are listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from alignkit.compare.image_table import LAST, ImageTable
from alignkit.errors import NotComparable, NothingCompared
from alignkit.record import PathFacts, PixelStage, RunRecord
from alignkit.record.study_documents import (
    Change,
    ComparedRun,
    Difference,
    PixelChange,
    PixelImage,
    RunComparison,
    StageChange,
)
from alignkit.studies.compare_runs.compared_runs import StoredRun, stored_run
from alignkit.studies.compare_runs.run_changes import entry_changes
from alignkit.text.verdict import verdict_words
from alignkit.version import __version__

MACHINE = re.compile(r"x86_64|amd64|aarch64|arm64", re.IGNORECASE)
HARMLESS = ("threads", "_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Ends of the names of settings that change times rather than values."""
_PIXEL_IMAGES = 20
"""Images listed for each pair of paths."""


def compare_runs(before: Path, after: Path, *, force: bool, command: str) -> RunComparison:
    """Compare the run in ``after`` with the one in ``before``.

    Raises `NotComparable` with the reasons if that would mislead, unless ``force``, and
    `NothingCompared` if the two are one run, or have neither a cell nor a pair of paths in common.
    """
    runs = stored_run(before), stored_run(after)
    a, b = (run.record for run in runs)
    # a copy of the folder too: the record tells when the run started
    if a == b:
        raise NothingCompared(
            f"{before} and {after} hold the same run, {a.name} of {a.started}, which has no change "
            "to itself; give the folders of two runs"
        )
    forced = check_comparable(a, b, force=force)
    entries, stages, pixels = entry_changes(*runs), stage_changes(a, b), pixel_changes(*runs)
    changes = {each.change for each in entries} | {each.change for each in stages}
    # an empty page would look like two equal runs
    if not changes - {"not compared"} and not pixels:
        raise NothingCompared(
            f"{a.name} and {b.name} have no cell and no pair of paths in common; compare two runs "
            "of one experiment"
        )
    return RunComparison(
        alignkit=__version__,
        command=command,
        before=_side(before, a),
        after=_side(after, b),
        forced=forced,
        differences=differences(a, b),
        entries=entries,
        stages=stages,
        pixels=pixels,
    )


def _side(folder: Path, record: RunRecord) -> ComparedRun:
    return ComparedRun(
        folder=folder.resolve().name,
        name=record.name,
        key=record.key,
        started=record.started,
        verdict=record.verdict.state,
        sentence=verdict_words(record.verdict, record).sentence,
        images=record.data.eval,
        paths=record.paths,
        simulations={
            each.column.runtime: each.simulation for each in record.matrix if each.simulation
        },
        quick=record.quick,
        task=record.task,
    )


def check_comparable(before: RunRecord, after: RunRecord, *, force: bool) -> tuple[str, ...]:
    """Return the obstacles that ``force`` overrules; empty if there are none.

    Raises `NotComparable` with the reasons: always if task or classes differ; without ``force`` if
    images, GPU, system, or settings that change numbers differ.
    """
    if before.task.name != after.task.name:
        raise NotComparable(
            f"the runs have different tasks ({before.task.name} and {after.task.name}), and an "
            "answer of one is none of the other; compare two runs of one experiment"
        )
    # not a matter of --force: no number would mean anything
    if before.data.classes != after.data.classes:
        raise NotComparable(
            f"the runs know different classes ({_few(before.data.classes)} and "
            f"{_few(after.data.classes)}): a prediction of one means nothing in the other; compare "
            "two runs of one data set"
        )
    found = tuple(obstacles(before, after))
    if found and not force:
        raise NotComparable(
            "the runs may not be compared: " + "; ".join(found) + ". What changed could be due to "
            "that alone; run both on one machine and one data set, or compare all the same with "
            "--force, and the report will say so"
        )
    return found


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" … of {len(names)}" if len(names) > 3 else "") or "none"


def obstacles(before: RunRecord, after: RunRecord) -> Iterator[str]:
    """Yield each difference, in words, that could itself be the cause of a change."""
    if before.data.fingerprint != after.data.fingerprint:
        yield (
            f"the images are not the same ({before.data.name} {before.data.fingerprint[:12]} with "
            f"{before.data.eval} and {after.data.name} {after.data.fingerprint[:12]} with "
            f"{after.data.eval} evaluation images)"
        )
    if bool(before.quick) != bool(after.quick):
        which = "earlier" if before.quick else "later"
        yield f"the {which} run is a quick look (--quick) and the other is not"
    there, here = before.environment, after.environment
    for name, a, b in (
        ("system", _system(there.platform), _system(here.platform)),
        ("GPU", there.gpu, here.gpu),
    ):
        if a != b:
            yield f"another {name} ({a} and {b})"
    for name in sorted(there.flags.keys() | here.flags.keys()):
        a, b = (each.flags.get(name, "not set") for each in (there, here))
        if a != b and not name.endswith(HARMLESS):
            yield f"{name} is {a} in the earlier run and {b} in the later one"


def _system(platform: str) -> str:
    machine = MACHINE.search(platform)
    return f"{platform.split('-', maxsplit=1)[0]} {machine[0] if machine else ''}".strip()


def differences(before: RunRecord, after: RunRecord) -> tuple[Difference, ...]:
    """Return the versions, settings, paths and trainings that differ."""
    return tuple(
        Difference(what=name, before=old.get(name) or "none", after=new.get(name) or "none")
        for old, new in zip(_facts(before), _facts(after), strict=True)
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _facts(record: RunRecord) -> Iterator[dict[str, str]]:
    """Yield groups of name → value, in the order of the page."""
    environment = record.environment
    yield {
        "alignkit": record.alignkit,
        "Python": environment.python,
        "CPU": environment.cpu,
        "vector extensions": environment.extensions,
        "GPU": environment.gpu,
        "platform": environment.platform,
        "git revision": environment.git,
    }
    yield {name: value for name, value in environment.versions.items() if name != "alignkit"}
    yield {f"codec of {name}": value for name, value in environment.codecs.items()}
    yield environment.flags
    yield _path_facts(record.paths)
    yield {"data": record.data.fingerprint[:12]}
    yield {
        f"model trained with {each.preprocess}, seed {each.seed}": f"{each.state} {each.key[:12]}"
        for each in record.trainings
    }


def _path_facts(paths: tuple[PathFacts, ...]) -> dict[str, str]:
    found = {f"{path.name}, skipped": path.skipped for path in paths if path.skipped}
    for path in paths:
        for stage in path.stages:
            options = ", ".join(f"{name} {value}" for name, value in stage.options.items())
            parts = (stage.label, options, stage.version)
            found[f"{path.name}, {stage.stage}"] = "; ".join(part for part in parts if part)
    return found


def stage_changes(before: RunRecord, after: RunRecord) -> tuple[StageChange, ...]:
    """Compare each isolated stage, where both runs compared the two paths.

    A pixel has one value, so that any change of it is one: nothing is tested.
    """
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
    ranked = sorted(both, key=lambda name: -abs(both[name][1] - both[name][0]))[:_PIXEL_IMAGES]
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
