"""Whole benches: processes, endpoints, faults, and a delay that is planted in a decoder."""

import html
import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from threading import Barrier

import numpy as np
import pytest
from pyarrow import parquet

from alignkit.compare.statistics import with_unseen
from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.record.bench_facts import BenchRecord
from alignkit.record.document import stored_document
from alignkit.runner import run_experiment
from alignkit.serve.rounds import Load
from alignkit.stored_file import file_sha256
from alignkit.studies.bench import bench
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.endpoint.faulty import faulty
from tests.planted_decoder import environment_with_it

pytestmark = pytest.mark.slow
EXPERIMENT = """\
name: served
data: {{name: digits-on-photos, train: 10, eval: 40, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
models: [{{name: mine, onnx: {onnx}, preprocess: opencv}}]
evaluate: {{backends: {backends}, resamples: 200}}
report: {{worst: 1}}
"""
PLANTED = """\
name: planted
data: {{name: digits-on-photos, train: 10, eval: 40, seed: 0}}
preprocess:
  plain: {{decode: planted, resize: {{name: opencv, size: 32}}}}
  twin: {{decode: {{name: planted, note: 1}}, resize: {{name: opencv, size: 32}}}}
  late: {{decode: {{name: planted, milliseconds: 5}}, resize: {{name: opencv, size: 32}}}}
  dies: {{decode: {{name: planted, dies: 101}}, resize: {{name: opencv, size: 32}}}}
models: [{{name: mine, onnx: {onnx}, preprocess: plain}}]
evaluate: {{backends: [onnxruntime]}}
"""


def served(tmp_path, *backends):
    file = tmp_path / "served.yaml"
    listed = "[" + ", ".join(("onnxruntime", *backends)) + "]"
    file.write_text(EXPERIMENT.format(onnx=trained_model().onnx, backends=listed))
    return load_experiment(file)


def timed(experiment, tmp_path, load):
    context = Context(Workspace(tmp_path / "reports"), NoProgress())
    words = ["alignkit", "bench", str(experiment.file)]
    return bench(experiment, context, load, cpus=1, words=words)


def test_the_record_is_that_of_the_raw_log_and_has_the_drift_of_the_run(tmp_path):
    experiment = served(tmp_path)
    load = Load(clients=(1, 3), requests=1000)
    before = timed(experiment, tmp_path, replace(load, requests=9, clients=(1,))).record
    assert before.drift_from == ""
    assert [each.drift_reason[:26] for each in before.options] == ["", "not measured: alignkit run"]
    context = Context(Workspace(tmp_path / "reports"), NoProgress())
    run, folder = run_experiment(experiment, context)
    found = timed(experiment, tmp_path, load)
    record = stored_document(found.folder / "bench.json", BenchRecord, missing="", again="")
    assert record == found.record
    assert found.folder.parent == folder
    reference, other = record.options
    assert (str(reference.column), reference.reference) == ("opencv/onnxruntime/fp32", True)
    assert (str(other.column), other.state) == ("pillow/onnxruntime/fp32", "measured")
    (entry,) = [each for each in run.matrix if each.place == other.place]
    assert other.drift.churn == with_unseen(entry.drift.churn, 40)
    assert other.drift.change == entry.drift.metrics["recall.macro"]
    assert other.drift.images == 40
    assert other.peak_bytes > 50e6
    file = found.folder / record.requests.path
    assert file_sha256(file) == record.requests.sha256
    log = parquet.read_table(file).to_pandas()
    assert len(log) == 2 * 2 * 1008
    for option in record.options:
        for told in option.loads:
            own = log[(log.option == str(option.place)) & (log.clients == told.clients)]
            check_against_the_log(told, own)
    assert other.loads[0].frontier is not None


def check_against_the_log(told, own):
    """Compare the facts of a load with those computed from its requests in another way."""
    taken = own[[f"{each}_ns" for each in ("decode", "resize", "wait", "run")]].sum(axis=1) / 1e6
    assert (told.requests, sum(each.requests for each in told.rounds)) == (len(own), len(own))
    assert told.mean_ms == pytest.approx(taken.mean())
    for percent, found in ((50, told.tp50_ms), (90, told.tp90_ms), (99, told.tp99_ms)):
        assert found.value == np.percentile(taken, percent, method="inverted_cdf")
        assert found.low <= found.value <= found.high
        # so many requests lie in between: the binomial's 95 %, in the normal approximation
        spread = 1.96 * np.sqrt(len(own) * percent / 100 * (1 - percent / 100))
        inside = ((taken > found.low) & (taken <= found.high)).sum()
        assert abs(inside - 2 * spread) <= 4
    speeds = [busy_speed(rows.assign(taken=taken)) for _, rows in own.groupby("round")]
    assert told.throughput.value == pytest.approx(np.percentile(speeds, 50, method="inverted_cdf"))
    # the middle of the requests of a round cannot lie outside its time
    for number, each in enumerate(told.rounds):
        rows = own[own["round"] == number]
        ends = rows.begin_ns + taken[rows.index] * 1e6
        assert (ends.max() - rows.begin_ns.min()) / 1e9 <= each.seconds + 1e-6
        assert rows.client.nunique() <= told.clients
        for _, mine in rows.groupby("client"):
            begins = mine.begin_ns.sort_values()
            previous = (mine.begin_ns + taken[mine.index] * 1e6)[begins.index].to_numpy()[:-1]
            # a client begins after its last answer
            assert (begins.to_numpy()[1:] >= previous - 1).all()


def busy_speed(rows):
    """Requests a second until the first client ends, request by request."""
    ends = rows.begin_ns + rows.taken * 1e6
    last = min(ends[rows.client == each].max() for each in set(rows.client))
    done = 0.0
    for begin, end in zip(rows.begin_ns, ends, strict=True):
        done += 1 if end <= last else max(0, last - begin) / (end - begin)
    return done / (last - rows.begin_ns.min()) * 1e9


def test_a_live_endpoint_gets_the_requests_of_all_clients_at_once(tmp_path):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    with faulty() as endpoint:
        endpoint.classes = 10
        endpoint.describe()
        live = f"{{name: kserve, url: '{endpoint.url}', model: m, retries: 0}}"
        experiment = served(tmp_path, live)
        # an answer needs three requests under way; nine in a round are three times three
        endpoint.meet = Barrier(3)
        found = timed(experiment, tmp_path, Load(clients=(3,), requests=18, rounds=2)).record
    (remote,) = [each for each in found.options if each.live]
    assert (remote.state, remote.reason) == ("measured", "")
    assert [*remote.loads[0].stages_ms] == ["run"]
    assert remote.loads[0].cpu_ms is None
    assert remote.peak_bytes is None
    assert remote.loads[0].unwatched or remote.loads[0].contended


def test_an_endpoint_that_is_gone_fails_alone(tmp_path):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    live = "{name: kserve, url: 'http://127.0.0.1:9', model: m, retries: 0}"
    found = timed(served(tmp_path, live), tmp_path, Load((1,), 6, 6)).record
    states = {each.backend.split()[0]: each.state for each in found.options}
    assert states == {"onnxruntime": "measured", "kserve": "failed"}
    (remote,) = [each for each in found.options if each.state == "failed"]
    assert "no connection" in remote.reason


@pytest.fixture
def planted(tmp_path):
    """A folder with the experiment, and the environment in which its decoder is installed."""
    (tmp_path / "planted.yaml").write_text(PLANTED.format(onnx=trained_model().onnx))
    return tmp_path, environment_with_it(tmp_path)


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "alignkit", "bench", "planted.yaml", *map(str, words)]


def test_a_planted_delay_is_found_and_none_where_none_is(planted):
    folder, environment = planted
    words = command("--clients", 1, "--requests", 270, "--cpus", 1, "--json", "--quiet")
    done = subprocess.run(
        words, env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 3, done.stderr  # one option dies
    found = {each["evaluated_with"]: each for each in json.loads(done.stdout)["options"]}
    late, twin = (found[each]["loads"][0] for each in ("late", "twin"))
    assert found["dies"]["state"] == "failed"
    assert "crashed: SIGABRT" in found["dies"]["reason"]
    (page,) = (folder / "reports").glob("planted/*/bench-*/index.html")
    assert found["dies"]["reason"] in html.unescape(page.read_text())
    assert late["delay_ms"]["low"] > 1
    assert late["gain"]["high"] < 0
    assert late["stages_ms"]["decode"] > 5
    if busy := [each["contended"] for each in (late, twin) if each["contended"]]:
        # whoever spins for 5 ms takes longer where others take the CPU in between
        pytest.skip(f"the machine is busy, as the record says: {busy[0]}")
    # a fifth of a millisecond for what the delay itself changes, such as the processor's clock
    assert late["delay_ms"]["low"] - 0.2 <= 5 <= late["delay_ms"]["high"] + 0.2
    assert twin["delay_ms"]["low"] - 0.2 <= 0 <= twin["delay_ms"]["high"] + 0.2
    assert twin["gain"]["low"] - 0.05 <= 0 <= twin["gain"]["high"] + 0.05


def test_ctrl_c_ends_the_command_and_its_processes(planted):
    folder, environment = planted
    words = command("--clients", 2, "--requests", 90_000, "--progress", "plain")
    with subprocess.Popen(
        words, env=environment, cwd=folder, stderr=subprocess.PIPE, text=True
    ) as running:
        said = []
        for line in running.stderr:
            said.append(line)
            if line.startswith("bench "):
                break
        children = children_of(running.pid)
        assert len(children) >= 4, said
        running.send_signal(signal.SIGINT)
        rest = running.stderr.read()
        assert running.wait(timeout=60) == 130, rest
    assert "interrupted. Begin again with:" in rest
    deadline = time.monotonic() + 30
    while alive := [each for each in children if Path(f"/proc/{each}").exists()]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.05)


def children_of(process: int) -> list[int]:
    text = Path(f"/proc/{process}/task/{process}/children").read_text()
    return [int(each) for each in text.split()]
