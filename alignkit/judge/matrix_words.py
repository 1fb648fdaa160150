"""The drift matrix in one sentence: the entry that changes most, how much, and why."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.judge.evidence import Evidence
from alignkit.place import Column
from alignkit.record import AttributionFacts, MatrixEntry
from alignkit.record.cell_facts import OWN_GRAPH
from alignkit.samples import NO_LABELS
from alignkit.text.names import Names, place_in_words
from alignkit.text.numbers import estimated, grouped, plain, significant

NOTHING_MOVED = "Aligned: "
"""Beginning of the sentence if nothing changed and every rule holds."""
_RUNTIME_FACTORS = {"backend", "precision", "backend+precision"}


def matrix_sentence(evidence: Evidence, not_passed: str) -> str:
    """State the effect and the cause; ``not_passed`` counts the rules that did not, if any."""
    measured = [
        entry
        for entry in evidence.matrix
        if not entry.aligned and entry.drift and entry.drift.changed is not None
    ]
    if not measured:
        return "Nothing was compared: no cell besides the references could run."
    own = [entry for entry in measured if entry.row.is_only(evidence.reference)]
    # where those of the reference path change nothing, another row does
    moved_own = any(entry.churn for entry in own)
    worst = max(own if moved_own else measured, key=lambda each: each.churn)
    if not any(entry.churn for entry in measured):
        none = f"no prediction changed in any of {len(measured)} comparisons"
        if not evidence.labelled and (moved := logits_moved(measured)):
            none += f"; {moved}"
        if not_passed:
            return f"{none[:1].upper()}{none[1:]}; {not_passed}."
        return f"{NOTHING_MOVED}{none}."
    names, base = Names(evidence.paths), without_runtime(worst, evidence)
    place = place_in_words(base or worst, names)
    if base:  # the runtime changes nothing of it, so that naming it would mislead
        worst, place = base, place.removesuffix(f" in {base.column.runtime}")
    cause = _attributed(worst, evidence) or _cause(worst, evidence)
    return f"T{place[1:]}: {_effect(worst, measured)}{cause}."


def _effect(entry: MatrixEntry, measured: Sequence[MatrixEntry]) -> str:
    drift = entry.drift
    assert drift is not None
    assert drift.changed is not None
    churn = f"{plain(100 * entry.churn, 1)} % of predictions change"
    recall = drift.metrics["recall.macro"]
    if recall.reason != NO_LABELS:
        change = estimated(recall, unit=" pp")
        return f"macro recall {change}{_chance(entry, measured)}, {churn}"
    # without a change of class, the images that moved most keep theirs
    shown = drift.moved[:1] if drift.changed else ()
    first = "".join(f", e.g. {each.before} → {each.after}" for each in shown)
    words = f"{churn} ({grouped(drift.changed)} of {grouped(drift.n)}{first})"
    if drift.margins and drift.margins.halved:
        words += f", and {grouped(drift.margins.halved)} more lose half of their margin"
    moved = logits_moved([entry])
    return f"{words}; {moved}" if moved else words


def logits_moved(entries: Sequence[MatrixEntry]) -> str:
    """Say how far logits move in the entry with the greatest difference; empty without any."""
    distances = [entry.drift.logits for entry in entries if entry.drift]
    known = [each for each in distances if each.max_abs is not None]
    if not known:
        return ""
    most = max(known, key=lambda each: each.max_abs or 0.0)
    if not most.max_abs:
        return "no logit differs"
    mean, p99 = most.mean_abs or 0.0, most.p99 or 0.0
    return (
        f"logits move by {significant(mean)} on average, 99 % of them by at most "
        f"{significant(p99)}, and {significant(most.max_abs)} at most"
    )


def without_runtime(entry: MatrixEntry, evidence: Evidence) -> MatrixEntry | None:
    """Find the entry of the same models and path in the reference runtime, if that is innocent.

    Innocent is a runtime that changes no prediction on the same tensors, or whose share of an
    attributed drift rounds to zero. ``None`` for an entry that only the runtime changes, too.
    """
    aligned = next((e for e in evidence.matrix if e.aligned and e.row == entry.row), None)
    if aligned is None or entry.row.preprocesses == (entry.evaluated_with,):
        return None
    column = Column(entry.evaluated_with, aligned.backend, aligned.precision)
    base = next((e for e in evidence.matrix if e.row == entry.row and e.column == column), None)
    if base is None or base is entry or base.drift is None:
        return None
    unchanged = entry.numeric is not None and entry.numeric.flips == 0
    return base if unchanged or _runtime_share_is_zero(entry, evidence) else None


def _runtime_share_is_zero(entry: MatrixEntry, evidence: Evidence) -> bool:
    found = _attribution(entry, evidence)
    shares = [each for each in found.shares if each.factor in _RUNTIME_FACTORS] if found else []
    effects = [each.effect.value for each in shares]
    # as the sentence shows it: to a tenth of a point; an unknown share is not zero
    return bool(shares) and all(e is not None and round(100 * e, 1) == 0 for e in effects)


def _chance(entry: MatrixEntry, measured: Sequence[MatrixEntry]) -> str:
    """Say that the change of recall may be chance, if a test says so."""
    if entry.drift is None or entry.drift.is_significant("recall.macro") is not False:
        return ""
    among = f" among {len(measured)} comparisons" if len(measured) > 1 else ""
    return f" (not significant{among})"


def _attributed(entry: MatrixEntry, evidence: Evidence) -> str:
    """Say what each stage costs of the recall, or of churn, if that was measured."""
    each = _attribution(entry, evidence)
    if each is None:
        return ""
    drawn = f" on {each.images} of {each.drawn_from} images" if each.drawn_from else ""
    return f"; by stage{drawn}, {each.sentence.partition(': ')[2]}"


def _attribution(entry: MatrixEntry, evidence: Evidence) -> AttributionFacts | None:
    """Find the shares of an entry's change of recall or, of images without labels, of its churn."""
    metric = "recall.macro" if evidence.labelled else "churn"
    for each in evidence.attributions:
        same = entry.column == Column(each.candidate, each.backend, each.precision)
        of_row = entry.row.is_only(each.reference)
        if same and of_row and each.metric == metric and each.shares:
            return each
    return None


def _cause(entry: MatrixEntry, evidence: Evidence) -> str:
    pixels = evidence.pixels
    if entry.row.preprocesses == (entry.evaluated_with,):
        own = [each.effective for each in evidence.cells if each.place == entry.place]
        file = " or the ONNX file" if any(OWN_GRAPH in each for each in own) else ""
        return f"; the pixels are the same, so the runtime{file} is the cause"
    pair = {*entry.row.preprocesses, entry.evaluated_with}
    means = {
        stage.stage: stage.mean_abs
        for stage in pixels
        if stage.mode == "isolated"
        and {stage.reference, stage.candidate} == pair
        and stage.stage != "normalise"  # its units are no grey levels
        and stage.mean_abs
    }
    if not means:
        return ""
    largest = max(means, key=lambda stage: means[stage])
    others = "".join(f", {stage} {mean:.2f}" for stage, mean in means.items() if stage != largest)
    return (
        f"; the largest difference is in {largest} (mean {means[largest]:.2f} grey levels{others})"
    )
