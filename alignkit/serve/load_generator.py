"""MLPerf's load generator in an option's own process: it sends queries, a pool of threads answers.

LoadGen calls from a thread of C++ that holds Python's lock meanwhile, and its clock runs on: a call
hands the queries over and returns. A run cannot be stopped from outside, so that after a fault the
process has to end.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from alignkit.record.open_loop_facts import GeneratedStage
from alignkit.serve.closed_loop import PATIENCE

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.record.open_loop_facts import RunSettings

STAGES_GENERATED: tuple[GeneratedStage, ...] = get_args(GeneratedStage)
QUERY_COLUMNS = ("image", "images", "sent_ns", *(f"{each}_ns" for each in STAGES_GENERATED))
"""Columns of `GeneratedTimes.queries`; ``image`` is the first of a batch."""
SUMMARY, DETAIL, TRACE = (
    f"mlperf_log_{each}" for each in ("summary.txt", "detail.txt", "trace.json")
)
_SCENARIOS = {"server": "Server", "offline": "Offline", "single-stream": "SingleStream"}
_PREFIX = ":::MLLOG "

AnswerImages = Callable[[Sequence[int]], tuple[int, ...]]
"""Numbers of images → when their answer began, and the nanoseconds of each stage served."""


class GeneratedTimes(NamedTuple):
    """One run as it was timed; the latencies are in ``detail``."""

    seconds: float
    """LoadGen's preparation and logging included."""
    cpu_seconds: float
    """Of this process, all its threads."""
    queries: npt.NDArray[Any]
    """(queries or batches, 8) int64, see `QUERY_COLUMNS`; times of `time.perf_counter_ns`."""
    summary: bytes
    detail: bytes


def generate(
    answer: AnswerImages,
    images: int,
    settings: RunSettings,
    folder: Path,
    *,
    patience: float = PATIENCE,
    alive: Callable[[], object] = lambda: None,
    trace: bool = False,
) -> GeneratedTimes:
    """Run LoadGen once over so many images; its logs are written to ``folder``.

    ``alive`` is called at least every ``patience`` seconds, while answers come. ``trace`` has
    LoadGen write every latency too, which takes about 2 KB a query and some of the CPUs' time.
    Raises the first exception that ``answer`` raised, or `TimeoutError` if queries wait and none
    was answered for ``patience`` seconds; LoadGen then still runs.
    """
    import mlperf_loadgen as loadgen
    import numpy as np

    pool = ThreadPoolExecutor(settings.workers, thread_name_prefix="worker")
    run = _Run(answer, settings.batch, pool)
    used, begun = time.process_time(), time.perf_counter()
    # it returns after the last answer alone, and this thread watches for faults meanwhile
    threading.Thread(
        target=run.test, args=[loadgen, images, settings, folder, trace], daemon=True
    ).start()
    try:
        run.wait(patience, alive)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)  # an answer that hangs keeps its thread
    used, seconds = time.process_time() - used, time.perf_counter() - begun
    summary, detail = ((folder / each).read_bytes() for each in (SUMMARY, DETAIL))
    rows = np.array(run.rows, np.int64).reshape(-1, len(QUERY_COLUMNS))
    return GeneratedTimes(seconds, used, rows, summary, detail)


@dataclass(slots=True, eq=False)
class _Run:
    answer: AnswerImages
    batch: int
    pool: ThreadPoolExecutor
    rows: list[tuple[int, ...]] = field(default_factory=list)
    faults: list[BaseException] = field(default_factory=list)
    sent: int = 0
    ended: threading.Event = field(default_factory=threading.Event)

    def test(
        self, loadgen: Any, images: int, settings: RunSettings, folder: Path, trace: bool
    ) -> None:
        """Run LoadGen to its end."""
        try:
            sut = loadgen.ConstructSUT(self.send, _nothing)
            library = loadgen.ConstructQSL(images, images, _nothing, _nothing)
            # without a name it would read an audit.config of the user's folder
            absent = str(folder / "audit.config")
            wanted, logs = _wanted(loadgen, settings), _logs(loadgen, folder, trace)
            loadgen.StartTestWithLogSettings(sut, library, wanted, logs, absent)
            loadgen.DestroyQSL(library)
            loadgen.DestroySUT(sut)
        except BaseException as error:  # noqa: BLE001 - raised by `wait`
            self.faults.append(error)
        self.ended.set()

    def send(self, samples: Sequence[Any]) -> None:
        """Take LoadGen's queries: hand them over and return."""
        sent = time.perf_counter_ns()
        pairs = [(each.id, each.index) for each in samples]
        for first in range(0, len(pairs), self.batch):
            self.sent += 1
            self.pool.submit(self.work, sent, pairs[first : first + self.batch])

    def work(self, sent: int, pairs: Sequence[tuple[int, int]]) -> None:
        """Answer queries that were sent at this time, and report them to LoadGen."""
        import mlperf_loadgen as loadgen

        try:
            begun, *stages = self.answer([image for _, image in pairs])
            self.rows.append((pairs[0][1], len(pairs), sent, begun - sent, *stages))
            # LoadGen takes no data: it measures times alone
            done = [loadgen.QuerySampleResponse(each, 0, 0) for each, _ in pairs]
            loadgen.QuerySamplesComplete(done)
        except BaseException as error:  # noqa: BLE001 - raised by `wait`
            self.faults.append(error)
            self.ended.set()

    def wait(self, patience: float, alive: Callable[[], object]) -> None:
        """Wait for the end; raise a fault, or `TimeoutError` if waiting queries get no answer."""
        while True:
            answered, waited = len(self.rows), self.sent > len(self.rows)
            over = self.ended.wait(patience)
            if self.faults:
                raise self.faults[0]
            if over:
                return
            if waited and len(self.rows) == answered:
                raise TimeoutError(f"no answer came within {patience:g} s")
            alive()


def _nothing(_images: object = None) -> None:
    """Take note of no flush and of no loading: the images are in memory."""


def _wanted(loadgen: Any, settings: RunSettings) -> Any:
    wanted = loadgen.TestSettings()
    wanted.mode = loadgen.TestMode.PerformanceOnly
    wanted.scenario = getattr(loadgen.TestScenario, _SCENARIOS[settings.scenario])
    wanted.min_duration_ms = round(1000 * settings.min_seconds)
    wanted.min_query_count = settings.min_queries
    wanted.qsl_rng_seed = settings.qsl_seed
    wanted.sample_index_rng_seed = settings.sample_seed
    wanted.schedule_rng_seed = settings.schedule_seed
    if settings.latency_bound_ms is not None:
        wanted.server_target_qps = settings.rate
        wanted.server_target_latency_ns = round(1e6 * settings.latency_bound_ms)
        wanted.server_max_async_queries = settings.most_outstanding
    elif settings.scenario == "offline":
        # it sends 1.1 times as many images as this rate answers in the least duration
        wanted.offline_expected_qps = settings.rate
    else:
        wanted.single_stream_expected_latency_ns = round(1e9 / settings.rate)
    return wanted


def _logs(loadgen: Any, folder: Path, trace: bool) -> Any:
    logs = loadgen.LogSettings()
    logs.enable_trace = trace
    logs.log_output.outdir = str(folder)
    return logs


def logged(detail: bytes) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Read the detail log; return key → value, the last of each key, and the errors.

    Raises `ValueError` if it has no verdict.
    """
    lines = [each for each in detail.decode().splitlines() if each.startswith(_PREFIX)]
    entries = [json.loads(each.removeprefix(_PREFIX)) for each in lines]
    values = {each["key"]: each["value"] for each in entries}
    if "result_validity" not in values:
        raise ValueError("LoadGen's log has no verdict")
    errors = (str(each["value"]) for each in entries if each["metadata"]["is_error"])
    return values, tuple(errors)
