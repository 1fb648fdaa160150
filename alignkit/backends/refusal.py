"""What a runtime says when it refuses a model, in one line for the cell."""

from __future__ import annotations

import re

PLACES = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "
    r"|Load model from \S+ failed:"
    r"|/\S+\.(?:cc|h):\d+ .*?\) (?=[A-Z])"  # ONNX Runtime's file, line and C++ signature
    r"|(?:Exception from|Check '[^']*' failed at) \S+:\d+:"  # OpenVINO's
)
"""Where in a library's own source, or in which of its temporary files, it noticed."""


def refusal(error: Exception) -> str:
    """The library's words without its source code's.

    >>> refusal(RuntimeError("[ONNXRuntimeError] : 1 : FAIL : Warp is not a registered op"))
    'Warp is not a registered op'
    """
    return " ".join(PLACES.sub("", " ".join(str(error).split())).split())
