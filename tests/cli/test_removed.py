"""Each thing that alignkit no longer has is answered in one line that says what to use instead."""

import pytest

from alignkit.removed import REMOVED

COMMANDS: dict[str, list[str]] = {
    "baseline review --reason": ["baseline", "review", "gate.yaml", "--reason", "right"],
    "--out metrics": ["gate", "gate.yaml", "--out", "metrics=metrics.txt"],
    "--out sarif": ["gate", "gate.yaml", "--out", "sarif=gate.sarif"],
    "--out shard": ["gate", "gate.yaml", "--shard", "2/5", "--out", "shard=part-2.json"],
    "report merge": ["report", "merge", "gate.yaml", "part-1.json", "part-2.json"],
    "baseline vectors": ["baseline", "vectors", "embeddings.yaml"],
    "data convert": ["data", "convert", "faces", "shards"],
    "build": ["build", "x.yaml"],
    "conformance": ["conformance", "decoder", "mine"],
    "tolerance --alone": ["tolerance", "run", "--alone"],
    "tolerance --no-alone": ["tolerance", "run", "--no-alone"],
    "data split --by": ["data", "split", "a", "b", "--by", "hardlink"],
    "plan --probe": ["plan", "x.yaml", "--probe", "8"],
    "plan --engine": ["plan", "x.yaml", "--engine", "dask"],
    "plan --workers": ["plan", "x.yaml", "--workers", "2"],
    "plan --progress": ["plan", "x.yaml", "--progress", "plain"],
    "plan --quiet": ["plan", "x.yaml", "--quiet"],
    "--out atlas": ["report", "reports/sample", "--out", "atlas=x.md"],
    "gate thresholds --speed": ["gate", "thresholds", "f.yaml", "--speed"],
    "bench-loaders": ["bench-loaders", "f.yaml", "--workers", "2"],
    "bench --scenario": ["bench", "f.yaml", "--scenario", "server"],
    "bench --target-qps": ["bench", "f.yaml", "--target-qps", "50"],
    "bench --latency-bound": ["bench", "f.yaml", "--latency-bound", "50ms"],
    "bench --duration": ["bench", "f.yaml", "--duration", "10s"],
}
"""Name in `REMOVED` → the words after ``alignkit`` that meet it."""
FILES: dict[str, str] = {
    "where: class": "gate: {rules: [{metric: decode.changed, fail: 0, where: {class: cat}}]}",
    "where: image": "gate: {rules: [{metric: decode.changed, fail: 0, where: {image: a*}}]}",
    "metric: recall@1.mapped": "gate: {rules: [{metric: recall@1.mapped, margin: 0.01}]}",
    "vectors:": "gate: {vectors: {file: index.json}}",
    "logits: top5": "task: {name: classification, logits: top5}",
    "published:": "published: {source: them}\n",
    **{
        f"metric: {name}": f"gate: {{rules: [{{metric: {name}, fail: 1}}]}}"
        for name in (
            "memory.growth",
            "throughput.ratio",
            "latency.p99.ratio",
            "headroom",
            *(
                f"latency.{part}.{which}"
                for part in ("preprocess", "inference")
                for which in ("p50", "p95")
            ),
        )
    },
    "bench:": "gate: {bench: {requests: 2000}, rules: [{metric: churn, fail: 0.1}]}",
    "clients:": "gate: {rules: [{metric: churn, fail: 0.1, clients: 5}]}",
    "budget:": "gate: {rules: [{metric: churn, fail: 0.1, budget: 1%}]}",
}
"""Name in `REMOVED` → lines of an experiment file that meet it."""
FILE = """\
name: removed
data: {name: digits-on-photos, train: 20, eval: 20}
preprocess:
  a: {decode: opencv, resize: {name: opencv, size: 32}}
  b: {decode: pillow, resize: {name: pillow, size: 32}}
"""


def test_each_is_tried():
    assert {*COMMANDS, *FILES} == {*REMOVED}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_or_option_is_answered_in_one_line(name, alignkit):
    told = alignkit(*COMMANDS[name])
    assert told.code == 2
    assert f"it was removed: {REMOVED[name]}" in told.err


@pytest.mark.parametrize("name", FILES)
def test_a_key_or_value_of_a_file_is_answered_in_one_line(name, tmp_path, alignkit):
    file = tmp_path / "removed.yaml"
    file.write_text(FILE + FILES[name])
    told = alignkit("check", file)
    assert told.code == 2
    assert f"it was removed: {REMOVED[name]}" in told.err
