"""The table of engines: ``--engine``, ``--address``, ``--workers`` → a `LotEngine`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

from alignkit.errors import ConfigError
from alignkit.extras import require_libraries
from alignkit.lots import DoneLot, ImagesDone, Lot, LotEngine, LotWork
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import Cluster, RemoteEngine
from alignkit.torch_settings import usable_cpus

EngineName = Literal["local", "dask", "ray"]


@dataclass(frozen=True, slots=True)
class EngineOption:
    """The engine that a command names."""

    name: EngineName = "local"
    address: str = ""
    """Scheduler of a cluster; empty: workers are started here, and end with the command."""
    workers: int | None = None
    """Workers started here; by default one for each CPU."""
    processes: int | None = None
    """Processes that decode: of ``local`` altogether, else of each worker."""

    def __post_init__(self) -> None:
        if self.name not in get_args(EngineName):
            raise ConfigError(f"--engine {self.name}: local, dask or ray")
        if self.workers is not None and self.workers < 1:
            raise ConfigError(f"--workers {self.workers}: give at least 1")
        if self.name == "local" and (self.address or self.workers):
            option = "--address" if self.address else "--workers"
            raise ConfigError(
                f"{option} belongs to --engine dask or ray; --threads sets the processes here"
            )
        if self.address and self.workers:
            raise ConfigError(
                f"the cluster at {self.address} has workers of its own; leave --workers out"
            )

    def words(self) -> list[str]:
        """Return the words that name it on a command line; none for the default."""
        address = ["--address", self.address] if self.address else []
        workers = ["--workers", str(self.workers)] if self.workers else []
        engine = ["--engine", self.name] if self.name != "local" else []
        return [*engine, *address, *workers]

    @contextmanager
    def open(self) -> Iterator[LotEngine]:
        """Start or join the engine; end what was started here.

        Raises `MissingDependency` if it is not installed, or cannot start or be reached.
        """
        if self.name == "local":
            yield LocalEngine(self.processes)
            return
        workers = self.workers or usable_cpus()
        # on the workers of somebody else's cluster one, as it has a task for each CPU
        own = max(1, usable_cpus() // workers)
        processes = self.processes or (1 if self.address else own)
        if self.name == "dask":
            from alignkit.lots.dask import open_dask

            opened: AbstractContextManager[Cluster] = open_dask(self.address, workers)
        else:
            from alignkit.lots.ray import open_ray

            opened = open_ray(self.address, workers)
        with opened as cluster:
            engine = RemoteEngine(cluster, processes)
            yield engine
        engine.tell_lost()

    @contextmanager
    def when_used(self) -> Iterator[LotEngine | None]:
        """Give an engine that starts with its first lot, so that stored work starts none.

        ``None`` for the processes of this machine. Raises `MissingDependency` if it is not
        installed; its use raises as `open` does.
        """
        if self.name == "local":
            yield None
            return
        require_libraries(_LIBRARIES[self.name])
        with ExitStack() as stack:
            yield _LateEngine(self, stack)


_LIBRARIES = {"dask": "distributed", "ray": "ray"}


@dataclass(slots=True)
class _LateEngine:
    option: EngineOption
    stack: ExitStack
    engine: LotEngine | None = None

    def parts(
        self, work: LotWork[Any], lots: Iterator[Lot], advance: ImagesDone
    ) -> Iterator[DoneLot]:
        """See `LotEngine.parts`."""
        if self.engine is None:
            self.engine = self.stack.enter_context(self.option.open())
        return self.engine.parts(work, lots, advance)


LOCAL = EngineOption()
