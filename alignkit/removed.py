"""What alignkit no longer has, and what to use instead: one sentence each, told where it is met."""

from __future__ import annotations

REMOVED: dict[str, str] = {}
"""Command (``conformance``), option (``gate --shard``), key (``published:``) or value of a key
(``logits: top5``) → what to use instead, without a full stop."""


def instead_of(name: str) -> str:
    """Return ``; it was removed: …`` with what to use instead; empty for a name that never was.

    >>> instead_of("no such thing")
    ''
    """
    return f"; it was removed: {REMOVED[name]}" if name in REMOVED else ""
