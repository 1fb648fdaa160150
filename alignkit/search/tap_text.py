"""A `TapReport` as text: a line for each stage, the first that differs, and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.search.tap_report import Cause, OtherSize, StageReport, TapReport
from alignkit.text.numbers import at_most, listed, percent, plain

HEADINGS = ("stage", "tap", "isolated mean |Δ|", "max |Δ|", "cumulative", "identical", "finding")


def heading(report: TapReport) -> str:
    """Say what was recorded, and what it is compared with."""
    logs = "1 process" if report.processes == 1 else f"{report.processes} processes"
    lines = [f"taps: {len(report.stages)} stages of {report.images} images, by {logs}"]
    if report.without_image:
        lines.append(f"other images: {report.without_image} recorded ones are none of the given")
    if report.unused:
        lines.append(f"left out: {', '.join(report.unused)}")
    named = "" if report.given else ", the nearest to the last tap, as no --preprocess is given"
    lines.append(f"reference: {report.reference}{named}")
    lines += [f"{each.tap}: {_left_out(each, report)}" for each in report.stages if each.left_out]
    return "\n".join(lines)


def rows(report: TapReport) -> Iterator[tuple[str, ...]]:
    """Yield a row of the table for each stage."""
    for each in report.stages:
        one, whole = each.isolated, each.cumulative
        why = _uncompared(each, report)
        yield (
            each.stage,
            each.tap,
            plain(one.mean, 3) if one else why or "other size",
            plain(one.greatest, 1) if one else "",
            plain(whole.mean, 3) if whole else "not compared" if why else "other size",
            f"{one.identical}/{one.images}" if one else "",
            _finding(each, report),
        )


def _left_out(stage: StageReport, report: TapReport) -> str:
    count, (image, why) = len(stage.left_out), stage.left_out[0]
    return f"{count} of {report.images} images could not be compared; first: {image}: {why}"


def _uncompared(stage: StageReport, report: TapReport) -> str:
    """Return why the first image could not be compared, if none could be; else nothing."""
    return stage.left_out[0][1] if len(stage.left_out) == report.images else ""


def _only_left_out(stage: StageReport, report: TapReport) -> bool:
    """Tell whether a stage differs in no image that could be compared."""
    one = stage.isolated
    none_differs = one is not None and one.identical == one.images
    return bool(stage.left_out) and (none_differs or bool(_uncompared(stage, report)))


def _finding(stage: StageReport, report: TapReport) -> str:
    if stage.state == "same":
        found = "same as the reference's"
    elif stage.state == "idle":
        found = "equal, but not shown: the reference's leaves these images as they are"
    elif _only_left_out(stage, report):
        found = _left_out(stage, report)
    else:
        causes = "; ".join(each.text for each in stage.causes) or "no cause found"
        found = f"{_sizes(stage.other_size)}: {causes}" if stage.other_size else causes
    return f"{found} ({stage.note})" if stage.note else found


def _sizes(other: OtherSize) -> str:
    """Return ``256x308 against the reference's 256x307``, of the first image."""
    theirs, mine = ("x".join(map(str, each)) for each in (other.recorded, other.reference))
    return f"{theirs} against the reference's {mine}"


def verdict(report: TapReport) -> str:
    """Name the first stage that differs, by how much and why."""
    first = report.first
    hidden = _unshown(report)
    if first is None:
        equal = "equals" if hidden else "is"
        said = f"every recorded stage {equal} the reference's, on {report.images} images, each "
        return "\n".join((f"{said}judged on the recorded input before it.", *hidden))
    sentences = [f"First difference: {first.stage} (tap {first.tap}). {_why(first, report)}"]
    later = [each for each in report.stages if each.differs and each is not first]
    sentences += [
        f"Also different, on its own recorded input: {each.stage} (tap {each.tap}). "
        f"{_why(each, report)}"
        for each in later
    ]
    return "\n".join([*sentences, *hidden])


def _unshown(report: TapReport) -> list[str]:
    """Name the reference's stages that had nothing to do, in a sentence; or nothing."""
    equal = (each.unshown for each in report.stages if not each.differs)
    if not (idle := [stage for stages in equal for stage in stages]):
        return []
    leave = "leaves" if len(idle) == 1 else "leave"
    said = f"Not shown: the reference's {listed(idle)}, which {leave} each of these images as it is"
    return [f"{said}; record images of other sizes and kinds."]


def _why(stage: StageReport, report: TapReport) -> str:
    if _only_left_out(stage, report):
        return f"{_left_out(stage, report)}."
    size = _size(stage, report)
    if stage.state == "explained":
        steps = "; ".join(map(_step, stage.causes))
        share = (
            f", {percent(stage.explained, 0, EXPLAINS_MOST)} explained"
            if stage.explained is not None
            else ""
        )
        return f"{size}{share}.\n  {steps}"
    if not stage.nearest:
        return f"{size}.\n  No cause found: no configuration that was tried gives these sizes."
    left = f", {plain(stage.remains, 2)} levels away" if stage.remains is not None else ""
    return f"{size}.\n  No cause explains most of it; the nearest is {stage.nearest}{left}."


def _size(stage: StageReport, report: TapReport) -> str:
    """Say how far a stage is from the reference's, or how their sizes differ."""
    before, other = stage.isolated, stage.other_size
    if before:
        mean, most = plain(before.mean, 2), at_most(before.greatest)
        return f"{mean} grey levels in the mean, {most} at most"
    if other is None:
        return "It could not be compared"
    of = f"{other.images} of {report.images} images have another size"
    return f"{of}; first: {other.image}, {_sizes(other)}"


def _step(cause: Cause) -> str:
    meaning = f" ({cause.meaning})" if cause.meaning else ""
    after = f"{plain(cause.after, 2)} levels"
    left = f"{after} remain" if cause.before is None else f"{plain(cause.before, 2)} → {after}"
    return f"{cause.text}{meaning}: {left}"


def as_json(report: TapReport) -> dict[str, Any]:
    """Return the whole report, JSON-ready."""
    first = report.first
    return {
        **asdict(report),
        "first": first.stage if first else None,
        "verdict": verdict(report),
    }
