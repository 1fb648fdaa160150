"""`Rank`: this process among those that ``torchrun`` started together.

Rank 0 leads: it alone plans, prepares, writes, judges and prints, as a single process would. Where
work is shared, a training or the prediction of a cell, it calls the others (`Rank.lead`), which
wait for nothing else (`Rank.follow`). Alone, every method does the work here and imports nothing.

DDP, not ``DataParallel``: that is one process whose threads share Python's lock, copies the weights
to every GPU at every step, gathers on the first, and leaves the model's buffers to chance.
"""

from __future__ import annotations

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

T = TypeVar("T")
PATIENCE = timedelta(days=7)
"""How long a rank waits: rank 0 may prepare images for hours. One that ended is noticed at once."""

KEPT = "whole epochs and finished work are kept, and the same command continues"


@dataclass(frozen=True, slots=True)
class Rank:
    """One process of a group; by default the only one."""

    number: int = 0
    world: int = 1
    """Processes in the group."""
    local: int = 0
    """Number on this machine, which is the number of its GPU."""

    @property
    def share(self) -> slice:
        """The part of a sequence that is for this rank: every ``world``-th."""
        return slice(self.number, None, self.world)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Be a member of the group while the block runs; CPU tensors by gloo, CUDA's by nccl.

        Raises `RankError` inside the block once another rank has ended.
        """
        if self.world == 1:
            yield
            return
        import torch
        from torch import distributed

        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(backend, timeout=PATIENCE)
        before = signal.signal(signal.SIGTERM, self._stopped)
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, before)
            distributed.destroy_process_group()

    def lead(self, work: Callable[..., None], **arguments: Any) -> None:
        """Have every other rank call ``work(rank, **arguments)``; rank 0 does its part itself."""
        if self.world > 1:
            self.broadcast((work, arguments))

    def dismiss(self) -> None:
        """Tell the others that there is nothing left to do."""
        if self.world > 1:
            self.broadcast(None)

    def follow(self) -> None:
        """Do what rank 0 calls for until it dismisses.

        An error that all ranks share is rank 0's to record. Any other is raised: rank 0 knows
        nothing of it, and the ranks are out of step.
        """
        while (called := self.broadcast(None)) is not None:
            work, arguments = called
            try:
                work(self, **arguments)
            except AlignkitError as error:
                if not error.shared:
                    raise

    def broadcast(self, value: Any) -> Any:
        """Rank 0's value, on every rank; must be picklable."""
        if self.world == 1:
            return value
        from torch import distributed

        holder = [value]
        with self.in_step():
            distributed.broadcast_object_list(holder, src=0)
        return holder[0]

    def gather(self, value: T) -> list[T]:
        """Every rank's value, by number, on every rank."""
        if self.world == 1:
            return [value]
        from torch import distributed

        values: list[Any] = [None] * self.world
        with self.in_step():
            distributed.all_gather_object(values, value)
        return values

    def total(self, values: torch.Tensor) -> torch.Tensor:
        """The sum over the ranks, in place."""
        if self.world > 1:
            from torch import distributed

            with self.in_step():
                distributed.all_reduce(values)
        return values

    def spread(self, tensors: Iterable[torch.Tensor]) -> None:
        """Overwrite every rank's tensors with those of rank 0."""
        if self.world > 1:
            from torch import distributed

            with self.in_step():
                for each in tensors:
                    distributed.broadcast(each, src=0)

    def together(self, work: Callable[[], T]) -> T:
        """Do ``work`` on every rank; an `AlignkitError` of one is raised on all."""
        if self.world == 1:
            return work()
        value, error = None, None
        try:
            value = work()
        except AlignkitError as raised:
            error = raised
        errors = self.gather(error and str(error))
        if error:
            raise shared(error)
        if first := next(((n, each) for n, each in enumerate(errors) if each is not None), None):
            raise shared(ConfigError(f"rank {first[0]} of {self.world}: {first[1]}"))
        return value  # type: ignore[return-value]

    @contextmanager
    def in_step(self) -> Iterator[None]:
        """Anything else that is raised in the block has left the ranks out of step: `RankError`."""
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
                f"one failed ({type(error).__name__}: {reason}); {KEPT}"
            ) from error

    def _stopped(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler's
        raise RankError(
            f"rank {self.number} of {self.world} was told to stop, as another rank ended; {KEPT}"
        )


ALONE = Rank()


def shared(error: AlignkitError) -> AlignkitError:
    """Mark an error that every rank of the group raises at the same place."""
    error.shared = True
    return error


def this_rank() -> Rank:
    """What ``torchrun`` says this process is; `ALONE` without it."""
    return Rank(*(int(os.environ.get(name, default)) for name, default in _VARIABLES))


_VARIABLES = (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))
