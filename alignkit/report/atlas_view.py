"""Atlas of a run: what is lost if one stack or runtime is swapped for another, a line each.

Predictions of the same weights are compared, so a swap needs no training. Against the stack that
the weights were trained for, a line also has the levels of each stage and the cause; of two other
stacks it says how their predictions differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from alignkit.compare.statistics import rule_of_three
from alignkit.errors import RecordError
from alignkit.place import Column, Row
from alignkit.preprocess.presets import PRESETS
from alignkit.record import (
    CellPair,
    MatrixEntry,
    PathFacts,
    PixelStage,
    RunRecord,
)
from alignkit.report.entries_view import counted
from alignkit.report.matrix_view import interval_words, significance
from alignkit.report.reference_view import Changes, changes_of
from alignkit.report.run_view import environment_tables
from alignkit.report.summary_view import Section
from alignkit.report.table import ZERO, Header, Notes, RowCells, Shown, Table, numbers
from alignkit.text.names import Names, quick_words, why_not
from alignkit.text.numbers import DASH, count, estimated, plain, points, shorten, unsigned
from alignkit.text.stage_changes import stage_change
from alignkit.text.task_words import TaskWords

SHOWN_STAGES = ("decode", "resize", "colour")
"""Stages after which a swap's levels are shown; ``colour`` is the last that has levels."""
_NOTE = 160
"""Characters of a note on the data; the run's own page has all of it."""
_NO_LEVELS = (ZERO, ZERO, ZERO)
_SHAPE = "the two stacks give images of other shapes here"
_NOT_COMPARED = "the run compared pixels with its first stack alone; alignkit diff compares any two"
_SAME_PIXELS = "the pixels are the same, so the runtime is the cause"


def atlas_view(record: RunRecord) -> dict[str, Any]:
    """Return everything that the templates read."""
    aligned = [each for each in record.matrix if each.aligned and each.ran]
    if not aligned:
        raise RecordError("an atlas needs a row whose own stack was measured; this run has none")
    names = Names(record.paths)
    drifts = [each.drift for each in record.matrix if each.ran and each.drift]
    detectable = [each.detectable for each in drifts if each.detectable]
    images = max(
        # an entry joins its seeds
        (
            each.drift.n // max(len(each.seeds), 1)
            for each in record.matrix
            if each.ran and each.drift
        ),
        default=record.data.eval,
    )
    models = dict.fromkeys(each.row.model or "trained here" for each in aligned)
    rows = len({each.row for each in aligned})
    return {
        "alignkit": record.alignkit,
        "question": f"{quick_words(record.quick)} {record.question}".strip(),
        "started": record.started.replace("T", " ").partition(".")[0].partition("+")[0],
        "models": ", ".join(models),
        "models_counted": "One model" if rows == 1 else count(rows, "model"),
        "images": count(images, "image"),
        "classes": count(len(record.data.classes), "class", "classes"),
        "processor": record.environment.cpu,
        "resolution": unsigned(min(detectable), max(detectable)) if detectable else "",
        "intervals": interval_words(record),
        # a bootstrap of no change gives an interval of no width
        "unseen": plain(100 * min(1.0, rule_of_three(max(1, images - len(record.data.copies)))), 2),
        "notes": [*(shorten(each, _NOTE) for each in record.data.notes), *_unused(record, aligned)],
        "references": [_reference(each, names) for each in aligned],
        "sections": [*_sections(record, aligned, names)],
        "environment": environment_tables(record),
        "command": record.command,
        "yaml": record.yaml,
    }


def _unused(record: RunRecord, aligned: Sequence[MatrixEntry]) -> list[str]:
    """Explain the training images of a run that trains nothing."""
    if not record.data.train or not all(each.row.model for each in aligned):
        return []
    images = count(record.data.train, "training image")
    return [f"nothing is trained; the {images} are there for the scales of int8"]


def _reference(entry: MatrixEntry, names: Names) -> str:
    path, top1 = names.of(entry.evaluated_with), entry.metrics.get("top1")
    note = f" ({path.evidence})" if path.note else ""
    share = "" if top1 is None else f", top-1 {plain(100 * top1, 2)} %"
    return f"{path.name}{note}, {entry.column.runtime}{share}"


def _sections(record: RunRecord, aligned: Sequence[MatrixEntry], names: Names) -> Iterator[Section]:
    changes = changes_of(record)
    for own in aligned:
        of = f", models of {own.row}" if len(aligned) > 1 else ""
        entries = [each for each in record.matrix if each.row == own.row and each is not own]
        ran = [each for each in entries if each.ran and each.drift and _is_one_swap(each, own)]
        ran.sort(key=lambda each: (-each.churn, str(each.column)))
        tested = significance(ran, TaskWords(record.task), "top1")
        words = tested and f"* {tested}"
        yield Section(f"Instead of {names.short(own.evaluated_with)}{of}", words,
                      _swaps(record, own, ran, names))  # fmt: skip
        paths, left = exchanged(record, own)
        if len(paths) > 2:
            title = f"Any stack for any other{of}"
            others = ", ".join(map(names.short, left))
            words = (
                f"{_PAIRS} Left out, because no preset is called so: {others}." if left else _PAIRS
            )
            yield Section(title, words, _matrix(own, paths, changes, names))
            listed = _listed(record, own, paths, changes, names)
            yield Section(f"{title}, with intervals, most churn first", "", listed)
        if missing := [each for each in entries if not each.ran]:
            rows = [(names.short(each.evaluated_with), each.column.runtime, why_not(each))
                    for each in missing]  # fmt: skip
            headers = ("Served with", "Runtime", "Reason")
            table = Table.of("Stacks and runtimes without a number", headers, rows)
            yield Section(f"Not measured here{of}", "", table)


def exchanged(record: RunRecord, own: MatrixEntry) -> tuple[list[str], list[str]]:
    """Return the stacks of which any is compared with any other, and those that are left out.

    They are the row's own and those named after a preset, or all if fewer than two are: an atlas
    of stacks may also serve paths that change one option of a stack.
    """
    served = [
        each
        for each in record.matrix
        if each.row == own.row and each.ran and each.drift and _is_one_swap(each, own)
        and each.column.runtime == own.column.runtime
    ]  # fmt: skip
    served.sort(key=lambda each: (-each.churn, str(each.column)), reverse=True)
    paths = [each.evaluated_with for each in served]
    presets = [path for path in paths if path in PRESETS]
    kept = presets if len(presets) > 1 else paths
    return [own.evaluated_with, *kept], [path for path in paths if path not in kept]


_PAIRS = (
    "Churn in %, then the change of top-1 in percentage points, of the same weights' predictions. "
    "Churn is the same in both directions, and the change of top-1 changes its sign."
)


def _is_one_swap(entry: MatrixEntry, own: MatrixEntry) -> bool:
    same = entry.column.runtime == own.column.runtime
    return same != (entry.evaluated_with == own.evaluated_with)


def _swaps(record: RunRecord, own: MatrixEntry, ran: Sequence[MatrixEntry], names: Names) -> Table:
    notes = Notes()
    rows = [_swap(record, own, entry, names, notes) for entry in ran]
    columns: list[Header | str] = ["Served with"]
    columns += numbers("Churn, %", "Δ top-1, pp", "Lost / gained", *("Decode", "Resize", "End"))
    columns += ["State", "Cause"]
    caption = (
        f"{names.short(own.evaluated_with)} replaced by …, most churn first; decode, resize and "
        "end: mean difference in grey levels after that stage, each stack on its own"
    )
    return Table.of(caption, columns, rows, notes=notes)


def _swap(
    record: RunRecord, own: MatrixEntry, entry: MatrixEntry, names: Names, notes: Notes
) -> RowCells:
    drift = entry.drift
    assert drift is not None
    runtime = entry.column.runtime if entry.evaluated_with == own.evaluated_with else ""
    return (
        runtime or names.short(entry.evaluated_with),
        *_numbers(drift, " *" if drift.is_significant("top1") else ""),
        *(_levels(_stages(record, own, entry, "cumulative"), notes) if not runtime else _NO_LEVELS),
        _state(entry, "" if runtime else names.of(entry.evaluated_with).note, notes),
        _cause(record, own, entry),
    )


def _state(entry: MatrixEntry, surrogate: str, notes: Notes) -> Shown:
    """Return ``measured``, or why the number is another's, with its evidence in a footnote."""
    if entry.simulation:
        return Shown(entry.state, mark=notes.mark(entry.simulation))
    return Shown("surrogate", mark=notes.mark(surrogate)) if surrogate else Shown(entry.state)


def _numbers(pair: CellPair, mark: str = "") -> tuple[str, str, str]:
    churn = estimated(pair.churn, 2, share=True).replace("\N{NO-BREAK SPACE}%", "")
    flips = f"{counted(pair.right_to_wrong)} / {counted(pair.wrong_to_right)}"
    return churn, estimated(pair.metrics["top1"]) + mark, flips


def _levels(found: dict[str, PixelStage], notes: Notes) -> list[Shown]:
    cells = []
    for name in SHOWN_STAGES:
        stage = found.get(name)
        reason = _SHAPE if stage and stage.shape_mismatches else _NOT_COMPARED
        mean = stage.mean_abs if stage and not stage.shape_mismatches else None
        cells.append(notes.distance(mean, lambda level: plain(level, 2), reason))
    return cells


def _cause(record: RunRecord, own: MatrixEntry, entry: MatrixEntry) -> str:
    """Return the options of each stage that changes pixels, as a gate states a cause."""
    if entry.evaluated_with == own.evaluated_with:
        same = _SAME_PIXELS if entry.churn else "the pixels are the same, and so is every class"
        return "; ".join([same, *_computed(record, entry)])
    changed = _changed(record, own.evaluated_with, entry.evaluated_with)
    stages = _stages(record, own, entry, "isolated")
    # options that differ and change no pixel are not a cause
    causes = {stage: options for stage, options in changed.items() if stage in stages}
    if causes:
        return _in_words(causes)
    if differing := [name for name, stage in stages.items() if _differs(stage)]:
        return f"{', '.join(differing)}: no option differs"
    end = _stages(record, own, entry, "cumulative").get(SHOWN_STAGES[-1])
    found = "not compared" if end is None or _differs(end) else "the pixels are the same"
    return f"{found}; options that differ: {_in_words(changed)}" if changed else found


def _differs(stage: PixelStage) -> bool:
    return bool(stage.max_abs or stage.shape_mismatches)


def _computed(record: RunRecord, entry: MatrixEntry) -> list[str]:
    """Say which kernels a runtime really computed with, and where its scales come from."""
    cell = next((each for each in record.cells if each.place == entry.place), None)
    facts = cell.effective.items() if cell else ()
    return [
        f"{name}: {fact}"
        for name, fact in facts
        if name.endswith(" kernels") or name in ("layers return", "calibration")
    ]


def _in_words(changed: dict[str, str]) -> str:
    return "; ".join(f"{stage}: {options}" for stage, options in changed.items())


def _stages(
    record: RunRecord, own: MatrixEntry, entry: MatrixEntry, mode: str
) -> dict[str, PixelStage]:
    pair = own.evaluated_with, entry.evaluated_with
    return {
        each.stage: each
        for each in record.pixels
        if (each.reference, each.candidate) == pair and each.mode == mode
    }


def _changed(record: RunRecord, reference: str, candidate: str) -> dict[str, str]:
    """Map each stage whose options differ to ``options → options``."""
    paths: dict[str, PathFacts] = {each.name: each for each in record.paths}
    one, other = paths[reference], paths[candidate]
    changes = {each.stage: stage_change(one, other, each.stage) for each in one.stages}
    return {stage: change for stage, change in changes.items() if change}


def _matrix(own: MatrixEntry, stacks: Sequence[str], changes: Changes, names: Names) -> Table:
    rows: list[RowCells] = []
    for place, row in enumerate(stacks, 1):
        pairs = (changes.get(_key(own, row, column)) for column in stacks)
        rows.append(
            (f"{place} {names.short(row)}", *(_both(pair) if pair else DASH for pair in pairs))
        )
    heads = [str(place) for place, _ in enumerate(stacks, 1)]
    caption = "Rows: the stack that is replaced; columns: its replacement"
    return Table.of(caption, ("Stack", *numbers(*heads)), rows)


def _key(own: MatrixEntry, *stacks: str) -> tuple[Row, Column, Column]:
    first, second = (replace(own.column, preprocess=stack) for stack in stacks)
    return own.row, first, second


def _both(pair: CellPair) -> str:
    top1 = pair.metrics["top1"].value
    churn = DASH if pair.churn.value is None else plain(100 * pair.churn.value, 2)
    return f"{churn} / {DASH if top1 is None else points(top1)}"


def _listed(
    record: RunRecord, own: MatrixEntry, stacks: Sequence[str], changes: Changes, names: Names
) -> Table:
    known = {pair: changes.get(_key(own, *pair)) for pair in combinations(stacks, 2)}
    found = [(*pair, change) for pair, change in known.items() if change]
    found.sort(key=lambda each: -(each[2].churn.value or 0))
    rows = [
        (names.short(a), names.short(b), *_numbers(pair), _in_words(_changed(record, a, b)))
        for a, b, pair in found
    ]
    columns = ("Stack", "Replaced by", *numbers("Churn, %", "Δ top-1, pp", "Lost / gained"))
    return Table.of("Every pair of stacks", (*columns, "Options that differ"), rows)
