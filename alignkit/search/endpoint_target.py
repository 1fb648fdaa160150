"""A live endpoint's preprocessed tensors: each image is sent once, and the answer is recorded.

The endpoint speaks the Open Inference Protocol v2 (KServe, Triton, MLServer, Seldon) and is named
by the address of the model that preprocesses: ``http://HOST:PORT/v2/models/NAME``, also with
``https``, ``grpc`` or ``grpcs`` and with ``/versions/VERSION`` after it. The model is given encoded
files, as ``BYTES`` or, as DALI's pipelines want them, as ``UINT8``. Layout and normalisation of its
tensors are found as for any recorded ones, see `alignkit.search.target_guess`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from alignkit.backends import BACKENDS
from alignkit.backends.endpoint import Address
from alignkit.errors import BackendError, ConfigError, MissingDependency, UnreadableImage
from alignkit.search.recorded_target import recorded_target

if TYPE_CHECKING:
    from alignkit.backends.endpoint.requests import Requester
    from alignkit.backends.kserve.kserve_client import Client
    from alignkit.backends.kserve.kserve_session import TensorSpec
    from alignkit.samples import Samples
    from alignkit.search.target import Target

_MODEL = re.compile(
    r"(?P<url>\w+://.+?)/v2/models/(?P<model>[^/@?#]+)(?:/versions/(?P<version>[^/@?#]+))?/?"
)
_TOGETHER = 16
"""Images sent at once; an endpoint that answers for none of them has failed."""
_SECONDS = 10.0
"""Time limit of one request, from connecting to the last byte of the answer."""
_RETRIES = 2
"""How often a request is sent again after a time-out, a lost connection or a server's error."""


@dataclass(frozen=True, slots=True)
class EndpointModel:
    """One model of one endpoint."""

    at: Address
    model: str
    version: str = ""
    """Empty: the version that the endpoint chooses."""
    output: str = ""
    """The preprocessed tensor's name; empty: the only one of an image's shape."""


def endpoint_of(address: str, output: str = "", header_env: str = "") -> EndpointModel:
    """Parse the address of a model.

    Raises `ConfigError` for an address without a model, or with a password, and
    `MissingDependency` without tritonclient or without the environment variable ``header_env``,
    which holds the value of ``Authorization``.
    """
    parts = _MODEL.fullmatch(address)
    if parts is None:
        raise ConfigError(
            f"--target {address.rpartition('@')[2]} names no model; give "
            "http://HOST:PORT/v2/models/NAME, the model being the one that preprocesses; "
            "a password goes into a variable, --header-env"
        )
    at = Address(parts["url"], header_env, source="--target")
    if reason := at.missing():
        raise MissingDependency(reason)
    BACKENDS["kserve"].require("a live endpoint")
    return EndpointModel(at, parts["model"], parts["version"] or "", output)


def endpoint_target(
    endpoint: EndpointModel,
    samples: Samples,
    folder: Path,
    *,
    decoders: Sequence[str] = (),
    resizers: Sequence[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Target, tuple[int, ...]]:
    """Return the endpoint's tensors as a target, and the rows of the images it answered for.

    The tensors are kept in the empty ``folder``. Raises as `record_endpoint` and
    `alignkit.search.recorded_target.recorded_target` do.
    """
    left_out = record_endpoint(endpoint, samples, folder, progress)
    target, rows = recorded_target(folder, samples, decoders=decoders, resizers=resizers)
    fact = (
        f"endpoint: {endpoint.at.url}, {endpoint.model} answered for {len(rows)} of {len(samples)}"
    )
    if left_out:
        fact += f" images; the first it did not, {left_out[0][0]}: {left_out[0][1]}"
    return replace(target, name=endpoint.model, facts=(fact, *target.facts)), rows


def record_endpoint(
    endpoint: EndpointModel,
    samples: Samples,
    folder: Path,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[tuple[str, str], ...]:
    """Store the tensor of every image as ``ID.npy``; return (id, reason) of images without one.

    Raises `BackendError` if the endpoint is down, has no such model, or answers for no image of a
    whole batch. ``progress`` is called with (images sent, images).
    """
    from alignkit.backends.endpoint.requests import Loop
    from alignkit.backends.kserve.kserve_client import connect, requester

    headers, loop = endpoint.at.headers(), Loop()
    requests = requester(_SECONDS, _RETRIES, headers)

    async def record() -> tuple[tuple[str, str], ...]:
        client = connect(endpoint.at.url, headers)  # it belongs to the loop it is made in
        try:
            recorder = await _described(endpoint, client, requests)
            return await recorder.record(samples, folder, progress)
        finally:
            await client.close()

    try:
        return loop.run(record())
    finally:
        loop.close()


async def _described(endpoint: EndpointModel, client: Client, requester: Requester) -> _Recorder:
    from alignkit.backends.kserve.kserve_session import declared_tensor

    # first, so that a server that is down is not taken for a missing model
    await requester.send(client.server)
    found = await requester.send(lambda: client.model(endpoint.model, endpoint.version))
    given = declared_tensor(found, "input", "")
    if given.kind not in ("BYTES", "UINT8"):
        raise BackendError(
            f"{endpoint.model} takes {given.text()} as {given.name!r}, and an encoded file is "
            "BYTES or UINT8; name the model that preprocesses"
        )
    return _Recorder(endpoint, client, requester, given, _tensor_of(found, endpoint))


def _tensor_of(found: dict[str, Any], endpoint: EndpointModel) -> str:
    """Return the output that is an image's tensor: the named one, or the only one of its shape."""
    outputs: dict[str, list[int]] = {
        each["name"]: [int(n) for n in each["shape"]] for each in found.get("outputs") or ()
    }
    images = [name for name, shape in outputs.items() if len(shape) in (3, 4) and 3 in shape]
    if endpoint.output in outputs:
        return endpoint.output
    if len(images) == 1 and not endpoint.output:
        return images[0]
    known = ", ".join(f"{name} {shape}" for name, shape in outputs.items()) or "none"
    raise BackendError(
        f"which output of {endpoint.model} is the preprocessed image? It has {known}; name one "
        "with --tensor, or give the model that preprocesses, of an ensemble the first step"
    )


@dataclass(frozen=True, slots=True)
class _Recorder:
    """A model that turns files into tensors, and the client to ask it."""

    endpoint: EndpointModel
    client: Client
    requester: Requester
    given: TensorSpec
    wanted: str

    async def record(
        self, samples: Samples, folder: Path, progress: Callable[[int, int], None] | None
    ) -> tuple[tuple[str, str], ...]:
        """Record every image, see `record_endpoint`."""
        from alignkit.backends.endpoint.requests import gather_limited

        left_out: list[tuple[str, str]] = []
        for start in range(0, len(samples), _TOGETHER):
            chunk = range(start, min(start + _TOGETHER, len(samples)))
            works = [partial(self._recorded, samples, index, folder) for index in chunk]
            reasons = await gather_limited(works, _TOGETHER)
            if all(reasons):
                raise BackendError(f"{samples.ids[start]}: {reasons[0]}")
            left_out += [
                (samples.ids[index], reason)
                for index, reason in zip(chunk, reasons, strict=True)
                if reason
            ]
            if progress:
                progress(chunk.stop, len(samples))
        return tuple(left_out)

    async def _recorded(self, samples: Samples, index: int, folder: Path) -> str:
        """Store the tensor of an image; return why there is none, empty if it was stored."""
        target = (self.endpoint.model, self.endpoint.version)
        try:
            sent = (self.given.name, self._body(samples.read(index)), self.given.kind)
            [(_, tensor)] = await self.requester.send(
                lambda: self.client.infer(target, sent, [self.wanted])
            )
        except (BackendError, UnreadableImage) as error:
            return str(error)  # of one image; the others are asked for all the same
        if tensor is None:
            return f"the endpoint's answer holds no output {self.wanted!r}"
        file = folder / f"{samples.ids[index]}.npy"
        file.parent.mkdir(parents=True, exist_ok=True)
        np.save(file, tensor)
        return ""

    def _body(self, encoded: bytes) -> npt.NDArray[Any]:
        """Return one file as the model's input, with an axis of images where the model has one."""
        from alignkit.backends.kserve.kserve_client import files_array

        if self.given.kind == "UINT8":
            levels = np.frombuffer(encoded, np.uint8)
            return levels[None] if len(self.given.shape) == 2 else levels
        return files_array(self.given, [encoded], self.client)
