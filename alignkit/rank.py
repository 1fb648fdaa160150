"""`Rank`: this process in the group that ``torchrun`` started.

Rank 0 alone plans, prepares, writes, judges and prints, as a single process would. To share a
training or the prediction of a cell it calls the followers (`Rank.call_followers`), which do
nothing but wait for such calls (`Rank.serve_calls`). Without a group, every method works in this
process and imports nothing.

Training uses DDP. ``DataParallel`` is one process whose threads share Python's lock; it copies the
weights to every GPU at every step, gathers on the first and leaves the model's buffers undefined.
"""

from __future__ import annotations

import atexit
import gc
import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from alignkit.errors import AlignkitError, ConfigError, RankError

if TYPE_CHECKING:
    import torch

_T = TypeVar("_T")
_TIMEOUT = timedelta(days=7)
"""How long a rank waits for another: rank 0 may prepare images for hours.

A rank that ended closes its connections, so the others notice at once and not after this time.
"""

_KEPT = "whole epochs and finished work are kept, and the same command continues"


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a group; by default the only process."""

    number: int = 0
    world: int = 1
    """Number of processes in the group."""
    local: int = 0
    """This process's number on its machine, and so the number of its GPU."""

    @property
    def share(self) -> slice:
        """Part of a sequence that this rank works on: every ``world``-th element."""
        return slice(self.number, None, self.world)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Join the group while the block runs; CPU tensors travel by gloo, CUDA tensors by nccl.

        Raises `RankError` inside the block once another rank has ended.
        """
        if self.world == 1:
            yield
            return
        import torch

        # DDP imports this module late. Its functions have the group of that moment as a default,
        # whose threads would live while Python ends: that aborts it (pytorch/pytorch#190489).
        import torch.distributed.nn.functional
        from torch import distributed

        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=_TIMEOUT)
        atexit.register(_end_threads, [distributed.group.WORLD])
        # torchrun sends SIGTERM to the other ranks once one has ended
        before = signal.signal(signal.SIGTERM, self._stopped)
        try:
            yield
        except RankError:
            # a SIGTERM that comes now would end the process before the error is shown
            before = signal.SIG_IGN
            raise
        finally:
            signal.signal(signal.SIGTERM, before)
            distributed.destroy_process_group()

    def call_followers(self, work: Callable[..., None], **arguments: Any) -> None:
        """Make every other rank call ``work(rank, **arguments)``; rank 0 does its own part."""
        if self.world > 1:
            self.broadcast((work, arguments))

    def stop_followers(self) -> None:
        """End `serve_calls` on every other rank."""
        if self.world > 1:
            self.broadcast(None)

    def serve_calls(self) -> None:
        """Run the calls of rank 0 until it stops its followers.

        Rank 0 records an error that all ranks share. Any other error is raised here, because rank 0
        does not know of it and the ranks are out of step.
        """
        while (call := self.broadcast(None)) is not None:
            work, arguments = call
            try:
                work(self, **arguments)
            except AlignkitError as error:
                if not error.shared:
                    raise

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value, which must be picklable, on every rank."""
        if self.world == 1:
            return value
        from torch import distributed

        # torch fills this list on every rank but 0
        holder = [value]
        with self.raise_rank_errors():
            distributed.broadcast_object_list(holder, src=0)
        return holder[0]

    def gather(self, value: _T) -> list[_T]:
        """Return every rank's value, in order of their numbers, on every rank."""
        if self.world == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.world
        with self.raise_rank_errors():
            distributed.all_gather_object(values, value)
        return values

    def all_reduce(self, values: torch.Tensor) -> torch.Tensor:
        """Add the values of all ranks in place, and return them."""
        if self.world > 1:
            from torch import distributed

            with self.raise_rank_errors():
                distributed.all_reduce(values)
        return values

    def broadcast_tensors(self, tensors: Iterable[torch.Tensor]) -> None:
        """Overwrite every rank's tensors with those of rank 0."""
        if self.world > 1:
            from torch import distributed

            with self.raise_rank_errors():
                for tensor in tensors:
                    distributed.broadcast(tensor, src=0)

    def run_on_all(self, work: Callable[[], _T]) -> _T:
        """Run ``work`` on every rank; raise an `AlignkitError` of one rank on all of them."""
        if self.world == 1:
            return work()
        value, error = None, None
        try:
            value = work()
        except AlignkitError as raised:
            error = raised
        # texts: an exception need not be picklable
        errors = self.gather(error and str(error))
        if error:
            raise shared(error)
        for number, message in enumerate(errors):
            if message is not None:
                raise shared(ConfigError(f"rank {number} of {self.world}: {message}"))
        return value  # type: ignore[return-value]

    @contextmanager
    def raise_rank_errors(self) -> Iterator[None]:
        """Turn any exception of the block but `AlignkitError` into `RankError`.

        Such an exception leaves the ranks out of step. Without a group it is raised unchanged.
        """
        try:
            yield
        except AlignkitError:
            raise
        except Exception as error:
            if self.world == 1:
                raise
            reason = str(error).partition("\n")[0]
            raise RankError(
                f"rank {self.number} of {self.world} cannot go on, as another rank ended or this "
                f"one failed ({type(error).__name__}: {reason}); {_KEPT}"
            ) from error

    def _stopped(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's
        raise RankError(
            f"rank {self.number} of {self.world} received SIGTERM, as another rank ended; {_KEPT}"
        )


ALONE = Rank()


def _end_threads(groups: list[Any]) -> None:
    """Drop groups that were destroyed, and so end the threads of gloo.

    The last reference to a group waits for its threads, and a thread may wait for Python's lock to
    drop a tensor. A reference of Python releases the lock meanwhile. A reducer of DDP, which the
    frames of an error keep alive, would not, and both would wait for ever: it must go first.
    """
    gc.collect()
    groups.clear()


def shared(error: AlignkitError) -> AlignkitError:
    """Mark an error as raised by every rank of the group at the same place, and return it."""
    error.shared = True
    return error


def this_rank() -> Rank:
    """Read this process's rank from the environment that ``torchrun`` sets; `ALONE` without it."""
    return Rank(*(int(os.environ.get(name, default)) for name, default in _VARIABLES))


# their defaults describe a process that torchrun did not start
_VARIABLES = (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
