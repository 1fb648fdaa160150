"""Engines that were built and not run, in words: their layers, sizes and hashes."""

from __future__ import annotations

from collections.abc import Sequence

from alignkit.record.cell_facts import EngineFacts
from alignkit.text.numbers import count, megabytes


def type_words(engine: EngineFacts) -> str:
    """Name the types that layers compute on, the most frequent first: ``float16, float32``."""
    totals = {kind: sum(names.values()) for kind, names in engine.layers.items()}
    return ", ".join(sorted(totals, key=lambda kind: (-totals[kind], kind)))


def layer_words(engine: EngineFacts) -> str:
    """Count the layers by type and kind: ``float16: 4 correlation, 4 maxpool; 2 only copy``."""
    kinds = [
        f"{kind}: {', '.join(f'{number} {name}' for name, number in names.items())}"
        for kind, names in engine.layers.items()
    ]
    return "; ".join([*kinds, f"{engine.moving} only copy or convert"])


def engine_words(engines: Sequence[EngineFacts]) -> str:
    """Describe the first engine of an entry's seeds, and name all by their hashes."""
    if not engines:
        return ""
    hashes = ", ".join(each.sha256[:12] for each in engines)
    first = engines[0]
    several = f"{count(len(engines), 'engine')}, first: " if len(engines) > 1 else ""
    return f"{several}{layer_words(first)}; {megabytes(first.size)}; SHA-256 {hashes}"
