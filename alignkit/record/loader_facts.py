"""Document of `alignkit bench --loaders`, `loaders.json`: speed and memory of loaders.

A loader turns image files into normalised batches, along one path. All read the same files, which
the system has cached, in the same order, with as many workers. They take turns: an epoch of each is
a round. Intervals have at least 95 %.
"""

from __future__ import annotations

from typing import Literal

from alignkit.record.bench_facts import TimedStudy
from alignkit.record.stored import Count, Estimate, Real, Stored

LoaderKind = Literal["DataLoader", "MixedLoader", "DALI"]
WARM_UP = 2
"""Epochs that are not counted: libraries are loaded, workers started and pools filled."""


class LargestBatch(Stored):
    """The search for the largest batch, each tried in a process of its own."""

    limit: Count
    """Bytes that the process with its workers may hold."""
    fits: Count | None
    """Largest batch that was loaded; ``None`` if one image does not fit."""
    exceeds: Count | None
    """Smallest batch that was tried and does not fit; ``None`` if the search ended before it."""
    reason: str
    """How ``exceeds`` failed, or why the search ended."""


class LoaderRound(Stored):
    """One epoch of a loader, while no other runs."""

    images: Count
    """Images in the time. DALI has batches ready when an epoch begins, which are left out."""
    seconds: Real


class LoaderMemory(Stored):
    """Bytes that a loader's process and its workers hold, and the system cannot drop."""

    rest: Count
    """Before the first epoch: Python and libraries."""
    peak: Count
    """Greatest of the warm-up, looked at every 20 ms: a shorter peak is missed."""
    first: Count
    """At the end of the first epoch that counts."""
    last: Count
    """At the end of the last one."""


class TimedLoader(Stored):
    """One loader of one path."""

    path: str
    kind: LoaderKind
    state: Literal["measured", "skipped", "failed"]
    reason: str = ""
    """Why it was not timed, or not to the end."""
    throughput: Estimate | None = None
    """Images a second: median over rounds. ``None`` unless it is measured."""
    gain: Estimate | None = None
    """Throughput over that of the reference in the same round, minus 1; median over rounds.
    ``None`` for the reference."""
    contended: str = ""
    """Why the figures may be those of a busy machine; empty if nothing tells so."""
    unwatched: str = ""
    """Why it is not known whether the machine was busy; empty if it is."""
    memory: LoaderMemory | None = None
    """``None`` where the system does not tell it."""
    largest: LargestBatch | None = None
    largest_reason: str = ""
    """Why no largest batch was searched, or the search failed."""
    rounds: tuple[LoaderRound, ...] = ()


class LoaderRecord(TimedStudy):
    """Loaders of every path of an experiment; ``images`` of an epoch are spread evenly."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    kind: Literal["loaders"] = "loaders"
    workers: Count
    """One for each CPU."""
    epochs: Count
    """Epochs that count, each a round, after `WARM_UP`."""
    loaders: tuple[TimedLoader, ...]
