"""A cell predicted by every rank of a group: each takes every n-th batch, rank 0 gathers them.

The batches are those of a single process, so are the logits; no image is predicted twice, and they
end in the order of the data set. Rank 0 hashes the inputs of all, so that the digest is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.errors import BackendError
from alignkit.outcome import Failed, Measured, capture
from alignkit.predict.inputs import Tensors, asked
from alignkit.rank import Rank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Logits
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.runtime import Runtime
    from alignkit.preprocess import Normalise

Part: TypeAlias = "list[tuple[int, Logits]]"
"""The first image of a batch, and the batch's logits; for every batch that a rank took."""


@dataclass(frozen=True, slots=True)
class Share:
    """The images of a cell, as they travel to another process: pixels as the name of their file."""

    pixels: str
    rows: npt.NDArray[np.int64]
    """Where each image to predict lies in ``pixels``."""
    normalise: Normalise
    shape: tuple[int, int, int]
    """What the model takes."""
    classes: int
    batch_size: int

    def inputs(self) -> Tensors:
        """The images, mapped here."""
        import numpy as np

        from alignkit.prepare import Prepared

        mapped = Prepared(np.load(self.pixels, mmap_mode="r"), self.rows, ())
        return Tensors(mapped, np.arange(len(self.rows)), self.normalise, self.shape)


def shares(rank: Rank, runtime: Runtime) -> bool:
    """Whether the ranks predict a cell together.

    Rank 0 alone reads files, and asks a live endpoint, which is one for all.
    """
    return rank.world > 1 and not runtime.backend.own_path and not runtime.backend.live


@contextmanager
def shared_session(
    rank: Rank, runtime: Runtime, checkpoint: Checkpoint, file: Path | None
) -> Iterator[None]:
    """While rank 0 has a session open, every other rank has its own of the same model."""
    if not shares(rank, runtime):
        yield
        return
    rank.call_followers(serve, runtime=runtime, checkpoint=checkpoint, file=file)
    try:
        yield
    finally:
        rank.stop_followers()


def serve(rank: Rank, runtime: Runtime, checkpoint: Checkpoint, file: Path | None) -> None:
    """What every rank but 0 does meanwhile: its share of each cell until there are no more."""
    from alignkit.predict import open_session

    with ExitStack() as stack:
        opened = capture(lambda: stack.enter_context(open_session(runtime, checkpoint, file)))
        while (share := rank.broadcast(None)) is not None:
            if isinstance(opened, Measured):
                rank.gather(capture(partial(_served, rank, opened.value, share)))
            else:
                rank.gather(opened)


def _served(rank: Rank, session: Session, share: Share) -> Part:
    inputs = share.inputs()
    return [
        (start, asked(session, inputs, start, stop, share.classes))
        for start, stop in _batches(len(inputs), share.batch_size)[rank.share]
    ]


def shared_logits(
    rank: Rank,
    session: Session,
    inputs: Tensors,
    classes: int,
    batch_size: int,
    progress: Callable[[int, int], None] | None = None,
) -> Logits:
    """(images, classes) float32 on rank 0; raises `BackendError` for what another rank met."""
    import numpy as np

    pixels = inputs.prepared.pixels
    assert isinstance(pixels, np.memmap)
    rows = inputs.prepared.rows[inputs.indices]
    rank.broadcast(
        Share(str(pixels.filename), rows, inputs.normalise, inputs.shape, classes, batch_size)
    )
    work = partial(_own_part, rank, session, inputs, classes, batch_size, progress)
    ended = rank.gather(capture(work))
    logits = np.empty((len(inputs), classes), np.float32)
    for number, each in enumerate(ended):
        if isinstance(each, Failed):
            raise BackendError(f"rank {number}: {each.message}")
        for start, given in each.value:
            logits[start : start + len(given)] = given
    return logits


def _own_part(
    rank: Rank,
    session: Session,
    inputs: Tensors,
    classes: int,
    batch_size: int,
    progress: Callable[[int, int], None] | None,
) -> Part:
    part: Part = []
    for number, (start, stop) in enumerate(_batches(len(inputs), batch_size)):
        if number % rank.world == rank.number:
            part.append((start, asked(session, inputs, start, stop, classes, count=True)))
        else:
            inputs.part(start, stop, count=True)
        if progress:
            progress(stop, len(inputs))
    return part


def _batches(count: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, count)) for start in range(0, count, size)]
