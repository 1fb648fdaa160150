"""LoadGen in this process: its percentiles, its arrivals, and whoever answers too late or never."""

import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlperf_loadgen", reason="needs the extra mlperf")
stats = pytest.importorskip("scipy.stats")

from alignkit.record.open_loop_facts import RunSettings  # noqa: E402
from alignkit.serve.closed_loop import closed_loop  # noqa: E402
from alignkit.serve.load_generator import (  # noqa: E402
    QUERY_COLUMNS,
    TRACE,
    generate,
    logged,
)

ROOT = Path(__file__).parents[2]
IMAGES = 16
SAMPLE = re.compile(r'\{"name":"Sample",.*"ph":"b"')


def settings(scenario="server", **changed):
    given = {
        "min_seconds": 0.5, "min_queries": 200, "rate": 400.0, "most_outstanding": 10_000,
        "latency_bound_ms": 50.0 if scenario == "server" else None, "workers": 4, "batch": 1,
    }  # fmt: skip
    return RunSettings(scenario=scenario, **(given | changed))


class Answers:
    """Answers that take about a millisecond, and one of which all others wait for."""

    def __init__(self, stalls_at: int = -1, stall: float = 0.0) -> None:
        self.stalls_at = stalls_at
        self.stall = stall
        self.answered = 0
        self.lock = threading.Lock()

    def __call__(self, images):
        begun = time.perf_counter_ns()
        with self.lock:
            self.answered += 1
            if self.answered == self.stalls_at:
                time.sleep(self.stall)
        free = time.perf_counter_ns()
        time.sleep(0.001)
        return begun, 0, 0, free - begun, time.perf_counter_ns() - free


class Traced:
    """A run with LoadGen's own trace of every query, in order of arrival."""

    def __init__(self, folder, wanted, answer=None):
        folder.mkdir(exist_ok=True)
        self.times = generate(answer or Answers(), IMAGES, wanted, folder, trace=True)
        self.values, self.errors = logged(self.times.detail)
        # some of its lines are no JSON; those of the samples are
        lines = (folder / TRACE).read_text().splitlines()
        samples = [json.loads(each.rstrip(",")) for each in lines if SAMPLE.match(each)]
        samples.sort(key=lambda each: each["args"]["sample_seq"])
        self.due = np.array([each["ts"] for each in samples]) / 1e6
        """Seconds."""
        self.latencies = np.array([each["args"]["complete_ns"] for each in samples])
        self.images = [each["args"]["sample_idx"] for each in samples]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each scenario."""
    folder = tmp_path_factory.mktemp("loadgen")
    return {
        each: Traced(folder / each, settings(each))
        for each in ("server", "offline", "single-stream")
    }


@pytest.mark.parametrize("scenario", ["server", "offline", "single-stream"])
def test_the_percentiles_are_those_of_the_latencies_in_the_trace(runs, scenario):
    run = runs[scenario]
    ascending = np.sort(run.latencies)
    assert len(ascending) >= 200
    for percent in (50, 90, 95, 97, 99, 99.9):
        # so many of n are below the value: LoadGen's rank, from 0, is the whole part
        expected = ascending[int(len(ascending) * percent / 100)]
        assert run.values[f"result_{percent:.2f}_percentile_latency_ns"] == expected
    assert run.values["result_min_latency_ns"] == ascending[0]
    assert run.values["result_max_latency_ns"] == ascending[-1]
    assert run.values["result_mean_latency_ns"] == pytest.approx(run.latencies.mean(), abs=1)
    said = run.times.summary.decode()
    assert f"99.00 percentile latency (ns)   : {ascending[int(len(ascending) * 0.99)]}" in said


@pytest.mark.parametrize("scenario", ["server", "offline", "single-stream"])
def test_the_stages_of_every_query_lie_within_its_latency(runs, scenario):
    run = runs[scenario]
    images, stages = run.times.queries[:, 0], run.times.queries[:, 3:]
    assert run.times.queries.shape == (len(run.latencies), len(QUERY_COLUMNS))
    assert (stages >= 0).all()
    own, theirs = stages.sum(axis=1), run.latencies
    # the sums are those of pairs in another order
    assert (np.sort(own) <= np.sort(theirs)).all()
    assert sorted(images) == sorted(run.images)
    assert set(run.images) <= set(range(IMAGES))


def test_arrivals_are_poisson_and_those_of_the_seed(runs, tmp_path):
    rate, run = 400.0, runs["server"]
    gaps = np.diff(run.due)
    assert len(gaps) > 150
    assert stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > 0.05
    # the check can fail: equal gaps, and those of half the rate
    assert stats.kstest(np.full(len(gaps), 1 / rate), "expon", args=(0, 1 / rate)).pvalue < 1e-6
    assert stats.kstest(2 * gaps, "expon", args=(0, 1 / rate)).pvalue < 1e-6
    # nor does a gap depend on the one before
    assert stats.spearmanr(gaps[:-1], gaps[1:]).pvalue > 0.05
    again = Traced(tmp_path / "again", settings())
    assert np.allclose(np.diff(again.due), gaps, atol=2e-6)
    assert again.images == run.images
    other = Traced(tmp_path / "other", settings(schedule_seed=4))
    assert not np.allclose(np.diff(other.due)[:100], gaps[:100], atol=1e-3)
    assert other.images[:100] == run.images[:100]


def test_a_stall_delays_all_queries_that_are_due_meanwhile_and_of_a_closed_loop_only_ten(tmp_path):
    stall, rate, clients = 1.0, 100.0, 10
    wanted = settings(rate=rate, min_queries=300, workers=10)
    opened = Answers(150, stall)
    run = Traced(tmp_path / "open", wanted, opened)
    due = (run.due - run.due[0]).tolist()
    # the run's clock is not ours: of the queries that are due within the last but one tenth of any
    # second, at least so many met the stall
    met = int((run.latencies > 0.1e9).sum())
    least = min(sum(each < one <= each + 0.9 * stall for one in due) for each in due[:200])
    assert met >= least > 50
    closed = Answers(150, stall)
    answers = closed_loop(lambda each: closed([each]), clients=clients, requests=300).answers
    # each client waits once for the end of the stall, and sends nothing meanwhile
    assert 1 <= sum(waited > 0.5e9 * stall for _, _, _, waited, _ in answers) <= clients
    assert run.values["result_validity"] == "INVALID"
    assert run.values["result_overlatency_query_count"] >= met


def test_a_batch_is_answered_at_once_and_its_images_counted(tmp_path):
    sizes = []
    answers = Answers()

    def answer(images):
        sizes.append(len(images))
        return answers(images)

    run = Traced(tmp_path / "batch", settings("offline", batch=7), answer)
    images = run.times.queries[:, 1]
    assert sorted(images) == sorted(sizes)
    assert images.sum() == len(run.latencies)
    assert set(sizes[:-1]) == {7}


def test_an_option_that_does_not_keep_up_ends_early(tmp_path):
    wanted = settings(rate=2000.0, workers=1, most_outstanding=20, min_queries=2000)
    run = Traced(tmp_path / "early", wanted)
    assert len(run.latencies) < 2000
    assert run.values["result_validity"] == "INVALID"
    assert any("Too many outstanding queries" in each for each in run.errors)


def test_the_users_folder_is_neither_read_nor_written(tmp_path, monkeypatch):
    own, logs = tmp_path / "own", tmp_path / "logs"
    own.mkdir()
    logs.mkdir()
    (own / "audit.config").write_text("*.*.min_query_count = 7\n*.*.min_duration = 1\n")
    monkeypatch.chdir(own)
    times = generate(Answers(), IMAGES, settings("single-stream", min_seconds=0.1), logs)
    assert logged(times.detail)[0]["effective_min_query_count"] == 200
    assert [each.name for each in own.iterdir()] == ["audit.config"]


def test_signs_of_life_come_while_answers_do(tmp_path):
    signs = []
    wanted = settings(min_queries=100)
    generate(
        Answers(), IMAGES, wanted, tmp_path, patience=0.1, alive=lambda: signs.append(time.time())
    )
    assert len(signs) >= 2


PROGRAM = """\
import os, signal, sys, tempfile, threading, time
from pathlib import Path
from alignkit.serve.load_generator import generate
from alignkit.record.open_loop_facts import RunSettings

signal.signal(signal.SIGINT, signal.SIG_IGN)
wanted = RunSettings("server", 0.2, 50, 200.0, 50.0, 1000, 2, 1)
fault = sys.argv[1]
numbers = []

def answer(images):
    numbers.append(images)
    if len(numbers) == 10:
        if fault == "raises":
            raise ValueError("no such image")
        if fault == "hangs":
            threading.Event().wait()
        os.kill(os.getpid(), signal.SIGINT)
    return (time.perf_counter_ns(), 0, 0, 0, 0)

with tempfile.TemporaryDirectory() as folder:
    try:
        times = generate(answer, 4, wanted, Path(folder), patience=0.5)
        print(len(times.queries), signal.getsignal(signal.SIGINT) is signal.SIG_IGN)
    except BaseException as error:
        print(type(error).__name__, error)
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize(("fault", "said"), [
    ("raises", "ValueError no such image\n"), ("hangs", "TimeoutError no answer came within 0.5 s\n"),
    ("is interrupted", "50 True\n"),
])  # fmt: skip
def test_a_fault_and_a_hang_end_the_run_and_ctrl_c_does_not(fault, said):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, fault], capture_output=True, text=True, timeout=120,
        env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True,
    )  # fmt: skip
    assert done.stdout == said, done.stderr


def test_a_log_without_a_verdict_is_refused():
    with pytest.raises(ValueError, match="no verdict"):
        logged(b':::MLLOG {"key": "a", "value": 1, "metadata": {"is_error": false}}\n')
