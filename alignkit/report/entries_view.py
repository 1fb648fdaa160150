"""Tables of the matrix's entries and cells: in short, by measure, by runtime, and why some ended.

Distances of logits tell more where images have no labels, and where runtimes alone differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Literal, TypeVar

from alignkit.record import (
    BatchCheck,
    BuildSpread,
    Cell,
    Drift,
    EngineFacts,
    Estimate,
    LogitDistance,
    MatrixEntry,
    MovedImage,
    NumericDrift,
    RunRecord,
    TrainingFacts,
)
from alignkit.record.stored import Placed
from alignkit.report.matrix_words import flips_words
from alignkit.report.page import Alert, Code, Details, Paragraph, Strong
from alignkit.report.table import Table
from alignkit.task_facts import TaskFacts
from alignkit.text.class_words import NOT_FINITE, unknown_margin
from alignkit.text.column import Fact, of_part
from alignkit.text.measured import layer_words
from alignkit.text.names import Names, why_not
from alignkit.text.numbers import listed
from alignkit.text.run_columns import CHURN_COLUMN, LOGITS, change_column, of_drifts, place_columns
from alignkit.text.task_words import TaskWords, capital, size_in

Found = TypeVar("Found", bound=Placed)
_MOST_MEASURES = 8
"""Measures of a table: more columns would not fit a page that is printed."""
_COMPARISONS = 12
"""Comparisons whose images the page shows."""
_NAMED = 3
"""Places that a failure names."""


def short_columns(
    words: TaskWords, names: Names, *, labelled: bool, outputs: bool, whole: bool = False
) -> tuple[Fact[MatrixEntry], ...]:
    """Return where an entry stands and how far it drifts, in short.

    Of labelled images with ``outputs`` how far they move, as no prediction may change with them;
    the ``whole`` has more columns than a terminal has room for.
    """
    task, metric = words.task, words.headline
    runtime: Fact[MatrixEntry] = Fact(
        "Runtime", lambda each: names.cells(each)[2] + ", simulated" * bool(each.simulation)
    )
    place: tuple[Fact[MatrixEntry], ...] = (*place_columns(names)[:2], runtime)
    changed: tuple[Fact[Drift], ...] = (
        CHURN_COLUMN,
        Fact(f"{capital(words.turns)}s", lambda drift: flips_words(drift, words),
               note=lambda drift: drift.churn.reason),
    )  # fmt: skip
    if not labelled:
        others = _logits_columns(task, whole=whole) if task.class_scores else _measures(words)
        return (*place, *of_drifts((*changed, *others)))

    def change(found: Estimate, drift: Drift) -> str:
        return words.estimated(metric, found) + " *" * bool(drift.is_significant(metric))

    # an asterisk, which the sentence on significance explains
    change_of = replace(change_column(metric, words, words.header(metric)), format=change)
    far: Fact[Drift] = _greatest(task).of(_logits)
    greatest = [far] if outputs and task.class_scores else []
    drifts: tuple[Fact[Drift], ...] = (change_of, *changed, *greatest)
    if not whole:
        return (*place, *of_drifts(drifts))
    own: Fact[MatrixEntry] = Fact(
        capital(words.brief(metric)), lambda each: each.metrics.get(metric), "value",
        format=lambda value, _: words.value(metric, value),
        note=lambda each: "not computed" if each.ran else why_not(each),
    )  # fmt: skip
    detectable: Fact[Drift] = Fact(
        f"Detectable Δ {task.rated}", lambda drift: drift.detectable, "points",
        format=lambda value, _: size_in(task.rated_unit, value), note="not tested",
    )  # fmt: skip
    return (*place, own, *of_drifts((*drifts, detectable)))


def _logits_columns(task: TaskFacts, *, whole: bool) -> Iterator[Fact[Drift]]:
    heads = {"mean_abs": f"Mean |Δ{task.output}|"}
    for field in ("mean_abs", "p99", "max_abs", "cosine"):
        yield LOGITS[field].of(_logits, head=heads.get(field, LOGITS[field].head))
    margins: list[tuple[str, str, Literal["count", "share"]]] = [
        ("Margin halved", "halved", "count"),
        ("Margin lost, median", "p50", "share"),
        ("Margin lost, p99", "p99", "share"),
    ]
    for head, field, unit in margins if whole else margins[:1]:
        yield Fact(head, partial(_margin, field), unit, note=_no_margin)


def _margin(field: str, drift: Drift) -> float | None:
    return getattr(drift.margins, field) if drift.margins and drift.margins.compared else None


def _no_margin(drift: Drift) -> str:
    return drift.margins.reason if drift.margins else drift.logits.reason


def _measures(words: TaskWords) -> list[Fact[Drift]]:
    return [change_column(each.name, words, each.label) for each in words.task.measures]


def served_elsewhere(found: Iterable[Found], record: RunRecord) -> list[Found]:
    """Keep what models served with another path than they were trained with show.

    Of the runtimes that a record measured, only that of its aligned cells.
    """
    # none in a run of pixels alone
    runtimes = {each.column.runtime for each in record.matrix if each.aligned}
    return [
        each
        for each in found
        if each.evaluated_with not in each.row.preprocesses
        and (not runtimes or each.column.runtime in runtimes)
    ]


def failures(
    trainings: Sequence[TrainingFacts], cells: Sequence[Cell], names: Names
) -> Iterator[Alert]:
    """Yield each distinct reason why trainings and cells crashed, with its first traceback."""
    # a training keeps no traceback
    crashed = [
        (each.reason, f"training {names.short(each.preprocess)}", each.seed, "")
        for each in trainings
        if each.state == "failed"
    ]
    crashed += [
        (each.reason, names.title(each), each.seed, each.traceback)
        for each in cells
        if each.state == "failed"
    ]
    for reason in dict.fromkeys(each[0] for each in crashed):
        same = [each for each in crashed if each[0] == reason]
        seeds: dict[str, list[str]] = {}
        for _, title, seed, _ in same:
            seeds.setdefault(title, []).append(str(seed))
        places = [f"{title}, seed {listed(each)}" for title, each in seeds.items()]
        left = len(places) - _NAMED
        said = "; ".join([*places[:_NAMED], *[f"{left} more"] * (left > 0)])
        # one that the others repeat
        traces = [each[3] for each in same if each[3]][:1]
        unfolded = (Details("Traceback", [Code(each, command=False)]) for each in traces)
        yield Alert("Failure", [Paragraph((Strong("Failed:"), f" {said}. {reason}")), *unfolded])


def measures_tables(
    matrix: Sequence[MatrixEntry], names: Names, words: TaskWords
) -> tuple[Table, ...]:
    """Return tables of each compared entry with the task's measures and their intervals.

    They say how far answers differ that no change of a metric shows. None for a task without
    measures, and where nothing was compared.
    """
    compared = sorted((entry for entry in matrix if entry.drift), key=lambda each: -each.churn)
    if not words.task.measures or not compared:
        return ()
    caption = (
        "Differences of the answers from the baseline of the row, with 95 % intervals; the cell "
        "with most changed images first"
    )
    images: Fact[Drift] = Fact("Images", lambda drift: drift.n, "count")
    first = (*place_columns(names), *of_drifts([images]))
    shown = of_drifts(_measures(words))
    return tuple(
        Table.made(caption, [*first, *shown[start : start + _MOST_MEASURES]], compared)
        for start in range(0, len(shown), _MOST_MEASURES)
    )


def meanings(task: TaskFacts) -> tuple[str, ...]:
    """Define what the page shows of a task, a sentence each; none where no label needs it."""
    named = [*(each for each in task.metrics if each.name in task.matrices), *task.measures]
    defined = [f"{each.label}: {each.meaning}." for each in named if each.meaning]
    changed = f"Changed: {task.changed[:1].lower()}{task.changed[1:]}"
    return (changed, *defined) if defined else ()


def logits_legend(task: TaskFacts) -> str:
    """Say what the columns of class scores without labels mean."""
    output = task.output
    return (
        "Churn is the share of images whose predicted class changes against the baseline of the "
        f"row. |Δ{output}| is taken {output} by {output}, the cosine image by image. The margin is "
        f"the {output} of the class that the baseline predicts less the greatest other one; halved "
        "counts images that keep their class and lose half of it or more."
    )


def _logits(drift: Drift | NumericDrift) -> LogitDistance:
    return drift.logits


def moved_tables(matrix: Sequence[MatrixEntry], names: Names, task: TaskFacts) -> tuple[Table, ...]:
    """Return the images that moved most in each comparison, by falling churn."""
    compared = [entry for entry in matrix if entry.drift and entry.drift.moved]
    compared.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    columns = moved_columns(task)
    return tuple(
        Table.made(f"Images that moved most: {names.title(entry)}", columns, entry.drift.moved)
        for entry in compared[:_COMPARISONS]
        if entry.drift
    )


def moved_columns(task: TaskFacts) -> tuple[Fact[MovedImage], ...]:
    """Return what is said of an image that moved; its margin where a task has class scores."""

    def turn(each: MovedImage) -> str:
        changed = each.before != each.after
        return f"{each.before} → {each.after}" if changed else f"stays {each.before}"

    said: tuple[Fact[MovedImage], ...] = (Fact("Image", lambda each: each.id), Fact("Change", turn))
    if not task.class_scores:
        return said
    return (
        *said,
        Fact(f"Max |Δ {task.output}|", lambda each: each.max_abs, "value", note=NOT_FINITE),
        Fact("Margin before", lambda each: each.margin, "value", note=NOT_FINITE),
        Fact("Margin lost", lambda each: each.lost, "share", note=unknown_margin),
    )


def _turned(task: TaskFacts) -> str:
    return "Flips" if task.class_scores else "Changed"


def _greatest(task: TaskFacts) -> Fact[LogitDistance]:
    return replace(LOGITS["max_abs"], head=f"Max |Δ {task.output}|")


def numeric_table(matrix: Sequence[MatrixEntry], names: Names, task: TaskFacts) -> Table | None:
    """Compare runtimes with the reference one of their row, all seeds; ``None`` with one runtime.

    Unlike the matrix, the path is the same on both sides, so that nothing but the runtime differs.
    Columns of distances are left out where none is known.
    """
    compared = [entry for entry in matrix if entry.numeric]
    drifts = [entry.numeric for entry in compared if entry.numeric]
    caption = "Runtimes against the row’s reference runtime, on the same tensors, summed over seeds"
    distances: list[Fact[LogitDistance]] = []
    if any(drift.logits.max_abs is not None for drift in drifts):
        fields = ("max_abs", "mean_abs", "p50", "p99", "p99_9")
        distances += [replace(LOGITS[each], group=f"|Δ {task.output}|") for each in fields]
        distances.append(replace(LOGITS["cosine"], digits=6))
        for tolerance, head in (("1e-05", "≤ 1e-5"), ("1e-03", "≤ 1e-3"), ("1e-02", "≤ 1e-2")):
            distances.append(_share(head, "inside", tolerance, "Images inside a tolerance"))
    else:
        reasons = dict.fromkeys(drift.logits.reason for drift in drifts)
        caption += f"; no distance of {task.outputs}: {'; '.join(reasons)}"
    for most in ("1", "5") if task.class_scores else ():
        distances.append(_share(f"Top-{most}", "same_top", most, "Images with the same"))
    columns: tuple[Fact[NumericDrift], ...] = (
        Fact("Images", lambda drift: drift.n, "count"),
        *of_part(distances, _logits),
        Fact(_turned(task), lambda drift: drift.flips, "count", alarm=True),
        Fact("Non-finite", lambda drift: drift.non_finite, "count", alarm=True),
    )
    whole = (*place_columns(names), *of_part(columns, attrgetter("numeric")))
    return Table.made(caption, whole, compared) if compared else None


def _share(head: str, field: str, name: str, group: str) -> Fact[LogitDistance]:
    """Return a share of images, counted by tolerance or by k as the record's JSON writes them."""

    def share(found: LogitDistance) -> float | None:
        counts: dict[str, int] = getattr(found, field)
        return counts[name] / found.compared if name in counts else None

    def why(found: LogitDistance) -> str:
        return found.reason or f"with {name} classes or fewer there is no other set"

    return Fact(head, share, "share", 2, note=why, group=group)


def quantised_table(matrix: Sequence[MatrixEntry], names: Names, task: TaskFacts) -> Table | None:
    """Divide int8's drift into quantisation and kernels; ``None`` unless a run executed both."""
    divided = [entry for entry in matrix if entry.quantised and entry.numeric]
    parts: dict[str, Callable[[MatrixEntry], NumericDrift | None]] = {
        "in all": attrgetter("numeric"),
        "quantisation": attrgetter("quantised.quantisation"),
        "kernel": attrgetter("quantised.kernel"),
    }
    churn: Fact[NumericDrift] = Fact("Churn", lambda drift: drift.flips / drift.n, "share", 2)
    figures = (churn, _greatest(task).of(_logits))
    columns: tuple[Fact[MatrixEntry], ...] = (
        *place_columns(names),
        Fact("Same graph, unfused", attrgetter("quantised.unfused")),
        *(
            figure.of(part, head=f"{figure.head}, {name}")
            for figure in figures
            for name, part in parts.items()
        ),
    )
    caption = (
        "int8 divided, on the same tensors: from the reference runtime to the quantised graph "
        "executed unfused (quantisation), and from there to the runtime’s own kernels (kernel). "
        "An image may change in both and return"
    )
    return Table.made(caption, columns, divided) if divided else None


def sessions_table(cells: Sequence[Cell], names: Names, task: TaskFacts) -> Table | None:
    """Return each cell's tensors, batch check and builds; ``None`` where a record has none."""
    # cells that ran, in records that keep it
    ran = [cell for cell in cells if cell.inputs]
    turned, far, why = _turned(task), f"Max |Δ {task.output}|", attrgetter("reason")

    def checked(check: BatchCheck, value: int | str) -> int | str | None:
        return None if check.max_abs is None else value

    batch: tuple[Fact[BatchCheck], ...] = (
        Fact("Images", lambda each: checked(each, f"{each.images} of {each.batch}"), "count",
               note=why),
        Fact(far, lambda each: each.max_abs, "value", note=why),
        Fact(turned, lambda each: checked(each, each.flips), "count", note=why, alarm=True),
    )  # fmt: skip
    builds: tuple[Fact[BuildSpread], ...] = (
        Fact("Builds", lambda each: each.builds, "count"),
        Fact(far, lambda each: each.max_abs, "value", note=why),
        # a failed build has none
        Fact(turned, lambda each: each.flips if each.images else None, "count", note=why,
               alarm=True),
    )  # fmt: skip
    columns: tuple[Fact[Cell], ...] = (
        *place_columns(names),
        Fact("Seed", lambda cell: cell.seed, "ordinal"),
        # enough to see which are equal
        Fact("Input tensors, SHA-256", lambda cell: cell.inputs[:12]),
        *of_part(
            batch, attrgetter("batch"), "written by an earlier alignkit",
            group="One at a time against a batch",
        ),
        *of_part(
            builds if any(cell.builds for cell in ran) else (), attrgetter("builds"),
            "not asked for, or not on this path", group="Repeated builds",
        ),
        Fact("Non-finite", lambda cell: cell.non_finite, "count", alarm=True),
    )  # fmt: skip
    caption = (
        "Runtime sessions and input hashes, and whether batch size or another build changes "
        f"{task.outputs}"
    )
    return Table.made(caption, columns, ran) if ran else None


def engines_table(cells: Sequence[Cell], names: Names) -> Table | None:
    """Return each engine that was built and not run, once for all paths; ``None`` without one."""
    rows: dict[tuple[str, str, int], Cell] = {}
    for cell in cells:
        if cell.engine:
            rows.setdefault((cell.trained_with, cell.column.runtime, cell.seed), cell)
    engine: tuple[Fact[EngineFacts], ...] = (
        Fact("Layers that compute on each type", layer_words),
        Fact("Size", lambda each: each.size, "bytes"),
        Fact("SHA-256 of the engine to run", lambda each: each.sha256),
        Fact("Built by", lambda each: each.library),
    )
    # an engine takes tensors, whatever path made them
    trained, _, runtime, *_ = place_columns(names)
    columns: tuple[Fact[Cell], ...] = (
        trained,
        runtime,
        Fact("Seed", lambda cell: cell.seed, "ordinal"),
        *of_part(engine, attrgetter("engine")),
    )
    caption = (
        "Engines built here and not run, for a machine with an NVIDIA GPU. The types of layers are "
        "known, predictions are not; no rule passes on them"
    )
    return Table.made(caption, columns, rows.values()) if rows else None
