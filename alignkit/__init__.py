"""Measure how far an image model drifts if it is served otherwise than it was trained."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.gate.assertion import PreprocessDriftError, assert_preprocess_aligned

# a string that is known without importing anything heavy
from alignkit.version import __version__

__all__ = ["PreprocessDriftError", "__version__", "assert_preprocess_aligned"]


def __getattr__(name: str) -> Any:
    # late, so that the command line starts without them
    if name in __all__:
        from alignkit.gate import assertion

        return getattr(assertion, name)
    raise AttributeError(f"module 'alignkit' has no attribute {name!r}")
