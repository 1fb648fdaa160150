"""The few lines a terminal shows of a run."""

from dataclasses import replace
from pathlib import Path

import pytest

from alignkit.record import Control, CoverageDiff
from alignkit.report.run_view import coverage_words
from alignkit.report.terminal_view import summary
from alignkit.text.names import Names
from tests.judge.said import verdict_of
from tests.report.records import quickstart

PAGE = Path("reports/quickstart/5e1f/index.html")


@pytest.fixture(scope="module")
def record():
    return quickstart()


def entry_rows(told):
    lines = told.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("trained with"))
    return lines[head + 1 :]


def test_it_opens_with_the_verdict_and_ends_with_the_page(record):
    lines = summary(record, PAGE).splitlines()
    assert lines[0] == "quickstart: FAIL (report only)"
    assert lines[1:3] == [verdict_of(record).sentence, verdict_of(record).cause]
    assert lines[3].startswith(f"Do this: {verdict_of(record).actions[0].words}")
    assert lines[-1] == f"report  {PAGE}"


def test_it_has_thirty_lines_at_most_however_many_paths(record):
    copies = [
        entry.model_copy(update={"trained_with": f"{entry.trained_with}-{number}"})
        for entry in record.matrix
        for number in range(9)
    ]
    told = summary(record.model_copy(update={"matrix": tuple(copies)}), PAGE)
    assert len(told.splitlines()) <= 30
    assert "that moved less; see the report" in told


def test_each_pair_of_paths_has_one_row(record):
    pairs = {(each.trained_with, each.evaluated_with) for each in record.matrix if each.drift}
    rows = [line.split() for line in entry_rows(summary(record, PAGE).replace(" (surrogate)", ""))]
    rows = rows[: len(pairs)]
    assert {(row[0], row[1]) for row in rows} == pairs


def test_the_pair_that_moved_most_comes_first(record):
    churns = [entry.drift.churn.value for entry in record.matrix if entry.drift]
    told = entry_rows(summary(record, PAGE))[0]
    assert f"{100 * max(churns):.2f}\N{NO-BREAK SPACE}%" in told


def test_a_surrogate_is_called_so_below_the_rows(record):
    (path,) = [each for each in record.paths if each.surrogate_of]
    told = summary(record, PAGE).splitlines()
    assert f"{path.name}: surrogate of {path.surrogate_of}, not yet calibrated" in told
    # in the rows too: of many surrogates only some have a line
    rows = [line for line in told[4:] if line.startswith("opencv ") and path.name in line]
    assert all(f" {path.name} (surrogate) " in line for line in rows)
    assert rows


def test_entries_that_did_not_run_are_counted_with_a_reason(record):
    skipped = [entry for entry in record.matrix if entry.state == "skipped"]
    assert skipped
    assert f"skipped: {len(skipped)}" in summary(record, PAGE)
    assert skipped[0].reason in summary(record, PAGE)


def test_a_runtime_whose_logits_hold_here_alone_is_told_once(record):
    warned = [each.model_copy(update={"warning": "saturates here"}) for each in record.matrix[:3]]
    told = summary(record.model_copy(update={"matrix": (*warned, *record.matrix[3:])}), PAGE)
    places = {f"{each.backend} {each.precision}" for each in warned}
    lines = [line for line in told.splitlines() if line.startswith("warning: ")]
    assert len(lines) == len(places)
    assert all("saturates here" in line for line in lines)


def test_a_failed_control_is_told(record):
    broken = Control(name="A/A", expected="0", observed="3", passed=False)
    told = summary(record.model_copy(update={"controls": (broken,)}), PAGE)
    assert "control failed: A/A: expected 0, observed 3" in told


def test_a_change_is_marked_where_it_is_significant_after_correction(record):
    measured = next(each for each in record.matrix if each.drift)
    for corrected, number in ((0.5, "None"), (0.001, "1")):
        drift = replace(measured.drift, holm={"recall.macro": corrected})
        alone = (measured.model_copy(update={"drift": drift}),)
        text = summary(record.model_copy(update={"matrix": alone}), PAGE)
        told = f"{number} of 1\N{NO-BREAK SPACE}change of macro recall is significant at the 5 %"
        assert told in text
        # the note has the asterisk of the cell that it explains
        assert (f"* {told}" in text) is ("] * " in text) is (number == "1")


def test_a_gate_on_pixels_says_of_which_images_both_paths_gave_pixels():
    """It records no outcome of a single path, so that nothing was decoded cleanly by its word."""
    diff = CoverageDiff(
        reference="opencv",
        candidate="pillow",
        images=83,
        only_reference=5,
        only_candidate=1,
        neither=50,
    )
    words = coverage_words((), (diff,), Names(()))
    assert words == "opencv and pillow both decode 27 of 83\N{NO-BREAK SPACE}images."
    assert coverage_words((), (), Names(())) == "No two paths were compared."


def test_images_that_a_path_did_not_decode_are_counted(record):
    assert "\nNot decoded cleanly: opencv (eval): 1\N{NO-BREAK SPACE}image; " in summary(
        record, PAGE
    )
    whole = [
        each.model_copy(update={"corrupt": 0, "failed": 0, "unsupported": 0})
        for each in record.coverage
    ]
    told = summary(record.model_copy(update={"coverage": tuple(whole)}), PAGE)
    assert "Not decoded cleanly" not in told


def test_where_most_answers_changed_it_says_when_one_counts_as_changed(record):
    assert "changed: " not in summary(record, PAGE)
    entry = next(each for each in record.matrix if each.drift and each.drift.churn.value)
    churn = replace(entry.drift.churn, value=0.9)
    moved = entry.model_copy(update={"drift": replace(entry.drift, churn=churn)})
    told = summary(record.model_copy(update={"matrix": (*record.matrix, moved)}), PAGE)
    assert f"changed: {record.task.changed}" in told
