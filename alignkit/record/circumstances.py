"""What is stored of the machine and of the data."""

from __future__ import annotations

from typing import Any

from alignkit.record.stored import Count, Stored


class Environment(Stored):
    """Where the run was made."""

    python: str
    platform: str
    cpu: str
    cores: int
    gpu: str
    """Name and driver; ``none``."""
    versions: dict[str, str]
    """Distribution → version."""
    codecs: dict[str, str]
    """Library → JPEG codec build it runs, where it says."""
    flags: dict[str, str]
    """TF32, determinism, threads: settings that change numbers."""
    git: str
    """Revision of the folder the run was started in, ``-dirty`` if changed; empty outside git."""
    extensions: str = ""
    """The processor's vector extensions, or that they are unknown; empty in older records."""


class DataFacts(Stored):
    """The data set."""

    name: str
    options: dict[str, Any]
    train: Count
    eval: Count
    classes: tuple[str, ...]
    fingerprint: str
    version: str
    notes: tuple[str, ...] = ()
