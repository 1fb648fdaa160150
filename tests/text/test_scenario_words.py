"""The table of a scenario, from a record made by hand."""

from pathlib import Path

import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.findings.environment import environment
from alignkit.findings.provenance import path_facts
from alignkit.preprocess import Preprocess, Resize
from alignkit.record import Artifact, Estimate
from alignkit.record.bench_facts import ServedDrift
from alignkit.record.document import document_text, stored_document
from alignkit.record.open_loop_facts import (
    GeneratedRun,
    RunSettings,
    ScenarioOption,
    ScenarioRecord,
)
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.text.scenario_words import scenario_text

LOG = Artifact(path="loadgen/option-0/run-0/mlperf_log_summary.txt", sha256="0" * 64)
ADVICE = ("Reduce target QPS to improve latency.", "Run unsuccessful.")


def run(rate=50.0, *, valid=True, scenario="server", **facts):
    bound = 20.0 if scenario == "server" else None
    settings = RunSettings(scenario, 10.0, 1000, rate, bound, 500, 2, 1)
    given = {
        "settings": settings, "valid": valid,
        "checks": {"performance constraints": valid, "minimum duration": True},
        "advice": () if valid else ADVICE, "samples": 1234, "over_bound": 3,
        "samples_per_second": 49.52, "scheduled_per_second": 49.87, "least_ms": 1.0,
        "mean_ms": 4.5, "greatest_ms": 30.25, "stages_ms": {"queue": 0.5, "decode": 2, "run": 2},
        "percentiles_ms": {"50": 4.0, "90": 8.0, "95": 9.0, "97": 10.0, "99": 15.0, "99.9": 30.25},
        "cpu_ms": 3.5, "seconds": 24.5, "summary": LOG, "detail": LOG,
    }  # fmt: skip
    return GeneratedRun(**(given | facts))


def option(backend, *runs, **facts):
    given = {"reference": False, "state": "measured", **facts}
    return ScenarioOption(
        trained_with="opencv", evaluated_with="opencv", backend=backend, precision="fp32",
        runs=runs, **given,
    )  # fmt: skip


def record(*options, scenario="server", searched=False):
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
    return ScenarioRecord(
        alignkit="0.1.0", command="alignkit bench small.yaml --scenario server", name="small",
        key="k", started="2026-11-23T15:00:00.000+00:00", seconds=3, environment=environment(()),
        paths=(path_facts(path),), cpus=(0, 1), images=64, batch=1, options=options,
        requests=Artifact(path="requests.parquet", sha256="0" * 64), scenario=scenario,
        searched=searched, loadgen="6.0.17",
    )  # fmt: skip


def text(*options, **facts):
    return scenario_text(record(*options, **facts), Path("reports/small/k/bench-1")).splitlines()


def cells(lines, begin):
    """The cells of the lines that begin with a word."""
    found = [line.strip().split("  ") for line in lines if line.strip().startswith(begin)]
    return [[cell.strip() for cell in row if cell.strip()] for row in found]


def test_options_with_the_same_reasons_share_a_sentence():
    bad, met = run(valid=False), {"performance constraints": True}
    ended = bad.model_copy(update={"checks": met, "advice": (), "errors": ("Ended early.",)})
    lines = text(option("torch", bad), option("openvino", bad), option("onnxruntime", ended))
    first, second = [each.strip() for each in lines if "INVALID" in each and "LoadGen:" in each]
    assert first.startswith("opencv ▸ torch fp32 and opencv ▸ openvino fp32: INVALID (performance")
    assert second == "opencv ▸ onnxruntime fp32: INVALID. LoadGen: Ended early."


def test_a_server_has_loadgens_verdict_and_its_latencies():
    drift = ServedDrift(
        images=1000, churn=Estimate(0.02, 0.012, 0.03), metric="recall.macro",
        change=Estimate(-0.004, -0.01, 0.002),
    )  # fmt: skip
    lines = text(
        option("torch", run(), reference=True, peak_bytes=500_000_000),
        option("onnxruntime", run(valid=False, contended="others took 9 %"), drift=drift),
        option("tensorrt", state="skipped", reason="no NVIDIA GPU", drift_reason="no GPU"),
    )
    assert lines[0].startswith("MLPerf's load generator 6.0.17, server: Poisson arrivals")
    assert any(each.startswith("99 % within 20 ms, at least 10 s and 1") for each in lines)
    own, churn, stages = cells(lines, "opencv ▸ torch fp32")
    latencies = ["4.5", "4", "8", "9", "10", "15", "30.2"]
    speed = ["50", "49.9", "49.5", "1\N{NO-BREAK SPACE}234", "3"]
    assert own[1:] == ["VALID", *speed, *latencies]
    assert churn[1:] == ["0 by definition", "–"]
    assert stages[1:] == ["0.5", "2", "–", "–", "2", "2", "3.5", "500.0 MB"]
    (other, changed, _) = [e for e in cells(lines, "opencv ▸ onnxruntime fp32") if len(e) > 1]
    assert (other[1], other[-1]) == ("INVALID", "contended: others took 9 %")
    assert changed[1].startswith("2.00")
    (said,) = [each.strip() for each in lines if "fp32: INVALID" in each]
    assert said == (
        "opencv ▸ onnxruntime fp32: INVALID (performance constraints not met). LoadGen: Reduce "
        "target QPS to improve latency. Run unsuccessful."
    )
    assert any("No submission to MLPerf" in each for each in lines)
    assert cells(lines, "opencv ▸ tensorrt")[0][1:] == ["skipped", "no NVIDIA GPU"]
    assert "drift: no GPU" not in lines
    assert lines[-1].endswith("reports/small/k/bench-1/scenario.json")


def test_a_search_shows_the_greatest_valid_rate_and_the_least_above():
    runs = [run(40.0), run(60.0, valid=False), run(50.0), run(55.0, valid=False)]
    found = option("torch", *runs, reference=True)
    assert found.result == runs[2]
    lines = text(found, searched=True)
    assert (
        "  opencv ▸ torch fp32: VALID at 50 a second, INVALID at 55, in 4\N{NO-BREAK SPACE}runs"
        in lines
    )
    none = option("torch", run(60.0, valid=False), run(40.0, valid=False), reference=True)
    assert none.result.settings.rate == 40
    assert any("no rate VALID, INVALID at 40" in each for each in text(none, searched=True))
    every = option("torch", run(60.0), run(70.0), reference=True)
    assert any(
        "VALID at 70 a second, none of them INVALID" in e for e in text(every, searched=True)
    )


@pytest.mark.parametrize(("scenario", "facts", "shown"), [
    ("offline", {"over_bound": None}, ["VALID", "49.5", "1\N{NO-BREAK SPACE}234"]),
    ("single-stream", {"early_stopping_ms": 8.25},
     ["VALID", "8.25", "49.5", "1\N{NO-BREAK SPACE}234"]),
    ("single-stream", {}, ["VALID", "–", "49.5", "1\N{NO-BREAK SPACE}234"]),
])  # fmt: skip
def test_other_scenarios_have_their_own_result(scenario, facts, shown):
    lines = text(
        option("torch", run(scenario=scenario, **facts), reference=True), scenario=scenario
    )
    assert cells(lines, "opencv ▸ torch fp32")[0][1 : 1 + len(shown)] == shown


def test_nothing_that_ran_leaves_the_reasons():
    lines = text(option("tensorrt", state="skipped", reason="no NVIDIA GPU", reference=True))
    assert cells(lines, "opencv ▸ tensorrt")[0][1:] == ["skipped", "no NVIDIA GPU"]
    assert not [line for line in lines if "LoadGen" in line]


def test_the_document_is_read_back_as_it_was(tmp_path):
    stored = record(option("torch", run(), reference=True))
    (tmp_path / "scenario.json").write_text(document_text(stored))
    again = stored_document(tmp_path / "scenario.json", ScenarioRecord, missing="", again="")
    assert again == stored
