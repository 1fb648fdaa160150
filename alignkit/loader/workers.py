"""What a loop is told when a worker process of the wrapped ``DataLoader`` ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from alignkit.errors import WorkerError

TORCHS_WORDS = "DataLoader worker (pid"
"""How its ``RuntimeError`` begins; it has no type of its own."""


@contextmanager
def deaths_explained() -> Iterator[None]:
    """Turn torch's ``RuntimeError`` for a worker that ended into a `WorkerError`."""
    try:
        yield
    except RuntimeError as error:
        if not str(error).startswith(TORCHS_WORDS):
            raise
        raise WorkerError(
            f"{str(error).partition(chr(10))[0].rstrip('. ')}. Most often memory ran out: give the "
            "DataLoader a smaller num_workers, prefetch_factor or batch_size, then begin this "
            "epoch again from your last checkpoint; set_epoch draws it as before"
        ) from error
