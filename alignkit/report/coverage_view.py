"""How the decodes ended: compared before any pixel is."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record import Coverage, CoverageDiff, NotDecoded
from alignkit.report.table import RowCells, Table, alarm, number_columns, text_columns
from alignkit.text.names import Names
from alignkit.text.numbers import DASH, count, grouped


def coverage_tables(
    coverage: Sequence[Coverage], diffs: Sequence[CoverageDiff], names: Names
) -> tuple[Table, ...]:
    """How the decodes ended, and each image that did not decode cleanly."""
    rows = tuple(_coverage_row(each, names) for each in coverage)
    columns = (
        *text_columns("Path", "Split"),
        *number_columns("Decoded", "Corrupt", "Failed", "Unsupported"),
    )
    tables = [Table.of("How the decodes ended, in images", columns, rows)]
    bad = tuple(_bad_row(image, each, names) for each in coverage for image in each.examples)
    if bad:
        headers = text_columns("Image", "Path", "Split", "Outcome", "Reason")
        tables.append(Table.of("Images that a path did not decode cleanly", headers, bad))
    if diffs:
        tables.append(_differences(diffs, names))
    return tuple(tables)


def _coverage_row(each: Coverage, names: Names) -> RowCells:
    bad = (each.corrupt, each.failed, each.unsupported)
    return (
        names.short(each.preprocess),
        each.split,
        grouped(each.ok),
        *(alarm(number) for number in bad),
    )


def _differences(diffs: Sequence[CoverageDiff], names: Names) -> Table:
    rows: list[RowCells] = [
        (
            f"{names.short(each.reference)} and {names.short(each.candidate)}",
            grouped(each.images),
            *(alarm(number) for number in (each.only_reference, each.only_candidate)),
            ", ".join(each.examples[:5]) or DASH,
        )
        for each in diffs
    ]
    columns = (
        *text_columns("First and second"),
        *number_columns("Images", "Only first decodes", "Only second decodes"),
        *text_columns("Examples"),
    )
    return Table.of("Images that only one of two decodes", columns, rows)


def _bad_row(image: NotDecoded, each: Coverage, names: Names) -> RowCells:
    path = names.short(each.preprocess)
    return (*(image.id, path, each.split, image.outcome, image.reason),)


def coverage_words(coverage: Sequence[Coverage], names: Names) -> str:
    """One sentence: whether every path decoded everything."""
    bad = [each for each in coverage if each.corrupt or each.failed or each.unsupported]
    if not bad:
        return "Every path decoded every image cleanly."
    parts = [
        f"{names.short(each.preprocess)} ({each.split}): "
        + count(each.corrupt + each.failed + each.unsupported, "image")
        for each in bad
    ]
    return f"Not decoded cleanly: {'; '.join(parts)}."
