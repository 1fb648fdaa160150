"""Published figures beside measured ones: rows, differences and how they are read."""

from dataclasses import replace

import pytest

from alignkit.experiment.report_option import Published
from alignkit.findings.published import published_facts, read_claim, unmeasured
from alignkit.record import Estimate, NoiseFloor, SizeCurve, SizePoint
from alignkit.text.names import Names
from tests.report.records import quickstart


def around(value, half):
    return Estimate(value=value, low=value - half, high=value + half)


def read(published, measured, floor=0.001, **options):
    return read_claim(
        "a instead of b", "recall.macro", published, measured, floor, **options
    ).reading


def test_a_difference_holds_where_its_direction_is_clear_and_beyond_another_seed():
    assert read(0.02, around(0.01, 0.005)) == "holds here"
    assert read(-0.02, around(0.01, 0.005)) == "does not hold here"
    assert read(0.0, around(0.01, 0.005)) == "does not hold here"


def test_what_another_seed_does_too_is_inside_the_noise_floor():
    assert read(0.02, around(0.01, 0.005), floor=0.02) == "inside the noise floor"
    assert read(0.02, around(0.01, 0.005), floor=None) == "holds here"


def test_an_interval_that_holds_zero_decides_nothing():
    assert read(0.02, around(0.01, 0.02)) == "undecided"


def test_nothing_changed_is_what_a_published_zero_says():
    assert read(0.0, around(0.0, 0.0)) == "holds here"
    assert read(0.02, around(0.0, 0.0), floor=None) == "does not hold here"


def test_what_was_not_measured_is_not_read():
    claim = read_claim("a", "top1", 0.02, unmeasured("the cell failed"), 0.1)
    assert (claim.reading, claim.why) == ("not measured", "the cell failed")


def row(inference, evaluated, metrics, **options):
    return {"training": options.pop("training", "all"), "inference": inference,
            "trained_with": "opencv", "evaluated_with": evaluated, "metrics": metrics} | options  # fmt: skip


def facts(*rows, matrix=None, floors=None, curves=()):
    record = quickstart()
    return published_facts(
        Published(source="them", label="theirs", rows=rows),
        matrix=record.matrix if matrix is None else matrix,
        floors=record.noise_floor if floors is None else floors,
        curves=curves,
        names=Names(()),
    )


def test_each_row_stands_beside_its_entry_and_is_read_against_the_row_served_as_trained():
    found = facts(
        row("cpu", "opencv", {"recall.macro": 0.9, "top1": 0.8}),
        row("gpu", "pillow", {"recall.macro": 0.87}),
        row("fp16", "opencv", {"recall.macro": 0.9}, backend="onnxruntime", precision="fp16"),
    )
    matrix = {(e.trained_with, e.evaluated_with, e.backend, e.precision): e
              for e in quickstart().matrix}  # fmt: skip
    places = [("opencv", "torch", "fp32"), ("pillow", "torch", "fp32"),
              ("opencv", "onnxruntime", "fp16")]  # fmt: skip
    entries = [matrix["opencv", *place] for place in places]
    for shown, entry in zip(found.rows, entries, strict=True):
        here = shown.here
        assert (here.place, here.state, here.reason) == (entry.place, "measured", "")
        assert here.metrics["recall.macro"] == entry.metrics["recall.macro"]
    assert found.rows[0].published == {"recall.macro": 0.9, "top1": 0.8}
    assert [claim.published for claim in found.claims] == pytest.approx([-0.03, 0.0])
    assert [claim.here for claim in found.claims] == [
        entry.drift.metrics["recall.macro"] for entry in entries[1:]
    ]
    assert found.claims[0].words == "all: gpu instead of cpu"


def test_rows_that_this_run_did_not_train_are_not_measured_with_the_reason():
    found = facts(row("cpu", "opencv", {"top1": 0.8}, fraction=0.05),
                  row("gpu", "pillow", {"top1": 0.7}, fraction=0.05))  # fmt: skip
    assert [each.here.metrics for each in found.rows] == [{"top1": None}] * 2
    assert {(each.here.state, each.here.reason) for each in found.rows} == {
        ("absent", "not part of this run")
    }
    assert found.claims[0].reading == "not measured"


def test_a_cell_that_did_not_run_says_why():
    entry = next(e for e in quickstart().matrix if e.state == "skipped")
    found = published_facts(
        Published(source="a", label="b", rows=(
            {**row("own", entry.trained_with, {"top1": 0.9}), "trained_with": entry.trained_with},
            {**row("bf16", entry.evaluated_with, {"top1": 0.9}, backend="torch", precision="bf16"),
             "trained_with": entry.trained_with},
        )),
        matrix=quickstart().matrix, floors=(), curves=(), names=Names(()),
    )  # fmt: skip
    assert found.rows[1].here.reason == f"skipped: {entry.reason}"
    assert found.rows[1].here.state == "skipped"
    assert found.claims[0].why == f"skipped: {entry.reason}"


def shares(few, full):
    """A matrix whose opencv models were trained on two shares, and the curve of it."""
    record = quickstart()
    matrix = []
    for fraction, name, value in ((1.0, "opencv", full), (0.05, "opencv (5 %)", few)):
        for entry in record.matrix:
            if entry.trained_with == "opencv" and (entry.backend, entry.precision) == (
                "torch",
                "fp32",
            ):
                drift = entry.drift and replace(
                    entry.drift, metrics={"recall.macro": around(value, 0.001)}
                )
                matrix.append(entry.model_copy(update={
                    "trained_with": name, "fraction": fraction, "drift": drift}))  # fmt: skip
    points = tuple(SizePoint(fraction=fraction, images=10, seeds=3, drift=around(value, 0.001))
                   for fraction, value in ((0.05, few), (1.0, full)))  # fmt: skip
    curve = SizeCurve(metric="recall.macro", trained_with="opencv", evaluated_with="pillow",
                      backend="torch", precision="fp32", points=points,
                      change=around(few - full, 0.002))  # fmt: skip
    return matrix, curve


@pytest.mark.parametrize(
    ("few", "reading"), [(0.03, "holds here"), (0.002, "does not hold here"), (-0.03, "holds here")]
)
def test_amplification_is_read_by_the_size_of_the_change(few, reading):
    matrix, curve = shares(few, 0.01)
    rows = [
        row(inference, path, {"recall.macro": value}, training=training, fraction=fraction)
        for training, fraction, values in (("all", 1.0, (0.9, 0.903)), ("few", 0.05, (0.8, 0.826)))
        for inference, path, value in zip(("cpu", "gpu"), ("opencv", "pillow"), values, strict=True)
    ]
    floors = [NoiseFloor(preprocess=name, seeds=(0, 1), metrics={"recall.macro": 0.001}, churn=0.0)
              for name in ("opencv", "opencv (5 %)")]  # fmt: skip
    claim = facts(*rows, matrix=matrix, floors=floors, curves=(curve,)).claims[-1]
    assert claim.words == "gpu instead of cpu: its effect after few, less after all"
    assert claim.published == pytest.approx(0.023)
    assert (claim.here, claim.reading) == (curve.change, reading)
