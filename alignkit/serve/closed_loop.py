"""A closed loop: clients that each send a request, wait for its answer, and send the next one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")

PATIENCE = 60.0
"""Seconds after which requests of which none is answered count as hanging: the limit of an image in
`alignkit.isolation`."""


@dataclass(frozen=True, slots=True)
class LoopResult(Generic[_Answer]):
    """The answers of all requests."""

    seconds: float
    """From the moment that every client may begin to the last answer."""
    clients: tuple[int, ...]
    """The client of each request, from 0."""
    answers: tuple[_Answer, ...]
    """In the order of the requests' numbers."""


def closed_loop(
    answer: Callable[[int], _Answer],
    *,
    clients: int,
    requests: int,
    patience: float = PATIENCE,
    alive: Callable[[], object] = lambda: None,
) -> LoopResult[_Answer]:
    """Send ``requests`` numbered from 0 from so many ``clients``, each a thread; wait for all.

    A free client takes the next number, so that at most ``clients`` requests are under way.
    ``alive`` is called at least every ``patience`` seconds, while answers come. Raises the first
    exception that ``answer`` raised, once no request is under way, or `TimeoutError` if no answer
    came for so many seconds.
    """
    loop = _Loop(answer, clients, requests)
    threads = [
        threading.Thread(target=loop.client, args=[each], name=f"client {each}", daemon=True)
        for each in range(clients)
    ]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            loop.wait_for(thread, patience, alive)
    except BaseException as error:
        loop.faults.append(error)  # no client sends another request
        raise
    if loop.faults:
        raise loop.faults[0]
    done = [loop.answers[number] for number in range(requests)]
    return LoopResult(
        (max(loop.ended) - loop.begun) / 1e9,
        tuple(client for client, _ in done),
        tuple(value for _, value in done),
    )


class _Loop(Generic[_Answer]):
    def __init__(self, answer: Callable[[int], _Answer], clients: int, requests: int) -> None:
        self.answers: dict[int, tuple[int, _Answer]] = {}
        self.ended: list[int] = []
        self.faults: list[BaseException] = []
        self.begun = 0
        self._answer = answer
        self._upcoming = iter(range(requests))
        self._taking = threading.Lock()
        # whoever comes last starts the clock, and then all begin
        self._start = threading.Barrier(clients, action=self._begin)

    def client(self, number: int) -> None:
        self._start.wait()
        while not self.faults:
            with self._taking:
                request = next(self._upcoming, None)
            if request is None:
                return
            try:
                self.answers[request] = number, self._answer(request)
            except BaseException as error:  # noqa: BLE001 - raised by `closed_loop`
                self.faults.append(error)
            self.ended.append(time.perf_counter_ns())

    def wait_for(
        self, thread: threading.Thread, patience: float, alive: Callable[[], object]
    ) -> None:
        """Wait until a client ends; raise `TimeoutError` if none is answered for so long."""
        while thread.is_alive():
            before = len(self.ended)
            thread.join(patience)
            if thread.is_alive():
                if len(self.ended) == before:
                    raise TimeoutError(f"no answer came within {patience:g} s")
                alive()

    def _begin(self) -> None:
        self.begun = time.perf_counter_ns()
