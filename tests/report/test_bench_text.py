"""What a terminal shows of a bench, from a record made by hand."""

import re
from pathlib import Path

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.findings.environment import environment
from alignkit.findings.provenance import path_facts
from alignkit.preprocess import Preprocess, Resize
from alignkit.record import Artifact, Estimate
from alignkit.record.bench_facts import (
    BenchRecord,
    FrontierPlace,
    ServedDrift,
    ServedLoad,
    ServingOption,
)
from alignkit.report.bench_page import bench_text
from alignkit.resizers.opencv import OpenCVResizer

FEW = Estimate(None, None, None, "TP99 needs 1,000 requests; these are 90")
FASTER = FrontierPlace(
    standing="frontier", since="opencv/opencv/torch/fp32", price=Estimate(0.25, 0.2, 0.5)
)


def load(gain=None, frontier=None, contended="", speed=125.0):
    return ServedLoad(
        clients=5, requests=90, throughput=Estimate(speed, speed - 2, speed + 3.4), mean_ms=40,
        tp50_ms=Estimate(39.5, 38, 41), tp90_ms=Estimate(45, None, None, "few"), tp99_ms=FEW,
        stages_ms={"decode": 10, "resize": 2.25, "wait": 8, "run": 19.75}, cpu_ms=30.5,
        gain=gain, frontier=frontier, contended=contended, rounds=(),
    )  # fmt: skip


def option(backend, precision, row="opencv", **facts):
    placed = {"trained_with": row, "evaluated_with": "opencv", "backend": backend}
    given = {"reference": False, "state": "measured", **facts}
    return ServingOption(**placed, precision=precision, **given)


REFERENCE = option(
    "torch", "fp32", reference=True, peak_bytes=500_000_000, effective={"threads": "2"},
    loads=(load(frontier=FrontierPlace(standing="frontier")),),
)  # fmt: skip
DRIFT = ServedDrift(
    images=1000, churn=Estimate(0.02, 0.012, 0.03), metric="recall.macro",
    change=Estimate(-0.004, -0.01, 0.002),
)  # fmt: skip
INT8 = option(
    "onnxruntime", "int8", drift=DRIFT,
    loads=(load(Estimate(0.5, 0.4, 0.6), FASTER, "other programs took 9 % of the CPU time", 187),),
)  # fmt: skip
ABSENT = option("tensorrt", "fp16", state="skipped", reason="no NVIDIA GPU", drift_reason="no GPU")


def text(*options, **facts):
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
    record = BenchRecord(
        alignkit="0.1.0", command="alignkit bench small.yaml", name="small", key="k",
        started="2026-11-23T15:00:00.000+00:00", seconds=3, environment=environment(()),
        paths=(path_facts(path),), cpus=(0, 1), images=64, batch=1, options=options,
        requests=Artifact(path="requests.parquet", sha256="0" * 64), **facts,
    )  # fmt: skip
    shown = bench_text(record, Path("reports/small/k/bench-1"))
    return shown.replace("\N{NO-BREAK SPACE}", " ").splitlines()


def cells(lines, begin, count=1):
    """The cells of the lines that begin with a word, one list for each."""
    # without the marks of notes
    lines = [re.sub(r" \([a-z]\)", "", line).strip() for line in lines]
    found = [line.split("  ") for line in lines if line.startswith(begin)]
    return [[cell.strip() for cell in row if cell.strip()] for row in found][:count]


def test_speed_drift_and_price_stand_beside_one_another():
    lines = text(REFERENCE, INT8, ABSENT, cpu_quota=1.5, load_before=(0.25, 0.5, 0.5))
    facts = {row[0]: row[1:] for row in cells(lines, "", 99) if len(row) == 2}
    assert (facts["CPUs held"], facts["Threads of a session"]) == (["0, 1"], ["2"])
    assert facts["Limit of the control group"] == ["1.5 CPUs"]
    assert facts["Load before, over 1, 5 and 15 minutes"] == ["0.25 0.50 0.50"]
    assert "Service, 5 clients: 90 requests in 0 rounds; milliseconds of a request" in lines
    ((drift,), (first,)) = cells(lines, "2 opencv ▸ onnxruntime int8"), cells(lines, "1 opencv")
    assert drift[1:] == [
        "frontier (contended)", "2.00 % [1.20, 3.00]",
        "187 [185, 190] (contended)",
        "+25.0 % [+20.0, +50.0] (over 1, contended)", "−0.40 [−1.00, +0.20]",
    ]  # fmt: skip
    assert first[1:4] == ["frontier", "0 by definition", "125 [123, 128]"]
    _, speed, stages = cells(lines, "2 opencv ▸ onnxruntime int8", 3)
    assert speed[1:] == ["187 [185, 190] (contended)", "–", "40", "39.5 [38, 41]", "45", "–"]  # fmt: skip
    assert stages[1:] == ["5", "10", "2.25", "8", "19.8", "30.5", "–"]
    for note in (
        "contended: other programs took 9 % of the CPU time",
        "TP99 needs 1,000 requests; these are 90",
        "the machine was busy",
    ):
        assert any(note in line for line in lines)
    assert cells(lines, "opencv ▸ tensorrt") == [["opencv ▸ tensorrt fp16", "skipped",
                                                  "no NVIDIA GPU"]]  # fmt: skip
    assert "Drift: no GPU" not in lines
    assert lines[-1].endswith("reports/small/k/bench-1/bench.json")


def test_nothing_timed_leaves_the_reasons():
    lines = text(ABSENT)
    assert cells(lines, "opencv ▸ tensorrt")[0][1:] == ["skipped", "no NVIDIA GPU"]
    assert not [line for line in lines if "Service" in line]
