"""Names that were removed, and what to use instead; commands and files print it."""

from __future__ import annotations

_NO_SCENARIO = (
    "bench times a closed loop of --clients; for arrivals at a rate, load your server with "
    "perf_analyzer or wrk2"
)

_NO_SPEED = "a gate measures drift; `alignkit bench FILE` times serving options beside it"
_NO_HEADROOM = (
    "`alignkit tolerance RUN_DIR` tells how much of a difference the models bear; a rule about "
    "churn limits it"
)

REMOVED: dict[str, str] = {
    "metric: memory.growth": "compare the memory after the first and the last epoch that "
    "`alignkit bench FILE --loaders` prints",
    **dict.fromkeys(
        (
            "metric: throughput.ratio",
            "metric: latency.p99.ratio",
            "metric: latency.preprocess.p50",
            "metric: latency.preprocess.p95",
            "metric: latency.inference.p50",
            "metric: latency.inference.p95",
            "bench:",
            "clients:",
            "gate thresholds --speed",
        ),
        _NO_SPEED,
    ),
    "metric: headroom": _NO_HEADROOM,
    "budget:": _NO_HEADROOM,
    "bench-loaders": "use `alignkit bench FILE --loaders`, with --rounds for epochs and --cpus for "
    "workers",
    "bench --scenario": _NO_SCENARIO,
    "bench --target-qps": _NO_SCENARIO,
    "bench --latency-bound": _NO_SCENARIO,
    "bench --duration": _NO_SCENARIO,
}
"""Command (``conformance``), option (``gate --shard``), key (``published:``) or value of a key
(``logits: top5``) → what to use instead, without a full stop."""


def instead_of(name: str) -> str:
    """Return ``; it was removed: …`` with what to use instead; empty for a name that never was.

    >>> instead_of("no such thing")
    ''
    """
    return f"; it was removed: {REMOVED[name]}" if name in REMOVED else ""
