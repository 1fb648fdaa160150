"""The numbers one reads first."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.compare.image_table import LAST
from alignkit.record import RunRecord
from alignkit.report.entry_view import RECALL, entry_view
from alignkit.report.matrix_view import entry_id
from alignkit.report.stage_view import StageSection
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, grouped, interval, listed, plain, points, unsigned


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One number of the page's head."""

    name: str
    value: str
    detail: str
    link: str = ""


def key_figures(
    record: RunRecord, names: Names, stages: tuple[StageSection, ...]
) -> tuple[KeyFigure, ...]:
    """The numbers of the page's head."""
    if not record.matrix:
        return _images(record), _start(stages), _largest_difference(record, names)
    return (
        _largest_recall_change(record, names),
        _largest_churn(record, names),
        _resolution(record),
        _start(stages),
        _cells(record),
    )


def _largest_recall_change(record: RunRecord, names: Names) -> KeyFigure:
    name = "Largest change of macro recall"
    found = [
        (abs(change.value), -index, change)
        for index, entry in enumerate(record.matrix)
        if entry.drift and (change := entry.drift.metrics.get(RECALL))
        if change.value is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "nothing was compared")
    _, index, change = max(found, key=lambda each: each[:2])
    entry = record.matrix[-index]
    assert change.value is not None
    detail = f"{interval(change)} · {names.title(entry)}"
    return KeyFigure(name, f"{points(change.value)} pp", detail, link=entry_id(-index))


def _largest_churn(record: RunRecord, names: Names) -> KeyFigure:
    name = "Most predictions changed"
    found = [
        (entry.drift.churn.value, -index)
        for index, entry in enumerate(record.matrix)
        if entry.drift and entry.drift.churn.value is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "nothing was compared")
    index = -max(found)[1]
    entry = record.matrix[index]
    view = entry_view(entry, names)
    return KeyFigure(name, view.churn, f"{view.flips} · {names.title(entry)}", link=entry_id(index))


def _resolution(record: RunRecord) -> KeyFigure:
    limits = [
        entry.drift.detectable
        for entry in record.matrix
        if entry.drift and entry.drift.detectable is not None
    ]
    name = "Detectable change of top-1"
    floors = [
        floor.metrics["recall.macro"]
        for floor in record.noise_floor
        if len(floor.seeds) > 1 and "recall.macro" in floor.metrics
    ]
    noise = (
        f"noise floor of macro recall over seeds up to {unsigned(max(floors))}"
        if floors
        else "one seed only: no noise floor"
    )
    if not limits:
        return KeyFigure(name, DASH, noise)
    return KeyFigure(name, unsigned(*limits), f"80 % power, 5 % level · {noise}", link="matrix")


def _start(stages: tuple[StageSection, ...]) -> KeyFigure:
    if not stages:
        return KeyFigure("Where drift starts", DASH, "no pixels were compared")
    firsts = list(dict.fromkeys(section.first or "nowhere" for section in stages))
    details = [f"{section.candidate.name}: {_course(section)}" for section in stages]
    return KeyFigure("Where drift starts", listed(firsts), " · ".join(details), link="stages")


def _course(section: StageSection) -> str:
    if not section.first:
        return "no stage differs"
    if section.largest in ("", section.first):
        return section.first
    return f"{section.first}, largest at {section.largest}"


def _images(record: RunRecord) -> KeyFigure:
    compared = [stage.images for stage in record.pixels]
    detail = f"of {count(record.data.eval, 'image')}"
    return KeyFigure("Images compared", grouped(max(compared, default=0)), detail, link="stages")


def _largest_difference(record: RunRecord, names: Names) -> KeyFigure:
    name = "Largest mean difference of pixels"
    found = [
        (stage.mean_abs, names.short(stage.candidate))
        for stage in record.pixels
        if stage.mode == "cumulative" and stage.stage == LAST and stage.mean_abs is not None
    ]
    if not found:
        return KeyFigure(name, DASH, "no pixels were compared")
    mean, candidate = max(found)
    return KeyFigure(name, plain(mean, 2), f"grey levels of 255 · {candidate}", link="stages")


def _cells(record: RunRecord) -> KeyFigure:
    states = [entry.state for entry in record.matrix]
    measured = states.count("measured")
    others = [f"{states.count(s)} {s}" for s in ("skipped", "failed") if s in states]
    seeds = len({training.seed for training in record.trainings})
    sample = f"{count(record.data.eval, 'image')}, {count(seeds, 'seed')}"
    detail = f"{', '.join(others) or 'all measured'} · {sample}"
    return KeyFigure("Matrix cells measured", f"{measured} of {len(states)}", detail, link="matrix")
