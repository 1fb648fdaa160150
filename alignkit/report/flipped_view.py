"""What flipped images have in common: kinds of images that flip more, or less, than the others."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record import FlippedFacts, RunRecord, Subgroup
from alignkit.report.table import RowCells, Shown, Table, number_columns, text_columns
from alignkit.text.names import Names, PathName
from alignkit.text.numbers import count, estimated, p_value, percent

SHOWN = 24
"""Kinds a table shows, besides those that are significant."""


@dataclass(frozen=True, slots=True)
class FlippedSection:
    """The kinds of images between two paths."""

    reference: PathName
    candidate: PathName
    runtime: str
    words: str
    sentences: tuple[str, ...]
    table: Table | None
    omitted: str


def flipped_sections(record: RunRecord, names: Names) -> tuple[FlippedSection, ...]:
    """A section for each path that served the models, in the record's order."""
    return tuple(
        FlippedSection(
            reference=names.of(each.reference),
            candidate=names.of(each.candidate),
            runtime=f"{each.backend} {each.precision}",
            words=_words(each),
            sentences=flipped_sentences(each),
            table=_table(each),
            omitted=_omitted(each),
        )
        for each in record.flipped
    )


def flipped_sentences(each: FlippedFacts) -> tuple[str, ...]:
    """What is significant, or that nothing is."""
    said = tuple(kind.sentence for kind in each.subgroups if kind.sentence)
    if said or each.reason:
        return said
    return ("No kind of image changes more or less often than the others beyond chance.",)


def _words(each: FlippedFacts) -> str:
    flipped = f"The prediction of {each.flipped} of {count(each.images, 'image')} changes"
    seeds = " with at least one seed" if each.seeds > 1 else ""
    if each.reason:
        return f"{flipped}{seeds}: {each.reason}."
    return f"{flipped}{seeds}; {count(len(each.subgroups), 'kind')} compared."


def _shown(each: FlippedFacts) -> list[Subgroup]:
    told = [kind for kind in each.subgroups if kind.sentence]
    others = [kind for kind in each.subgroups if not kind.sentence]
    return [*told, *others[:SHOWN]]


def _omitted(each: FlippedFacts) -> str:
    left = len(each.subgroups) - len(_shown(each))
    return f"{count(left, 'more kind')}, not significant, in record.json." if left else ""


def _table(each: FlippedFacts) -> Table | None:
    if not each.subgroups:
        return None
    return Table.of(
        "Churn of each kind of image against all others; p: Fisher’s exact test, after Holm",
        (
            *text_columns("What", "Kind"),
            *number_columns("Images", "Churn", "Elsewhere", "Difference, pp", "p"),
        ),
        tuple(map(_row, _shown(each))),
    )


def _row(kind: Subgroup) -> RowCells:
    return (
        kind.dimension,
        Shown(kind.kind, tag="significant" if kind.sentence else ""),
        str(kind.images),
        percent(kind.churn),
        percent(kind.elsewhere),
        estimated(kind.difference, 1),
        p_value(kind.p_adjusted),
    )
