"""`RayCluster`: lots as tasks of Ray."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from alignkit.errors import AlignkitError, EngineMissing
from alignkit.extras import require_libraries
from alignkit.lots import Lot, LotWork
from alignkit.lots.remote import LostLot, makers_of, worked

_OBJECTS = 128 << 20
"""Bytes of Ray's object store, which holds no image."""


class RayCluster:
    """The nodes of a running Ray."""

    name = "ray"

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        # lots are tried again by `RemoteEngine`, which counts; Ray would without end
        self._call = ray.remote(num_cpus=1, max_retries=0)(worked)
        self._references: dict[Any, None] = {}

    def workers(self) -> int:
        """See `Cluster.workers`."""
        return int(self._ray.cluster_resources().get("CPU", 0))

    def submit(self, work: LotWork[Any], lot: Lot, processes: int) -> Hashable:
        """See `Cluster.submit`."""
        reference: Hashable = self._call.remote(work, lot, processes, makers_of(work))
        self._references[reference] = None
        return reference

    def wait(self, seconds: float) -> Sequence[tuple[Hashable, str | LostLot]]:
        """See `Cluster.wait`."""
        ended, _ = self._ray.wait(list(self._references), num_returns=1, timeout=seconds)
        for reference in ended:
            del self._references[reference]
        return [(reference, self._outcome(reference)) for reference in ended]

    def cancel(self) -> None:
        """See `Cluster.cancel`."""
        for reference in self._references:
            self._ray.cancel(reference)
        self._references.clear()

    def _outcome(self, reference: Any) -> str | LostLot:
        from ray.exceptions import RayError, RayTaskError

        try:
            text: str = self._ray.get(reference)
        except RayTaskError as error:
            cause = error.cause
            if isinstance(cause, AlignkitError):
                raise cause from None
            raise
        except RayError as error:
            return LostLot(str(error).splitlines()[0])
        return text


@contextmanager
def open_ray(address: str, workers: int) -> Iterator[RayCluster]:
    """Connect to a cluster (``auto``, ``ray://…``), or start a head with so many CPUs here.

    Raises `EngineMissing` if Ray is not installed, or no head answers or starts.
    """
    require_libraries("ray")
    # a busy machine takes longer than the 30 s that Ray gives its node; neither does it call home
    os.environ.setdefault("RAY_raylet_start_wait_time_s", "120")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # the priority of the other engines' workers; Ray's own 15 starves on a busy machine
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.CRITICAL}
    if address:
        options["address"] = address
    else:
        options |= {
            "num_cpus": workers,
            "include_dashboard": False,
            "object_store_memory": _OBJECTS,
        }
    try:
        ray.init(**options)
    except Exception as error:  # noqa: BLE001 - whatever ends a head is why there is none
        with contextlib.suppress(Exception):
            ray.shutdown()
        where = f"no cluster answers at {address}" if address else "no head starts here"
        first = (str(error) or type(error).__name__).strip().splitlines()[0]
        raise EngineMissing(f"--engine ray: {where}: {first}") from None
    try:
        yield RayCluster(ray)
    finally:
        ray.shutdown()
