"""A live endpoint that speaks the Open Inference Protocol v2 (KServe, Triton, MLServer, Seldon).

By default it is sent the encoded files, so that what is measured is its own decoding, preprocessing
and arithmetic together; ``sends: tensors`` hands it the path's tensors as every other backend gets
them. What it computes in cannot be seen from outside: its precision is called ``served``. Nothing
is known of its weights either: a cell of a row says what the endpoint does with that row's images.
An answer of another shape or type, or none after all retries, fails the cell with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from alignkit.backends import BACKENDS
from alignkit.backends.kserve.address import Address
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
    environment variable that holds this: where it is not set, the cells are skipped."""
    model: str
    """As the endpoint calls it."""
    model_version: str = ""
    """Empty: the one that the endpoint chooses."""
    serves: str = ""
    """The row whose model it holds: a path's name, or that of an entry of ``models``. Needed where
    there are several."""
    sends: Literal["files", "tensors"] = "files"
    """The encoded images, or normalised float32 tensors of the path."""
    input: str = ""
    """Name of the model's input; empty: its only one."""
    output: str = ""
    """Name of the model's output; empty: its only one."""
    answers: Literal["logits", "probabilities"] = "logits"
    """Of probabilities the logarithm is compared, which differs from logits by a constant for each
    image: classes are comparable, distances between logits are not."""
    images_per_request: Annotated[int, Field(ge=1, le=1024)] = 1
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Requests under way at a time."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a request is sent again after a time-out, a lost connection or a server's error."""
    header: str = "Authorization"
    header_env: str = ""
    """Environment variable with the whole value of ``header``, e.g. ``Bearer …``; the value is
    neither recorded nor shown. Empty: no such header is sent."""

    def __post_init__(self) -> None:
        self.address()

    def address(self) -> Address:
        """Where it is; raises `ConfigError` for an address or a variable that cannot be meant."""
        return Address(self.url, self.header_env, self.header)

    @property
    def own_path(self) -> str:
        """Whose preprocessing the images go through, where files are sent."""
        return "the server's own" if self.sends == "files" else ""

    def impossible(self, precision: Precision) -> str:
        """Why the precision cannot be had here; the endpoint itself is not asked."""
        if precision not in self.precisions:
            return f"{precision} cannot be asked of an endpoint: it computes as it was set up"
        return self.address().missing()

    def open(
        self,
        checkpoint: Checkpoint,
        onnx: Path | None,  # noqa: ARG002 - the endpoint has its own
        precision: Precision,
    ) -> EndpointSession:
        """Ask the endpoint what it holds; raises `BackendError` unless the data fits it."""
        from alignkit.backends.kserve.session import opened

        if reason := self.impossible(precision):
            raise MissingDependency(f"kserve {precision}: {reason}")
        BACKENDS["kserve"].require("kserve")
        return opened(self, checkpoint)

    def version(self) -> str:
        """``tritonclient 2.73.0``; the endpoint's own is in what its session observed."""
        return BACKENDS["kserve"].version()
