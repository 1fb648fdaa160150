"""Prediction of a cell by an engine's workers: each is given whole batches of prepared pixels.

A worker maps the pixels from the shared workspace and opens the model once. Batches and outputs are
those of a single process. The driver hashes all inputs meanwhile, and joins the answers in order.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignkit.compare.stored_sums import StoredArray
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import IMAGES_A_LOT, Lot, LotEngine, lot_of, lot_parts, unseen_folder
from alignkit.lots.kept_lots import KeptLots
from alignkit.predict.answer_bytes import joined, packed, unpacked
from alignkit.predict.kept_session import TravellingSession
from alignkit.predict.rank_sessions import CellImages
from alignkit.predict.session_inputs import Tensors, records_of
from alignkit.preprocess import Preprocess
from alignkit.record import Stored
from alignkit.samples import Samples
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.tasks import Outputs


@dataclass(frozen=True, slots=True, eq=False)
class PredictedSpan:
    """Answers to some images of a cell."""

    lot: Lot | None
    """``None`` for a part that was stored."""
    packed: bytes = b""
    """See `alignkit.predict.answer_bytes`."""
    first: Outputs = ()
    """See `alignkit.predict.session_inputs.Raw`; of the first lot alone."""


@dataclass(frozen=True, slots=True)
class _Nothing:
    """A `Work` of `isolation` that does nothing, as prepared pixels kill no worker."""

    def warm_up(self, begin: Begin) -> None:
        """Do nothing."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> int:  # noqa: ARG002
        """Count the images."""
        return len(images)


@dataclass(frozen=True, slots=True)
class CellLots:
    """The `LotWork` of a cell, whose lots are whole batches."""

    session: TravellingSession
    cell: CellImages
    parts: Mapping[str, Any]
    """Everything that the predictions depend on: see `alignkit.predict.cell_parts`."""

    work = _Nothing()
    paths: tuple[Preprocess, ...] = ()
    limits = None
    images_a_task = 1

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        return {"work": "cell", **self.parts, "threads": self.session.threads}

    def only(self, lot: Lot) -> CellLots:
        """See `LotWork.only`."""
        return replace(self, cell=self.cell.only(lot.begin, len(lot.samples)))

    def places(self) -> list[range]:
        """Cut the cell's images into lots: batches of some 512 images together."""
        found, begin = [], 0
        spans = self.cell.inputs.spans(self.cell.batch_size)
        for _, stop in spans:
            if stop - begin >= IMAGES_A_LOT or stop == spans[-1][1]:
                found.append(range(begin, stop))
                begin = stop
        return found

    def encoded(self, lot: Lot) -> Iterator[Encoded]:  # noqa: ARG002 - all are alike
        """See `LotWork.encoded`: one empty image, as the pixels lie in a file."""
        return iter([Encoded("", b"")])

    def groups(self, lot: Lot) -> Sequence[int]:  # noqa: ARG002
        """See `LotWork.groups`."""
        return [1]

    def images(self, result: int) -> int:
        """See `LotWork.images`."""
        return result

    def empty(self, lot: Lot) -> PredictedSpan:
        """See `LotWork.empty`."""
        return PredictedSpan(lot)

    def add(self, part: PredictedSpan, results: Sequence[int]) -> PredictedSpan:  # noqa: ARG002
        """Predict the images of a lot; see `LotWork.add`."""
        assert part.lot is not None
        lot, cell = part.lot, self.only(part.lot).cell
        if not Path(cell.pixels).is_file():
            raise unseen_folder(Path(cell.pixels).parent, "--reports")
        session, decoder = self.session.opened(), cell.decoder
        raw = records_of(session, cell.inputs, decoder, lot.samples, cell.batch_size)
        content = packed(decoder.answers, lot.samples, raw.records)
        return PredictedSpan(lot, content, raw.first if lot.begin == 0 else ())

    def text(self, part: PredictedSpan) -> str:
        """See `LotWork.text`."""
        first = tuple(map(StoredArray.of, part.first))
        content = base64.b64encode(part.packed).decode()
        return _StoredSpan(packed=content, first=first).model_dump_json()

    def parsed(self, text: str) -> PredictedSpan:
        """See `LotWork.parsed`."""
        stored = _StoredSpan.model_validate_json(text)
        first = tuple(each.array_again() for each in stored.first)
        return PredictedSpan(None, base64.b64decode(stored.packed, validate=True), first)


def answers_of_workers(
    work: CellLots, inputs: Tensors, samples: Samples, workspace: Workspace, engine: LotEngine
) -> tuple[Answers, Outputs]:
    """Let workers predict a cell; return the answers and the outputs of its first images.

    Parts are stored until all are there. ``inputs`` are hashed here.
    """
    decoder, size = work.cell.decoder, work.cell.batch_size
    shown = samples.take(inputs.indices.tolist())
    store, places = KeptLots(workspace), work.places()
    hashed = iter(inputs.spans(size))
    contents: list[bytes] = []
    first: Outputs = ()
    for part, lot in zip(
        lot_parts(work, shown, engine, store=store, places=places), places, strict=True
    ):
        contents.append(part.packed)
        first = first or part.first
        for start, stop in hashed:
            inputs.part(start, stop, count=True)
            if stop == lot.stop:
                break
    answers = unpacked(decoder.answers, decoder.task, shown.ids, samples, joined(contents))
    for number in range(len(places)):
        store.forget(work, lot_of(shown, number, places=places), shown.fingerprint)
    return answers, first


class _StoredSpan(Stored):
    format: Literal[1] = 1
    # 1: 2026-11, first format.
    packed: str
    """Base64."""
    first: tuple[StoredArray, ...]
