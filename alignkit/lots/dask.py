"""`DaskCluster`: lots as tasks of Dask's distributed scheduler."""

from __future__ import annotations

import logging
import signal
import warnings
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alignkit.errors import AlignkitError, EngineError, EngineMissing
from alignkit.extras import require_libraries
from alignkit.lots import Lot, LotWork
from alignkit.lots.remote import SILENT, LostLot, makers_of, worked

START_SECONDS = 60.0
ANSWER_SECONDS = 20.0
"""Limit for a scheduler with an address to answer."""
_LOST = ("KilledWorker", "CancelledError", "FutureCancelledError", "FuturesCancelledError")


class DaskCluster:
    """The workers that a client sees."""

    name = "dask"

    def __init__(self, client: Any) -> None:
        self._client = client
        self._futures: dict[str, Any] = {}

    def workers(self) -> int:
        """See `Cluster.workers`."""
        gone = EngineError(
            "dask: the scheduler is gone; run the same command again: with --reports it goes on "
            "where it stopped"
        )
        if self._client.status not in ("running", "connecting"):
            raise gone
        try:
            return sum(self._client.nthreads(callback_timeout=SILENT).values())
        except (OSError, TimeoutError):
            raise gone from None

    def submit(self, work: LotWork[Any], lot: Lot, processes: int) -> Hashable:
        """See `Cluster.submit`."""
        future = self._client.submit(worked, work, lot, processes, makers_of(work), pure=False)
        self._futures[future.key] = future
        return str(future.key)

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, str | LostLot]]:
        """See `Cluster.wait`."""
        import distributed

        # Dask has no types of these functions
        wait: Any = distributed.wait
        try:
            wait(list(self._futures.values()), seconds, return_when="FIRST_COMPLETED")
        except TimeoutError:
            return ()
        except distributed.CancelledError:  # some of them: a lost lot each, see below
            pass
        ended = [future for future in self._futures.values() if future.status != "pending"]
        found: list[tuple[Hashable, str | LostLot]] = []
        for future in ended:
            del self._futures[future.key]
            found.append((str(future.key), self._outcome(future)))
        return found

    def cancel(self) -> None:
        """See `Cluster.cancel`."""
        left = list(self._futures.values())
        self._futures.clear()
        if left and self._client.status == "running":
            self._client.cancel(left)

    def _outcome(self, future: Any) -> str | LostLot:
        if future.status in ("cancelled", "lost"):
            return LostLot(f"the scheduler calls it {future.status}")
        try:
            text: str = future.result(timeout=START_SECONDS)
        except AlignkitError:
            raise
        except Exception as error:
            if type(error).__name__ not in _LOST:
                raise
            return LostLot("Dask: its worker is gone")
        return text


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Keep Ctrl-C for the driver, which ends its workers: processes started here do not get it."""
    # a mask is inherited by the threads and processes that begin meanwhile
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def open_dask(address: str, workers: int) -> Iterator[DaskCluster]:
    """Connect to a scheduler, or start one with so many workers if there is no address.

    Raises `EngineMissing` if Dask is not installed, or no scheduler answers.
    """
    require_libraries("distributed")
    import dask
    import distributed

    # Dask has no types of its constructors
    client_of: Any = distributed.Client
    cluster_of: Any = distributed.LocalCluster

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    settings = {
        "distributed.comm.timeouts.connect": START_SECONDS,
        # lots are tried again by `RemoteEngine`, which counts and warns; Dask would in silence.
        # A scheduler with an address keeps its own settings, of silent workers too.
        "distributed.scheduler.allowed-failures": 0,
        "distributed.scheduler.worker-ttl": SILENT,
        # Dask keeps the last 1,000 messages with all their content: 70 kB a lot in this process
        "distributed.admin.low-level-log-length": 20,
        # Dask would set MKL_NUM_THREADS and others in this process too, whose record holds them
        "distributed.nanny.pre-spawn-environ": {},
    }
    with dask.config.set(settings):
        try:
            if address:
                own, client = None, client_of(address, timeout=ANSWER_SECONDS)
            else:
                with _interrupts_held(), warnings.catch_warnings():
                    # a folder took more than a second on a busy machine, which harms nothing
                    warnings.filterwarnings("ignore", "Creating scratch directories is taking")
                    own = cluster_of(
                        n_workers=workers,
                        threads_per_worker=1,
                        dashboard_address=None,
                        # any free port: 8787 may be another cluster's, which Dask warns of
                        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                        silence_logs=logging.CRITICAL,
                        # images are decoded in processes of alignkit, which limit their own memory
                        memory_limit=0,
                    )
                client = client_of(own, timeout=START_SECONDS)
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            where = f"no scheduler answers at {address}" if address else "no scheduler starts here"
            first = (str(error) or type(error).__name__).splitlines()[0]
            raise EngineMissing(f"--engine dask: {where}: {first}") from None
        try:
            yield DaskCluster(client)
        finally:
            client.close(timeout=5)
            if own is not None:
                own.close(timeout=10)
