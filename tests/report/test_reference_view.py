"""The matrix against another cell of each row."""

import base64
import json
import zlib
from dataclasses import replace

import pytest

from alignkit.compare.statistics import holm
from alignkit.record import RowPair
from alignkit.report.reference_view import packed_references, reference_views
from alignkit.text.names import Names
from tests.report.records import estimate, quickstart

PAIR = (("torchpipe-gpu", "torch", "fp32"), ("pillow", "torch", "fp32"))


def small(*, pair=True):
    """Models trained with opencv, served with each path in one runtime."""
    record = quickstart()
    matrix = tuple(
        entry
        for entry in record.matrix
        if (entry.trained_with, entry.backend, entry.precision) == ("opencv", "torch", "fp32")
    )
    made = RowPair(
        trained_with="opencv",
        reference=PAIR[0],
        candidate=PAIR[1],
        n=3000,
        metrics=dict.fromkeys(
            ("recall.macro", "precision.macro", "top1"), estimate(-0.02, 90, 3000)
        ),
        churn=estimate(0.05, 150, 3000),
        right_to_wrong=75,
        wrong_to_right=15,
        wrong_to_wrong=60,
        detectable=0.01,
        p_values={"recall.macro": 0.03, "top1": 0.03},
    )
    return record.model_copy(update={"matrix": matrix, "row_pairs": (made,) if pair else ()})


def views(record):
    return {each.name: each for each in reference_views(record, Names(record.paths))}


def cells(view, metric="recall"):
    (found,) = (each for each in view.matrices if each.id == metric)
    return found.rows[0].cells


def test_the_cell_itself_shows_its_value_and_the_aligned_one_turns_round():
    record = small()
    against = views(record)["torchpipe-gpu/torch/fp32"]
    aligned, itself, other = cells(against)
    drift = record.matrix[1].drift
    assert itself.kind == "aligned"
    for measure, metric in zip(aligned.measures, ("recall.macro", "precision.macro"), strict=True):
        assert measure.main == f"{-100 * drift.metrics[metric].value:+.2f}".replace("-", "−")
    assert [each.main for each in other.measures] == ["−2.00", "−2.00"]
    aligned, _, other = cells(against, "churn")
    assert (aligned.lost, aligned.gained) == (
        str(drift.wrong_to_right),
        str(drift.right_to_wrong),
    )
    assert (other.lost, other.gained) == ("75", "15")


def test_a_turned_interval_lies_the_other_way():
    record = small()
    forth = cells(views(record)["torchpipe-gpu/torch/fp32"])[2].measures[0]
    back = cells(views(record)["pillow/torch/fp32"])[1].measures[0]
    ends = forth.interval.translate(str.maketrans("+−", "−+")).strip("[]").split(", ")
    assert back.interval == f"[{ends[1]}, {ends[0]}]"
    assert (forth.symbol, back.main) == ("▼", "+2.00")


def test_what_was_not_computed_is_not_offered():
    assert views(small(pair=False)) == {}


def test_aligned_column_of_every_row_is_not_offered_twice():
    assert "opencv/torch/fp32" not in views(small())


def test_significance_is_corrected_for_the_comparisons_shown():
    record = small()
    old = replace(record.matrix[1].drift, p_values={"recall.macro": 0.04})
    entry = record.matrix[1].model_copy(update={"drift": old})
    changed = record.model_copy(update={"matrix": (record.matrix[0], entry, record.matrix[2])})
    assert max(holm([0.04, 0.03])) > 0.05
    against = views(changed)["torchpipe-gpu/torch/fp32"]
    assert cells(against)[2].measures[0].symbol == "▽"
    assert "None of 2\xa0changes of macro recall" in against.matrices[0].significant


def test_gate_marks_stay_with_the_aligned_reference():
    record = quickstart()
    assert record.verdict.rules
    for view in views(small()).values():
        assert not any(cell.reasons for each in view.matrices for cell in each.rows[0].cells)


def test_page_carries_the_rendered_panels(rendered):
    record = small()
    folder = rendered(record)
    data = packed_references(record, Names(record.paths))
    assert f'<template id="references">{data}</template>' in (folder / "index.html").read_text()
    content = json.loads(zlib.decompress(base64.b64decode(data)))
    assert [each["name"] for each in content] == [*views(record)]
    assert "<small>reference</small>" in content[0]["panels"]["recall"]


@pytest.mark.parametrize("pair", [True, False])
def test_an_old_record_has_no_switch(rendered, pair):
    folder = rendered(small(pair=pair))
    assert ('id="references"' in (folder / "index.html").read_text()) == pair
