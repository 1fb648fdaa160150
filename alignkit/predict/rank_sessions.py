"""Prediction of a cell by every rank of a group: each takes every n-th batch, rank 0 gathers them.

Batches and outputs are the same as with a single process; no image is predicted twice, and the
records are in the order of the data set. Rank 0 hashes all inputs, so that the digest is the same.
In a round each rank predicts one batch. Rank 0, which alone has the samples, keeps what the task
needs of it, so that no rank holds the outputs of more than a round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from alignkit.errors import BackendError
from alignkit.outcome import Failed, Measured, capture
from alignkit.predict.decoder import AnswerDecoder, KeptRecords
from alignkit.predict.session_inputs import Raw, Tensors, batch_outputs, first_of
from alignkit.rank import Rank

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.work import Runtime
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples
    from alignkit.tasks import Outputs, Records

_Span: TypeAlias = tuple[int, int]
_Round: TypeAlias = "Measured[Records] | Failed"
"""Decoded records of the batch that a rank predicted, none if there was no batch for it."""


@dataclass(frozen=True)
class CellImages:
    """The images of a cell, as they travel to another rank: pixels by the name of their file."""

    pixels: str
    rows: npt.NDArray[np.int64]
    """Row in ``pixels`` of each image to predict."""
    preprocess: Preprocess
    shape: tuple[int, int, int]
    """Input shape of the model: (3, height, width)."""
    sources: npt.NDArray[np.int32] | None
    """As `Prepared.sources`, of these images."""
    sizes: npt.NDArray[np.int32] | None
    """As `Prepared.sizes`, of these images."""
    decoder: AnswerDecoder
    batch_size: int

    @classmethod
    def of(cls, inputs: Tensors, decoder: AnswerDecoder, batch_size: int) -> CellImages:
        """Describe all images of a cell."""
        import numpy as np

        pixels = inputs.prepared.pixels
        # its file name travels, not its gigabytes
        assert isinstance(pixels, np.memmap)
        prepared, chosen = inputs.prepared, inputs.indices
        return cls(
            str(Path(str(pixels.filename)).resolve()),
            prepared.rows[chosen],
            inputs.preprocess,
            inputs.shape,
            None if prepared.sources is None else prepared.sources[chosen],
            None if prepared.sizes is None else prepared.sizes[chosen],
            decoder,
            batch_size,
        )

    @cached_property
    def inputs(self) -> Tensors:
        """The images, mapped into this process."""
        import numpy as np

        from alignkit.prepare import Prepared

        mapped = Prepared(
            lambda: np.load(self.pixels, mmap_mode="r"), self.rows, (), self.sources, self.sizes
        )
        return Tensors(mapped, np.arange(len(self.rows)), self.preprocess, self.shape)

    def rounds(self, world: int) -> list[list[_Span]]:
        """Cut the images into batches (start, stop), and these into rounds: one for each rank."""
        spans = self.inputs.spans(self.batch_size)
        return [spans[start : start + world] for start in range(0, len(spans), world)]


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
            for spans in images.rounds(rank.world):
                # rank 0 gathers from every rank, also from one whose session did not open
                own = (
                    capture(partial(_served, rank, opened.value, images, spans))
                    if isinstance(opened, Measured)
                    else opened
                )
                if _failed(rank.gather(own)):
                    break


def _served(rank: Rank, session: Session, images: CellImages, spans: Sequence[_Span]) -> Records:
    if rank.number >= len(spans):
        return []
    start, stop = spans[rank.number]
    inputs = images.inputs
    outputs = batch_outputs(session, inputs, start, stop)
    return images.decoder.records(outputs, inputs.places(start, stop))


def _failed(ended: Sequence[_Round]) -> str:
    """Say which rank failed, and why; empty if none did."""
    failed = (
        f"rank {number}: {outcome.message}"
        for number, outcome in enumerate(ended)
        if isinstance(outcome, Failed)
    )
    return next(failed, "")


def shared_records(
    rank: Rank,
    session: Session,
    inputs: Tensors,
    decoder: AnswerDecoder,
    samples: Samples,
    batch_size: int,
) -> Raw:
    """Predict with every rank and gather on rank 0; raise `BackendError` if any rank failed."""
    images = CellImages.of(inputs, decoder, batch_size)
    rank.broadcast(images)
    leader = _Leader(session, inputs, decoder, samples)
    for spans in images.rounds(rank.world):
        ended = rank.gather(capture(partial(leader.predict, spans)))
        if reason := _failed(ended):
            raise BackendError(reason)
        leader.gathered = [
            (span, each.value)
            for span, each in zip(spans, ended, strict=False)
            if isinstance(each, Measured)
        ]
    leader.keep()
    return Raw(leader.records.all, leader.first)


class _Leader:
    """The part of rank 0: its own batches, the hash of all, and the records of all."""

    def __init__(
        self, session: Session, inputs: Tensors, decoder: AnswerDecoder, samples: Samples
    ) -> None:
        self.records = KeptRecords(len(inputs))
        self.first: Outputs = ()
        self.gathered: list[tuple[_Span, Records]] = []
        """Images and decoded records of the last round."""
        self._session, self._inputs = session, inputs
        self._decoder, self._samples = decoder, samples

    def predict(self, spans: Sequence[_Span]) -> Records:
        """Keep the round before, predict the first batch, and hash all."""
        # here, as an error of the task must end the round of all ranks
        self.keep()
        (start, stop), *others = spans
        outputs = batch_outputs(self._session, self._inputs, start, stop, count=True)
        for other in others:
            self._inputs.part(*other, count=True)  # hash only
        self.first = self.first or first_of(outputs)
        return self._decoder.records(outputs, self._inputs.places(start, stop))

    def keep(self) -> None:
        """Keep the records of the last round."""
        for (start, stop), records in self.gathered:
            samples = self._samples.take(self._inputs.indices[start:stop].tolist())
            self.records.put(start, self._decoder.kept(records, samples))
        self.gathered = []
