"""Fits of rules to stored pixels → text for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.studies.calibrate.pair_fits import Fits, RuleFit
from alignkit.studies.calibrate.pair_rules import PairOutcome, RuleResult
from alignkit.studies.calibrate.stored_pairs import Source, StoredPairs
from alignkit.text import columns, printable
from alignkit.text.numbers import count, grouped, listed, percent, plain, shorten, signed

_NEAREST = 3
"""Rules shown for each kind, besides the landmarks."""
_MACHINE = ("gpu", "driver", "cuda", "nvjpeg", "torch", "torchvision")
_HEAD = (
    "", "", "rule", "images", "samples", "wrong", "share", "greatest", "mean", "bias", "alike",
)  # fmt: skip
_FEWEST_ROWS = 16
"""Rows from the top that must agree before their end is named: the height of two blocks."""
_LEFT_OUT = 12
"""Files named that were not compared; more are counted, and the record names all."""


def pairs_summary(
    where: str, stored: StoredPairs, outcomes: Sequence[PairOutcome], fits: Sequence[Fits]
) -> str:
    """Return the answer of each source in a sentence, its table, and all that was not compared.

    Of several sources, only the kinds that no rule reproduces have a table.
    """
    lines = [f"{count(len(stored.pairs), 'pair')} in {where}"]
    several = len(stored.sources) > 1
    for source in stored.sources:
        own = [each for each in fits if each.source is source]
        lines += ["", *_facts(source, shown=several), answer(own)]
        shown = [each for each in own if not (several and each.best.reproduces)]
        lines += columns(_table(shown)).splitlines() if shown else []
    if several:
        lines += ["", f"the whole table of one: --pairs {where}/{stored.sources[0].name}"]
    return "\n".join(map(printable, [*lines, *_left_out(stored, outcomes)]))


def _facts(source: Source, *, shown: bool) -> list[str]:
    machine = source.facts.get("machine")
    machine = machine if isinstance(machine, dict) else {}
    known = [str(source.facts[key]) for key in ("decoder", "engine") if source.facts.get(key)]
    if flags := source.facts.get("flags"):
        known.append(f"flags {flags}")
    known += [f"{key} {machine[key]}" for key in _MACHINE if machine.get(key)]
    words = shorten("; ".join(known) or "nothing is known of the decoder", 400)
    return [f"{source.name}: {words}"] if shown or known else []


def answer(fits: Sequence[Fits]) -> str:
    """Say which rule reproduces a source, or for each kind, or which comes nearest."""
    if not fits:
        return "nothing compared"
    found = [each for each in fits if each.best.reproduces and not each.best.untold]
    same = [each for each in fits if each.best.reproduces and each.best.untold]
    missed = [each for each in fits if not each.best.reproduces]
    lines = [
        f"These files cannot tell {each.best.title} from {each.best.untold}: both give "
        f"{each.name} the same pixels. Give files with edges and colours."
        for each in same
    ]
    for title in dict.fromkeys(each.best.title for each in found):
        own = [each for each in found if each.best.title == title]
        kinds = listed([each.name for each in own])
        lines.append(f"{title} reproduces {kinds}: {_counted([each.best for each in own])}.")
    for each in found:
        rivals = [other.title for other in each.rules[1:] if other.reproduces]
        if rivals:
            too = "reproduces" if len(rivals) == 1 else "reproduce"
            lines.append(f"On {each.name}, {listed(rivals)} {too} it too.")
    for title in dict.fromkeys(each.best.title for each in missed):
        own = [each for each in missed if each.best.title == title]
        kinds = listed([each.name for each in own])
        nearest = f"{title} comes nearest: {_counted([each.best for each in own])}"
        lines.append(f"No rule of this machine reproduces {kinds}; {nearest}{_alone(own)}.")
    return "\n".join(lines)


def _alone(fits: Sequence[Fits]) -> str:
    """Count the pairs that a rule reproduces among others: they may be of two decoders."""
    pairs, alone = sum(len(each.pairs) for each in fits), sum(each.best.alone for each in fits)
    return f"; of {pairs} pairs it reproduces {alone}" if alone else ""


def _counted(fits: Sequence[RuleFit]) -> str:
    """Count what differs: ``6 of 2 195 208 samples differ, by 1 level``."""
    wrong, samples = (sum(getattr(fit.gap, key) for fit in fits) for key in ("wrong", "samples"))
    greatest = max(fit.gap.greatest for fit in fits)
    refused = sum(len(fit.refused) for fit in fits)
    text = f"{grouped(wrong)} of {grouped(samples)} samples differ"
    if greatest == 1:
        text += ", by 1 level"
    elif greatest:
        mean = sum(fit.gap.sum_abs for fit in fits) / samples
        text += f" ({percent(wrong / samples)}), by {greatest} levels at most"
        text += f", {plain(mean, 3)} in the mean"
    return text + (f"; {count(refused, 'image')} not decoded" if refused else "")


def _table(fits: Sequence[Fits]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [_HEAD]
    for each in fits:
        shown = [fit for n, fit in enumerate(each.rules) if n < _NEAREST or fit.landmark]
        for fit in shown:
            first = fit is each.best
            rows.append((each.name if first else "", "*" if first else "", *_row(each, fit)))
        if left := len(each.rules) - len(shown):
            rows.append(("", "", f"… {left} further off", *[""] * (len(_HEAD) - 3)))
    return rows


def _row(fits: Fits, fit: RuleFit) -> tuple[str, ...]:
    gap, images = fit.gap, len(fits.pairs)
    compared = images - len(fit.refused)
    more = f", +{len(fit.alike) - 1}" if len(fit.alike) > 1 else ""
    return (
        fit.title,
        str(images) if compared == images else f"{compared} of {images}",
        grouped(gap.samples),
        grouped(gap.wrong),
        percent(gap.wrong / gap.samples, 2),
        str(gap.greatest),
        plain(gap.sum_abs / gap.samples, 3) if gap.sum_abs else "0",
        signed(gap.sum_signed / gap.samples, 3) if gap.sum_signed else "0",
        "".join(fit.alike[:1]) + more,
    )


def _left_out(stored: StoredPairs, outcomes: Sequence[PairOutcome]) -> list[str]:
    """Name everything that was not compared, was compared in part, or seems cut short."""
    missing = [*stored.left_out, *((each.pair.id, each.reason) for each in outcomes if each.reason)]
    lines = [f"not compared: {name}: {reason}" for name, reason in missing[:_LEFT_OUT]]
    if more := len(missing) - len(lines):
        lines.append(f"not compared: {more} more; the record that --out writes names all")
    for each in outcomes:
        if each.reason:
            continue
        if each.pair.rows:
            lines.append(f"{each.pair.id}: only the first {each.pair.rows} rows are compared")
        else:
            lines += _suspicious(each)
    return ["", *lines] if lines else []


def _suspicious(outcome: PairOutcome) -> list[str]:
    """Explain a pair whose JPEG file is damaged, or whose pixels agree down to a row."""
    stem = outcome.pair.pixels.stem
    lines = []
    if damage := next((rule.damaged for rule in outcome.rules if rule.damaged), ""):
        lines.append(
            f"{outcome.pair.id}: its JPEG file is damaged ({damage}), and decoders fill what is "
            f"missing in different ways; if only its first N rows are valid, add --rows {stem}=N"
        )
    nearest = min((each for each in outcome.rules if each.gap), key=_levels)
    if nearest.rows >= _FEWEST_ROWS and nearest.gap and nearest.gap.greatest > 1:
        lines.append(
            f"{outcome.pair.id}: its first {nearest.rows} rows are within 1 level of a rule, and "
            f"the next is not; if its pixels end there, add --rows {stem}={nearest.rows}"
        )
    return lines


def _levels(outcome: RuleResult) -> int:
    assert outcome.gap is not None
    return outcome.gap.sum_abs
