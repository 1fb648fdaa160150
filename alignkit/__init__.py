"""Measure how far an image model drifts if it is served otherwise than it was trained.

`diff` compares preprocessing stacks on any images, `run` trains or evaluates models on them,
`match` finds the configuration nearest to a serving stack, `load_run` reads a finished run, and
`assert_preprocess_aligned` is the gate as one call, for tests. Their results have DataFrames.
`tap` records arrays between the stages of serving code, and `match_taps` finds the first that
differs. `alignkit.loader` gives batches to your own training loop. The other folders are internal.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

# a string that is known without importing anything heavy
from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.api.diff_result import diff
    from alignkit.api.match_result import match, match_taps
    from alignkit.api.run_result import load_run, run
    from alignkit.gate.assertion import PreprocessDriftError, assert_preprocess_aligned
    from alignkit.tap_recorder import tap

__all__ = [
    "PreprocessDriftError",
    "__version__",
    "assert_preprocess_aligned",
    "diff",
    "load_run",
    "match",
    "match_taps",
    "run",
    "tap",
]

_HOMES = {
    "PreprocessDriftError": "alignkit.gate.assertion",
    "assert_preprocess_aligned": "alignkit.gate.assertion",
    "diff": "alignkit.api.diff_result",
    "load_run": "alignkit.api.run_result",
    "match": "alignkit.api.match_result",
    "match_taps": "alignkit.api.match_result",
    "run": "alignkit.api.run_result",
    "tap": "alignkit.tap_recorder",
}
"""Name → the module that is imported when it is first used."""

# ONNX Runtime reads it once, when it is imported: from 1.29 on it would send usage data to
# Microsoft, and keep a device's id and a database in ~/.cache
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def __dir__() -> list[str]:
    return [*__all__]


# not for type checkers: they would take any misspelt name
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        # late, so that the command line starts without them
        if name in _HOMES:
            return getattr(import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'alignkit' has no attribute {name!r}")
