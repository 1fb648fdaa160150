"""Options under LoadGen, one after the other: rates, faults, and a process that hangs."""

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.outcome import Failed, Measured, Skipped
from alignkit.progress import NoProgress
from alignkit.serve.generated_load import (
    SEARCHED,
    WORKERS_OF_ENDPOINT,
    ScenarioLoad,
    generate_loads,
)
from alignkit.serve.load_generator import QUERY_COLUMNS, GeneratedTimes
from alignkit.serve.serving import COLUMNS, LoopTimes

SERVER = ScenarioLoad("server", target_qps=20.0, latency_bound_ms=50.0)


def detail(valid: bool) -> bytes:
    verdict = {"key": "result_validity", "value": "VALID" if valid else "INVALID"}
    return b":::MLLOG " + json.dumps(verdict | {"metadata": {"is_error": False}}).encode()


@dataclass
class Machine:
    """Processes that bear a rate, note what they are asked, and fail where they should."""

    bears: float = 30.0
    faults: dict[tuple, str] = field(default_factory=dict)
    log: list[tuple] = field(default_factory=list)
    settings: list = field(default_factory=list)

    def start(self, cpus):
        return Process(self)


@dataclass
class Process(AbstractContextManager):
    machine: Machine
    name: str = ""

    def __exit__(self, *exception):
        self.machine.log.append((self.name, "closed"))

    def _ended(self, what, value):
        self.machine.log.append((self.name, what))
        if (fault := self.machine.faults.get((self.name, what))) == "Ctrl-C":
            raise KeyboardInterrupt
        return Failed(fault, "") if fault else Measured(value)

    def open(self, serving):
        self.name = serving.name
        return self._ended("open", {"opened": serving.name})

    def round(self, clients, requests, first):
        rows = np.zeros((requests, len(COLUMNS)), np.int64)
        rows[:, 1] = np.arange(requests) * 10**9 // 64  # 64 a second
        rows[:, -1] = 10**9 // 64
        return self._ended("round", LoopTimes(requests / 64, 1.0, rows))

    def generate(self, settings, folder):
        assert folder.is_dir()
        self.machine.settings.append(settings)
        rows = np.ones((10, len(QUERY_COLUMNS)), np.int64)
        times = GeneratedTimes(1.0, 1.0, rows, b"", detail(settings.rate <= self.machine.bears))
        return self._ended("generate", times)

    def peak(self):
        return Measured(1000)


def serving(name, *, live=False):
    runtime = SimpleNamespace(backend=SimpleNamespace(live=live))
    return Measured(SimpleNamespace(name=name, runtime=runtime))


def generated(machine, load, *servings):
    return generate_loads(servings, load, (0, 1), NoProgress(), machine.start)


def test_an_option_begins_when_the_one_before_has_ended():
    machine = Machine()
    found = generated(machine, SERVER, serving("a"), Skipped("no GPU"), serving("b"))
    steps = ["open", "round", "round", "generate", "closed"]
    assert machine.log == [*(("a", each) for each in steps), *(("b", each) for each in steps)]
    assert [(each.state, each.reason, len(each.runs), each.peak) for each in found] == [
        ("measured", "", 1, 1000), ("skipped", "no GPU", 0, None), ("measured", "", 1, 1000),
    ]  # fmt: skip
    assert {each.rate for each in machine.settings} == {20.0}
    assert machine.settings[0] == machine.settings[1]  # the same seeds, so the same arrivals


@pytest.mark.parametrize("step", ["open", "round", "generate"])
def test_an_option_that_fails_leaves_the_others(step):
    machine = Machine(faults={("a", step): "crashed: SIGSEGV"})
    found = generated(machine, SERVER, serving("a"), serving("b"))
    assert [each.state for each in found] == ["failed", "measured"]
    assert found[0].reason.endswith(": crashed: SIGSEGV")
    assert ("a", "closed") in machine.log


def test_a_failure_of_an_endpoint_names_how_many_requests_it_got():
    machine = Machine(faults={("a", "generate"): "nothing came within 10 s"})
    (found,) = generated(machine, SERVER, serving("a", live=True))
    assert found.reason == (
        f"failed in run 0 at 20 a second, up to {WORKERS_OF_ENDPOINT} at once (--workers): "
        "nothing came within 10 s"
    )


def test_ctrl_c_ends_the_process():
    machine = Machine(faults={("a", "generate"): "Ctrl-C"})
    with pytest.raises(KeyboardInterrupt):
        generated(machine, SERVER, serving("a"), serving("b"))
    assert machine.log[-1] == ("a", "closed")
    assert not any(name == "b" for name, _ in machine.log)


@pytest.mark.parametrize("bears", [0.1, 7.0, 30.0, 63.0])
def test_a_search_halves_the_range_up_to_what_a_closed_loop_answers(bears):
    machine = Machine(bears)
    load = ScenarioLoad("server", latency_bound_ms=50.0)
    (found,) = generated(machine, load, serving("a"))
    rates = [each.settings.rate for each in found.runs]
    assert rates[0] == 32.0
    assert len(rates) == SEARCHED
    valid = max((each for each in rates if each <= bears), default=0.0)
    above = min((each for each in rates if each > bears), default=64.0)
    assert above - valid == pytest.approx(64 / 2**SEARCHED)
    assert [each.valid for each in found.runs] == [each <= bears for each in rates]


def test_settings_are_those_of_the_scenario():
    machine = Machine()
    offline = ScenarioLoad("offline", batch=4, workers=3)
    generated(machine, offline, serving("a"))
    generated(machine, ScenarioLoad("single-stream"), serving("a"))
    generated(machine, SERVER, serving("a"), serving("endpoint", live=True))
    every, one, server, endpoint = machine.settings
    # the warm-up answered 64 requests a second, of four images; a long run may be faster
    assert (every.rate, every.batch, every.workers, every.latency_bound_ms) == (384, 4, 3, None)
    assert (one.rate, one.batch, one.workers) == (64, 1, 1)
    assert (server.rate, server.workers, server.latency_bound_ms) == (20, 2, 50)
    assert endpoint.workers == WORKERS_OF_ENDPOINT
    assert server.most_outstanding == 200  # ten seconds of arrivals
