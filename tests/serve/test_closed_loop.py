"""A closed loop keeps at most as many requests under way as it has clients, and counts all."""

import threading

import pytest

from alignkit.serve.closed_loop import _Loop, closed_loop


class Counted:
    """An answer that can be given only while all clients wait for theirs."""

    def __init__(self, clients: int) -> None:
        self.clients = clients
        self.together = threading.Barrier(clients)
        self.counting = threading.Lock()
        self.under_way: set[int] = set()
        self.most = 0

    def __call__(self, request: int) -> int:
        with self.counting:
            self.under_way.add(request)
            self.most = max(self.most, len(self.under_way))
        # passes when every client has a request: fewer under way would wait here until the test ends
        self.together.wait(timeout=60)
        with self.counting:
            self.under_way.remove(request)
        return 10 * request


@pytest.mark.parametrize("clients", [1, 2, 5])
def test_every_client_has_one_request_under_way(clients):
    answer = Counted(clients)
    ended = closed_loop(answer, clients=clients, requests=6 * clients)
    assert answer.most == clients
    assert ended.answers == tuple(10 * each for each in range(6 * clients))
    assert set(ended.clients) == set(range(clients))
    assert ended.seconds > 0
    assert not answer.under_way


def test_a_client_sends_the_next_request_only_after_its_answer():
    order: list[tuple[str, int, str]] = []

    def answer(request: int) -> None:
        name = threading.current_thread().name
        order.append(("sent", request, name))
        order.append(("answered", request, name))

    ended = closed_loop(answer, clients=3, requests=40)
    for client in range(3):
        own = [each[:2] for each in order if each[2] == f"client {client}"]
        mine = [request for request, each in enumerate(ended.clients) if each == client]
        assert own == [(word, each) for each in mine for word in ("sent", "answered")]
    assert sorted(each[1] for each in order) == sorted([*range(40)] * 2)


def test_a_fault_ends_all_clients():
    asked = []

    def answer(request: int) -> None:
        asked.append(request)
        if request == 3:
            raise ValueError("no such image")

    with pytest.raises(ValueError, match="no such image"):
        closed_loop(answer, clients=1, requests=1000)
    assert asked == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no such image"):
        closed_loop(answer, clients=4, requests=1000)
    assert not [each for each in threading.enumerate() if each.name.startswith("client ")]


def test_requests_that_nobody_answers_end_the_loop():
    released = threading.Event()
    try:
        with pytest.raises(TimeoutError, match=r"no answer came within 0\.05 s"):
            closed_loop(lambda _: released.wait(), clients=2, requests=4, patience=0.05)
    finally:
        released.set()


class Slow(threading.Thread):
    """A client that ends after so many waits, in each of which answers come."""

    def __init__(self, ended: list[int], waits: int) -> None:
        super().__init__()
        self.ended = ended
        self.waits = waits

    def is_alive(self) -> bool:
        return self.waits > 0

    def join(self, timeout: float | None = None) -> None:
        self.ended.append(0)
        self.waits -= 1


def test_a_loop_that_takes_long_gives_signs_of_life():
    loop = _Loop(str, 1, 10)
    signs = []
    loop.wait_for(Slow(loop.ended, 3), 60, lambda: signs.append(len(loop.ended)))
    assert signs == [1, 2]  # not after its end


def test_an_interruption_ends_all_clients():
    asked = []

    def answer(request: int) -> None:
        asked.append(request)
        if request == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        closed_loop(answer, clients=1, requests=1000)
    assert asked == [*range(6)]
