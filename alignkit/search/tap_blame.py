"""Find the first recorded stage that differs from a reference, by how much, and why.

Each stage is judged alone: the reference's stages run on the *recorded* output of the stage before,
so that an early fault is not found again in every later one. Where the result differs, `match`'s
hypotheses are tried on that input: channel order, geometry, normalisation, decoder, resizer,
rounding. A channel order that is reversed for a while and restored before the end changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from alignkit.errors import DataError, NothingCompared
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, StageName
from alignkit.preprocess.normalise import Normalise
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.samples import Samples
from alignkit.search import match
from alignkit.search.configurations import Configuration, configurations
from alignkit.search.match_result import AS_RESIZERS, Match, explained_share
from alignkit.search.match_text import label
from alignkit.search.normalisation_fit import undone
from alignkit.search.recolouring import MISREADINGS, recoloured
from alignkit.search.recorded_input import part
from alignkit.search.recorded_target import RecordedTensors, target_of
from alignkit.search.stored_taps import RecordedTaps, judged_stages
from alignkit.search.tap_causes import SWAPPED, causes_of, choice_text
from alignkit.search.tap_readings import TapReading, best_reading
from alignkit.search.tap_report import Cause, StageReport, TapDistance, TapReport, TapState
from alignkit.search.tap_segment import EXACT, Recorded, Segment, Sided, distances
from alignkit.search.target import Target


def blame(
    taps: RecordedTaps,
    samples: Samples,
    reference: Preprocess,
    *,
    given: bool = True,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
    advance: Callable[[int, int], None] | None = None,
) -> TapReport:
    """Judge every recorded stage against the reference's.

    ``given`` says whether the user named the reference. ``decoders`` and ``resizers`` filter, by
    name, the configurations that are tried. Raises `ConfigError` for names of taps that are no
    stages, `DataError` for arrays that cannot be read.
    """
    stages = judged_stages(taps)
    names = list(decoders), list(resizers)
    reports: list[StageReport] = []
    reversed_cumulative: list[TapDistance | None] = []
    before: Recorded | None = None
    begin: StageName | None = None
    tapped = frozenset(each.stage for each in stages if each.stage)
    for number, tap in enumerate(stages):
        recorded = Recorded(tap, taps.rows, reference.normalise)
        segment = Segment(reference, samples, taps.rows, before, begin, recorded, tapped)
        whole = _from_the_file(segment)
        reports.append(_judged(segment, whole, *names))
        reversed_cumulative.append(whole.swapped)
        before, begin = recorded, segment.last
        if advance:
            advance(number + 1, len(stages))
    return TapReport(
        taps=taps.folder.name,
        reference=reference.name,
        given=given,
        images=len(taps.rows),
        processes=taps.processes,
        without_image=taps.without_image,
        stages=_with_orders(reports, reversed_cumulative),
        unused=tuple(each.name for each in taps.stages if each.stage is None),
    )


def nearest_to_the_last(
    taps: RecordedTaps,
    samples: Samples,
    *,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
    advance: Callable[[int, int], None] | None = None,
) -> Preprocess:
    """Return the configuration nearest to the last tap, for a comparison without a reference.

    Raises `DataError` if the arrays are no images of one shape.
    """
    last = judged_stages(taps)[-1]
    shape = last.common_shape
    if shape is None:
        raise DataError(
            f"tap {last.name!r}, the last one, has images of several sizes; give the reference: "
            "--preprocess TRAINING"
        )
    recorded = RecordedTensors(
        last.name,
        taps.rows,
        lambda row: last.tensors[row].read(),
        shape,
        last.dtype,
        len(samples) - len(taps.rows),
        taps.without_image,
    )
    target, rows = target_of(recorded, samples, decoders=decoders, resizers=resizers)
    among = configurations(target.geometry, decoders=decoders, resizers=resizers)
    found = match(target, samples, rows, among, progress=advance)
    assert found.block is not None
    return replace(found.block, name=label(found.named.configurations[0]))


def _from_the_file(segment: Segment) -> Sided:
    """Return the cumulative distances."""
    whole = part(segment.reference, None, segment.last)
    return distances(whole, segment.samples, segment)


def _judged(
    segment: Segment, whole: Sided, decoders: list[str], resizers: list[str]
) -> StageReport:
    recorded = segment.recorded
    first = segment.before is None
    isolated = whole if first else distances(segment.path, segment.source, segment)
    tap = recorded.tap
    shape = tap.common_shape
    report = StageReport(
        recorded.stage,
        tap.name,
        tap.dtype,
        f"{shape}" if shape else "of each image's own size",
        "same",
        isolated.plain,
        whole.plain,
        isolated.other_size,
        note="values 0..1, taken as grey levels / 255" if _unit(recorded) else "",
        left_out=tuple((segment.samples.ids[row], why) for row, why in isolated.left_out),
    )
    own = isolated.plain
    idle = [each for each in segment.stages if each in isolated.idle]
    if idle == [*segment.stages]:
        report = replace(report, state="idle")
    report = replace(report, unshown=tuple(each for each in idle if _acts(segment.reference, each)))
    compared = len(isolated.left_out) < len(segment.rows)
    if not compared or (own is not None and own.identical == own.images):
        return replace(report, state="not explained") if isolated.left_out else report
    if isolated.swapped is not None and isolated.swapped.identical == isolated.swapped.images:
        cause = Cause(SWAPPED, own.mean if own else None, 0.0)
        return replace(
            report, state="explained", causes=(cause,), remains=0.0, explained=1.0, reversed=True
        )
    return _explained(segment, report, decoders, resizers)


def _acts(path: Preprocess, stage: StageName) -> bool:
    """Tell whether a stage has work to do by its options."""
    idle = {"orient": Orient(), "crop": Crop(), "quantise": Quantise(), "colour": Colour()}
    return stage not in idle or getattr(path, stage) != idle[stage]


def _unit(recorded: Recorded) -> bool:
    return recorded.stage != "normalise" and recorded.unit


def _explained(
    segment: Segment, report: StageReport, decoders: list[str], resizers: list[str]
) -> StageReport:
    best = best_reading(segment)
    if best is None:
        return replace(report, state="not explained")
    try:
        found = _searched(segment, best, decoders, resizers)
    except NothingCompared as error:
        return replace(report, state="not explained", nearest=f"none: {error}")
    causes, remains = causes_of(segment, report, best, found)
    share = None
    if report.isolated is not None and remains is not None:
        share = explained_share(remains, report.isolated.mean)
    holds = bool(causes) and (
        (share is not None and share >= EXPLAINS_MOST)
        or (share is None and remains is not None and remains <= AS_RESIZERS)
    )
    nearest = choice_text(segment, found.named.configurations[0])
    return replace(
        report,
        state="explained" if holds else "not explained",
        causes=tuple(causes) if holds else (),
        remains=remains,
        explained=share,
        nearest="" if holds else nearest,
        reversed=best.swapped,
    )


def _searched(
    segment: Segment, reading: TapReading, decoders: list[str], resizers: list[str]
) -> Match:
    """Rank what the segment's libraries may do, the reference's own choice as the plainest."""
    recorded, path = segment.recorded, segment.path

    def levels(row: int) -> npt.NDArray[np.float32] | str:
        if reading.normalise is None:
            found = recorded.levels(row)
        else:
            stored = recorded.array(row)
            # means are in the order of the stored channels
            found = stored if isinstance(stored, str) else undone(stored, reading.normalise)
        if isinstance(found, str):
            return found
        ordered = found[..., ::-1] if reading.swapped else found
        return np.ascontiguousarray(ordered, np.float32)

    target = Target(recorded.tap.name, levels, reading.geometry, Normalise(), tolerance=EXACT)
    own = Configuration(path.decode, path.resize.resizer, path.quantise.rule)
    covered = segment.stages
    others: tuple[Configuration, ...] = ()
    if {"decode", "resize"} & {*covered}:
        others = configurations(reading.geometry, decoders=decoders, resizers=resizers)
    choices = [own]
    decodes = dict.fromkeys(each.decode for each in others) if "decode" in covered else [own.decode]
    resizes = (
        dict.fromkeys(each.resizer for each in others) if "resize" in covered else [own.resizer]
    )
    rounds = ("none", "round", "truncate") if "quantise" in covered else (own.rounding,)
    choices += [
        Configuration(decode, resizer, rounding)  # type: ignore[arg-type]
        for decode in decodes
        for resizer in resizes
        for rounding in rounds
    ]
    if "decode" in covered:
        choices += [replace(own, decode=recoloured(own.decode, each)) for each in MISREADINGS]
    return match(target, segment.source, segment.rows, list(dict.fromkeys(choices)))


def _with_orders(
    reports: list[StageReport], reversed_cumulative: list[TapDistance | None]
) -> tuple[StageReport, ...]:
    """Take a reversed order back where it is restored before the end."""
    flips = [each.reversed for each in reports]
    now, orders = False, []
    for flip in flips:
        now ^= flip
        orders.append(now)
    if not any(flips):
        return tuple(reports)
    last_turn = max(place for place, flip in enumerate(flips) if flip)
    done = []
    for place, (each, order) in enumerate(zip(reports, orders, strict=True)):
        kept = replace(each, reversed=order)
        stays = orders[-1] and place >= last_turn
        if order and not stays:
            kept = replace(kept, cumulative=reversed_cumulative[place])
        if flips[place] and not stays:
            kept = _harmless(kept, restored=not order)
        done.append(kept)
    return tuple(done)


def _harmless(report: StageReport, *, restored: bool) -> StageReport:
    """Remove the order from a stage's causes: it is the code's own way to hold an image."""
    note = "channels back in the reference's order" if restored else "held in reverse channel order"
    notes = "; ".join(filter(None, (report.note, note)))
    others = tuple(each for each in report.causes if each.text != SWAPPED)
    if not others and report.remains is not None and report.remains <= EXACT:
        images = report.isolated.images if report.isolated else 0
        same = TapDistance(0.0, 0.0, images, images)
        state: TapState = "not explained" if report.left_out else "same"
        return replace(report, state=state, causes=(), isolated=same, note=notes)
    return replace(report, causes=others, note=notes)
