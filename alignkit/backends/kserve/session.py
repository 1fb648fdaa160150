"""A model behind an endpoint, asked for every image: by file or by tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from alignkit.backends.kserve.client import Client, connect, files_as
from alignkit.backends.kserve.model import (
    ANSWERS,
    KINDS,
    Tensor,
    chosen,
    require_input,
    require_output,
)
from alignkit.backends.kserve.request import Asking, Loop, secrets_of, together
from alignkit.errors import BackendError

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.arrays import Batch, Logits
    from alignkit.backends import FileSession, Session
    from alignkit.backends.kserve import KServeBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.preprocess import Normalise

NEGLIGIBLE = 1e-3
"""How far the sum of float16 probabilities may be from 1."""


def opened(backend: KServeBackend, checkpoint: Checkpoint) -> Session | FileSession:
    """Ask the endpoint what it is; raises `BackendError` if it is down or the data does not fit."""
    headers, loop = backend.address().headers(), Loop()
    asking = Asking(backend.timeout, backend.retries, secrets_of(headers))
    try:
        client = loop.run(_connected(backend.address().resolved(), headers))
        try:
            endpoint = loop.run(_described(backend, client, asking, checkpoint, loop))
        except BaseException:
            loop.run(client.close())
            raise
    except BaseException:
        loop.close()
        raise
    return FilesToEndpoint(endpoint) if backend.sends == "files" else TensorsToEndpoint(endpoint)


async def _connected(url: str, headers: dict[str, str]) -> Client:
    return connect(url, headers)  # both clients belong to the loop they are made in


async def _described(
    backend: KServeBackend, client: Client, asking: Asking, checkpoint: Checkpoint, loop: Loop
) -> Endpoint:
    server = await asking.ask(client.server)
    found = await asking.ask(lambda: client.model(backend.model, backend.model_version))
    given, wanted = chosen(found, "input", backend.input), chosen(found, "output", backend.output)
    require_input(given, backend.sends, (checkpoint.height, checkpoint.width))
    require_output(wanted, checkpoint.classes)
    observed = {
        "precision": "served",
        "endpoint": backend.address().resolved(),
        "server": " ".join(filter(None, (server.get("name"), server.get("version")))),
        "model": f"{backend.model}, versions: {', '.join(found.get('versions') or ()) or 'one'}",
        "platform": found.get("platform") or "not told",
        "sent": f"{backend.sends}, {given.name}, {'bytes' if client.extended else 'JSON'}",
        "compared": f"{wanted.name}, {backend.answers}",
    }
    return Endpoint(backend, client, asking, loop, given, wanted, checkpoint.classes, observed)


@dataclass(slots=True, eq=False)
class Endpoint:
    """What both sessions share: the connection, and the way from arrays to logits."""

    backend: KServeBackend
    client: Client
    asking: Asking
    loop: Loop
    given: Tensor
    wanted: Tensor
    classes: int
    observed: dict[str, str]

    def logits(self, count: int, part: Callable[[slice], npt.NDArray[Any]]) -> Logits:
        """(images, classes) float32; ``part`` gives the array for some of the images."""
        import numpy as np

        step = self.backend.images_per_request
        slices = [slice(start, min(start + step, count)) for start in range(0, count, step)]
        works = [partial(self._answer, each, part) for each in slices]
        answers = np.concatenate(self.loop.run(together(works, self.backend.concurrency)))
        return logits_of(answers, self.backend.answers)

    async def _answer(self, chosen: slice, part: Callable[[slice], npt.NDArray[Any]]) -> Logits:
        import numpy as np

        target = (self.backend.model, self.backend.model_version)
        tensor = (self.given.name, part(chosen), KINDS[self.backend.sends])
        kind, found = await self.asking.ask(
            lambda: self.client.infer(target, tensor, self.wanted.name)
        )
        shape = (chosen.stop - chosen.start, self.classes)
        if found is None:
            raise BackendError(f"the endpoint's answer holds no output {self.wanted.name!r}")
        if found.shape != shape or kind not in ANSWERS:
            had = "x".join(map(str, found.shape))
            raise BackendError(
                f"the endpoint answered {kind} {had} for {shape[0]} images of {shape[1]} classes"
            )
        return found.astype(np.float32)

    def effective(self) -> dict[str, str]:
        """What really ran, and how many requests it took since the session was opened."""
        told = f"{self.asking.requests}, {self.asking.again} of them sent again"
        return {**self.observed, "requests so far": told}

    def close(self) -> None:
        """Give the connections back."""
        self.loop.run(self.client.close())
        self.loop.close()


def logits_of(answers: Logits, declared: str) -> Logits:
    """Logits as they are, of probabilities the logarithm; raises `BackendError` if they are others.

    Rows that hold nothing negative and add up to 1 are taken for probabilities.
    """
    import numpy as np

    likely = bool((answers >= 0).all() and (abs(answers.sum(1) - 1) < NEGLIGIBLE).all())
    if likely != (declared == "probabilities"):
        told, meant = ("look like", "probabilities") if likely else ("are no", "logits")
        raise BackendError(f"the endpoint's answers {told} probabilities: set 'answers: {meant}'")
    return np.log(np.maximum(answers, np.finfo(np.float32).tiny)) if likely else answers


@dataclass(frozen=True, slots=True)
class FilesToEndpoint:
    """A `FileSession`: the endpoint decodes and preprocesses."""

    endpoint: Endpoint

    def predict_files(self, files: Sequence[bytes], normalise: Normalise) -> Logits:  # noqa: ARG002 - the endpoint has its own
        """Encoded images → (images, classes) float32."""

        def part(chosen: slice) -> npt.NDArray[Any]:
            return files_as(self.endpoint.given, files[chosen], self.endpoint.client)

        return self.endpoint.logits(len(files), part)

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return self.endpoint.effective()

    def close(self) -> None:
        """Give the connections back."""
        self.endpoint.close()


@dataclass(frozen=True, slots=True)
class TensorsToEndpoint:
    """A `Session`: the endpoint only computes."""

    endpoint: Endpoint

    def predict(self, batch: Batch) -> Logits:
        """(samples, 3, height, width) float32 → (samples, classes) float32."""
        return self.endpoint.logits(len(batch), lambda chosen: batch[chosen])

    def effective(self) -> dict[str, str]:
        """What really ran."""
        return self.endpoint.effective()

    def close(self) -> None:
        """Give the connections back."""
        self.endpoint.close()
