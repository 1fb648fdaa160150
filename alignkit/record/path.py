"""Stored types of the machine, the data, and the paths with the images they decoded."""

from __future__ import annotations

from typing import Any, Literal

from alignkit.record.stored import Count, Stored


class Environment(Stored):
    """The machine and software of a run."""

    python: str
    platform: str
    cpu: str
    cores: int
    gpu: str
    """Name and driver; ``none``."""
    versions: dict[str, str]
    """Distribution → version."""
    codecs: dict[str, str]
    """Library → the JPEG codec build it runs, if it says."""
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


class StageFacts(Stored):
    """One stage of a path as it ran."""

    stage: str
    label: str
    """One line for a person, e.g. ``opencv linear 48x48``."""
    options: dict[str, Any]
    version: str
    """The library that really ran; empty for alignkit's own stages."""


class PathFacts(Stored):
    """One preprocessing path."""

    name: str
    stages: tuple[StageFacts, ...]
    surrogate_of: str = ""
    calibration: str = ""
    """The known distance of a surrogate to the real stack, e.g. ``not yet calibrated``."""
    skipped: str = ""


class NotDecoded(Stored):
    """An image a path did not decode cleanly."""

    id: str
    outcome: Literal["corrupt", "failed", "unsupported"]
    reason: str


class Coverage(Stored):
    """Outcomes of the decodes of one split on one path."""

    preprocess: str
    split: Literal["train", "eval"]
    ok: Count
    corrupt: Count
    failed: Count
    unsupported: Count
    examples: tuple[NotDecoded, ...] = ()
    """Every image that is not ``ok``, at most 50."""


class CoverageDiff(Stored):
    """Images that only one of two paths, or of a baseline and a path, decodes."""

    reference: str
    """A path, or ``baseline``."""
    candidate: str
    images: Count
    only_reference: Count
    only_candidate: Count
    examples: tuple[str, ...] = ()
    """Ids of such images, at most 20."""
