"""A live endpoint that speaks the Open Inference Protocol v2 (KServe, Triton, MLServer, Seldon).

By default it receives the encoded files, so that a cell measures its decoding, preprocessing and
arithmetic together; with ``sends: tensors`` it receives the same tensors as every other backend. A
client cannot see the types it computes in, so its precision is called ``served``. Nor can it see
the weights: a cell says only what the endpoint does with that row's images. An answer of another
shape or type, or no answer after all retries, fails the cell with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from alignkit.backends import BACKENDS
from alignkit.backends.kserve.client import Address
from alignkit.errors import MissingDependency

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.backends.kserve.session import EndpointSession
    from alignkit.models.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class KServeBackend:
    """One model of one endpoint."""

    needs_onnx: ClassVar[bool] = False
    precisions: ClassVar[tuple[Precision, ...]] = ("served",)
    live: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = False
    unnamed: ClassVar[frozenset[str]] = frozenset(
        {"url", "serves", "concurrency", "timeout", "retries", "header", "header_env"}
    )
    url: str
    """``http://``, ``https://``, ``grpc://`` or ``grpcs://``, host and port; or ``$NAME`` of an
    environment variable that holds the address: if it is not set, the cells are skipped."""
    model: str
    """The endpoint's name of the model."""
    model_version: str = ""
    """Version of the model; empty: the endpoint chooses."""
    serves: str = ""
    """The row whose model it holds: the name of a preprocess or of an entry of ``models``. Needed
    if there are several rows."""
    sends: Literal["files", "tensors"] = "files"
    """Encoded images, or the normalised float32 tensors of the path."""
    input: str = ""
    """Name of the model's input; empty: its only one."""
    output: str = ""
    """Name of the model's output; empty: its only one."""
    answers: Literal["logits", "probabilities"] = "logits"
    """Probabilities are compared by their logarithm. It differs from the logits by a constant for
    each image, so classes are comparable and distances between logits are not."""
    images_per_request: Annotated[int, Field(ge=1, le=1024)] = 1
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Number of requests at the same time."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a request is repeated after a time-out, a lost connection or a server's error."""
    header: str = "Authorization"
    header_env: str = ""
    """Environment variable with the whole value of ``header``, e.g. ``Bearer …``; the value is
    neither recorded nor shown. Empty: the header is not sent."""

    def __post_init__(self) -> None:
        self.address()

    def address(self) -> Address:
        """Return the address; raise `ConfigError` for a malformed address or variable name."""
        return Address(self.url, self.header_env, self.header)

    @property
    def own_path(self) -> str:
        """Name of the endpoint's own preprocessing if files are sent; empty for tensors."""
        return "the server's own" if self.sends == "files" else ""

    def impossible(self, precision: Precision) -> str:
        """Return why the precision cannot run; empty if it can. Nothing is sent to the endpoint."""
        if precision not in self.precisions:
            return f"{precision} cannot be asked of an endpoint: it computes as it was set up"
        return self.address().missing()

    def open(
        self,
        checkpoint: Checkpoint,
        onnx: Path | None,  # noqa: ARG002 - the endpoint has its own
        precision: Precision,
    ) -> EndpointSession:
        """Read the endpoint's description; raise `BackendError` unless the data fits it."""
        from alignkit.backends.kserve.session import open_endpoint

        if reason := self.impossible(precision):
            raise MissingDependency(f"kserve {precision}: {reason}")
        BACKENDS["kserve"].require("kserve")
        return open_endpoint(self, checkpoint)

    def version(self) -> str:
        """Name the client, as in ``tritonclient 2.73.0``; the session reports the server's."""
        return BACKENDS["kserve"].version()
