"""The cause of a drift in words: a stage or a runtime, with its mechanism where one is known.

Every sentence about a cause in a verdict comes from here: from the shares of an attribution, else
from the pixels of the stages, else from the options in which two paths differ. A mechanism is named
only if the pixels of that stage show it (`alignkit.compare.compare_pixels`).
"""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.judge.observe import differing
from alignkit.place import Column
from alignkit.record import (
    AttributionFacts,
    Estimate,
    FactorShare,
    MatrixEntry,
    Measurements,
    RuleOutcome,
)
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.record.cell_facts import OWN_GRAPH
from alignkit.text.names import Names
from alignkit.text.numbers import count, grouped, listed, plain, points, signed
from alignkit.text.task_words import TaskWords, capital, digits
from alignkit.text.where_words import mechanism_names

_LESS = 0.75
"""Greatest share of a change that remains where a step takes clearly some of it away."""
RUNTIME_FACTORS = {"backend", "precision", "backend+precision", "runtime", "quantisation", "kernel"}


def cause_words(entry: MatrixEntry, metric: str, record: Measurements) -> str:
    """Say what causes an entry's change of a metric; empty if nothing was measured of it."""
    if mostly_lost(entry, record):
        return ""  # the first line says how many have no answer
    if lost := _of_lost(entry, record):
        # a mechanism of the pixels would not explain why a model has no answer
        record = record.model_copy(update={"spatial": ()})
    if of_runtime(entry):
        own = [each.effective for each in record.cells if each.place == entry.place]
        file = " or the ONNX file" if any(OWN_GRAPH in each for each in own) else ""
        return f"{lost}The pixels are the same, so the runtime{file} is the cause."
    found = attribution(entry, metric, record)
    return lost + (_of_shares(found, record) if found else _of_pixels(entry, record))


def fails_by_itself(entry: MatrixEntry) -> bool:
    """Return whether outputs that are finite on one side alone are most of what changed."""
    drift = entry.drift
    if drift is None or not drift.changed:
        return False
    return drift.non_finite_changed >= EXPLAINS_MOST * drift.changed


def mostly_lost(entry: MatrixEntry, record: Measurements) -> bool:
    """Return whether most answers of an entry are not finite, and not by its runtime alone.

    No cause and no step follows from the few others. Where the same models are finite in their
    own runtime, on the same pixels, the runtime is the cause.
    """
    drift = entry.drift
    if drift is None or not drift.n or drift.non_finite < EXPLAINS_MOST * drift.n:
        return False
    own = next((e for e in record.matrix if e.aligned and e.row == entry.row), None)
    by_runtime = of_runtime(entry) and own is not None and 2 * own.non_finite < entry.non_finite
    return not by_runtime


def _of_lost(entry: MatrixEntry, record: Measurements) -> str:
    if not fails_by_itself(entry) or entry.drift is None:
        return ""
    lost, changed = entry.drift.non_finite_changed, entry.drift.changed
    kind = "changed predictions" if record.task.class_scores else "changed images"
    return (
        f"{grouped(lost)} of {grouped(changed or 0)} {kind} have an output that is NaN or infinite "
        "on one side alone. "
    )


def stage_words(outcome: RuleOutcome) -> str:
    """Say what of a stage differs, for an outcome about pixels; empty if it is not known."""
    stage = outcome.metric.partition(".")[0]
    if not outcome.cause or outcome.backend:
        return ""
    return f"{stage[:1].upper()}{stage[1:]}: {outcome.cause}."


def of_runtime(entry: MatrixEntry) -> bool:
    """Tell whether models are served with the path that they were trained with."""
    return entry.row.preprocesses == (entry.evaluated_with,)


def attribution(entry: MatrixEntry, metric: str, record: Measurements) -> AttributionFacts | None:
    """Find the shares of an entry's change of a metric, else of the task's first one or churn."""
    if entry.row != record.own_row:  # of the first of several models alone
        return None
    found = {
        each.metric: each
        for each in record.attributions
        if entry.column == Column(each.candidate, each.backend, each.precision)
        and entry.row.is_only(each.reference)
        and each.shares
    }
    main = record.task.matrices[0] if record.labelled else "churn"
    return next((found[name] for name in (metric, main, "churn") if name in found), None)


def main_shares(found: AttributionFacts) -> tuple[FactorShare | None, list[FactorShare]]:
    """Return the largest share, and all others but those that add nothing.

    They are rounded as sentences show them; ``None`` if the largest is zero.
    """
    sizes = {each.factor: shown_size(each.effect.value, found) for each in found.shares}
    first = max(found.shares, key=lambda each: sizes[each.factor] or 0.0)
    main = first if sizes[first.factor] else None
    return main, [e for e in found.shares if e is not main and not adds_nothing(e, found)]


def adds_nothing(share: FactorShare, found: AttributionFacts) -> bool:
    """Return whether a factor changes nothing that a sentence shows: in its share, alone, last.

    The share alone is also zero where a factor takes back what another one does.
    """
    ways = (share.effect, share.alone, share.last)
    # None is unknown, and not zero
    return all(shown_size(each.value, found) == 0 for each in ways if each is not None)


def remaining(share: FactorShare, found: AttributionFacts) -> float | None:
    """Return the change with this factor of the reference, all else of the candidate.

    ``None`` if it was not measured.
    """
    others = [each for each in found.shares if each is not share]
    if len(others) < 2:  # the other one is alone then
        return others[0].alone.value if others else 0.0
    if share.last is None or share.last.value is None or found.total.value is None:
        return None
    return found.total.value - share.last.value


def repairs(share: FactorShare, found: AttributionFacts) -> bool | None:
    """Return whether clearly less remains with this factor of the reference; ``None`` if unknown.

    Clearly less means: it shows as zero; or at most three quarters remain, and at both ends of the
    interval less remains than there was.
    """
    left, total = remaining(share, found), found.total.value
    if left is None or total is None:
        return None
    if shown_size(left, found) == 0:
        return shown_size(total, found) != 0
    gone = share.last or Estimate(total - left, None, None)
    ends = [total - each for each in (gone.low, gone.high) if each is not None]
    return abs(left) <= _LESS * abs(total) and all(abs(each) < abs(total) for each in ends)


def shown_size(value: float | None, found: AttributionFacts) -> float | None:
    """Round a share's size as sentences show it; ``None`` if it is unknown.

    To a tenth of a point; of what is no fraction, to a hundredth of the greatest share or total.
    """
    if value is None:
        return None
    if found.unit == "fraction":
        return round(100 * abs(value), 1)
    every = (found.total, *(each.effect for each in found.shares))
    greatest = max((abs(each.value) for each in every if each.value), default=1.0)
    return round(abs(value) / greatest, 2)


def share_words(value: float, found: AttributionFacts) -> str:
    """Write a share with its unit: ``−3.9 pp``, ``+1.24 px``."""
    if found.unit == "fraction":
        return f"{points(value, 1)} pp"
    unit = "" if found.unit == "value" else f" {found.unit}"
    return signed(value, digits(Estimate(value, None, None))) + unit


def drawn_words(found: AttributionFacts) -> str:
    """Say on how many images the shares were measured, if on a sample; else empty."""
    drawn = f" (on {found.images} of {count(found.drawn_from, 'image')})"
    return drawn if found.drawn_from else ""


def _of_shares(found: AttributionFacts, record: Measurements) -> str:
    first, others = main_shares(found)
    metric = TaskWords(record.task).phrase(found.metric)
    drawn = drawn_words(found)
    if first is None:
        if unknown := [_factor_words(e, found) for e in others if e.effect.value is None]:
            return f"The share of {listed(unknown)} is unknown{drawn}."
        if others:
            return _of_opposed(others, found, metric, drawn)
        least = " by a tenth of a point" if found.unit == "fraction" else ""
        return f"No stage changes {metric}{least}{drawn}."
    factor = _factor_words(first, found)
    mechanism = _mechanism_words((found.reference, found.candidate), first.factor, record)
    rest = [_factor_words(each, found) for each in found.shares if each.factor != first.factor]
    if others:
        total = found.total.value
        causes = is_cause(first, found)
        if opposing(found):
            return _of_opposed([first, *others], found, metric, drawn)
        shares = ", ".join(f"{_factor_words(each, found)} {_share(each, found)}" for each in others)
        whole = "" if total is None else f" of {share_words(total, found)}"
        part = f"{_share(first, found)}{whole} {metric}{drawn}"
        most = "Most of it" if causes else "The largest share is"
        return f"{most} from {factor} ({part}){mechanism if causes else ''}; {shares}."
    adds = "add" if len(rest) > 1 else "adds"
    nothing = f"; {listed(rest)} {adds} nothing" if rest else ""
    return f"All of it from {factor}{drawn}{mechanism}{nothing}."


def is_cause(share: FactorShare, found: AttributionFacts) -> bool:
    """Return whether a factor explains most of the total: by its share, and by what goes with it.

    Where no mixture shows the remainder, it is the total less the effect alone.
    """
    total, effect, alone = found.total.value, share.effect.value, share.alone.value
    if total is None or effect is None:
        return False
    left = remaining(share, found)
    if left is None and alone is not None:
        left = total - alone
    less = left is None or abs(left) <= _LESS * abs(total)
    return less and effect * total >= EXPLAINS_MOST * total * total


def opposing(found: AttributionFacts) -> bool:
    """Return whether none is the cause, and one alone changes clearly more than all together."""
    total, (first, others) = found.total.value, main_shares(found)
    if total is None or not others or (first and is_cause(first, found)):
        return False
    return abs(total) <= _LESS * _greatest_alone(found.shares)


def _greatest_alone(shares: Sequence[FactorShare]) -> float:
    return max((abs(each.alone.value) for each in shares if each.alone.value), default=0.0)


def _of_opposed(
    shares: Sequence[FactorShare], found: AttributionFacts, metric: str, drawn: str
) -> str:
    least = 0.1 * _greatest_alone(shares)  # less pushes nothing
    known = [each for each in shares if abs(each.alone.value or 0.0) > least]
    names = [_factor_words(each, found) for each in known]
    alone = [f"{name} {share_words(e.alone.value or 0.0, found)}"
             for name, e in zip(names, known, strict=True)]  # fmt: skip
    whole = (
        "" if found.total.value is None else f", together {share_words(found.total.value, found)}"
    )
    return (
        f"{capital(listed(names))} push against each other, so none of them alone is the cause: "
        f"alone {listed(alone)} of {metric}{whole}{drawn}."
    )


def _factor_words(share: FactorShare, found: AttributionFacts) -> str:
    """Name a factor; the precision with the number format, as a metric is called precision too."""
    parts = share.factor.split("+")
    return "+".join(f"{found.precision} precision" if e == "precision" else e for e in parts)


def _share(share: FactorShare, found: AttributionFacts) -> str:
    value, alone = share.effect.value, share.alone.value
    if value is None:
        return "unknown"
    beside = not shown_size(value, found) and shown_size(alone, found)
    return share_words(value, found) + (
        f", {share_words(alone or 0.0, found)} alone" * bool(beside)
    )


def _of_pixels(entry: MatrixEntry, record: Measurements) -> str:
    names = *entry.row.preprocesses, entry.evaluated_with
    pair = {*names}
    of_pair = [
        stage
        for stage in record.pixels
        if stage.mode == "isolated" and {stage.reference, stage.candidate} == pair
    ]
    means = {
        stage.stage: stage.mean_abs
        for stage in of_pair
        if stage.stage != "normalise" and stage.mean_abs  # its units are no grey levels
    }
    if means:
        first = max(means, key=lambda stage: means[stage])
        rest = [f"{stage} {plain(mean, 2)}" for stage, mean in means.items() if stage != first]
        if any(each.stage == "normalise" and each.mean_abs for each in of_pair):
            rest.append("normalise differs too, in other units")
        others = f"; {', '.join(rest)}" if rest else ""
        mechanism = _mechanism_words(names, first, record)
        return (
            f"The pixels differ most in {first} (mean {plain(means[first], 2)} of 255{others})"
            f"{mechanism}."
        )
    return _of_options(names, record)


def _of_options(names: tuple[str, ...], record: Measurements) -> str:
    known = {each.name: each for each in record.paths}
    if len(names) != 2 or not known.keys() >= set(names):
        return ""
    stages = differing(known[names[0]], known[names[1]])
    measured = {path for each in record.pixels for path in (each.reference, each.candidate)}
    if not stages or len(measured) < 2:
        return ""
    short = Names(record.paths).short
    return (
        f"{short(names[0])} and {short(names[1])} differ in {listed(stages)}; the share of each is "
        f"measured against {short(record.reference)} alone."
    )


def _mechanism_words(pair: tuple[str, ...], factor: str, record: Measurements) -> str:
    short = Names(record.paths).short
    for each in record.spatial:
        of_pair = {each.reference, each.candidate} == set(pair)
        if of_pair and each.mechanisms and each.stage in factor.split("+"):
            return f": {mechanism_names(each, short)}"  # the remainder is beside its map
    return ""
