"""A live endpoint that takes images in a JSON document of its own form, over HTTP.

Its request is a template, and its answer's place in the document is named, so that PLSC's
``{"base64_string": […]}``, TensorFlow Serving's ``{"instances": […]}`` and a service of one's own
are the same backend. As with `alignkit.backends.kserve`, encoded files are sent by default, and the
precision is ``served``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alignkit.backends import BACKENDS
from alignkit.backends.endpoint import EndpointBackend
from alignkit.errors import SECRET_NAME, ConfigError, MissingDependency
from alignkit.limits import parsed_json

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.backends.http_json.json_session import JSONSession
    from alignkit.models.checkpoint import Checkpoint

IMAGES, IMAGE = "{images}", "{image}"
"""Places of a request: a list of images, or one image."""


def _secrets_in(document: Any) -> Iterator[str]:
    """Yield the keys of texts that may be secrets; ``key`` alone is a word of services."""
    if isinstance(document, list):
        for each in document:
            yield from _secrets_in(each)
    elif isinstance(document, dict):
        for name, value in document.items():
            if isinstance(value, str) and name.lower() != "key" and SECRET_NAME.search(name):
                yield name
            yield from _secrets_in(value)


@dataclass(frozen=True, slots=True)
class HTTPJSONBackend(EndpointBackend):
    """One address that answers POST requests."""

    request: str
    """The JSON document of a request, in which ``{images}`` is a list of images, or ``{image}`` is
    one image: ``'{"base64_string": {images}}'``. An encoded file is a string of base64, a tensor
    is lists of numbers."""
    answer: str = ""
    """Keys to the numbers in the answer, joined by dots: ``result.embedding``. On the way, a list
    is followed item by item. Empty: the document itself."""

    def __post_init__(self) -> None:
        # `super()` without arguments does not work in a dataclass with slots
        EndpointBackend.__post_init__(self)
        places = [self.request.count(each) for each in (IMAGES, IMAGE)]
        if sorted(places) != [0, 1]:
            raise ConfigError(
                "'request' holds {images} once, for a list of images, or {image} once, for one"
            )
        if places[1] and self.images_per_request > 1:
            raise ConfigError(
                "'request' holds {image}, one image: write {images}, or 'images_per_request: 1'"
            )
        try:
            document = parsed_json(self.filled("[]"))
        except ValueError as error:
            raise ConfigError(
                f"'request' is no JSON document: {error}; {{images}} and {{image}} stand without "
                "quotes"
            ) from None
        if named := next(_secrets_in(document), ""):
            raise ConfigError(
                f"'request' holds {named!r}, which may be a secret and would reach records; send "
                "it as a header, by header_env"
            )

    def filled(self, images: str) -> str:
        """Return the document with JSON text in the place of the images."""
        return self.request.replace(IMAGES, images).replace(IMAGE, images)

    def open(
        self,
        checkpoint: Checkpoint,
        onnx: Path | None,  # noqa: ARG002 - the endpoint has its own
        precision: Precision,
    ) -> JSONSession:
        """Make a session; nothing is sent before the first images.

        Raise `MissingDependency` without a client, or without the address.
        """
        from alignkit.backends.http_json.json_session import JSONSession

        if reason := self.impossible(precision):
            raise MissingDependency(f"http-json {precision}: {reason}")
        BACKENDS["http-json"].require("http-json")
        return JSONSession.opened(self, checkpoint)

    def version(self) -> str:
        """Name the client, as in ``aiohttp 3.13.0``."""
        return BACKENDS["http-json"].version()
