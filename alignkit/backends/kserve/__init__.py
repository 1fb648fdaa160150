"""A live endpoint that speaks the Open Inference Protocol v2 (KServe, Triton, MLServer, Seldon).

By default it receives the encoded files, so that a cell measures its decoding, preprocessing and
arithmetic together; with ``sends: tensors`` it receives the same tensors as every other backend. A
client cannot see the types it computes in, so its precision is called ``served``. Nor can it see
the weights: a cell says only what the endpoint does with that row's images. An answer of another
shape or type, or no answer after all retries, fails the cell with its reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from alignkit.backends import BACKENDS
from alignkit.backends.endpoint import EndpointBackend
from alignkit.errors import MissingDependency

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.backends import Precision
    from alignkit.backends.kserve.kserve_session import EndpointSession
    from alignkit.models.checkpoint import Checkpoint


@dataclass(frozen=True, slots=True)
class KServeBackend(EndpointBackend):
    """One model of one endpoint."""

    schemes: ClassVar[tuple[str, ...]] = ("http", "https", "grpc", "grpcs")
    model: str
    """The endpoint's name of the model."""
    model_version: str = ""
    """Version of the model; empty: the endpoint chooses."""
    input: str = ""
    """Name of the model's input; empty: its only one."""
    output: str = ""
    """Name of the model's output; empty: those of the row's model that have several, by the same
    names, or its only one."""

    def open(
        self,
        checkpoint: Checkpoint,
        onnx: Path | None,  # noqa: ARG002 - the endpoint has its own
        precision: Precision,
    ) -> EndpointSession:
        """Read the endpoint's description; raise `BackendError` unless the data fits it."""
        from alignkit.backends.kserve.kserve_session import open_endpoint

        if reason := self.impossible(precision):
            raise MissingDependency(f"kserve {precision}: {reason}")
        BACKENDS["kserve"].require("kserve")
        return open_endpoint(self, checkpoint)

    def version(self) -> str:
        """Name the client, as in ``tritonclient 2.73.0``; the session reports the server's."""
        return BACKENDS["kserve"].version()
