"""A simulated column is called so wherever a run or a gate shows it."""

import re
from pathlib import Path

import pytest

from alignkit.gate.outputs import GateResult, rendered
from alignkit.record import (
    Estimate,
    LogitDistance,
    NumericDrift,
    QuantisedDrift,
    RuleOutcome,
    Verdict,
)
from alignkit.record.verdict_facts import RuleLimits
from alignkit.report.entries_view import quantised_table
from alignkit.report.matrix_view import matrix_views
from alignkit.report.page_view import key_figures
from alignkit.report.results import results_from_record, results_text
from alignkit.report.terminal_view import summary
from alignkit.text.names import Names
from tests.report.records import quickstart

LABEL = (
    "simulated from the engine built here; summation order of the kernels unknown; "
    "not compared with hardware"
)
GATED = RuleOutcome(
    metric="churn", label="churn", limits=RuleLimits("share", fail=0.02, decides=0.02), trained_with="opencv", evaluated_with="pillow",
    backend="simulated", precision="fp16", state="fail", value=Estimate(0.03, None, None), rule="churn",
)  # fmt: skip


def drift(flips, greatest):
    logits = LogitDistance(max_abs=greatest, mean_abs=0.01, cosine=0.999, compared=200)
    return NumericDrift(n=200, flips=flips, non_finite=0, logits=logits)


@pytest.fixture(scope="module")
def record():
    """The quickstart with onnxruntime's columns simulated."""
    found = quickstart()

    def simulated(each):
        state = "simulated" if each.ran else each.state
        label = LABEL if each.ran else ""
        return {"backend": "simulated", "state": state, "simulation": label}

    def changed(entries):
        return tuple(
            each.model_copy(update=simulated(each) if each.backend == "onnxruntime" else {})
            for each in entries
        )

    changes = {"cells": changed(found.cells), "matrix": changed(found.matrix)}
    return found.model_copy(update=changes)


@pytest.fixture(scope="module")
def gate(record):
    verdict = Verdict(state="fail", informational=False, exit_code=1, rules=(GATED,))
    return GateResult(
        name="gate", file=Path("gate.yaml"), command="alignkit gate x", verdict=verdict,
        exit_code=1, record=record,
    )  # fmt: skip


def test_the_page_says_the_label_of_simulated_columns_once_above_the_matrices(record, rendered):
    page = (rendered(record) / "index.html").read_text()
    for view in matrix_views(record, Names(record.paths)):
        heads = {head.runtime.split()[0]: head.simulated for head in view.heads}
        assert heads == {"torch": False, "simulated": True}
        assert not any(head.equal for head in view.heads if head.simulated)
    told = f'<p class="surrogate">simulated fp32 and simulated fp16: {LABEL}</p>'
    assert page.count(told) == 1


def test_every_simulated_cell_of_a_matrix_says_so_itself(record, rendered):
    folder = rendered(record)
    ran = sum(entry.state == "simulated" for entry in record.matrix)
    page = (folder / "index.html").read_text()
    panels = re.search(r'<table class="matrix">.*<div class="legend"', page, re.DOTALL)[0]
    assert panels.count("<small>simulated</small>") == 3 * ran > 0
    rows = (folder / "summary.md").read_text().splitlines()
    assert len([row for row in rows if row.startswith("|") and ", simulated |" in row]) == ran


def test_the_summary_and_the_terminal_show_the_label(record, rendered):
    told = f"simulated fp32 and simulated fp16: {LABEL}"
    assert f"{told}." in (rendered(record) / "summary.md").read_text()
    assert told in summary(record, Path("index.html")).splitlines()


def test_the_terminal_names_three_kinds_of_simulation_and_counts_the_others(record):
    ran = [each for each in record.matrix if each.simulation][:5]
    kinds = [
        each.model_copy(update={"simulation": f"{LABEL} {index}"}) for index, each in enumerate(ran)
    ]
    lines = summary(record.model_copy(update={"matrix": tuple(kinds)}), Path("x")).splitlines()
    assert len([line for line in lines if LABEL in line]) == 3
    assert "… and 2\N{NO-BREAK SPACE}more simulations; see the report" in lines


def test_results_json_calls_a_simulated_cell_simulated_and_never_measured(record):
    results = results_from_record(record)
    assert LABEL in results_text(results)
    for entry in results.matrix:
        assert (entry.state == "simulated") == (entry.backend == "simulated" and entry.ran)
        assert entry.state != "measured" or entry.backend == "torch"
        assert (entry.simulation == LABEL) == (entry.state == "simulated")


def test_simulated_cells_are_not_counted_as_measured(record):
    figure = key_figures(record, Names(record.paths), ())[-1]
    ran = [entry.state for entry in record.matrix]
    assert figure.value == f"{ran.count('measured')} of {len(ran)}"
    assert f"{ran.count('simulated')} simulated" in figure.detail
    assert ran.count("simulated") > 0


@pytest.mark.parametrize("kind", ["text", "md", "json", "junit", "github"])
def test_every_output_of_a_gate_names_the_simulation(gate, kind):
    told = rendered(kind, gate)
    assert "simulated" in told
    if kind in ("text", "md", "json"):
        assert LABEL in told
    if kind != "json":
        assert "in simulated fp16" in told


def test_int8_is_divided_into_quantisation_and_kernel(record):
    divided = QuantisedDrift(
        unfused="simulated int8", quantisation=drift(6, 0.5), kernel=drift(20, 2.5)
    )
    update = {"numeric": drift(23, 2.6), "quantised": divided}
    entry = record.matrix[1].model_copy(update=update)
    table = quantised_table((entry,), Names(record.paths), record.task)
    assert table is not None
    [row] = table.rows
    texts = [cell.text.replace("\N{NO-BREAK SPACE}", " ") for cell in row.cells]
    assert texts[3:] == ["simulated int8", "11.50 %", "3.00 %", "10.00 %", "2.6", "0.5", "2.5"]
    assert quantised_table(record.matrix, Names(record.paths), record.task) is None
