"""The cause of a drift in words: a stage or a runtime, with its shares and its mechanism.

A mechanism is named only if the pixels of that stage show it (`alignkit.compare.compare_pixels`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from alignkit.record import AttributionFacts, FactorShare, Measurements, RuleOutcome, Verdict
from alignkit.record.verdict_facts import Statement
from alignkit.text.names import Names
from alignkit.text.numbers import grouped, listed, plain
from alignkit.text.outcome import filled, said
from alignkit.text.shares import (
    drawn_words,
    factor_words,
    main_shares,
    pushing,
    share_beside_alone,
    share_words,
)
from alignkit.text.task_words import TaskWords, capital
from alignkit.text.where_words import mechanism_names


def cause_words(verdict: Verdict, record: Measurements) -> Iterator[str]:
    """Say each statement of a verdict's cause."""
    lost = False
    for each in verdict.cause:
        outcome = verdict.first
        assert outcome is not None
        if each.kind == "lost on one side":
            # a mechanism of the pixels would not explain why a model has no answer
            lost = True
            yield _lost(outcome, record)
        elif each.kind == "runtime":
            yield filled("The pixels are the same, so the runtime{file} is the cause", each)
        elif each.kind == "stage":
            yield filled("{stage}: {why}", each, why=said(outcome, "remark"))
        elif each.kind == "pixels":
            yield _pixels(each, record, lost=lost)
        elif each.kind == "options":
            yield _options(each, record)
        else:
            found = record.attribution(outcome.place, str(each.values["metric"]))
            assert found is not None
            yield _shares(each, found, record, lost=lost)


def _lost(outcome: RuleOutcome, record: Measurements) -> str:
    entry = record.at(outcome.place)
    assert entry is not None
    assert entry.drift is not None
    kind = "changed predictions" if record.task.class_scores else "changed images"
    lost, changed = entry.drift.non_finite_changed, entry.drift.changed
    return (
        f"{grouped(lost)} of {grouped(changed or 0)} {kind} have an output that is NaN or infinite "
        "on one side alone"
    )


def _pixels(cause: Statement, record: Measurements, *, lost: bool) -> str:
    pair = cause.names("paths")
    means = {
        each.stage: each.mean_abs
        for each in record.pixels
        if each.mode == "isolated" and [each.reference, each.candidate] == pair
        if each.stage != "normalise" and each.mean_abs  # its units are no grey levels
    }
    first = str(cause.values["stage"])
    rest = [f"{stage} {plain(mean, 2)}" for stage, mean in means.items() if stage != first]
    if cause.values["other_units"]:
        rest.append("normalise differs too, in other units")
    others = f"; {', '.join(rest)}" if rest else ""
    mechanism = "" if lost else _mechanism(pair, first, record)
    return (
        f"The pixels differ most in {first} (mean {plain(means[first], 2)} of 255{others})"
        f"{mechanism}"
    )


def _options(cause: Statement, record: Measurements) -> str:
    short = Names(record.paths).short
    one, other = map(short, cause.names("paths"))
    words = "{one} and {other} differ in {stages:and}"
    words += "; the share of each is measured against {own} alone"
    return filled(words, cause, one=one, other=other, own=short(record.reference))


def _mechanism(pair: Sequence[str], factor: str, record: Measurements) -> str:
    for each in record.spatial:
        of_pair = {each.reference, each.candidate} == {*pair}
        if of_pair and each.mechanisms and each.stage in factor.split("+"):
            # the remainder is beside its map
            return f": {mechanism_names(each, Names(record.paths).short)}"
    return ""


def _shares(cause: Statement, found: AttributionFacts, record: Measurements, *, lost: bool) -> str:
    """Say which factors cause a change, by their shares."""
    metric, drawn = TaskWords(record.task).phrase(found.metric), drawn_words(found)
    first, others = main_shares(found)
    if cause.kind == "no stage":
        least = " by a tenth of a point" if found.unit == "fraction" else ""
        return f"No stage changes {metric}{least}{drawn}"
    if cause.kind == "shares unknown":
        unknown = [factor_words(e, found) for e in others if e.effect.value is None]
        return f"The share of {listed(unknown)} is unknown{drawn}"
    if cause.kind == "opposed":
        return _opposed([e for e in (first, *others) if e], found, metric, drawn)
    assert first is not None
    pair = found.reference, found.candidate
    mechanism = "" if lost else _mechanism(pair, first.factor, record)
    factor = factor_words(first, found)
    if cause.kind == "all":
        rest = [factor_words(each, found) for each in found.shares if each is not first]
        adds = "add" if len(rest) > 1 else "adds"
        nothing = f"; {listed(rest)} {adds} nothing" if rest else ""
        return f"All of it from {factor}{drawn}{mechanism}{nothing}"
    total = found.total.value
    whole = "" if total is None else f" of {share_words(total, found)}"
    part = f"{share_beside_alone(first, found)}{whole} {metric}{drawn}"
    shares = ", ".join(
        f"{factor_words(each, found)} {share_beside_alone(each, found)}" for each in others
    )
    leads = {"most": "Most of it from", "largest": "The largest share is from"}
    # of a share that explains less than most, a mechanism would be called the cause
    named = mechanism if cause.kind == "most" else ""
    return f"{leads[cause.kind]} {factor} ({part}){named}; {shares}"


def _opposed(
    shares: Sequence[FactorShare], found: AttributionFacts, metric: str, drawn: str
) -> str:
    known = pushing(shares)
    names = [factor_words(each, found) for each in known]
    sizes = [share_words(each.alone.value or 0.0, found) for each in known]
    alone = listed([f"{name} {size}" for name, size in zip(names, sizes, strict=True)])
    total = found.total.value
    whole = "" if total is None else f", together {share_words(total, found)}"
    return (
        f"{capital(listed(names))} push against each other, so none of them alone is the cause: "
        f"alone {alone} of {metric}{whole}{drawn}"
    )
