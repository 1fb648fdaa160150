"""The matrix as a page shows it: colour, shared columns, reasons, overview."""

import re
from dataclasses import replace

import pytest

from alignkit.record import Estimate
from alignkit.record.verdict_facts import RuleLimits, Waived
from alignkit.report.matrix_view import matrix_cell, matrix_views
from alignkit.report.table import Notes
from alignkit.text.names import Names
from tests.report.records import RUNTIMES
from tests.report.wide_matrix import known, wide

TORCH = tuple(each for each in RUNTIMES if each[0] == "torch")


def view(record, metric="recall"):
    (found,) = (
        each for each in matrix_views(record, Names(record.paths)) if each.panel.id == metric
    )
    return found


def shown(record):
    """Columns of the matrix, as ``path runtime``."""
    return [f"{head.path.name} {head.runtime}" for head in view(record).heads]


def changed(record, place, **fields):
    """The record with another entry at ``trained, served, backend, precision``."""
    matrix = tuple(
        each.model_copy(update=fields) if each.place.names == place else each
        for each in record.matrix
    )
    assert matrix != record.matrix
    return record.model_copy(update={"matrix": matrix})


def cell_of(estimate, churn=0.05, precision=None, outcomes=(), floors=None):
    """The first matrix's cell of an entry with this change of recall."""
    entry = next(each for each in known().matrix if each.drift)
    metrics = {"recall.macro": estimate, "precision.macro": precision or estimate}
    share = Estimate(churn, max(0.0, churn - 0.01), churn + 0.01)
    drift = replace(entry.drift, metrics=metrics, churn=share, holm={"recall.macro": 0.2})
    entry = entry.model_copy(update={"drift": drift})
    return matrix_cell(entry, tuple(metrics), outcomes, floors or {}, Notes())


def one_line(cell):
    return "; ".join(text for _, text in cell.reasons).replace("\N{NO-BREAK SPACE}", " ")


def outcome(metric, state, value, unit="share", waived=None, **limits):
    signed = unit == "points"
    decides = next(limits[name] for name in ("warn", "fail", "margin") if name in limits)
    rule = known().verdict.rules[0]
    return rule.model_copy(
        update={
            "metric": metric, "state": state, "value": Estimate(value, value, value),
            "limits": RuleLimits(unit, signed=signed, decides=decides, **limits), "waived": waived,
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("low", "high", "filled"),
    [(-0.05, -0.01, True), (0.001, 0.05, True), (-0.05, 0.01, False), (-0.05, 0.0, False)],
)
def test_a_cell_is_filled_only_where_the_interval_excludes_zero(low, high, filled):
    recall, precision = cell_of(Estimate((low + high) / 2, low, high)).measures
    assert recall.clear == precision.clear == filled
    assert recall.tone


def test_significance_after_correction_is_the_symbol_and_not_the_fill():
    recall, precision = cell_of(Estimate(-0.03, -0.05, -0.01)).measures
    assert (recall.clear, recall.sign) == (True, "▽")
    # it was not tested for precision, so that nothing is taken back
    assert (precision.clear, precision.sign) == (True, "▼")


def test_recall_and_precision_are_in_one_cell_by_their_names():
    cell = cell_of(Estimate(-0.03, -0.05, -0.01), precision=Estimate(0.0, -0.01, 0.01))
    assert [(each.name, each.sign) for each in cell.measures] == [
        ("recall", "▽"), ("precision", "○"),
    ]  # fmt: skip
    assert [each.panel.id for each in matrix_views(known(), Names(()))] == [
        "recall", "top1", "churn",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (outcome("churn", "fail", 0.06567, fail=0.02), "churn 6.57 % > 2 %"),
        (outcome("churn", "warn", 0.06567, warn=0.01, fail=0.09), "churn 6.57 % > 1 %"),
        (outcome("recall.macro", "fail", -0.03, "points", margin=0.01), "recall outside ±1 pp"),
        (outcome("recall.macro", "inconclusive", -0.03, "points", margin=0.01),
         "recall: too few images for ±1 pp"),
        (outcome("recall.macro", "fail", -0.03, "points", fail=0.01, direction="drop"),
         "recall −3.00 pp < −1 pp"),
        (outcome("recall.macro", "fail", 0.14, "points", margin=0.01),
         "recall better, but outside ±1 pp"),
        (outcome("logits.cosine", "fail", 0.9, "", fail=0.99, worse="below"),
         "logits.cosine 0.9 < 0.99"),
        # a value that reads like its limit has the digits by which it was judged
        (outcome("churn", "fail", 0.02003, fail=0.02), "churn 2.003 % > 2 %"),
    ],
)  # fmt: skip
def test_a_cell_says_by_how_much_it_fails(rule, text):
    assert one_line(cell_of(Estimate(-0.03, -0.05, -0.01), outcomes=[rule])) == text


def test_the_worst_reason_is_the_first_and_a_rule_that_passes_is_none():
    rules = [
        outcome("top1", "inconclusive", 0.0, "points", margin=0.01),
        outcome("precision.macro", "pass", 0.0, "points", margin=0.01),
        outcome("churn", "fail", 0.05, fail=0.02, waived=Waived("2027-01-01", "known")),
    ]
    cell = cell_of(Estimate(0.0, -0.01, 0.01), outcomes=rules)
    assert [state for state, _ in cell.reasons] == ["fail", "inconclusive"]
    assert one_line(cell).endswith("> 2 %, waived; top-1: too few images for ±1 pp")


def test_churn_is_never_called_noise(rendered):
    record = wide(paths=2, runtimes=TORCH, spread=0.0001)
    (_, floor, cells), *_ = view(record, "churn").rows
    assert floor == "retraining changes 10.0\N{NO-BREAK SPACE}% of predictions"
    assert "less than retraining changes" in [line for cell in cells for line in cell.lines]
    page = (rendered(record) / "index.html").read_text()
    section = re.search(r'<section id="matrix".*?</section>', page, re.DOTALL)[0]
    assert "noise" not in section


def test_a_change_of_recall_smaller_than_another_seed_makes_says_so_where_it_is_clear():
    floors = {"recall.macro": 0.04, "precision.macro": 0.01}
    small = ("recall: less than retraining changes",)
    assert cell_of(Estimate(-0.03, -0.05, -0.01), floors=floors).lines == small
    assert cell_of(Estimate(-0.03, -0.07, 0.01), floors=floors).lines == ()


def test_runtimes_that_read_the_same_share_a_column_that_names_them():
    record = wide(paths=3)
    assert shown(record) == [f"path-{number} torch fp32" for number in range(3)]
    heads = [head for head in view(record).heads if head.equal]
    assert [head.equal for head in heads] == [
        "torch bf16, onnxruntime fp32 and onnxruntime fp16"
    ] * 3


def test_runtimes_that_differ_in_a_digit_that_is_shown_keep_their_columns():
    assert len(shown(wide(paths=3, spread=0.0001))) == 12


@pytest.mark.parametrize(
    "fields",
    [
        {"state": "skipped", "reason": "no GPU", "drift": None},
        {"state": "simulated", "simulation": "rounded"},
        {"warning": "holds on this machine alone"},
        {"non_finite": 1},
    ],
    ids=lambda fields: next(iter(fields)) + str(fields.get("state", "")),
)
def test_a_runtime_that_did_not_simply_run_keeps_its_column(fields):
    record = wide(paths=2)
    other = changed(record, ("path-0", "path-1", "onnxruntime", "fp16"), **fields)
    assert set(shown(other)) - set(shown(record)) == {"path-1 onnxruntime fp16"}


def test_a_runtime_with_another_outcome_of_a_rule_keeps_its_column():
    record = wide(paths=2)
    rules = [
        each.model_copy(update={"state": "pass"}) if each.precision == "bf16" else each
        for each in record.verdict.rules
    ]
    verdict = record.verdict.model_copy(update={"rules": tuple(rules)})
    other = record.model_copy(update={"verdict": verdict})
    assert set(shown(other)) - set(shown(record)) == {"path-0 torch bf16", "path-1 torch bf16"}


def test_a_runtime_whose_change_is_clearer_of_zero_keeps_its_column():
    record = wide(paths=2)
    entry = next(e for e in record.matrix if e.place.names == ("path-0", "path-1", "torch", "bf16"))
    assert entry.drift
    metrics = {**entry.drift.metrics, "recall.macro": Estimate(
        entry.drift.metrics["recall.macro"].value, -0.5, 0.5)}  # fmt: skip
    other = changed(record, entry.place.names, drift=replace(entry.drift, metrics=metrics))
    assert set(shown(other)) - set(shown(record)) == {"path-1 torch bf16"}


def test_a_runtime_whose_outcome_is_waived_keeps_its_column():
    record = wide(paths=2)
    known = Waived("2030-01-01", "known")
    rules = [
        each.model_copy(
            update={"state": "warn", "waived": known if each.precision == "bf16" else None}
        )
        for each in record.verdict.rules
        if (each.trained_with, each.evaluated_with) == ("path-0", "path-1")
    ]
    verdict = record.verdict.model_copy(update={"rules": tuple(rules)})
    other = record.model_copy(update={"verdict": verdict})
    assert [each for each in shown(other) if "path-1" in each] == [
        "path-1 torch fp32",
        "path-1 torch bf16",
    ]


def test_the_reference_of_a_row_keeps_its_column():
    record = wide(paths=2)
    assert {each.split(" ", 1)[1] for each in shown(record)} == {"torch fp32"}
    own = ("path-1", "path-1", "onnxruntime", "fp32")
    other = changed(record, own, drift=None, aligned=True)
    assert "path-1 onnxruntime fp32" in shown(other)


def test_every_runtime_is_in_the_table_of_all_comparisons(rendered):
    record = wide(paths=3)
    page = (rendered(record) / "index.html").read_text()
    table = re.search(r'<table class="matrix">.*?</table>', page, re.DOTALL)[0]
    assert table.count("<td") == 9
    assert table.count("equal: torch bf16, onnxruntime fp32 and onnxruntime fp16") == 3
    rows = re.findall(r'<tr id="entry-(\d+)">', page)
    assert rows == [str(index) for index in range(len(record.matrix))]


def test_the_overview_has_a_square_for_each_cell_that_leads_to_it(rendered):
    record = wide(paths=5, spread=0.004)
    page = (rendered(record) / "index.html").read_text()
    squares = re.findall(r'<table class="overview">.*?</table>', page, re.DOTALL)
    assert len(squares) == 3
    links = re.findall(r'<a href="#([^"]*)"', squares[0])
    assert links == [f"recall-{index}" for index in range(100)]
    assert all(f'<td id="{link}"' in page for link in links)


@pytest.mark.parametrize(
    ("paths", "spread", "overview"),
    [(5, 0.004, True), (5, 0.0, False), (9, 0.0, True)],
)
def test_an_overview_is_for_matrices_of_many_columns(paths, spread, overview):
    assert view(wide(paths=paths, spread=spread)).overview is overview


def test_images_without_labels_have_churn_alone():
    record = wide(paths=2)
    blank = record.model_copy(update={"data": record.data.model_copy(update={"classes": ()})})
    assert [each.panel.id for each in matrix_views(blank, Names(()))] == ["churn"]
    assert shown(record) == [
        f"{head.path.name} {head.runtime}" for head in view(blank, "churn").heads
    ]
