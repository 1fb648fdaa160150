"""What is said of a matrix on every surface: its entries, intervals, noise floors and warnings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from alignkit.record import Drift, MatrixEntry, NoiseFloor, TrainingFacts
from alignkit.text.numbers import count, grouped, listed
from alignkit.text.task_words import CHURN, TaskWords


def entry_id(index: int) -> str:
    """Id of an entry's row in the table of all comparisons."""
    return f"entry-{index}"


def flips_words(drift: Drift, words: TaskWords) -> str | None:
    """Count images lost and gained, in words; of images without labels, those that changed."""
    if drift.churn.value is None:
        return None
    # of those that were asked something: no other could change
    images = grouped(drift.compared)
    if drift.right_to_wrong is None or drift.wrong_to_right is None:
        return f"{grouped(drift.changed or 0)} of {images} changed"
    worse, better = words.task.sides
    lost, gained = grouped(drift.right_to_wrong), grouped(drift.wrong_to_right)
    return f"{lost} {worse}, {gained} {better} of {images}"


def by_runtime(matrix: Sequence[MatrixEntry]) -> bool:
    """Tell whether runtimes are the question: models are given, or all are served one path."""
    paths = {entry.evaluated_with for entry in matrix}
    return len(paths) == 1 or any(entry.row.model for entry in matrix)


def churn_meaning(words: TaskWords) -> str:
    """Say what churn is, without a full stop."""
    return f"Churn: share of images whose {words.answer_changed} against the baseline of the row"


def noise_floors(floors: Iterable[NoiseFloor]) -> dict[str, dict[str, float]]:
    """Return row → metric, churn among them → its noise floor, where several seeds define one."""
    # one seed shows no difference between seeds
    return {
        each.preprocess: {**each.metrics, CHURN: each.churn}
        for each in floors
        if len(each.seeds) > 1
    }


def several_seeds(trainings: Iterable[TrainingFacts]) -> bool:
    """Tell whether models of more than one seed were measured."""
    return len({each.seed for each in trainings if each.state == "measured"}) > 1


def interval_words(trainings: Iterable[TrainingFacts]) -> str:
    """Say of what the drifts' intervals are: one seed says nothing of others."""
    if several_seeds(trainings):
        return "The 95 % interval covers other seeds and other images."
    return "One seed: the 95 % interval covers other images and ignores retraining."


def significance(entries: Iterable[MatrixEntry], words: TaskWords, *metrics: str) -> str:
    """``2 of 14 changes are significant at the 5 % level …``; empty where nothing was tested."""
    drifts = [entry.drift for entry in entries if entry.drift]
    tested = [
        (sum(known), count(len(known), "change"), words.phrase(metric))
        for metric in metrics
        if (known := [bool(each.is_significant(metric)) for each in drifts if metric in each.holm])
    ]
    if not tested:
        return ""
    parts = [f"{number or 'none'} of {of} of {name}" for number, of, name in tested]
    are = "is" if len(tested) == 1 and tested[0][0] <= 1 else "are"
    said = listed(parts)
    return (
        f"{said[:1].upper()}{said[1:]} {are} significant at the 5 % level after Holm’s correction "
        "for their number."
    )


def starred(entries: Sequence[MatrixEntry], words: TaskWords, metric: str) -> str:
    """Return `significance` as the note of the asterisks, of which there may be none."""
    found = (each.drift and each.drift.is_significant(metric) for each in entries)
    said = significance(entries, words, metric)
    return f"* {said}" if any(found) else said


def simulations(entries: Iterable[MatrixEntry]) -> list[str]:
    """List the runtimes whose numbers are simulated, by the label that says how."""
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.simulation:
            found.setdefault(entry.simulation, []).append(entry.column.runtime)
    return [f"{listed([*dict.fromkeys(runtimes)])}: {label}" for label, runtimes in found.items()]


def warnings(entries: Iterable[MatrixEntry]) -> list[str]:
    """List runtimes whose logits hold on this machine alone, and places with NaN or infinity."""
    # by runtime, since a session's warning is of all paths that it serves
    found: dict[str, list[str]] = {}
    for entry in entries:
        if entry.warning:
            found.setdefault(entry.column.runtime, []).append(entry.warning)
        if entry.drift and entry.drift.non_finite:
            place = f"{entry.evaluated_with} in {entry.column.runtime}"
            found.setdefault(place, []).append(
                f"{grouped(entry.drift.non_finite)} of {count(entry.drift.n, 'image')} with a NaN "
                "or infinite output"
            )
    return [
        f"{place}, {count(len(reasons), 'entry', 'entries')}: {reasons[0]}"
        for place, reasons in found.items()
    ]
