"""`GoldenVectors`: the vectors of a few images when an index was built, to compare new ones with.

They lie beside the index. A service that was moved to another runtime, path or version of the model
encodes the same images again; see `alignkit.gate.gate_vectors`. The vectors are a model's raw
outputs, so that class scores can be kept as well as embeddings.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from alignkit.errors import BaselineError, DataError, NothingCompared, RecordError
from alignkit.record import Cell, RunRecord
from alignkit.record.artifacts import artifact_file
from alignkit.record.document import document_text, stored_document
from alignkit.record.stored import Count, Stored
from alignkit.samples import Samples, choose
from alignkit.stored_file import write_atomically
from alignkit.tasks import stored_answers

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.answers import Answers

USUAL_IMAGES = 32
"""Images of which vectors are kept."""


class GoldenImage(Stored):
    """An image, and the model's answer to it."""

    id: str
    sha256: str
    """Of the encoded file."""
    vector: str
    """Base64 of float32, little-endian."""


class GoldenVectors(Stored):
    """Vectors of a few images, with all that they were made by."""

    kind: Literal["golden vectors"] = "golden vectors"
    format: Literal[1] = 1
    alignkit: str
    """Version that wrote it."""
    experiment: str
    row: str
    """Row of the matrix: the model's name, and the path it was trained with."""
    seed: int
    model: str
    """Content hash of the model: of its file, or of everything that its training depends on."""
    path: str
    identity: str
    """SHA-256 of the path's stages and options with their versions."""
    backend: str
    precision: str
    dimensions: Count
    images: tuple[GoldenImage, ...]


def cell_vectors(record: RunRecord, folder: Path, cell: Cell) -> tuple[Answers, Any]:
    """Read a cell's answers and their raw vectors, (n, dimensions) float32.

    Raise `DataError` if the task keeps no raw outputs, `RecordError` as `artifact_file` does.
    """
    if cell.predictions is None:
        raise DataError(f"the cell {cell.place} has no predictions")
    answers = stored_answers(record, artifact_file(folder, cell.predictions))
    rows = answers.raw_rows()
    if rows is None:
        raise DataError(
            f"the task {record.task.name} keeps no raw outputs of its models, and golden vectors "
            f"are such; they suit embeddings and classifiers ({answers.no_logits})"
        )
    return answers, rows.reshape(len(rows), -1)


def recorded_vectors(
    record: RunRecord, folder: Path, cell: Cell, samples: Samples, *, images: int = USUAL_IMAGES
) -> GoldenVectors:
    """Take the vectors of some images from a cell of a run.

    Raise `NothingCompared` if no image has finite ones, else as `cell_vectors` does.
    """
    import numpy as np

    answers, rows = cell_vectors(record, folder, cell)
    # a vector of zeros has no direction to be found again
    finite = np.isfinite(rows).all(axis=1) & rows.any(axis=1)
    known = [name for name, whole in zip(answers.ids, finite.tolist(), strict=True) if whole]
    chosen = choose(known, images, seed=0)
    if not chosen:
        raise NothingCompared(f"no image has a finite answer in {cell.place}")
    place = {name: index for index, name in enumerate(samples.ids)}
    return GoldenVectors(
        alignkit=record.alignkit,
        experiment=record.name,
        row=cell.trained_with,
        seed=cell.seed,
        model=model_of(record, cell),
        path=cell.evaluated_with,
        identity=path_identity(record, cell.evaluated_with),
        backend=cell.backend,
        precision=cell.precision,
        dimensions=rows.shape[1],
        images=tuple(
            GoldenImage(
                id=name,
                sha256=hashlib.sha256(samples.read(place[name])).hexdigest(),
                vector=_text(rows[index]),
            )
            for index, name in enumerate(answers.ids)
            if name in chosen
        ),
    )


def model_of(record: RunRecord, cell: Cell) -> str:
    """Return the content hash of a cell's model; empty if the record does not hold its training."""
    keys = (
        each.key
        for each in record.trainings
        if (each.preprocess, each.seed) == (cell.trained_with, cell.seed)
    )
    return next(keys, "")


def path_identity(record: RunRecord, name: str) -> str:
    """Hash the stages of a path with their options and versions; empty for a server's own."""
    stages = next((each.stages for each in record.paths if each.name == name), ())
    text = "".join(each.model_dump_json() for each in stages)
    return hashlib.sha256(text.encode()).hexdigest() if stages else ""


def refuse_existing(file: Path) -> None:
    """Raise `BaselineError` if there is a file already: an index may rely on it."""
    if file.exists():
        raise BaselineError(
            f"{file} exists; an index may rely on it: name another file, or move that one away"
        )


def write_vectors(vectors: GoldenVectors, file: Path) -> None:
    """Write a new file; raise as `refuse_existing` does."""
    refuse_existing(file)
    write_atomically(file, document_text(vectors))


def read_vectors(file: Path) -> GoldenVectors:
    """Read a file of `write_vectors`; raise `BaselineError` if it is none, or damaged."""
    record = f"record it beside the index: alignkit baseline vectors FILE --out {file}"
    try:
        vectors = stored_document(
            file, GoldenVectors, missing=f"no golden vectors in {file}; {record}", again=record
        )
    except RecordError as error:
        raise BaselineError(str(error)) from error
    vectors_array(vectors)  # a damaged vector is an error of the file, not of a comparison
    return vectors


def vectors_array(vectors: GoldenVectors) -> npt.NDArray[np.float32]:
    """Return the vectors, (images, dimensions); raise `BaselineError` for one of another length."""
    import numpy as np

    rows = []
    for each in vectors.images:
        try:
            row = np.frombuffer(base64.b64decode(each.vector, validate=True), "<f4")
        except (binascii.Error, ValueError) as error:
            raise BaselineError(
                f"the golden vector of {each.id!r} cannot be read ({error})"
            ) from None
        if len(row) != vectors.dimensions:
            raise BaselineError(
                f"the golden vector of {each.id!r} has {len(row)} values, not {vectors.dimensions}"
            )
        rows.append(row.astype(np.float32))
    if not rows:
        raise BaselineError("the file of golden vectors holds none; record it again")
    return np.stack(rows)


def _text(row: npt.NDArray[np.float32]) -> str:
    return base64.b64encode(row.astype("<f4").tobytes()).decode()
