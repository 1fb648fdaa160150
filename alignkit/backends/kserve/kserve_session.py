"""A session with a model behind an endpoint, which receives files or tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.backends import EncodedFiles
from alignkit.backends.endpoint.logits_of import AnswerReader
from alignkit.backends.endpoint.requests import Loop, Requester, gather_limited
from alignkit.backends.kserve.kserve_client import Client, connect, files_array, requester
from alignkit.backends.session_outputs import as_outputs, joined
from alignkit.errors import BackendError, ConfigError
from alignkit.tasks import OutputShape

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.backends.kserve import KServeBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.tasks import Outputs

    Answered = npt.NDArray[Any] | None

PROTOCOL_TYPES = {"files": "BYTES", "tensors": "FP32"}
"""Content of a request → the protocol's type."""
_WHOLE_TYPES = ("BOOL", *(f"{sign}INT{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)))
ANSWER_TYPES = ("FP32", "FP16", "FP64", *_WHOLE_TYPES)
_FREE = (-1, 0)
"""Numbers that servers write for a free dimension."""


def open_endpoint(backend: KServeBackend, checkpoint: Checkpoint) -> EndpointSession:
    """Read the endpoint's description; raise `BackendError` if it is down or the data misfits."""
    headers, loop = backend.address().headers(), Loop()
    requests = requester(backend.timeout, backend.retries, headers)
    try:
        client = loop.run(_connected(backend.address().resolved(), headers))
        try:
            return loop.run(_described(backend, client, requests, checkpoint, loop))
        except BaseException:
            loop.run(client.close())
            raise
    except BaseException:
        loop.close()
        raise


async def _connected(url: str, headers: dict[str, str]) -> Client:
    return connect(url, headers)  # both clients belong to the loop they are made in


async def _described(
    backend: KServeBackend, client: Client, requester: Requester, checkpoint: Checkpoint, loop: Loop
) -> EndpointSession:
    server = await requester.send(client.server)
    model = await requester.send(lambda: client.model(backend.model, backend.model_version))
    input_spec = declared_tensor(model, "input", backend.input)
    names = [backend.output] if backend.output else wanted_outputs(model, checkpoint)
    output_specs = [declared_tensor(model, "output", name) for name in names]
    require_input(input_spec, backend.sends, (checkpoint.height, checkpoint.width))
    require_outputs(output_specs, checkpoint)
    reader = AnswerReader(backend.answers)
    observed = {
        "precision": "served",
        "endpoint": backend.address().resolved(),
        "server": " ".join(filter(None, (server.get("name"), server.get("version")))),
        "model": f"{backend.model}, versions: {', '.join(model.get('versions') or ()) or 'one'}",
        "platform": model.get("platform") or "not stated",
        "sent": f"{backend.sends}, {input_spec.name}, {'bytes' if client.extended else 'JSON'}",
        "compared": f"{', '.join(each.name for each in output_specs)}, {reader.kind}",
    }
    return EndpointSession(
        backend, client, requester, loop, input_spec, output_specs, observed, reader
    )


@dataclass(slots=True, eq=False)
class EndpointSession:
    """A connection to a model that receives files or tensors, as the backend says."""

    backend: KServeBackend
    client: Client
    requester: Requester
    loop: Loop
    input_spec: TensorSpec
    output_specs: Sequence[TensorSpec]
    """The wanted outputs, in order."""
    observed: dict[str, str]
    reader: AnswerReader

    def predict(self, inputs: Batch | EncodedFiles) -> Outputs:
        """Return the wanted outputs for encoded files, or (images, 3, height, width) float32.

        Raises `BackendError` for an answer that has not a row for each image.
        """
        images = inputs.files if isinstance(inputs, EncodedFiles) else inputs
        step = self.backend.images_per_request
        parts = (images[start : start + step] for start in range(0, len(images), step))
        works = [partial(self._answer, part) for part in parts]
        answers = joined(self.loop.run(gather_limited(works, self.backend.concurrency)))
        if len(answers) > 1 or answers[0].ndim != 2:
            return answers
        return (self.reader.logits_of(answers[0]),)

    async def _answer(self, images: Batch | Sequence[bytes]) -> Outputs:
        target = (self.backend.model, self.backend.model_version)
        array = (
            images
            if isinstance(images, np.ndarray)
            else files_array(self.input_spec, images, self.client)
        )
        tensor = (self.input_spec.name, array, PROTOCOL_TYPES[self.backend.sends])
        names = [each.name for each in self.output_specs]
        found = await self.requester.send(lambda: self.client.infer(target, tensor, names))
        return as_outputs(
            _checked(spec, *each, len(images))
            for spec, each in zip(self.output_specs, found, strict=True)
        )

    def effective(self) -> dict[str, str]:
        """Return the endpoint's own facts, and the number of requests of this session."""
        requests = f"{self.requester.requests}, {self.requester.retried} of them sent again"
        return {**self.observed, "requests so far": requests}

    def close(self) -> None:
        """Close the connections and the thread."""
        self.loop.run(self.client.close())
        self.loop.close()


def _checked(spec: TensorSpec, kind: str, answer: Answered, images: int) -> npt.NDArray[Any]:
    """Return an answered array; raise `BackendError` unless it is of the declared form."""
    if answer is None:
        raise BackendError(f"the endpoint's answer holds no output {spec.name!r}")
    whole = (spec.kind or kind) in _WHOLE_TYPES
    wanted = answer.shape[:1] == (images,) and spec.fits(answer.shape)
    if not wanted or kind not in ANSWER_TYPES or (kind in _WHOLE_TYPES) != whole:
        had = "x".join(map(str, answer.shape))
        declared = f", and declares {spec.text()}" if spec.kind else ""
        raise BackendError(
            f"the endpoint answered {kind} {had} as {spec.name!r} for {images} images{declared}"
        )
    # whole numbers are float32 only where that is exact
    return answer.astype(np.float32) if answer.dtype.kind == "f" else answer


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input or output, as the endpoint declares it."""

    name: str
    kind: str = ""
    """The protocol's type; empty if the endpoint does not declare it."""
    shape: tuple[int, ...] = ()

    def text(self) -> str:
        """Return type and shape as in ``FP32 ?x3x224x224``."""
        shape = "x".join("?" if size in _FREE else str(size) for size in self.shape)
        return f"{self.kind} {shape}"

    @property
    def declared(self) -> OutputShape:
        """The tensor as a task recognises it."""
        sides = tuple(None if side in _FREE else side for side in self.shape)
        return OutputShape(self.name, sides or None, self.kind in _WHOLE_TYPES)

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Return whether a shape agrees in every axis after the first, the number of images."""
        return not self.shape or (
            len(self.shape) == len(shape)
            and all(
                has in (*_FREE, want) for has, want in zip(self.shape[1:], shape[1:], strict=True)
            )
        )


def declared_tensor(model: dict[str, Any], role: str, name: str) -> TensorSpec:
    """Find the tensor of a name among a model's ``inputs`` or ``outputs``; no name: the only one.

    ``role`` is ``input`` or ``output``. Raises `BackendError` if there is no such tensor, or if
    there are several and no name.
    """
    declared = [
        TensorSpec(each["name"], each["datatype"], tuple(int(n) for n in each.get("shape", ())))
        for each in model.get(f"{role}s") or ()
    ]
    if not declared and name:  # the protocol lets a server leave them out
        return TensorSpec(name)
    if not declared:
        raise BackendError(f"the endpoint declares no {role}s of the model; name one as '{role}'")
    named = [each for each in declared if name in ("", each.name)]
    if len(named) == 1:
        return named[0]
    names = ", ".join(each.name for each in declared)
    raise BackendError(f"the endpoint's model has the {role}s {names}; name one as '{role}'")


def require_input(tensor: TensorSpec, sends: str, size: tuple[int, int]) -> None:
    """Raise `BackendError` unless the model takes the ``sends``, tensors of ``size``."""
    if tensor.kind not in ("", PROTOCOL_TYPES[sends]):
        other = "tensors" if sends == "files" else "files"
        raise BackendError(
            f"the endpoint's model takes {tensor.text()} as {tensor.name!r}, and {sends} are "
            f"{PROTOCOL_TYPES[sends]}; set 'sends: {other}' if it takes those"
        )
    if sends == "files":
        return  # their size is the endpoint's business
    wanted = (-1, 3, *size)
    if len(tensor.shape) == 4 and tensor.shape[3] == 3 and tensor.shape[1] != 3:
        raise BackendError(
            f"the endpoint's model takes {tensor.text()}: channels last; alignkit's tensors have "
            "channels first"
        )
    if not tensor.fits(wanted):
        raise BackendError(
            f"the endpoint's model takes {tensor.text()}, and the path gives "
            f"{TensorSpec('', 'FP32', wanted).text()}; change the path's size"
        )


def wanted_outputs(model: dict[str, Any], checkpoint: Checkpoint) -> Sequence[str]:
    """Name the outputs that the row's task decodes, by default the only one, whose name is empty.

    A server of the row's own ONNX file has its names.
    """
    if checkpoint.outputs:
        return checkpoint.outputs
    declared = [each["name"] for each in model.get("outputs") or ()]
    if len(declared) < 2:
        return ("",)
    specs = [declared_tensor(model, "output", name) for name in declared]
    try:
        return checkpoint.task.wanted([each.declared for each in specs])
    except ConfigError:
        return ("",)  # `declared_tensor` asks for a name


def require_outputs(tensors: Sequence[TensorSpec], checkpoint: Checkpoint) -> None:
    """Raise `BackendError` unless the row's task can decode the outputs for its classes."""
    given = ", ".join(f"{each.text()} as {each.name!r}" for each in tensors)
    begin = f"the endpoint's model gives {given}"
    if any(each.kind not in ("", *ANSWER_TYPES) for each in tensors):
        raise BackendError(f"{begin}, and numbers are needed; name another output")
    try:
        checkpoint.task.recognise([each.declared for each in tensors], checkpoint.classes or None)
    except ConfigError as error:
        raise BackendError(f"{begin}: {error}") from error
