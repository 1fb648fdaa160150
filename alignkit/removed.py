"""Commands, options and keys that alignkit had: a sentence each says how to go on without it."""

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
    "baseline review --reason": "alignkit baseline approve takes the reason",
    "--out metrics": "--out json has every measurement",
    "--out sarif": "--out github and --out gitlab name mistakes of the file with their lines",
    "--out shard": "give the shards one --reports folder, where a gate without --shard finds lots",
    "report merge": "give the shards one --reports folder, and run `alignkit gate FILE` on it",
    "where: class": "a rule such as {metric: 'recall[CLASS]'} is of one class",
    "where: image": "give these images a file of their own",
    "metric: recall@1.mapped": "recall@1.kept is of the kept index, recall@1 of a new one",
    "baseline vectors": "alignkit baseline record keeps a model's answers",
    "vectors:": "a rule such as {metric: cosine, against: baseline} compares embeddings",
    "logits: top5": "leave 'logits' out; a run stores all logits",
    "data convert": "data: {name: identities} reads each of the forms as it is",
    "build": "`alignkit run --engines-only` builds the engines of a file",
    "conformance": "`alignkit.testing` has the contracts as tests for pytest, see docs/plugins.md",
    "tolerance --alone": "`alignkit diff` names the differences of two paths",
    "tolerance --no-alone": "stages and named differences are no longer run alone",
    "data split --by": "`alignkit data split` copies; link the files of NEW afterwards",
    "plan --probe": "`alignkit run --quick` does a small part of the work",
    "plan --engine": "a plan is the same for every engine; give it to `alignkit run`",
    "plan --workers": "a plan is the same for every engine; give it to `alignkit run`",
    "plan --progress": "a plan does no work to show",
    "plan --quiet": "a plan does no work to show",
    "published:": "write the table into your documentation; docs/evidence.md has torchpipe's",
    "--out atlas": "`python benchmarks/atlas.py RUN_DIR` prints the table of every swap",
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
"""Command (``conformance``), option (``plan --probe``), kind of file (``--out sarif``), key
(``published:``) or value of a key (``logits: top5``) → what to use instead, without a full stop."""


def instead_of(name: str) -> str:
    """Return ``; it was removed: …`` with what to use instead; empty for a name that never was.

    >>> instead_of("no such thing")
    ''
    """
    return f"; it was removed: {REMOVED[name]}" if name in REMOVED else ""
