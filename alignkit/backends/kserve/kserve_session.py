"""A session with a model behind an endpoint, which receives files or tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.backends import EncodedFiles
from alignkit.backends.kserve.kserve_client import (
    Client,
    Loop,
    Requester,
    connect,
    files_array,
    gather_limited,
    secrets_of,
)
from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.arrays import Batch, Logits
    from alignkit.backends.kserve import KServeBackend
    from alignkit.models.checkpoint import Checkpoint

PROTOCOL_TYPES = {"files": "BYTES", "tensors": "FP32"}
"""Content of a request → the protocol's type."""
ANSWER_TYPES = ("FP32", "FP16", "FP64")
_FREE = (-1, 0)
"""Numbers that servers write for a free dimension."""
_SUM_TOLERANCE = 1e-3
"""Greatest distance of a sum of float16 probabilities from 1."""


def open_endpoint(backend: KServeBackend, checkpoint: Checkpoint) -> EndpointSession:
    """Read the endpoint's description; raise `BackendError` if it is down or the data misfits."""
    headers, loop = backend.address().headers(), Loop()
    requester = Requester(backend.timeout, backend.retries, secrets_of(headers))
    try:
        client = loop.run(_connected(backend.address().resolved(), headers))
        try:
            return loop.run(_described(backend, client, requester, checkpoint, loop))
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
    output_spec = declared_tensor(model, "output", backend.output)
    require_input(input_spec, backend.sends, (checkpoint.height, checkpoint.width))
    require_output(output_spec, checkpoint.classes)
    observed = {
        "precision": "served",
        "endpoint": backend.address().resolved(),
        "server": " ".join(filter(None, (server.get("name"), server.get("version")))),
        "model": f"{backend.model}, versions: {', '.join(model.get('versions') or ()) or 'one'}",
        "platform": model.get("platform") or "not stated",
        "sent": f"{backend.sends}, {input_spec.name}, {'bytes' if client.extended else 'JSON'}",
        "compared": f"{output_spec.name}, {backend.answers}",
    }
    return EndpointSession(
        backend, client, requester, loop, input_spec, output_spec, checkpoint.classes, observed
    )


@dataclass(slots=True, eq=False)
class EndpointSession:
    """A connection to a model that receives files or tensors, as the backend says."""

    backend: KServeBackend
    client: Client
    requester: Requester
    loop: Loop
    input_spec: TensorSpec
    output_spec: TensorSpec
    classes: int
    observed: dict[str, str]

    def predict(self, inputs: Batch | EncodedFiles) -> Logits:
        """Return (images, classes) float32 for encoded files, or (images, 3, height, width)."""
        images = inputs.files if isinstance(inputs, EncodedFiles) else inputs
        step = self.backend.images_per_request
        parts = (images[start : start + step] for start in range(0, len(images), step))
        works = [partial(self._answer, part) for part in parts]
        answers = np.concatenate(self.loop.run(gather_limited(works, self.backend.concurrency)))
        return _logits_of(answers, self.backend.answers)

    async def _answer(self, images: Batch | Sequence[bytes]) -> Logits:
        target = (self.backend.model, self.backend.model_version)
        array = (
            images
            if isinstance(images, np.ndarray)
            else files_array(self.input_spec, images, self.client)
        )
        tensor = (self.input_spec.name, array, PROTOCOL_TYPES[self.backend.sends])
        kind, answer = await self.requester.send(
            lambda: self.client.infer(target, tensor, self.output_spec.name)
        )
        shape = (len(images), self.classes)
        if answer is None:
            raise BackendError(f"the endpoint's answer holds no output {self.output_spec.name!r}")
        if answer.shape != shape or kind not in ANSWER_TYPES:
            had = "x".join(map(str, answer.shape))
            raise BackendError(
                f"the endpoint answered {kind} {had} for {shape[0]} images of {shape[1]} classes"
            )
        return answer.astype(np.float32)

    def effective(self) -> dict[str, str]:
        """Return the endpoint's own facts, and the number of requests of this session."""
        requests = f"{self.requester.requests}, {self.requester.retried} of them sent again"
        return {**self.observed, "requests so far": requests}

    def close(self) -> None:
        """Close the connections and the thread."""
        self.loop.run(self.client.close())
        self.loop.close()


def _logits_of(answers: Logits, declared: str) -> Logits:
    """Return logits unchanged and the logarithm of probabilities.

    Rows without a negative value that add up to 1 count as probabilities. Raises `BackendError` if
    the answers are not of the ``declared`` kind, ``logits`` or ``probabilities``.
    """
    likely = bool((answers >= 0).all() and (abs(answers.sum(1) - 1) < _SUM_TOLERANCE).all())
    if likely != (declared == "probabilities"):
        verb, meant = ("look like", "probabilities") if likely else ("are no", "logits")
        raise BackendError(f"the endpoint's answers {verb} probabilities: set 'answers: {meant}'")
    # a probability of 0 would have no logarithm
    return np.log(np.maximum(answers, np.finfo(np.float32).tiny)) if likely else answers


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


def require_output(tensor: TensorSpec, classes: int) -> None:
    """Raise `BackendError` unless the model gives one number for each class."""
    if tensor.kind not in ("", *ANSWER_TYPES) or not tensor.fits((-1, classes)):
        raise BackendError(
            f"the endpoint's model gives {tensor.text()} as {tensor.name!r}, and the data has "
            f"{classes} classes"
        )
