"""Models, entries and engines in words: how many were measured, how far their outputs move."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.place import first_of
from alignkit.record import Cell, MatrixEntry, RunRecord
from alignkit.record.cell_facts import EngineFacts
from alignkit.task_facts import TaskFacts
from alignkit.text.names import Names
from alignkit.text.numbers import count, grouped, megabytes, percent, significant
from alignkit.text.task_words import TaskWords


def measured_part(cells: Sequence[Cell]) -> str:
    """Return ``1 of 4 models could be measured`` if the others failed; else empty.

    A model is measured if its aligned cell ran, and one that is compared with it. Cells that cannot
    run on this machine are no failure.
    """
    models: dict[tuple[str, int], list[Cell]] = {}
    for cell in cells:
        models.setdefault((cell.trained_with, cell.seed), []).append(cell)
    failed = sum(map(_failed, models.values()))
    if not failed:
        return ""
    measured = len(models) - failed
    return f"{measured or 'None'} of {len(models)} models could be measured"


def of_first_models(record: RunRecord, path: str, names: Names) -> str:
    """Name the first of several models that were trained with a path, ``, opencv (model a)``.

    Shares and kinds of images are of it. Empty if there is only one.
    """
    rows = [each.row for each in record.matrix]
    first = first_of(rows, path)
    several = any(row.is_only(path) and row != first for row in rows)
    return f", {names.short(str(first))}" if several else ""


def effect_words(entry: MatrixEntry, words: TaskWords) -> str:
    """Say which answers and logits of images without labels move in an entry."""
    drift = entry.drift
    assert drift is not None
    assert drift.changed is not None
    # without a change of class, the images that moved most keep theirs
    shown = drift.moved[:1] if drift.changed else ()
    first = "".join(f", e.g. {each.before} → {each.after}" for each in shown)
    share = words.changed_share(percent(entry.churn, 2))
    told = f"{share} change ({grouped(drift.changed)} of {grouped(drift.compared)}{first})"
    if drift.margins and drift.margins.halved:
        told += f", and {grouped(drift.margins.halved)} more lose half of their margin"
    moved = logits_moved([entry], words.task)
    return f"{told}; {moved}" if moved else told


def logits_moved(entries: Sequence[MatrixEntry], task: TaskFacts) -> str:
    """Say how far outputs move in the entry with the greatest difference; empty without any."""
    distances = [entry.drift.logits for entry in entries if entry.drift]
    known = [each for each in distances if each.max_abs is not None]
    if not known:
        return ""
    most = max(known, key=lambda each: each.max_abs or 0.0)
    if not most.max_abs:
        return f"no {task.output} differs"
    mean, p99 = most.mean_abs or 0.0, most.p99 or 0.0
    return (
        f"{task.outputs} move by {significant(mean)} on average, 99 % of them by at most "
        f"{significant(p99)}, and {significant(most.max_abs)} at most"
    )


def _failed(cells: Sequence[Cell]) -> bool:
    compared = [each for each in cells if not each.aligned]
    measured = all(each.ran for each in cells if each.aligned)
    measured &= not compared or any(each.ran for each in compared)
    return not measured and any(each.state == "failed" for each in cells)


def type_words(engine: EngineFacts) -> str:
    """Name the types that layers compute on, the most frequent first: ``float16, float32``."""
    totals = {kind: sum(names.values()) for kind, names in engine.layers.items()}
    return ", ".join(sorted(totals, key=lambda kind: (-totals[kind], kind)))


def layer_words(engine: EngineFacts) -> str:
    """Count the layers by type and kind: ``float16: 4 correlation, 4 maxpool; 2 only copy``."""
    kinds = [
        f"{kind}: {', '.join(f'{number} {name}' for name, number in names.items())}"
        for kind, names in engine.layers.items()
    ]
    return "; ".join([*kinds, f"{engine.moving} only copy or convert"])


def engine_words(engines: Sequence[EngineFacts]) -> str:
    """Describe the first engine of an entry's seeds, and name all by their hashes."""
    if not engines:
        return ""
    hashes = ", ".join(each.sha256[:12] for each in engines)
    first = engines[0]
    several = f"{count(len(engines), 'engine')}, first: " if len(engines) > 1 else ""
    return f"{several}{layer_words(first)}; {megabytes(first.size)}; SHA-256 {hashes}"
