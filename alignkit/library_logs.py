"""What libraries log of themselves that is no news to whoever asked for the work."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

TOOLKIT = "torch.utils.cpp_extension"
"""Warns, when it is first imported, where there is a CUDA toolkit and no GPU."""


@contextmanager
def quiet(logger: str = "") -> Iterator[None]:
    """Let a logger pass nothing below errors while the block runs; by default the root's."""
    named = logging.getLogger(logger)
    level = named.level
    named.setLevel(logging.ERROR)
    try:
        yield
    finally:
        named.setLevel(level)
