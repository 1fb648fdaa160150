"""What a binary says of the codec inside it, for libraries that have no call to ask."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path


@cache
def embedded_version(binary: str, pattern: str) -> str:
    """The first group of ``pattern`` in the bytes of a shared library; empty if it is not there.

    >>> embedded_version(__file__, "^no such (text)$")
    ''
    """
    found = re.search(pattern.encode(), Path(binary).read_bytes())
    return found.group(1).decode() if found else ""
