"""Live endpoints, whatever protocol they speak: their options, address and requests."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field

from alignkit.backends import Backend
from alignkit.backends.endpoint.address import Address

if TYPE_CHECKING:
    from alignkit.backends import Precision


@dataclass(frozen=True, slots=True)
class EndpointBackend(Backend):
    """One model of one endpoint, which computes in a precision that no client sees."""

    needs_onnx: ClassVar[bool] = False
    precisions: ClassVar[tuple[Precision, ...]] = ("served",)
    live: ClassVar[bool] = True
    on_cpu: ClassVar[bool] = False
    unnamed: ClassVar[frozenset[str]] = frozenset(
        {"url", "serves", "concurrency", "timeout", "retries", "header", "header_env"}
    )
    schemes: ClassVar[tuple[str, ...]] = ("http", "https")
    url: str
    """``http://`` or ``https://``, with kserve also ``grpc://`` or ``grpcs://``, and host and port;
    or ``$NAME`` of an environment variable that holds the address: if it is not set, the cells are
    skipped."""
    _: KW_ONLY
    serves: str = ""
    """The row whose model it holds: the name of a preprocess or of an entry of ``models``. Needed
    if there are several rows."""
    sends: Literal["files", "tensors"] = "files"
    """Encoded images, or the normalised float32 tensors of the path."""
    answers: Literal["auto", "logits", "probabilities"] = "auto"
    """By default logits that do not look like probabilities. Probabilities are compared by their
    logarithm. It differs from the logits by a constant for each image, so classes are comparable
    and distances between logits are not."""
    images_per_request: Annotated[int, Field(ge=1, le=1024)] = 1
    """Images in one request, if the model takes batches."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Number of requests at the same time."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = 10.0
    """Seconds for one request, from connecting to the last byte of the answer."""
    retries: Annotated[int, Field(ge=0, le=20)] = 2
    """How often a request is repeated after a time-out, a lost connection or a server's error."""
    header: str = "Authorization"
    """Header that authorises a request."""
    header_env: str = ""
    """Environment variable with the whole value of ``header``, e.g. ``Bearer …``; the value is
    neither recorded nor shown. Empty: the header is not sent."""

    def __post_init__(self) -> None:
        self.address()

    def address(self) -> Address:
        """Return the address; raise `ConfigError` for a malformed address or variable name."""
        return Address(self.url, self.header_env, self.header, schemes=self.schemes)

    @property
    def own_path(self) -> str:
        """Name of the endpoint's own preprocessing if files are sent; empty for tensors."""
        return "the server's own" if self.sends == "files" else ""

    def impossible(self, precision: Precision) -> str:
        """Return why the precision cannot run; empty if it can. Nothing is sent to the endpoint."""
        if precision not in self.precisions:
            return f"{precision} cannot be asked of an endpoint: it computes as it was set up"
        return self.address().missing()
