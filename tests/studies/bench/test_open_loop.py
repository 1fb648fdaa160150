"""Whole scenarios: processes, endpoints, faults, Ctrl-C, and a stall that is planted in a decoder."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from alignkit import extras
from alignkit.errors import MissingDependency
from alignkit.progress import NoProgress
from alignkit.record.document import stored_document
from alignkit.record.open_loop_facts import ScenarioRecord
from alignkit.serve.generated_load import WORKERS_OF_ENDPOINT, ScenarioLoad
from alignkit.stored_file import file_sha256
from alignkit.studies.bench.open_loop import open_loop
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.endpoint.faulty import faulty
from tests.planted_decoder import environment_with_it
from tests.studies.bench.test_bench import children_of, served

SERVER = ScenarioLoad("server", 100.0, 500.0, min_seconds=1, min_queries=200)
loadgen = pytest.mark.skipif(
    bool(extras.missing_library("mlperf_loadgen")), reason="needs the extra mlperf"
)
PLANTED = """\
name: planted
data: {{name: digits-on-photos, train: 10, eval: 40, seed: 0}}
preprocess:
  plain: {{decode: planted, resize: {{name: opencv, size: 32}}}}
  {fault}: {{decode: {{name: planted, {fault}: 150}}, resize: {{name: opencv, size: 32}}}}
models: [{{name: mine, onnx: {onnx}, preprocess: plain}}]
evaluate: {{backends: [onnxruntime]}}
"""


def ran(experiment, tmp_path, load, cpus=1):
    context = Context(Workspace(tmp_path / "reports"), NoProgress())
    words = ["alignkit", "bench", str(experiment.file)]
    return open_loop(experiment, context, load, cpus=cpus, words=words)


def test_without_the_extra_nothing_is_prepared(tmp_path, monkeypatch):
    real = extras._importable
    monkeypatch.setattr(extras, "_importable", lambda name: name != "mlperf_loadgen" and real(name))
    with pytest.raises(MissingDependency, match=re.escape("pip install 'alignkit[mlperf]'")):
        # no file is read: what is not installed is said first
        open_loop(None, None, SERVER, cpus=None, words=())
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@loadgen
def test_the_record_is_that_of_loadgens_logs(tmp_path):
    found = ran(served(tmp_path), tmp_path, SERVER, cpus=None)
    record = stored_document(found.folder / "scenario.json", ScenarioRecord, missing="", again="")
    assert record == found.record
    assert [each.state for each in record.options] == ["measured", "measured"]
    table = parquet.read_table(found.folder / record.requests.path).to_pandas()
    for option in record.options:
        (run,) = option.runs
        for log in (run.summary, run.detail):
            assert file_sha256(found.folder / log.path) == log.sha256
        summary = (found.folder / run.summary.path).read_text()
        for percent, value in run.percentiles_ms.items():
            (told,) = re.findall(
                rf"{float(percent):.2f} percentile latency \(ns\)   : (\d+)", summary
            )
            assert int(told) == pytest.approx(1e6 * value)
        assert f"Result is : {'VALID' if run.valid else 'INVALID'}" in summary
        for said in run.advice:
            assert said in " ".join(summary.split())
        own = table[table.option == str(option.place)]
        assert len(own) == run.samples >= 200
        stages = own[[f"{each}_ns" for each in run.stages_ms]].mean() / 1e6
        assert list(stages) == pytest.approx(list(run.stages_ms.values()))
        assert run.scheduled_per_second == pytest.approx(100, rel=0.3)
        assert own.image.nunique() == record.images  # drawn of all of them
    # every option meets the same images at the same times
    first, second = (table[table.option == str(each.place)] for each in record.options)
    sent = [np.sort(each.sent_ns) - each.sent_ns.min() for each in (first, second)]
    assert np.median(np.abs(sent[0] - sent[1])) < 50e6
    assert sorted(first.image) == sorted(second.image)
    assert not [each for each in Path.cwd().iterdir() if each.name.startswith("mlperf_log")]


@pytest.mark.slow
@loadgen
def test_a_live_endpoint_answers_loadgen_too(tmp_path):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    with faulty() as endpoint:
        endpoint.classes = 10
        endpoint.describe()
        live = f"{{name: kserve, url: '{endpoint.url}', model: m, retries: 0}}"
        gone = "{name: kserve, url: 'http://127.0.0.1:9', model: other, retries: 0}"
        experiment = served(tmp_path, live, gone)
        load = ScenarioLoad("offline", min_seconds=0.5, min_queries=50, batch=2)
        found = ran(experiment, tmp_path, load).record
    states = {each.live: [] for each in found.options}
    for each in found.options:
        states[each.live].append(each.state)
    assert states == {False: ["measured", "measured"], True: ["measured", "failed"]}
    remote = next(each for each in found.options if each.live and each.runs)
    assert [*remote.runs[0].stages_ms] == ["queue", "run"]
    assert remote.runs[0].settings.workers == WORKERS_OF_ENDPOINT
    assert remote.runs[0].cpu_ms is None
    assert remote.peak_bytes is None


@pytest.fixture
def planted(tmp_path):
    """Writes the experiment with a fault; its decoder is installed in the environment."""
    environment = environment_with_it(tmp_path)

    def write(fault):
        (tmp_path / "planted.yaml").write_text(
            PLANTED.format(fault=fault, onnx=trained_model().onnx)
        )
        return tmp_path, environment

    return write


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "alignkit", "bench", "planted.yaml", *map(str, words)]


def told(planted, fault, *words):
    folder, environment = planted(fault)
    done = subprocess.run(
        command(*words, "--json", "--quiet"), env=environment, cwd=folder, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert done.stdout, done.stderr
    found = {each["evaluated_with"]: each for each in json.loads(done.stdout)["options"]}
    assert not [each for each in folder.iterdir() if each.name.startswith("mlperf_log")]
    return done.returncode, found


SHORT = ("--target-qps", 100, "--latency-bound", "200ms", "--duration", "1s", "--requests", 300)


@pytest.mark.slow
@loadgen
def test_a_planted_stall_shows_in_an_open_loop_and_hardly_in_a_closed_one(planted):
    code, found = told(planted, "stalls", "--scenario", "server", *SHORT)
    assert code == 0
    (stalled,), (plain,) = (found[each]["runs"] for each in ("stalls", "plain"))
    # some 80 of 300 queries are due more than 200 ms before the stall of a second ends
    assert stalled["over_bound"] - plain["over_bound"] > 50
    assert stalled["percentiles_ms"]["90"] > 400
    assert stalled["valid"] is False
    code, found = told(planted, "stalls", "--clients", 10, "--requests", 1000)
    closed = found["stalls"]["loads"][0]
    # ten of a thousand requests wait for it
    assert closed["tp90_ms"]["value"] < 400
    assert closed["mean_ms"] * closed["requests"] > 1000


@pytest.mark.slow
@loadgen
def test_an_option_that_dies_leaves_the_others(planted):
    code, found = told(planted, "dies", "--scenario", "server", *SHORT)
    assert code == 3
    assert (found["dies"]["state"], found["plain"]["state"]) == ("failed", "measured")
    assert re.search(r"failed in run 0 at 100 a second: crashed: SIGABRT", found["dies"]["reason"])


@pytest.mark.slow
@loadgen
def test_an_answer_that_never_comes_ends_the_option(planted, monkeypatch):
    folder, _ = planted("hangs")
    # a minute of patience is the product's; the test has less
    (folder / "site" / "sitecustomize.py").write_text(
        "import alignkit.serve.closed_loop as loop\nloop.PATIENCE = 3.0\n"
    )
    code, found = told(planted, "hangs", "--scenario", "server", *SHORT)
    assert code == 3
    assert "no answer came within 3 s" in found["hangs"]["reason"]
    assert found["plain"]["state"] == "measured"


@pytest.mark.slow
@loadgen
def test_ctrl_c_ends_the_command_and_its_process(planted):
    folder, environment = planted("stalls")
    words = command("--scenario", "server", *SHORT, "--requests", 90_000, "--progress", "plain")
    with subprocess.Popen(
        words, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True
    ) as running:
        deadline = time.monotonic() + 120
        for line in running.stderr:
            if line.startswith("bench "):
                break
        while not (children := loading(running.pid)):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        time.sleep(1)
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait(timeout=60) == 130, rest
    assert "interrupted. Begin again with:" in rest
    while alive := [each for each in children if Path(f"/proc/{each}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def loading(process: int) -> list[int]:
    """The children that have loaded LoadGen."""
    return [
        each
        for each in children_of(process)
        if "mlperf_loadgen" in Path(f"/proc/{each}/maps").read_text()
    ]
