"""The cause of a drift in words: a stage or a runtime, with its mechanism where one is known.

Every sentence about a cause in a verdict comes from here: from the shares of an attribution, else
from the pixels of the stages, else from the options in which two paths differ. A mechanism is named
only if the pixels of that stage show it (`alignkit.compare.spatial_facts`).
"""

from __future__ import annotations

from alignkit.judge.evidence import Evidence
from alignkit.judge.observe import differing
from alignkit.place import Column
from alignkit.record import (
    AttributionFacts,
    Estimate,
    FactorShare,
    MatrixEntry,
    RuleOutcome,
)
from alignkit.record.cell_facts import OWN_GRAPH
from alignkit.text.names import Names
from alignkit.text.numbers import count, listed, plain, points, signed
from alignkit.text.task_words import TaskWords, digits
from alignkit.text.where_words import mechanism_names

RUNTIME_FACTORS = {"backend", "precision", "backend+precision", "runtime", "quantisation", "kernel"}


def cause_words(entry: MatrixEntry, metric: str, evidence: Evidence) -> str:
    """Say what causes an entry's change of a metric; empty if nothing was measured of it."""
    if of_runtime(entry):
        own = [each.effective for each in evidence.cells if each.place == entry.place]
        file = " or the ONNX file" if any(OWN_GRAPH in each for each in own) else ""
        return f"The pixels are the same, so the runtime{file} is the cause."
    found = attribution(entry, metric, evidence)
    return _of_shares(found, evidence) if found else _of_pixels(entry, evidence)


def stage_words(outcome: RuleOutcome) -> str:
    """Say what of a stage differs, for an outcome about pixels; empty if it is not known."""
    stage = outcome.metric.partition(".")[0]
    if not outcome.cause or outcome.backend:
        return ""
    return f"{stage[:1].upper()}{stage[1:]}: {outcome.cause}."


def of_runtime(entry: MatrixEntry) -> bool:
    """Tell whether models are served with the path that they were trained with."""
    return entry.row.preprocesses == (entry.evaluated_with,)


def attribution(entry: MatrixEntry, metric: str, evidence: Evidence) -> AttributionFacts | None:
    """Find the shares of an entry's change of a metric, else of the task's first one or churn."""
    found = {
        each.metric: each
        for each in evidence.attributions
        if entry.column == Column(each.candidate, each.backend, each.precision)
        and entry.row.is_only(each.reference)
        and each.shares
    }
    main = evidence.task.matrices[0] if evidence.labelled else "churn"
    return next((found[name] for name in (metric, main, "churn") if name in found), None)


def main_shares(found: AttributionFacts) -> tuple[FactorShare | None, list[FactorShare]]:
    """Return the largest share, and those others that are unknown or do not round to zero.

    They are rounded as sentences show them; ``None`` if the largest is zero.
    """
    sizes = {each.factor: shown_size(each.effect, found) for each in found.shares}
    first = max(found.shares, key=lambda each: sizes[each.factor] or 0.0)
    main = first if sizes[first.factor] else None
    # None is unknown, and not zero
    return main, [e for e in found.shares if e is not main and sizes[e.factor] != 0]


def shown_size(effect: Estimate, found: AttributionFacts) -> float | None:
    """Round a share's size as sentences show it; ``None`` if it is unknown.

    To a tenth of a point; of what is no fraction, to a hundredth of the greatest share or total.
    """
    if effect.value is None:
        return None
    if found.unit == "fraction":
        return round(100 * abs(effect.value), 1)
    every = (found.total, *(each.effect for each in found.shares))
    greatest = max((abs(each.value) for each in every if each.value), default=1.0)
    return round(abs(effect.value) / greatest, 2)


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


def _of_shares(found: AttributionFacts, evidence: Evidence) -> str:
    first, others = main_shares(found)
    metric = TaskWords(evidence.task).phrase(found.metric)
    drawn = drawn_words(found)
    if first is None:
        if others:
            unknown = listed([_factor_words(each, found) for each in others])
            return f"The share of {unknown} is unknown{drawn}."
        least = " by a tenth of a point" if found.unit == "fraction" else ""
        return f"No stage changes {metric}{least}{drawn}."
    factor = _factor_words(first, found)
    mechanism = _mechanism_words((found.reference, found.candidate), first.factor, evidence)
    rest = [_factor_words(each, found) for each in found.shares if each.factor != first.factor]
    if others:
        shares = ", ".join(f"{_factor_words(each, found)} {_share(each, found)}" for each in others)
        total = found.total.value
        whole = "" if total is None else f" of {share_words(total, found)}"
        part = f"{_share(first, found)}{whole} {metric}{drawn}"
        return f"Most of it from {factor} ({part}){mechanism}; {shares}."
    adds = "add" if len(rest) > 1 else "adds"
    nothing = f"; {listed(rest)} {adds} nothing" if rest else ""
    return f"All of it from {factor}{drawn}{mechanism}{nothing}."


def _factor_words(share: FactorShare, found: AttributionFacts) -> str:
    """Name a factor; the precision with the number format, as a metric is called precision too."""
    parts = share.factor.split("+")
    return "+".join(f"{found.precision} precision" if e == "precision" else e for e in parts)


def _share(share: FactorShare, found: AttributionFacts) -> str:
    value = share.effect.value
    return "unknown" if value is None else share_words(value, found)


def _of_pixels(entry: MatrixEntry, evidence: Evidence) -> str:
    names = *entry.row.preprocesses, entry.evaluated_with
    pair = {*names}
    means = {
        stage.stage: stage.mean_abs
        for stage in evidence.pixels
        if stage.mode == "isolated"
        and {stage.reference, stage.candidate} == pair
        and stage.stage != "normalise"  # its units are no grey levels
        and stage.mean_abs
    }
    if means:
        first = max(means, key=lambda stage: means[stage])
        rest = [f"{stage} {plain(mean, 2)}" for stage, mean in means.items() if stage != first]
        others = f"; {', '.join(rest)}" if rest else ""
        mechanism = _mechanism_words(names, first, evidence)
        return (
            f"The pixels differ most in {first} (mean {plain(means[first], 2)} of 255{others})"
            f"{mechanism}."
        )
    return _of_options(names, evidence)


def _of_options(names: tuple[str, ...], evidence: Evidence) -> str:
    known = {each.name: each for each in evidence.paths}
    if len(names) != 2 or not known.keys() >= set(names):
        return ""
    stages = differing(known[names[0]], known[names[1]])
    measured = {path for each in evidence.pixels for path in (each.reference, each.candidate)}
    if not stages or len(measured) < 2:
        return ""
    short = Names(evidence.paths).short
    return (
        f"{short(names[0])} and {short(names[1])} differ in {listed(stages)}; the share of each is "
        f"measured against {short(evidence.reference)} alone."
    )


def _mechanism_words(pair: tuple[str, ...], factor: str, evidence: Evidence) -> str:
    short = Names(evidence.paths).short
    for each in evidence.spatial:
        of_pair = {each.reference, each.candidate} == set(pair)
        if of_pair and each.mechanisms and each.stage in factor.split("+"):
            return f": {mechanism_names(each, short)}"  # the remainder is beside its map
    return ""
