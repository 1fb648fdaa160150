"""A model behind an endpoint, asked for every image: by file or by tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from alignkit.backends import EncodedFiles
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
    from alignkit.arrays import Batch, Logits
    from alignkit.backends.kserve import KServeBackend
    from alignkit.models.checkpoint import Checkpoint

NEGLIGIBLE = 1e-3
"""How far the sum of float16 probabilities may be from 1."""


def opened(backend: KServeBackend, checkpoint: Checkpoint) -> EndpointSession:
    """Ask the endpoint what it is; raises `BackendError` if it is down or the data does not fit."""
    headers, loop = backend.address().headers(), Loop()
    asking = Asking(backend.timeout, backend.retries, secrets_of(headers))
    try:
        client = loop.run(_connected(backend.address().resolved(), headers))
        try:
            return loop.run(_described(backend, client, asking, checkpoint, loop))
        except BaseException:
            loop.run(client.close())
            raise
    except BaseException:
        loop.close()
        raise


async def _connected(url: str, headers: dict[str, str]) -> Client:
    return connect(url, headers)  # both clients belong to the loop they are made in


async def _described(
    backend: KServeBackend, client: Client, asking: Asking, checkpoint: Checkpoint, loop: Loop
) -> EndpointSession:
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
    return EndpointSession(
        backend, client, asking, loop, given, wanted, checkpoint.classes, observed
    )


@dataclass(slots=True, eq=False)
class EndpointSession:
    """A connection to a model that is sent files or tensors, as the backend says."""

    backend: KServeBackend
    client: Client
    asking: Asking
    loop: Loop
    given: Tensor
    wanted: Tensor
    classes: int
    observed: dict[str, str]

    def predict(self, inputs: Batch | EncodedFiles) -> Logits:
        """Return (images, classes) float32 for encoded files, or (images, 3, height, width)."""
        import numpy as np

        images = inputs.files if isinstance(inputs, EncodedFiles) else inputs
        step = self.backend.images_per_request
        parts = (images[start : start + step] for start in range(0, len(images), step))
        works = [partial(self._answer, part) for part in parts]
        answers = np.concatenate(self.loop.run(together(works, self.backend.concurrency)))
        return logits_of(answers, self.backend.answers)

    async def _answer(self, images: Batch | Sequence[bytes]) -> Logits:
        import numpy as np

        target = (self.backend.model, self.backend.model_version)
        array = (
            images if isinstance(images, np.ndarray) else files_as(self.given, images, self.client)
        )
        tensor = (self.given.name, array, KINDS[self.backend.sends])
        kind, found = await self.asking.ask(
            lambda: self.client.infer(target, tensor, self.wanted.name)
        )
        shape = (len(images), self.classes)
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
