"""Measure how far an image model drifts if it is served otherwise than it was trained."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from alignkit.gate.assertion import PreprocessDriftError, assert_preprocess_aligned
    from alignkit.tap_recorder import tap

# a string that is known without importing anything heavy
from alignkit.version import __version__

__all__ = ["PreprocessDriftError", "__version__", "assert_preprocess_aligned", "tap"]


# ONNX Runtime reads it once, when it is imported: from 1.29 on it would send usage data to
# Microsoft, and keep a device's id and a database in ~/.cache
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __getattr__(name: str) -> Any:
    # late, so that the command line starts without them
    if name == "tap":  # serving code imports it alone
        from alignkit.tap_recorder import tap

        return tap
    if name in __all__:
        from alignkit.gate import assertion

        return getattr(assertion, name)
    raise AttributeError(f"module 'alignkit' has no attribute {name!r}")
