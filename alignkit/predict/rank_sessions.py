"""Prediction of a cell by every rank of a group: each takes every n-th batch, rank 0 gathers them.

Batches and logits are the same as with a single process; no image is predicted twice, and the
logits are in the order of the data set. Rank 0 hashes all inputs, so that the digest is the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.errors import BackendError
from alignkit.outcome import Failed, Measured, capture
from alignkit.predict.session_inputs import Tensors, batch_logits
from alignkit.rank import Rank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Logits
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.preprocess import Normalise

_Batches: TypeAlias = "list[tuple[int, Logits]]"
"""Index of the first image and logits of every batch that a rank predicted."""


@dataclass(frozen=True, slots=True)
class CellImages:
    """The images of a cell, as they travel to another process: pixels by the name of their file."""

    pixels: str
    rows: npt.NDArray[np.int64]
    """Row in ``pixels`` of each image to predict."""
    normalise: Normalise
    shape: tuple[int, int, int]
    """Input shape of the model: (3, height, width)."""
    classes: int
    batch_size: int

    def inputs(self) -> Tensors:
        """Map the images into this process."""
        import numpy as np

        from alignkit.prepare import Prepared

        mapped = Prepared(lambda: np.load(self.pixels, mmap_mode="r"), self.rows, ())
        return Tensors(mapped, np.arange(len(self.rows)), self.normalise, self.shape)


def shares(rank: Rank, runtime: Runtime) -> bool:
    """Return whether the ranks share the prediction of a cell.

    Only rank 0 reads files, and asks a live endpoint: the ranks would share the one endpoint.
    """
    return rank.world > 1 and not runtime.backend.own_path and not runtime.backend.live


@contextmanager
def shared_session(
    rank: Rank, runtime: Runtime, checkpoint: Checkpoint, file: Path | None
) -> Iterator[None]:
    """Open a session of the same model on every other rank while the block runs on rank 0."""
    if not shares(rank, runtime):
        yield
        return
    rank.call_followers(serve, runtime=runtime, checkpoint=checkpoint, file=file)
    try:
        yield
    finally:
        rank.stop_followers()


def serve(rank: Rank, runtime: Runtime, checkpoint: Checkpoint, file: Path | None) -> None:
    """Predict this rank's batches of each cell, until rank 0 has no more cells."""
    from alignkit.predict import open_session

    with ExitStack() as stack:
        opened = capture(lambda: stack.enter_context(open_session(runtime, checkpoint, file)))
        while (images := rank.broadcast(None)) is not None:
            # rank 0 gathers from every rank, also from one whose session did not open
            if isinstance(opened, Measured):
                rank.gather(capture(partial(_served, rank, opened.value, images)))
            else:
                rank.gather(opened)


def _served(rank: Rank, session: Session, images: CellImages) -> _Batches:
    inputs = images.inputs()
    return [
        (start, batch_logits(session, inputs, start, stop, images.classes))
        for start, stop in _batches(len(inputs), images.batch_size)[rank.share]
    ]


def shared_logits(
    rank: Rank, session: Session, inputs: Tensors, classes: int, batch_size: int
) -> Logits:
    """Return (images, classes) float32 on rank 0; raise `BackendError` if any rank failed."""
    import numpy as np

    pixels = inputs.prepared.pixels
    # its file name travels, not its gigabytes
    assert isinstance(pixels, np.memmap)
    rows = inputs.prepared.rows[inputs.indices]
    rank.broadcast(
        CellImages(str(pixels.filename), rows, inputs.normalise, inputs.shape, classes, batch_size)
    )
    ended = rank.gather(capture(partial(_own_part, rank, session, inputs, classes, batch_size)))
    logits = np.empty((len(inputs), classes), np.float32)
    for number, outcome in enumerate(ended):
        if isinstance(outcome, Failed):
            raise BackendError(f"rank {number}: {outcome.message}")
        for start, batch in outcome.value:
            logits[start : start + len(batch)] = batch
    return logits


def _own_part(
    rank: Rank, session: Session, inputs: Tensors, classes: int, batch_size: int
) -> _Batches:
    own: _Batches = []
    for number, (start, stop) in enumerate(_batches(len(inputs), batch_size)):
        if number % rank.world == rank.number:
            own.append((start, batch_logits(session, inputs, start, stop, classes, count=True)))
        else:
            inputs.part(start, stop, count=True)  # hash only
    return own


def _batches(count: int, size: int) -> list[tuple[int, int]]:
    return [(start, min(start + size, count)) for start in range(0, count, size)]
