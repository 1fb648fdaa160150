"""Views of causes and remedies: the shares of a drift by stage, and what to change against it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from alignkit.record import (
    AdviceFacts,
    AttributionFacts,
    Estimate,
    FactorShare,
    MitigationFacts,
    RunRecord,
)
from alignkit.report.page import (
    Beside,
    Code,
    Details,
    Heading,
    Mono,
    PagePart,
    Paragraph,
    Section,
    against,
)
from alignkit.report.plot import Plot, facets
from alignkit.report.table import Notes, RowCells, Shown, Table, numbers
from alignkit.report.waterfall import DISTANCES, PIXELS, waterfalls_of
from alignkit.text.measured import of_first_models
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, listed, no_interval, plain, signed
from alignkit.text.shares import opposing
from alignkit.text.task_words import CHURN, TaskWords, digits

_INSIDE = ".decode"


@dataclass(frozen=True, slots=True)
class AttributionSection:
    """The causes of the drift between two paths, in runtimes that agree."""

    reference: PathName
    candidate: PathName
    runtime: str
    """Empty where no model is involved."""
    again: bool
    """Whether another runtime of these paths stands before it."""
    sentences: tuple[str, ...]
    remarks: tuple[str, ...]
    waterfalls: tuple[Plot, ...]
    table: Table | None


def attribution_sections(record: RunRecord, names: Names) -> tuple[AttributionSection, ...]:
    """Return a section for each pair of paths and each of its runtimes that differ."""
    pairs: dict[tuple[str, str], dict[str, list[AttributionFacts]]] = {}
    for each in record.attributions:
        # those inside decode stand beside the pixels, in whichever runtime they are
        runtime = "" if each.metric.endswith(_INSIDE) else _runtime(each)
        of_pair = pairs.setdefault((each.reference, each.candidate), {})
        of_pair.setdefault(runtime, []).append(each)
    groups = [(both, *group) for both, runtimes in pairs.items() for group in _joined(runtimes)]
    drawn = [
        list(waterfalls_of(record, found, f", {_of(pair, names)} {runtime}".rstrip()))
        for pair, runtime, found in groups
    ]
    placed = iter(facets([each for group in drawn for each in group]))
    before: set[tuple[str, str]] = set()
    words = TaskWords(record.task)
    sections = []
    for (pair, runtime, found), of_group in zip(groups, drawn, strict=True):
        sections.append(
            AttributionSection(
                reference=names.of(pair[0]),
                candidate=names.of(pair[1]),
                runtime=runtime and runtime + of_first_models(record, pair[0], names),
                again=pair in before,  # folded on the page
                sentences=_sentences(found, words),
                remarks=_remarks(found, words),
                waterfalls=tuple(islice(placed, len(of_group))),
                table=_table(found, words),
            )
        )
        before.add(pair)
    return tuple(sections)


def cause_parts(record: RunRecord, names: Names) -> Iterator[PagePart]:
    """Yield the causes of each pair of paths; a second runtime of a pair is folded."""
    for each in attribution_sections(record, names):
        parts: list[PagePart] = [Paragraph(sentence) for sentence in each.sentences]
        if each.waterfalls:
            parts.append(Beside([[one] for one in each.waterfalls], "columns"))
        if each.table:
            remarks = [Paragraph(remark, "notes") for remark in each.remarks]
            summary = "Shares in numbers: each metric, each stage alone, inside decode"
            parts.append(Details(summary, [each.table, *remarks]))
        if each.again:
            yield Details(f"The same models in {each.runtime}", parts)
        else:
            runtime = [f", {each.runtime}"] if each.runtime else []
            yield against(each.candidate, each.reference, *runtime)
            yield from parts


def _of(pair: tuple[str, str], names: Names) -> str:
    return f"{names.short(pair[1])} against {names.short(pair[0])}"


def _joined(
    found: dict[str, list[AttributionFacts]],
) -> Iterator[tuple[str, list[AttributionFacts]]]:
    """Yield the runtimes of a pair with their shares; those that agree are one.

    The pixels, which are of no runtime, stand with the first.
    """
    pixels = found.pop("", [])
    kinds: dict[tuple[object, ...], list[str]] = {}
    for runtime, metrics in found.items():
        kinds.setdefault(tuple(map(_rounded, metrics)), []).append(runtime)
    if not kinds:
        yield "", pixels
    for runtimes in kinds.values():
        same = f"; the same in {listed(runtimes[1:])}" if runtimes[1:] else ""
        yield f"{runtimes[0]}{same}", [*pixels, *found[runtimes[0]]]
        pixels = []


def _rounded(each: AttributionFacts) -> tuple[object, ...]:
    """Return a metric's shares as the page's first sentence shows them, without those of zero."""
    moved = (share for share in each.shares if _tenths(share.effect, each))
    return (
        each.metric,
        each.reason,
        *((share.factor, _tenths(share.effect, each)) for share in moved),
    )


def _runtime(each: AttributionFacts) -> str:
    return f"{each.backend} {each.precision}".strip()


def _sentences(found: Sequence[AttributionFacts], words: TaskWords) -> tuple[str, ...]:
    """Say what causes the drift, and what of the decoder does if decoding adds to it."""
    known = [each for each in found if each.shares]
    outer = [each for each in known if not each.metric.endswith(_INSIDE)]
    if not outer:
        return tuple(f"{words.label(each.metric)}: {each.reason}" for each in found)
    order = [*dict.fromkeys((*words.drawn, *words.task.matrices, "logits", *PIXELS))]
    order += [each.metric for each in outer if each.metric not in order]
    ranked = sorted(outer, key=lambda each: (not _is_shown(each.total), order.index(each.metric)))
    main = ranked[0]
    said = [_cause(main, f"of {words.phrase(main.metric)}")]
    decodes = [_tenths(share.effect, main) for share in main.shares if "decode" in share.factor]
    inside = [each for each in known if each.metric == f"{main.metric}{_INSIDE}"]
    if inside and any(decodes):
        said.append(_cause(inside[0], "inside decode"))
    return tuple(said)


def _cause(each: AttributionFacts, of: str) -> str:
    """``Cause of macro recall: resize (−3.9 pp); decode adds nothing.``."""
    shares = {share.factor.removeprefix("decode."): share for share in each.shares}
    if each.method == "one-at-a-time":
        shares["interaction"] = FactorShare("interaction", each.interaction, each.interaction)
    ordered = sorted(shares, key=lambda name: -abs(shares[name].effect.value or 0.0))
    still = [name for name in ordered if _adds_nothing(shares[name], each)]
    moved = [f"{name} ({_sized(shares[name], each)})" for name in ordered if name not in still]
    words = [listed(moved)] if moved else []
    if still:
        words.append(f"{listed(still)} {'adds' if len(still) == 1 else 'add'} nothing")
    what = "Shares that push against each other," if opposing(each) else "Cause"
    return f"{what} {of}: {'; '.join(words)}."


def _is_shown(total: Estimate) -> bool:
    """Tell whether the interval of a change lies on one side of zero."""
    return bool(total.value) and not (total.low or 0) <= 0 <= (total.high or 0)


def _tenths(estimate: Estimate, each: AttributionFacts) -> float | None:
    """Round a share to what a sentence shows: tenths of a point, hundredths of a level."""
    if estimate.value is None:
        return None
    return round(100 * estimate.value, 1) if each.unit == "fraction" else round(estimate.value, 2)


def _adds_nothing(share: FactorShare, each: AttributionFacts) -> bool:
    """Tell whether a factor's share and its effects alone and last show as zero."""
    ways = (share.effect, share.alone, share.last or share.alone)
    return all(_tenths(way, each) == 0 for way in ways)


def _sized(share: FactorShare, each: AttributionFacts) -> str:
    """Write a share; beside one of zero, what the factor changes alone."""
    beside = _tenths(share.effect, each) == 0
    return _size(share.effect, each) + f", {_size(share.alone, each)} alone" * beside


def _size(estimate: Estimate, each: AttributionFacts) -> str:
    if estimate.value is None:
        return "unknown"
    if each.unit == "fraction":
        return f"{_form(estimate, each)(100 * estimate.value, 1)} pp"
    if each.unit in ("px", "value"):
        change = signed(estimate.value, digits(estimate))
        return f"{change} px" if each.unit == "px" else change
    return f"{plain(estimate.value, 2)} {'of 255' if each.unit == 'grey levels' else each.unit}"


def _form(estimate: Estimate, each: AttributionFacts) -> Callable[[float, int], str]:
    """Choose how both ends are written: distances have no sign, unless a share is negative."""
    negative = any(end is not None and end < 0 for end in (estimate.value, estimate.low))
    return plain if each.metric.removesuffix(_INSIDE) in DISTANCES and not negative else signed


def _remarks(metrics: Sequence[AttributionFacts], words: TaskWords) -> tuple[str, ...]:
    remarks = list(dict.fromkeys(note for each in metrics for note in each.notes))
    drawn = dict.fromkeys(
        f"{_drawn_for(each)}: {each.images + each.left_out} of {count(each.drawn_from, 'image')} "
        "were mixed, drawn evenly from all classes, as a budget allows; 'attribute: {images: all}' "
        "mixes every one"
        for each in metrics
        if each.drawn_from
    )
    remarks += drawn
    if left_out := max(each.left_out for each in metrics):
        images = count(left_out, "image")
        remarks.append(f"{images} left out: not every mixture of the paths prepares them")
    if any(each.method == "one-at-a-time" and each.shares for each in metrics):
        remarks.append("one factor at a time: the interaction is the total less the shares")
    absent: dict[str, list[str]] = {}
    for each in metrics:
        if each.reason and not each.shares:
            absent.setdefault(each.reason, []).append(words.label(each.metric))
    remarks += [f"no shares of {listed(names)}: {reason}" for reason, names in absent.items()]
    return tuple(remarks)


def _drawn_for(each: AttributionFacts) -> str:
    return "predictions inside decode" if each.metric.endswith(_INSIDE) else "shares"


def _table(found: Sequence[AttributionFacts], words: TaskWords) -> Table | None:
    notes = Notes()
    rows: list[RowCells] = []
    for each in found:
        name = words.label(each.metric)
        unit = {"fraction": "pp"}.get(each.unit, each.unit)
        cells: list[RowCells] = [
            (share.factor, _written(share.effect, each, notes), _written(share.alone, each, notes))
            for share in each.shares
        ]
        cells += [
            (sum_name, _written(value, each, notes), "")
            for sum_name, value in (("interaction", each.interaction), ("total", each.total))
            if each.shares
        ]
        rows += [(f"{name}, {unit}".removesuffix(", value"), *row) for row in cells]
    caption = (
        "Share: splits the total. Alone: swap only this stage. The 95 % intervals cover other "
        "images, not other trainings"
    )
    columns = ("Metric", "Cause", *numbers("Share", "Alone"))
    return Table.of(caption, columns, rows, notes=notes) if rows else None


def _written(estimate: Estimate, each: AttributionFacts, notes: Notes) -> Shown:
    if estimate.value is None:
        return notes.missing(estimate.reason)
    scale, write = 100 if each.unit == "fraction" else 1, _form(estimate, each)
    text = write(scale * estimate.value, 2)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{write(scale * estimate.low, 2)}, {write(scale * estimate.high, 2)}]"
    return notes.worded(estimate, f"{text} {no_interval(estimate)}".rstrip())


def advice_section(record: RunRecord, names: Names) -> Section | None:
    """Return the change that each path that serves calls for; ``None`` without advice."""
    lead = (
        "The search used only training images; the evaluation images confirm its result, in the "
        "reference runtime."
    )
    parts: list[PagePart] = [Paragraph(lead, "lead")]
    for each in record.advice:
        parts.append(Heading(("For models served with ", names.of(each.served))))
        parts.append(Paragraph(advice_sentence(each)))
        if searched := _searched(each):
            parts.append(Paragraph(searched, "notes"))
        if table := _before_and_after(each, TaskWords(record.task)):
            parts.append(table)
        if each.yaml:
            summary = ("YAML to paste below ", Mono("preprocess:"))
            parts.append(Details(summary, [Code(each.yaml)]))
    if not record.advice:
        return None
    return Section("advice", "Recommended change", parts, nav="Advice")


def advice_sentence(each: AdviceFacts) -> str:
    """Return the outcome, or why there is none."""
    if each.sentence:
        return each.sentence
    what = f"{each.label} was found, but not checked" if each.label else "No advice"
    return f"{what} for {each.served}: {each.reason}."


def _searched(each: AdviceFacts) -> str:
    if each.distance is None or each.distance.value is None:
        return ""
    nearest = f"{each.distance.value:.3f} grey levels remain in the mean"
    seen = f"Of {each.tried} configurations, the nearest by pixels on {each.images} training images"
    if each.unseen is None:
        return f"{seen}: {nearest}."
    checked = count(each.unseen_images, "image")
    return f"{seen}: {nearest}, {each.unseen:.3f} on {checked} kept for a check."


def _before_and_after(each: AdviceFacts, words: TaskWords) -> Table | None:
    if not each.drift:
        return None
    notes = Notes()
    rows: list[RowCells] = [
        (
            words.label(row.metric),
            *(_drift(row.metric, value, words, notes) for value in _sides(row)),
        )
        for row in each.drift
    ]
    others = {words.unit(row.metric) for row in each.drift} - {"share"}
    caption = (
        "Drift before the change, expected after it and confirmed on the evaluation images; churn "
        f"in %, all else in {'pp or its own unit' if others else 'pp'}"
    )
    columns = ("Metric", *numbers("Before", "Expected", "Confirmed"))
    return Table.of(caption, columns, rows, notes=notes)


def _sides(row: MitigationFacts) -> tuple[Estimate, Estimate, Estimate]:
    return row.before, row.expected, row.confirmed


def _drift(metric: str, value: Estimate, words: TaskWords, notes: Notes) -> Shown:
    if words.is_share(metric):
        churn = metric == CHURN
        return notes.estimated(value, 1 if churn else 2, share=churn)
    return notes.worded(value, words.estimated(metric, value))
