"""A torchpipe ``backend`` string as the backends it calls, in order.

Nesting is flattened, for it decides who schedules and not what is computed: ``S[A,B]``,
``Sequential[A,B]`` and ``StreamGuard[S[A,B]]`` all call A, then B. torchpipe 0.2.25 fails for a
bare ``A,B``, and passes arguments in parentheses to no backend of an image.
"""

from __future__ import annotations

import re

from alignkit.errors import ConfigError
from alignkit.experiment.torchpipe_backend import GONE

SEQUENTIAL = ("S", "Sequential")
WRAPPERS = ("SyncTensor", "StreamGuard", "With", "StreamPool", "TorchStreamPool")
"""Which stream runs, and when it is waited for; no pixels."""
_TOKEN = re.compile(r"[\[\],;()]|[^\[\],;()]+")


def backends_of(chain: str) -> tuple[str, ...]:
    """The names called, in order, without those that only hold or schedule others.

    Raises `ConfigError` for what has no fixed order, or is no backend at all.

    >>> backends_of("S[DecodeMat, ResizeMat, StreamGuard[Mat2Tensor]]")
    ('DecodeMat', 'ResizeMat', 'Mat2Tensor')
    """
    tokens = [token.strip() for token in _TOKEN.findall(chain) if token.strip()]
    _check(chain, tokens)
    return tuple(token for token in tokens if token not in {"[", "]", ",", *SEQUENTIAL, *WRAPPERS})


def wrappers_of(chain: str) -> set[str]:
    """The names that hold or schedule others."""
    return {token.strip() for token in _TOKEN.findall(chain)} & set(WRAPPERS)


def _check(chain: str, tokens: list[str]) -> None:
    if gone := [token for token in tokens if token in GONE]:
        raise ConfigError(f"torchpipe 0.2.25 no longer has the backend {gone[0]!r}")
    if "(" in tokens:
        inner = tokens[tokens.index("(") + 1]
        why = (
            "a fallback decoder; an image must be decoded by one and the same"
            if inner in ("or", ")")
            else "torchpipe 0.2.25 passes it to no backend of an image; write it as a key"
        )
        raise ConfigError(f"'({inner})': {why}")
    if ";" in tokens:
        raise ConfigError(f"{chain!r}: parts joined by ';' have no one order")
    depth = -1 if tokens[:1] == ["["] else 0
    for part, following in zip(tokens, [*tokens[1:], ""], strict=True):
        depth += {"[": 1, "]": -1}.get(part, 0)
        if depth < 0 or (part == "," and (depth == 0 or following in {"", ",", "]"})):
            break
        if following == "[" and part not in {*SEQUENTIAL, *WRAPPERS}:
            raise ConfigError(f"{part!r} holds other backends; alignkit knows not in which order")
    else:
        if depth == 0 and tokens:
            return
    raise ConfigError(f"{chain!r} is no backend; write a sequence as 'S[DecodeMat,ResizeMat]'")
