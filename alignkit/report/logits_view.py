"""Tables of distances between logits: where no labels tell more, where runtimes alone differ.

And of what ran: sessions with their batches and builds, and engines that were built and not run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

from alignkit.record import (
    BatchCheck,
    BuildSpread,
    Cell,
    Drift,
    EngineFacts,
    LogitDistance,
    MatrixEntry,
    MovedImage,
    NumericDrift,
    RunRecord,
)
from alignkit.report.table import Table
from alignkit.task_facts import TaskFacts
from alignkit.text.class_words import NOT_FINITE, unknown_margin
from alignkit.text.column import Fact, of_part
from alignkit.text.measured import layer_words
from alignkit.text.names import Names
from alignkit.text.numbers import grouped
from alignkit.text.run_columns import (
    CHURN_COLUMN,
    LOGITS,
    change_column,
    of_drifts,
    place_columns,
)
from alignkit.text.task_words import TaskWords

_COMPARISONS = 12
"""Comparisons whose images the page shows."""


def logits_legend(task: TaskFacts) -> str:
    """Say what the columns of class scores without labels mean."""
    output = task.output
    return (
        "Churn is the share of images whose predicted class changes against the baseline of the "
        f"row. |Δ{output}| is taken {output} by {output}, the cosine image by image. The margin is "
        f"the {output} of the class that the baseline predicts less the greatest other one; halved "
        "counts images that keep their class and lose half of it or more."
    )


def unlabelled_columns(words: TaskWords) -> tuple[Fact[MatrixEntry], ...]:
    """Return what an entry's drift shows without labels: of logits, or the task's measures."""
    answers: tuple[Fact[Drift], ...] = (
        CHURN_COLUMN,
        Fact("Changed", _changed, "count", note=lambda drift: drift.churn.reason),
    )
    if not words.task.class_scores:
        shown = [change_column(each.name, words, each.label) for each in words.task.measures]
        return of_drifts((*answers, *shown))
    heads = {"mean_abs": f"Mean |Δ{words.task.output}|"}
    distances = [
        LOGITS[field].of(_logits, head=heads.get(field, LOGITS[field].head))
        for field in ("mean_abs", "p99", "max_abs", "cosine")
    ]
    halved: Fact[Drift] = Fact("Margin halved", _halved, "count", note=_no_margin)
    return of_drifts((*answers, *distances, halved))


def _logits(drift: Drift | NumericDrift) -> LogitDistance:
    return drift.logits


def _changed(drift: Drift) -> str | None:
    return (
        None if drift.changed is None else f"{grouped(drift.changed)} of {grouped(drift.compared)}"
    )


def _halved(drift: Drift) -> int | None:
    margins = drift.margins
    return margins.halved if margins and margins.compared else None


def _no_margin(drift: Drift) -> str:
    return drift.margins.reason if drift.margins else drift.logits.reason


def logits_table(
    matrix: Sequence[MatrixEntry], names: Names, words: TaskWords, *, labelled: bool
) -> Table | None:
    """Return the drift of each entry without labels; ``None`` if the images have labels.

    None either for a task without class scores, whose measures have a table of their own.
    """
    if labelled or not matrix or not words.task.class_scores:
        return None
    lost: tuple[Fact[Drift], ...] = (
        Fact("Margin lost, median", lambda drift: drift.margins and drift.margins.p50, "share",
               note=_no_margin),
        Fact("p99", lambda drift: drift.margins and drift.margins.p99, "share", note=_no_margin),
    )  # fmt: skip
    columns: tuple[Fact[MatrixEntry], ...] = (
        *place_columns(names),
        *unlabelled_columns(words),
        *of_drifts(lost),
    )
    caption = "Drift of predictions without labels, against the baseline of the row"
    return Table.made(caption, columns, matrix)


def moved_tables(record: RunRecord, names: Names) -> tuple[Table, ...]:
    """Return the images that moved most in each comparison, by falling churn.

    Of images with labels only where one path is compared with itself: the images whose pixels
    differ most are shown otherwise.
    """
    if record.labelled and len(record.paths) > 1:
        return ()
    compared = [entry for entry in record.matrix if entry.drift and entry.drift.moved]
    compared.sort(key=lambda entry: -entry.churn)  # stable: equal ones stay in the record's order
    columns = moved_columns(record.task)
    return tuple(
        Table.made(f"Images that moved most: {names.title(entry)}", columns, entry.drift.moved)
        for entry in compared[:_COMPARISONS]
        if entry.drift
    )


def moved_columns(task: TaskFacts) -> tuple[Fact[MovedImage], ...]:
    """Return what is said of an image that moved; its margin where a task has class scores."""
    said: tuple[Fact[MovedImage], ...] = (
        Fact("Image", lambda each: each.id),
        Fact("Change", _turn),
    )
    if not task.class_scores:
        return said
    return (
        *said,
        Fact(f"Max |Δ {task.output}|", lambda each: each.max_abs, "value", note=NOT_FINITE),
        Fact("Margin before", lambda each: each.margin, "value", note=NOT_FINITE),
        Fact("Margin lost", lambda each: each.lost, "share", note=unknown_margin),
    )


def _turn(each: MovedImage) -> str:
    changed = each.before != each.after
    return f"{each.before} → {each.after}" if changed else f"stays {each.before}"


def numeric_table(matrix: Sequence[MatrixEntry], names: Names, task: TaskFacts) -> Table | None:
    """Compare runtimes with the reference one of their row, all seeds; ``None`` with one runtime.

    Unlike the matrix, the path is the same on both sides, so that nothing but the runtime differs.
    Columns of distances are left out where none is known.
    """
    compared = [entry for entry in matrix if entry.numeric]
    drifts = [entry.numeric for entry in compared if entry.numeric]
    known = any(drift.logits.max_abs is not None for drift in drifts)
    turned = "Flips" if task.class_scores else "Changed"
    columns: tuple[Fact[NumericDrift], ...] = (
        Fact("Images", lambda drift: drift.n, "count"),
        *of_part(_distances(task) if known else (), _logits),
        *of_part(_ranked() if task.class_scores else (), _logits),
        Fact(turned, lambda drift: drift.flips, "count", alarm=True),
        Fact("Non-finite", lambda drift: drift.non_finite, "count", alarm=True),
    )
    caption = "Runtimes against the row’s reference runtime, on the same tensors, summed over seeds"
    if not known:
        reasons = dict.fromkeys(drift.logits.reason for drift in drifts)
        caption += f"; no distance of {task.outputs}: {'; '.join(reasons)}"
    whole = (*place_columns(names), *of_part(columns, attrgetter("numeric")))
    return Table.made(caption, whole, compared) if compared else None


def _distances(task: TaskFacts) -> Iterator[Fact[LogitDistance]]:
    for field in ("max_abs", "mean_abs", "p50", "p99", "p99_9"):
        yield replace(LOGITS[field], group=f"|Δ {task.output}|")
    yield replace(LOGITS["cosine"], digits=6)
    for tolerance, head in (("1e-05", "≤ 1e-5"), ("1e-03", "≤ 1e-3"), ("1e-02", "≤ 1e-2")):
        yield _share(head, lambda found: found.inside, tolerance, "Images inside a tolerance")


def _ranked() -> Iterator[Fact[LogitDistance]]:
    for most in ("1", "5"):
        yield _share(f"Top-{most}", lambda found: found.same_top, most, "Images with the same")


def _share(
    head: str, counts: Callable[[LogitDistance], dict[str, int]], name: str, group: str
) -> Fact[LogitDistance]:
    """Return a share of images, counted by tolerance or by k as the record's JSON writes them."""

    def share(found: LogitDistance) -> float | None:
        return counts(found)[name] / found.compared if name in counts(found) else None

    def why(found: LogitDistance) -> str:
        return found.reason or f"with {name} classes or fewer there is no other set"

    return Fact(head, share, "share", 2, note=why, group=group)


def quantised_table(matrix: Sequence[MatrixEntry], names: Names, task: TaskFacts) -> Table | None:
    """Divide int8's drift into quantisation and kernels; ``None`` unless a run executed both."""
    divided = [entry for entry in matrix if entry.quantised and entry.numeric]
    parts: dict[str, Callable[[MatrixEntry], NumericDrift | None]] = {
        "in all": lambda entry: entry.numeric,
        "quantisation": lambda entry: entry.quantised.quantisation if entry.quantised else None,
        "kernel": lambda entry: entry.quantised.kernel if entry.quantised else None,
    }
    churn: Fact[NumericDrift] = Fact("Churn", lambda drift: drift.flips / drift.n, "share", 2)
    greatest: Fact[NumericDrift] = LOGITS["max_abs"].of(_logits, head=f"Max |Δ {task.output}|")
    columns: tuple[Fact[MatrixEntry], ...] = (
        *place_columns(names),
        Fact("Same graph, unfused", lambda entry: entry.quantised and entry.quantised.unfused),
        *(
            figure.of(part, head=f"{figure.head}, {name}")
            for figure in (churn, greatest)
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
    turned, far = "Flips" if task.class_scores else "Changed", f"Max |Δ {task.output}|"
    why = attrgetter("reason")
    batch: tuple[Fact[BatchCheck], ...] = (
        Fact("Images", lambda each: _checked(each, f"{each.images} of {each.batch}"), "count",
               note=why),
        Fact(far, lambda each: each.max_abs, "value", note=why),
        Fact(turned, lambda each: _checked(each, each.flips), "count", note=why, alarm=True),
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


def _checked(check: BatchCheck, value: int | str) -> int | str | None:
    return None if check.max_abs is None else value


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
    columns: tuple[Fact[Cell], ...] = (
        *(each for each in place_columns(names) if each.head != "Evaluated with"),
        Fact("Seed", lambda cell: cell.seed, "ordinal"),
        *of_part(engine, attrgetter("engine")),
    )
    caption = (
        "Engines built here and not run, for a machine with an NVIDIA GPU. The types of layers are "
        "known, predictions are not; no rule passes on them"
    )
    return Table.made(caption, columns, rows.values()) if rows else None
