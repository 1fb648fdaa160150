"""Throughput while all clients are busy, and the line of the model's only instance."""

import threading
import time
from contextlib import ExitStack, nullcontext
from multiprocessing import Pipe
from types import SimpleNamespace

import numpy as np
import pytest

from alignkit.outcome import Measured
from alignkit.serve import serving as module
from alignkit.serve.option_process import OptionProcess
from alignkit.serve.serving import LoopTimes, Server, Serving


def loop(requests, *lengths):
    """What clients that take so many nanoseconds for each request do, simulated by hand."""
    free = dict.fromkeys(range(len(lengths)), 1_000)
    rows = []
    for _ in range(requests):
        client = min(free, key=lambda each: free[each])
        rows.append((client, free[client], 0, 0, 0, lengths[client]))
        free[client] += lengths[client]
    return LoopTimes((max(free.values()) - 1_000) / 1e9, 0.0, np.array(rows, np.int64))


@pytest.mark.parametrize("requests", [4, 10, 11, 12, 50])
@pytest.mark.parametrize("lengths", [(20,), (20, 20, 20), (20, 30), (20, 70, 33, 41)])
def test_throughput_is_that_of_busy_clients_whatever_is_left_at_the_end(requests, lengths):
    found = loop(requests, *lengths)
    assert found.throughput() == pytest.approx(1e9 * sum(1 / each for each in lengths))


def test_the_last_answers_alone_would_make_it_slower():
    found = loop(10, 20, 20, 20)
    assert 10 / found.seconds == pytest.approx(10 / 80e-9)
    assert found.throughput() == pytest.approx(9 / 60e-9)


class Session:
    """Runs when it may, and notes what it ran."""

    def __init__(self):
        self.may = threading.Event()
        self.ran = []

    def predict(self, inputs):
        assert self.may.wait(60)
        (file,) = inputs.files
        self.ran.append(file)
        if file == b"3":
            raise ValueError("no such image")


@pytest.fixture
def served(monkeypatch):
    session = Session()
    monkeypatch.setattr(module, "open_session", lambda *_: nullcontext(session))
    backend = SimpleNamespace(live=False, own_path=True)
    serving = Serving(
        SimpleNamespace(normalise=None), SimpleNamespace(backend=backend), None, None,
        [b"%d" % each for each in range(5)], 1,
    )  # fmt: skip
    return Server(serving, ExitStack()), session


def test_requests_are_run_in_the_order_of_their_arrival(served):
    server, session = served
    found, faults = {}, []

    def client(number):
        try:
            found[number] = server.answer([number])
        except ValueError as error:
            faults.append(str(error))

    threads = [threading.Thread(target=client, args=[each]) for each in range(5)]
    for waiting, thread in enumerate(threads):
        thread.start()
        # the first is run, the others wait; each is in the line before the next one comes
        until = time.monotonic() + 60
        while server._line.qsize() < waiting and time.monotonic() < until:
            time.sleep(0.001)
    session.may.set()
    for thread in threads:
        thread.join(60)
    assert session.ran == [b"0", b"1", b"2", b"3", b"4"]
    assert faults == ["no such image"]
    assert sorted(found) == [0, 1, 2, 4]
    assert all(length >= 0 for row in found.values() for length in row)


def test_a_sign_of_life_is_no_answer():
    ours, theirs = Pipe()
    process = object.__new__(OptionProcess)
    process._channel = ours
    for message in (None, None, Measured("answer")):
        theirs.send(message)
    assert process.round(1, 1, 0) == Measured("answer")
    assert theirs.recv() == ("round", 1, 1, 0)
