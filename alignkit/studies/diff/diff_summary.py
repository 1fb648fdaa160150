"""`DiffRecord` → text for a terminal: coverage, stages of each pair, kinds, the worst, the cause.

At most 40 lines: with many candidates, each gets fewer details.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.record import PixelStage, PlaneStage
from alignkit.record.diff_document import (
    DiffRecord,
    DistanceFacts,
    ImageDrift,
    PairDiff,
)
from alignkit.text import columns
from alignkit.text.diff_words import (
    NO_MODEL,
    ending,
    images_words,
    input_words,
    moved_words,
    other_shape,
    prediction_lines,
)
from alignkit.text.names import surrogate_lines
from alignkit.text.numbers import DASH, count, grouped, percent, plain, shorten

LINES = 40
_PLANES = ("Y'", "Cb", "Cr")
CHROMA, TURNED = "subsampling", "orientation"
"""Dimensions shown, the second where orientation differs; the record has more."""
UNITS = {"normalise": "normalise, in units"}
"""Stages whose distances are no grey levels, as their rows are headed."""
HEADS = {CHROMA: "chroma", TURNED: "EXIF"}


@dataclass(frozen=True, slots=True)
class Detail:
    """Number of lines for each candidate."""

    kinds: int
    worst: int
    stages: Literal["all", "differing", "none"]
    """Stages that have a line: ``differing`` leaves out those that differ in neither mode."""
    planes: bool = True
    ending: Literal["all", "brief"] = "all"
    """``brief`` leaves out the mechanism, known effects and all but the number of flips."""


DETAILS = (
    Detail(7, 3, "all"),
    Detail(5, 2, "differing"),
    Detail(3, 1, "differing"),
    Detail(0, 0, "differing"),
    Detail(0, 0, "differing", ending="brief"),
    Detail(0, 0, "none", planes=False, ending="brief"),
)


def diff_summary(record: DiffRecord) -> str:
    """Return text without colour, in lines as wide as their content."""
    for detail in DETAILS:  # the first that fits is the most detailed
        lines = _lines(record, detail)
        if len(lines) <= LINES:
            return "\n".join(lines)
    return "\n".join([*lines[: LINES - 1], "… see --out html=DIR for the rest"])


def _lines(record: DiffRecord, detail: Detail) -> list[str]:
    lines = [images_words(record), *_coverage(record)]
    lines += surrogate_lines(record.paths, brief=False)
    for pair in record.pairs:
        lines += ["", *_pair(pair, detail, record)]
        stressed = [(each.name, other) for each in record.stress for other in each.pairs]
        lines += [
            f"{name}: {other.sentence}"
            for name, other in stressed
            if other.candidate == pair.candidate and other.sentence
        ]
    if record.model and any(pair.predictions for pair in record.pairs):
        lines += ["", input_words(record.model, record.paths[0])]
    if any(NO_MODEL in pair.matter for pair in record.pairs):
        lines += ["", f"does it matter: {NO_MODEL}"]
    return lines


_MOST_FAILED = 3


def _coverage(record: DiffRecord) -> list[str]:
    head = ("coverage", "ok", "corrupt", "failed", "unsupported")
    rows = [
        (each.preprocess, *map(str, (each.ok, each.corrupt, each.failed, each.unsupported)))
        for each in record.coverage
    ]
    lines = columns([head, *rows]).splitlines()
    for each in record.coverage_diffs:
        lines += [
            f"decoded by {side.by}, not by {side.not_by}: {count(side.images, 'image')}, among "
            f"{shorten(', '.join(side.examples), 60)}"
            for side in each.one_sided
        ]
    return lines + _unread(record)


def _unread(record: DiffRecord) -> list[str]:
    """Name some images that fail on every path for one reason, as those that are not read do."""
    failed = [
        {(each.id, each.reason) for each in path.examples if each.outcome == "failed"}
        for path in record.coverage
    ]
    both = sorted(set.intersection(*failed)) if failed else []
    return [f"failed: {name}: {shorten(reason, 120)}" for name, reason in both[:_MOST_FAILED]]


def _pair(pair: PairDiff, detail: Detail, record: DiffRecord) -> list[str]:
    if pair.state == "skipped":
        return [f"{pair.candidate}: skipped, {pair.reason}"]
    lines = [f"{pair.candidate} against {pair.reference}: {pair.sentence}"]
    if pair.compared:
        if detail.stages != "none":
            lines += _stages(pair, equal_too=detail.stages == "all")
        if detail.planes:
            lines += _planes(pair)
        lines += _kinds(pair, CHROMA, detail.kinds)
        if "orient" in (pair.first, pair.largest):
            lines += _kinds(pair, TURNED, detail.kinds)
        lines += [_worst(image) for image in pair.worst[: detail.worst]]
        if pair.predictions and record.model and detail.ending == "all":
            said = prediction_lines(pair.predictions, record.model, record.task)
            lines += [f"  {line}" for line in said]
            moved = pair.predictions.moved[: detail.worst]
            lines += [f"  moved most: {moved_words(each, record.task)}" for each in moved]
        lines += [f"  {line}" for line in ending(pair, brief=detail.ending == "brief")]
    return lines


def _stages(pair: PairDiff, *, equal_too: bool) -> list[str]:
    head = (
        "stage, in levels", "isolated mean", "max", "px differing",
        "cumulative mean", "max", "px differing", "p99.9", "SSIM",
    )  # fmt: skip
    found: dict[str, dict[str, PixelStage]] = {}
    for stage in pair.stages:
        found.setdefault(stage.stage, {})[stage.mode] = stage
    rows = [
        (UNITS.get(name, name), *(cell for mode in ("isolated", "cumulative")
         for cell in _distance(modes[mode], other_shape(name))), *_tail(modes["cumulative"]))
        for name, modes in found.items()
        if equal_too or any(each.differs for each in modes.values())
    ]  # fmt: skip
    return columns([head, *rows], indent="  ").splitlines() if rows else []


def _planes(pair: PairDiff) -> list[str]:
    """Return a line for each stage, with mean and greatest difference of each plane."""
    found: dict[str, list[PlaneStage]] = {}
    for each in pair.planes:
        found.setdefault(each.stage, []).append(each)
    head = ("luma, chroma", *(f"{plane} {what}" for plane in _PLANES for what in ("mean", "max")))
    rows = [
        (stage, *(text for each in planes for text in _plane(each)))
        for stage, planes in found.items()
    ]
    return columns([head, *rows], indent="  ").splitlines() if rows else []


def _plane(found: PlaneStage) -> tuple[str, str]:
    if found.mean_abs is None or found.max_abs is None:
        return DASH, DASH
    return (plain(found.mean_abs, 3), plain(found.max_abs, 1)) if found.max_abs else ("0", "0")


def _distance(
    found: PixelStage | DistanceFacts, other: str = "of another shape"
) -> tuple[str, str, str]:
    """Format mean, maximum and share of differing pixels; zero only where it is exactly zero.

    If some images have another shape, add 'n of m' to the mean; if most do, or all that differ,
    show only how many are ``other``.
    """
    total = found.images + found.shape_mismatches
    part = f"{grouped(found.images)} of {grouped(total)}"
    if found.shapes_alone:
        return f"{grouped(found.shape_mismatches)} of {grouped(total)} {other}", "", ""
    # no number where nothing was compared: a zero would say that the two are equal
    if found.mean_abs is None or found.max_abs is None or found.share_differing is None:
        return DASH, DASH, DASH
    beside = f" ({part})" if found.shape_mismatches else ""
    if not found.max_abs:
        return f"0{beside}", "0", "0"
    digits = 0 if found.max_abs >= 10 or float(found.max_abs).is_integer() else 2
    mean = plain(found.mean_abs, 3) + beside
    return mean, plain(found.max_abs, digits), percent(found.share_differing)


def _tail(stage: PixelStage) -> tuple[str, str]:
    if stage.shapes_alone:
        return "", ""
    return (
        DASH if stage.p99_9 is None else f"{stage.p99_9:.3g}",
        DASH if stage.ssim is None else plain(stage.ssim, 4),
    )


def _kinds(pair: PairDiff, dimension: str, most: int) -> list[str]:
    kinds = [each for each in pair.kinds if each.dimension == dimension]
    if not most or not kinds:
        return []
    head = (
        HEADS[dimension], "images", "decode mean, levels", "max", "px differing",
        "input mean, levels", "max",
    )  # fmt: skip
    rows = [
        (each.kind, str(each.images), *_distance(each.decode), *_distance(each.last)[:2])
        for each in kinds[:most]
    ]
    lines = columns([head, *rows], indent="  ").splitlines()
    left = len(kinds) - most
    return [*lines, f"  … and {count(left, 'kind')} more"] if left > 0 else lines


def _worst(image: ImageDrift) -> str:
    parts = [f"mean {plain(image.mean_abs, 2)}, max {plain(image.max_abs, 0)}"]
    if image.decode_mean_abs is not None:
        alone = plain(image.decode_mean_abs, 2) if image.decode_mean_abs else "0"
        parts.append(f"decode alone {alone}")
    if image.ssim is not None:
        parts.append(f"SSIM {plain(image.ssim, 3)}")
    return f"  worst: {image.id} ({image.kinds[CHROMA]}): {', '.join(parts)}"
