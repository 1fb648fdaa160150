"""`RayCluster`: lots in actors of Ray, one for each CPU."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import signal
import socket
import threading
import time
from collections import deque
from collections.abc import Collection, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from alignkit.errors import STUCK, AlignkitError, EngineError, EngineMissing, Terminated
from alignkit.extras import require_libraries
from alignkit.lots import Lot, LotWork
from alignkit.lots.remote import MOST_LOST, SILENT, LostLot, makers_of, worked

logger = logging.getLogger(__name__)

_OBJECTS = 128 << 20
"""Bytes of Ray's object store, which holds no image."""
_AHEAD = 2
"""Lots that lie with a worker: the one it works on, and one so that it need not wait."""
_TICK = 1.0
"""Seconds between two looks at the workers."""
_HEAD_SILENT = 30.0
"""Seconds without an answer after which the head is gone; Ray ends this process after 60."""
_PATIENCE = 20.0
"""Seconds until a head that answers no connection, or does not shut down, counts as one that stands
still."""
_SIGN = 5.0
"""Seconds between two signs of life."""
_SETTINGS = {
    # a busy machine takes longer than the 30 s that Ray gives its node
    "RAY_raylet_start_wait_time_s": "120",
    "RAY_USAGE_STATS_ENABLED": "0",
    # of the lots that fail alike, one is the message of the command
    "RAY_IGNORE_UNHANDLED_ERRORS": "1",
    # events for Ray's dashboard wait in this process: 30 kB a lot
    "RAY_task_events_report_interval_ms": "0",
    # the priority of the other engines' workers; Ray's own 15 starves on a busy machine
    "RAY_worker_niceness": "0",
}
"""Variables of Ray that are set where the user sets none."""


def _worker(ray: Any) -> type:
    """Return the class of the actors, made here as Ray is imported late."""

    class Worker:
        """An actor, which works on one lot after the other and meanwhile gives signs of life."""

        def worked(self, *given: Any) -> str:
            """Work on one lot, see `worked`."""
            return worked(*given)

        # not an option of the call, which a client at ray:// does not know
        @ray.method(concurrency_group="signs")  # type: ignore[untyped-decorator]
        def sign(self) -> None:
            """Return; a process that stands still does not."""

    return Worker


@dataclass(slots=True, eq=False)
class _Call:
    given: tuple[Any, ...]
    reference: Any = None


@dataclass(slots=True, eq=False)
class _Actor:
    handle: Any
    sign: Any
    """A call whose return is a sign of life; ``None`` for a while after one."""
    ready: bool = False
    """Whether there was a sign of life."""
    silent: float = 0.0
    """Seconds since a sign of life was asked for."""
    heard: float = 0.0
    """When it gave the last one."""
    calls: deque[_Call] = field(default_factory=deque)
    """The lot that it works on, and those that lie ready."""


class RayCluster:
    """The nodes of a running Ray."""

    name = "ray"

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        # lots are tried again by `RemoteEngine`, which counts; Ray would without end
        once = {"num_cpus": 1, "max_restarts": 0, "max_task_retries": 0}
        self._worker = ray.remote(**once, concurrency_groups={"signs": 1})(_worker(ray))
        self._actors: list[_Actor] = []
        self._waiting: deque[_Call] = deque()
        self._looked = self._answered = time.monotonic()
        self._cpus = int(ray.cluster_resources().get("CPU", 0))
        self._left = threading.Event()
        self._asking = threading.Thread(target=self._ask_head, name=STUCK, daemon=True)
        self._asking.start()
        self._stillborn = 0
        """Workers in a row that ended as they started."""

    def workers(self) -> int:
        """See `Cluster.workers`."""
        if time.monotonic() - self._answered > _HEAD_SILENT:
            time.sleep(2 * _TICK)  # it answers at once if this process itself stood still
        if time.monotonic() - self._answered > _HEAD_SILENT:
            raise EngineError(
                f"ray: the head does not answer for {_HEAD_SILENT:g} s; run the same command "
                "again: with --reports it goes on where it stopped"
            )
        return self._cpus

    def _ask_head(self) -> None:
        """Ask for the CPUs again and again: without a head, the call waits for minutes."""
        while not self._left.is_set():
            try:
                self._cpus = int(self._ray.cluster_resources().get("CPU", 0))
            except Exception:
                # whatever it raises is no answer; `workers` ends the command if none comes in time
                logger.debug("the head of Ray does not answer", exc_info=True)
            else:
                self._answered = time.monotonic()
            self._left.wait(_TICK)

    def leave(self) -> None:
        """Ask the head no more; a call that waits for it goes on in its thread."""
        self._left.set()
        self._asking.join(_TICK)

    def submit(self, work: LotWork[Any], lot: Lot, processes: int) -> Hashable:
        """See `Cluster.submit`."""
        self._waiting.append(call := _Call((work, lot, processes, makers_of(work))))
        return call

    def cancel(self) -> None:
        """See `Cluster.cancel`."""
        self._waiting.clear()
        for actor in [each for each in self._actors if each.calls]:
            self._end(actor)

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, str | LostLot]]:
        """See `Cluster.wait`."""
        end = time.monotonic() + seconds
        while True:
            self._hand_out()
            lots = [each.reference for actor in self._actors for each in actor.calls]
            starting = [each.sign for each in self._actors if not each.ready]
            signs = [each.sign for each in self._actors if each.ready and each.sign]
            if expected := [*lots, *starting]:
                self._ray.wait(expected, num_returns=1, timeout=_TICK)
            else:
                time.sleep(_TICK)  # the cluster has no CPU now
            every = [*expected, *signs]
            returned, _ = self._ray.wait(every, num_returns=len(every), timeout=0)
            now = time.monotonic()
            # of a longer pause, this process itself may have stood still
            passed, self._looked = min(now - self._looked, 2 * _TICK), now
            found = [
                each
                for actor in tuple(self._actors)
                for each in self._news(actor, set(returned), passed)
            ]
            if found or now > end:
                return found

    def _hand_out(self) -> None:
        most = min(self.workers(), len(self._waiting) + sum(bool(a.calls) for a in self._actors))
        while len(self._actors) < most:
            handle = self._worker.remote()
            self._actors.append(_Actor(handle, handle.sign.remote()))
        for depth in range(1, _AHEAD + 1):
            for actor in self._actors:
                if self._waiting and actor.ready and len(actor.calls) < depth:
                    call = self._waiting.popleft()
                    call.reference = actor.handle.worked.remote(*call.given)
                    actor.calls.append(call)

    def _news(
        self, actor: _Actor, returned: Collection[Any], passed: float
    ) -> list[tuple[Hashable, str | LostLot]]:
        """Return the lots that a worker has done, and one that was lost with it."""
        from ray.exceptions import RayError, RayTaskError

        found: list[tuple[Hashable, str | LostLot]] = []
        try:
            while actor.calls and actor.calls[0].reference in returned:
                text = self._ray.get(actor.calls[0].reference)
                found.append((actor.calls.popleft(), text))
            self._listen(actor, returned, passed)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, AlignkitError):
                raise cause from None
            raise
        except RayError as error:
            reason = str(error).strip().splitlines()[0]
        else:
            if actor.silent < SILENT:
                return found
            reason = f"no sign of life for {SILENT:g} s"
        if actor.calls:
            found.append((actor.calls.popleft(), LostLot(reason)))
        self._waiting.extendleft(reversed(actor.calls))
        self._end(actor)
        self._stillborn += not actor.ready
        if self._stillborn == MOST_LOST:
            raise EngineError(f"ray: {MOST_LOST} workers ended as they started: {reason}")
        return found

    def _listen(self, actor: _Actor, returned: Collection[Any], passed: float) -> None:
        if actor.sign is None:
            if self._looked - actor.heard > _SIGN:
                actor.sign = actor.handle.sign.remote()
        elif actor.sign in returned:
            self._ray.get(actor.sign)
            actor.sign, actor.silent, actor.heard = None, 0.0, self._looked
            actor.ready, self._stillborn = True, 0
        elif actor.ready:
            actor.silent += passed

    def _end(self, actor: _Actor) -> None:
        self._ray.kill(actor.handle)
        self._actors.remove(actor)


@contextmanager
def _own_sigterm() -> Iterator[None]:
    """Keep this process's handler of SIGTERM: Ray's exits with 1, which means drift."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit:
        raise Terminated from None
    finally:
        if threading.current_thread() is threading.main_thread():  # Ray sets it nowhere else
            signal.signal(signal.SIGTERM, before)


@contextmanager
def open_ray(address: str, workers: int) -> Iterator[RayCluster]:
    """Connect to a cluster (``auto``, ``ray://…``), or start a head with so many CPUs here.

    Raises `EngineMissing` if Ray is not installed, or no head answers or starts.
    """
    require_libraries("ray")
    for name, value in _SETTINGS.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():  # a later failure here would shut it down
        raise EngineMissing(
            "--engine ray: this process is connected to Ray already; call ray.shutdown() first"
        )
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address:
        _require_listener(address)
        options["address"] = address
    else:
        options |= {
            "address": "local",  # not a cluster that runs on this machine, or RAY_ADDRESS names
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _OBJECTS,
        }
    try:
        with _own_sigterm():
            ray.init(**options)
            cluster = RayCluster(ray)  # its first request sets the handler once more
    except Exception as error:  # noqa: BLE001 - whatever ends a head is why there is none
        with contextlib.suppress(Exception):  # the first error is the message
            ray.shutdown()
        where = f"no cluster answers at {address}" if address else "no head starts here"
        first = (str(error) or type(error).__name__).strip().splitlines()[0]
        token = "" if not address else "; one that asks for a token needs RAY_AUTH_MODE=token here"
        raise EngineMissing(f"--engine ray: {where}: {first}{token}") from None
    try:
        yield cluster
    finally:
        cluster.leave()
        _leave(ray)


def _require_listener(address: str) -> None:
    """Raise `EngineMissing` if nothing listens at ``HOST:PORT``: Ray would try for 14 minutes."""
    from ray._private.services import resolve_ip_for_localhost

    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not (host and port.isdecimal()):  # ``auto``
        return
    # as Ray does, whose head may not listen at the name localhost
    host = host if address.startswith("ray://") else resolve_ip_for_localhost(host)
    try:
        socket.create_connection((host, int(port)), _PATIENCE).close()
    except OSError as error:
        message = f"--engine ray: no cluster answers at {address}: {error}"
        raise EngineMissing(message) from None


def _leave(ray: Any) -> None:
    """Shut Ray down; if its head stands still, end one that was started here, or leave it alone."""
    from ray._private import worker

    node = worker._global_node  # noqa: SLF001 - Ray names its head nowhere else
    leaving = threading.Thread(target=ray.shutdown, name=STUCK, daemon=True)
    leaving.start()
    leaving.join(_PATIENCE)
    if not leaving.is_alive():
        return
    # Ray has no other way, and would wait without end
    if node is not None and node.is_head():
        node.kill_all_processes(check_alive=False)
        leaving.join()
    else:
        atexit.unregister(worker.shutdown)  # it waits for the thread
