"""A session with an endpoint that answers JSON documents."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from alignkit.backends import EncodedFiles
from alignkit.backends.endpoint.logits_of import AnswerReader
from alignkit.backends.endpoint.requests import Loop, Requester, gather_limited, secrets_of, sent_on
from alignkit.backends.http_json import IMAGE
from alignkit.backends.session_outputs import as_outputs, joined
from alignkit.errors import BackendError
from alignkit.limits import ANSWER_BYTES, bounded_response, parsed_json

if TYPE_CHECKING:
    import aiohttp
    import numpy.typing as npt

    from alignkit.arrays import Batch
    from alignkit.backends.http_json import HTTPJSONBackend
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.tasks import Outputs


class _NoNumbers(Exception):  # noqa: N818 - the answer, not a defect
    """An answer that is no document of numbers: its status and its words."""

    def __init__(self, status: str, message: str) -> None:
        super().__init__(message)
        self.status = status


def _status_of(error: Exception) -> tuple[str, str] | None:
    return (error.status, str(error)) if isinstance(error, _NoNumbers) else None


@dataclass(slots=True, eq=False)
class JSONSession:
    """Connections to one address, which receives files or tensors, as the backend says."""

    backend: HTTPJSONBackend
    of_classes: bool
    """Whether the numbers are scores of classes."""
    loop: Loop
    requester: Requester
    client: aiohttp.ClientSession
    reader: AnswerReader
    seen: dict[str, str] = field(default_factory=dict)
    """Facts of the answers so far."""

    @classmethod
    def opened(cls, backend: HTTPJSONBackend, checkpoint: Checkpoint) -> Self:
        """Make the client in a loop of its own; nothing is sent."""
        import aiohttp

        headers = backend.address().headers()

        async def client() -> aiohttp.ClientSession:  # it belongs to the loop it is made in
            return aiohttp.ClientSession(
                headers={**headers, "Content-Type": "application/json"},
                connector=aiohttp.TCPConnector(limit=backend.concurrency),
                timeout=aiohttp.ClientTimeout(total=None),  # `Requester` sets one
                response_class=bounded_response(ANSWER_BYTES),
            )

        loop = Loop()
        requester = Requester(backend.timeout, backend.retries, secrets_of(headers), _status_of)
        of_classes = checkpoint.task.facts().class_scores
        reader = AnswerReader(backend.answers)
        return cls(backend, of_classes, loop, requester, loop.run(client()), reader)

    def predict(self, inputs: Batch | EncodedFiles) -> Outputs:
        """Return the numbers for encoded files, or (images, 3, height, width) float32.

        Raise `BackendError` for an answer that has not one row of numbers for each image.
        """
        images = inputs.files if isinstance(inputs, EncodedFiles) else inputs
        step = self.backend.images_per_request
        parts = (images[start : start + step] for start in range(0, len(images), step))
        works = [partial(self._answer, part) for part in parts]
        found = self.loop.run(gather_limited(works, self.backend.concurrency))
        if len(shapes := {rows.shape[1:] for (rows,) in found}) > 1:
            kinds = " and ".join("x".join(map(str, each)) for each in sorted(shapes))
            raise BackendError(f"the endpoint answered rows of {kinds} numbers; an image has one "
                               "form of answer")  # fmt: skip
        (answers,) = joined(found)
        if self.backend.answers == "probabilities" or self.of_classes:
            return (self.reader.logits_of(answers),)
        return (answers,)

    async def _answer(self, images: Batch | Sequence[bytes]) -> Outputs:
        body = self.backend.filled(written(images, alone=IMAGE in self.backend.request))
        document = await self.requester.send(lambda: self._posted(body))
        rows = rows_of(document, self.backend.answer, len(images), shown=self.requester.shown)
        return as_outputs([rows])

    async def _posted(self, body: str) -> Any:
        """Send a request once, and read its answer."""
        url = self.backend.address().resolved()
        async with self.client.post(url, data=body.encode(), allow_redirects=False) as response:
            if response.status // 100 == 3:
                raise _NoNumbers(str(response.status), sent_on(response.headers.get("Location")))
            text = await response.read()
            if response.status >= 400:
                raise _NoNumbers(str(response.status), text.decode("utf-8", "replace"))
            self.seen["server"] = response.headers.get("Server", "not stated")
            return parsed_json(text.decode())

    def effective(self) -> dict[str, str]:
        """Return the endpoint's own facts, and the number of requests of this session."""
        requests = f"{self.requester.requests}, {self.requester.retried} of them sent again"
        return {
            "precision": "served",
            "endpoint": self.backend.address().resolved(),
            "server": "not asked yet",
            **self.seen,
            "sent": f"{self.backend.sends}, JSON",
            "compared": f"{self.backend.answer or 'the answer'}, {self.reader.kind}",
            "requests so far": requests,
        }

    def close(self) -> None:
        """Close the connections and the thread."""
        self.loop.run(self.client.close())
        self.loop.close()


def written(images: Batch | Sequence[bytes], *, alone: bool) -> str:
    """Write images as JSON: a list, or ``alone`` the only one itself.

    A file is a string of base64; a tensor is lists of numbers, which are exact in float64.
    """
    values: list[Any]
    if isinstance(images, np.ndarray):
        values = images.tolist()
    else:
        values = [base64.b64encode(each).decode() for each in images]
    return json.dumps(values[0] if alone else values)


def rows_of(
    document: Any, keys: str, images: int, *, shown: Callable[[str], str] = str
) -> npt.NDArray[np.float32]:
    """Take the numbers at ``keys`` of an answer: (images, …) float32.

    The only row of one image may come without the axis of images. Raise `BackendError` if there
    are none, or not one row for each image; ``shown`` takes secrets out of its message.
    """
    found = document
    for key in keys.split(".") if keys else ():
        found, lacking = _followed(found, key)
        if lacking:
            raise BackendError(
                f"the endpoint's answer has no key {key!r}; 'answer' names the keys to its "
                f"numbers: {shown(json.dumps(document))}"
            )
    try:
        given = np.array(found)
    except ValueError:  # rows of several lengths
        given = np.array(None)
    if given.dtype.kind not in "fiu":
        raise BackendError(
            f"the endpoint's answer has no rows of numbers of one length at "
            f"{keys or 'its top'}: {shown(json.dumps(found))}"
        )
    values = given.astype(np.float32)
    if images == 1 and values.ndim == 1 and values.size:
        values = values[None]
    if values.shape[:1] != (images,) or values.ndim < 2 or not values.size:
        shape = "x".join(map(str, values.shape)) or "one number"
        raise BackendError(f"the endpoint answered {shape} for {images} images; name the rows' "
                           "place in the answer as 'answer'")  # fmt: skip
    return values


def _followed(found: Any, key: str) -> tuple[Any, bool]:
    """Return the values at a key, of each item of a list, and whether one of them lacks it."""
    if isinstance(found, list):
        items = [_followed(each, key) for each in found]
        return [each for each, _ in items], any(lacking for _, lacking in items)
    if isinstance(found, dict) and key in found:
        return found[key], False
    return None, True
