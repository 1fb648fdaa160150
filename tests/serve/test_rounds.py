"""Rounds: who is asked when, and an option that fails leaves the others."""

from contextlib import AbstractContextManager
from dataclasses import dataclass, field

import numpy as np
import pytest

from alignkit.outcome import Failed, Measured, Skipped
from alignkit.progress import NoProgress
from alignkit.serve import rounds as module
from alignkit.serve.rounds import Load, time_options
from alignkit.serve.serving import COLUMNS, LoopTimes

LOAD = Load(clients=(1, 3), requests=10, rounds=3)


@dataclass
class Machine:
    """Processes that note the order in which they are asked, and fail where they should."""

    log: list[tuple] = field(default_factory=list)
    faults: dict[tuple, str] = field(default_factory=dict)
    closed: list[str] = field(default_factory=list)

    def start(self, cpus):
        return Process(self, cpus)


@dataclass
class Process(AbstractContextManager):
    machine: Machine
    cpus: tuple[int, ...]
    name: str = ""

    def __exit__(self, *exception):
        self.close()

    def close(self):
        self.machine.closed.append(self.name)

    def _ended(self, what, value):
        self.machine.log.append(what)
        if (fault := self.machine.faults.get(what)) == "Ctrl-C":
            raise KeyboardInterrupt
        return Failed(fault, "") if fault else Measured(value)

    def open(self, serving):
        self.name = serving
        return self._ended((self.name, "open"), {"opened": serving})

    def round(self, clients, requests, first):
        rows = np.ones((requests, len(COLUMNS)), np.int64)
        return self._ended((self.name, clients, requests, first), LoopTimes(1.0, 1.0, rows))

    def peak(self):
        return Measured(1000)


def timed(machine, *servings):
    return time_options(servings, LOAD, (0,), NoProgress(), machine.start)


def test_options_and_clients_take_turns_and_who_begins_changes():
    machine = Machine()
    found = timed(machine, *map(Measured, "abc"))
    asked = [each for each in machine.log if each[1] != "open"]
    assert [each[0] for each in asked] == list("abcbcabcacabcababcabcbca")
    assert [each[1] for each in asked] == [1, 1, 1, 3, 3, 3] * 4
    # the first round warms up; each takes other images
    assert {each[2:] for each in asked} == {(4, 0), (4, 4), (4, 8), (4, 12)}
    for each in found:
        assert (each.state, each.peak) == ("measured", 1000)
        assert {clients: len(some) for clients, some in each.rounds.items()} == {1: 3, 3: 3}
    assert sorted(machine.closed) == list("abc")


def test_requests_are_never_fewer_than_asked_for():
    assert Load(requests=1000, rounds=9).each_round * 9 == 1008
    assert Load(requests=9, rounds=9).each_round == 1


def test_what_cannot_run_or_open_has_its_reason():
    machine = Machine(faults={("b", "open"): "no such file"})
    found = timed(machine, Measured("a"), Measured("b"), Skipped("no GPU"), Failed("no model", ""))
    assert [(each.state, each.reason) for each in found] == [
        ("measured", ""), ("failed", "failed to open: no such file"), ("skipped", "no GPU"),
        ("failed", "no model"),
    ]  # fmt: skip
    assert {each[0] for each in machine.log if each[1] != "open"} == {"a"}
    assert "b" in machine.closed


def test_an_option_that_fails_in_a_round_is_not_asked_again():
    machine = Machine(faults={("b", 3, 4, 8): "crashed: SIGSEGV"})
    found = timed(machine, Measured("a"), Measured("b"))
    assert found[1].reason == "failed in round 2 with 3\N{NO-BREAK SPACE}clients: crashed: SIGSEGV"
    assert {clients: len(some) for clients, some in found[1].rounds.items()} == {1: 2, 3: 1}
    assert machine.log[-1][0] == "a"
    assert len(found[0].rounds[3]) == 3


def test_ctrl_c_ends_every_process():
    machine = Machine(faults={("a", 1, 4, 4): "Ctrl-C"})
    with pytest.raises(KeyboardInterrupt):
        timed(machine, Measured("a"), Measured("b"))
    assert sorted(machine.closed) == ["a", "b"]


def test_no_process_is_started_that_would_not_fit(monkeypatch):
    monkeypatch.setattr(module, "available_bytes", lambda: 500)
    machine = Machine()
    found = timed(machine, Measured("a"), Measured("b"))
    assert found[0].state == "measured"
    assert found[1].state == "failed"
    assert "time fewer of them with --cell" in found[1].reason
    assert [each for each in machine.log if each[0] == "b"] == []
