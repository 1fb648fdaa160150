"""Sentences about two runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from alignkit.record import DriftChange
from alignkit.record.study_documents import Change, EntryChange, RunComparison
from alignkit.text.names import Names, quick_words, surrogate_notes
from alignkit.text.numbers import count, grouped, listed, p_value
from alignkit.text.task_words import CHURN, TaskWords

ORDER: tuple[Change, ...] = (
    "new", "worse", "fixed", "better", "no change shown", "unchanged", "not compared"
)  # fmt: skip
"""Bad news first."""


class Largest(NamedTuple):
    """The change of one metric at one place."""

    metric: str
    entry: EntryChange
    change: DriftChange


def names_of(made: RunComparison) -> Names:
    """Return the names of both runs' paths; of two paths with one name, the later counts."""
    return Names((*made.before.paths, *made.after.paths))


def words_of(made: RunComparison) -> TaskWords:
    """Return the words of the later run's task, which is that of both where they are compared."""
    return TaskWords(made.after.task)


def remarks(made: RunComparison) -> tuple[str, ...]:
    """Say everything but the verdict and the largest change of a drift."""
    found = _models(made), _tally(made), _images(made), _stages(made), _restricted(made)
    return tuple(each for each in found if each)


def unchanged_words(made: RunComparison) -> str:
    """Say that no number and no verdict changed; empty if one did, or nothing was compared."""
    changes = {each.change for each in made.entries} | {each.change for each in made.stages}
    moved = (each.change.value for entry in made.entries for each in entry.metrics.values())
    same = made.before.verdict == made.after.verdict and not any(moved)
    same &= all(each.unchanged + each.not_compared == each.images for each in made.pixels)
    if not same or changes - {"not compared"} != {"unchanged"}:
        return ""
    return "No change" if len(changes) == 1 else "No change in what both runs measured"


def largest_words(made: RunComparison, names: Names) -> str:
    """Name the drift that changed most, of those that are shown to have changed if any are."""
    served = [each for each in made.entries if not each.aligned]
    words = words_of(made)
    found = largest(served, words.drawn)
    if found is None:
        return ""
    metric, entry, change = found
    if not change.change.value:
        return f"No drift changed ({sample(entry)})."
    was, now = (_value(metric, each.value, words) for each in (change.before, change.after))
    unit = "" if metric == CHURN else words.change_unit(metric)
    of = "" if metric == CHURN else "drift of "
    said = (
        f"{names.title(entry)}: {of}{words.phrase(metric)} {was} → {now}{unit}, "
        f"change {words.changed(metric, change.change, unit=True)}"
    )
    if change.is_shown:
        return f"Largest change: {said}."
    p = "" if change.p is None else f", p {p_value(change.p, '= ')} after Holm’s correction"
    return f"No drift is shown to have changed ({sample(entry)}). The largest: {said}{p}."


def largest(entries: Iterable[EntryChange], metrics: Iterable[str]) -> Largest | None:
    """Find the greatest change: of those that are shown, if any are; the first of equal ones."""
    known = [
        Largest(metric, entry, change)
        for entry in entries
        for metric in metrics
        if (change := entry.metrics.get(metric)) and change.change.value is not None
    ]
    if not known:
        return None
    return max(known, key=lambda each: (each.change.is_shown, abs(each.change.change.value or 0)))


def sample(entry: EntryChange) -> str:
    """``n = 300 images × 3 seeds``."""
    images = count(entry.n // max(entry.seeds, 1), "image")
    return f"n = {images}" + (f" × {count(entry.seeds, 'seed')}" if entry.seeds > 1 else "")


def _value(metric: str, value: float | None, words: TaskWords) -> str:
    if value is None:
        return "unknown"
    return words.value(metric, value) if metric == CHURN else words.change(metric, value)


def _models(made: RunComparison) -> str:
    """Say how the models themselves changed: the aligned cells, as they were trained."""
    aligned = [each for each in made.entries if each.aligned and each.metrics]
    words = words_of(made)
    metric = words.headline
    found = largest(aligned, (metric,))
    if found is None:
        return ""
    _, entry, change = found
    if change.change.value == 0 and all(each.change == "unchanged" for each in aligned):
        return "The models themselves predict the same, served as trained."
    if not change.is_shown:
        return (
            f"The models themselves, served as trained, show no change of {words.phrase(metric)} "
            f"({sample(entry)})."
        )
    was, now = (words.value(metric, e.value or 0) for e in (change.before, change.after))
    return (
        f"The models themselves, served as trained: {words.phrase(metric)} of "
        f"{entry.trained_with} {was} → {now}, "
        f"change {words.changed(metric, change.change, unit=True)}."
    )


def _tally(made: RunComparison) -> str:
    served = [each for each in made.entries if not each.aligned]
    compared = [each for each in served if each.change != "not compared"]
    lost = len(served) - len(compared)
    missing = f"{count(lost, 'cell')} could not be compared." if lost else ""
    if not compared:
        return missing
    parts, words = [], words_of(made)
    for metric in words.drawn:
        tested = [each.metrics[metric] for each in compared if metric in each.metrics]
        shown = [each.change.value or 0 for each in tested if each.is_shown]
        if any(each.p is not None for each in tested):
            up = sum(value > 0 for value in shown)
            ways = [f"{up} up" * bool(up), f"{len(shown) - up} down" * (len(shown) > up)]
            how = f" ({', '.join(filter(None, ways))})" if shown else ""
            parts.append(f"{words.phrase(metric)} in {len(shown) or 'none'}{how}")
    said = f"Of {count(len(compared), 'cell')}, the drift changed: {listed(parts)}."
    return f"{said} {missing}".rstrip()


def _images(made: RunComparison) -> str:
    images = [image for each in made.entries if not each.aligned for image in each.images]
    if not images:
        return ""
    appeared, gone = (
        {image.id for image in images if image.change == kind} for kind in ("new", "fixed")
    )
    flips = "flips" if len(appeared) == 1 else "flip"
    return (
        f"{count(len(appeared), 'image')} {flips} in a cell where the earlier run had no flip, "
        f"{grouped(len(gone))} no longer."
    )


def _stages(made: RunComparison) -> str:
    counts = Counter(each.change for each in made.stages)
    if not counts:
        return ""
    whole = count(len(made.stages), "stage")
    if set(counts) <= {"unchanged", "not compared"}:
        return f"Pixels: no stage changed, of {whole}."
    tally = listed([f"{grouped(counts[each])} {each}" for each in ORDER if counts[each]])
    return f"Pixels, of {whole}: {tally}."


def _restricted(made: RunComparison) -> str:
    """Say on which images the runs are compared, if they have not the same."""
    sides = made.before.images, made.after.images
    shared = max((each.n // each.seeds for each in made.entries if each.seeds), default=0)
    if not shared or shared >= max(sides):
        return ""
    a, b = map(grouped, sides)
    return f"Compared on the {count(shared, 'image')} that both runs predicted, of {a} and {b}."


def labels(made: RunComparison) -> tuple[str, ...]:
    """Return a sentence for each quick run, surrogate and simulation of one run or of both."""
    sides = made.before, made.after
    surrogates = [
        {name: f"is a {note}" for name, note in surrogate_notes(side.paths, brief=True).items()}
        for side in sides
    ]
    simulated = [
        {name: f"is {label}" for name, label in side.simulations.items()} for side in sides
    ]
    quick = [
        f"The {name} run: {quick_words(side.quick)}"
        for name, side in zip(("earlier", "later"), sides, strict=True)
        if side.quick
    ]
    if made.before.quick and made.before.quick == made.after.quick:
        quick = [f"Both runs: {quick_words(made.after.quick)}"]
    return (*quick, *_of_one_or_both(*surrogates), *_of_one_or_both(*simulated))


def _of_one_or_both(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    """Say of each name in which run it has its label."""
    for name in dict.fromkeys([*before, *after]):
        was, now = before.get(name, ""), after.get(name, "")
        if was and now and was != now:
            yield f"{name} {was}, in the earlier run, and {now}, in the later one."
        elif was and now:
            yield f"{name} {now}."
        else:
            yield f"{name} {was or now}, in the {'earlier' if was else 'later'} run alone."
