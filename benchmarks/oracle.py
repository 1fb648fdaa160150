"""Differences of numbers and exit codes between a commit and the checkout, command by command.

    python benchmarks/oracle.py COMMIT [NAME…]

Both run in this environment, beside each other, on images and models that are made here. Every
number of a command's JSON is compared by its place in it, bit by bit, but those of clocks and of
memory; the place of a list's part is by the names in it, as a metric that was removed moves no
other. A place that one side alone has is counted: it is what was added or removed. Exits with 1 if
a number or an exit code differs. ``--store FILE`` writes the commit's numbers into a file.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from string import Template
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMED = re.compile(
    r"seconds|started|duration|memory|bytes|elapsed|_ms|per_second|environment|cpu|load"
)
"""Keys whose numbers are of a clock or of a process."""
NAMES = ("name", "metric", "id", "stage", "mode", "factor", "factors", "reference", "candidate",
         "row", "column", "trained_with", "evaluated_with", "backend", "precision", "seed", "where",
         "fraction", "preprocess", "split", "dimension", "kind", "class", "unit", "rule", "label",
         "model", "statistic", "path", "image")  # fmt: skip
"""Keys whose words and numbers name a part of a list."""
RUN = ["--reports", "runs", "--images", "none", "--json", "-q"]
DIFF = ["diff", "photos", "-p", "opencv-train", "-p", "pillow-train", "--json", "-q"]
BENCH = ["--clients", "2", "--requests", "8", "--rounds", "2", "--cpus", "1", "--reports", "runs",
         "--json", "-q"]  # fmt: skip
GATE = ["--reports", "gates", "--baselines", "baselines", "--json", "-q"]
SERVED = ("torchvision-eval", "timm-eval", "mlperf-resnet50", "ultralytics-letterbox",
          "tensorflow-surrogate", "torchpipe-gpu-surrogate")  # fmt: skip
"""Stacks that `match` must find."""
CASES: dict[str, list[list[str]]] = {
    "quickstart": [["run", "quickstart.yaml", *RUN]],
    "consistency": [["run", "consistency.yaml", *RUN]],
    "backends": [["run", "backends.yaml", *RUN]],
    "my-model": [["run", "my-model.yaml", *RUN]],
    "unlabelled": [["run", "unlabelled.yaml", *RUN]],
    "detection": [["run", "detection.yaml", *RUN]],
    "segmentation": [["run", "segmentation.yaml", *RUN]],
    "embeddings": [["run", "embeddings.yaml", *RUN]],
    "score": [["run", "score.yaml", *RUN]],
    "tolerance": [
        ["run", "my-model.yaml", *RUN],
        ["tolerance", "runs/my-model/*", "--budget", "20%", "--json", "-q"],
    ],
    "bench": [["bench", "my-model.yaml", *BENCH]],
    "diff": [DIFF],
    "diff with a model": [[*DIFF, "--model", "model.onnx", "--size", "64"]],
    "match": [
        ["match", "--target", each, "--images", "photos", "--size", "64", "--json", "-q"]
        for each in SERVED
    ],
    "gate that passes": [["gate", "pass.yaml", *GATE]],
    "gate that fails": [["gate", "fail.yaml", *GATE]],
    "gate and baseline": [
        ["baseline", "record", "baseline.yaml", *GATE],
        ["gate", "baseline.yaml", *GATE],
        ["gate", "baseline.yaml", *GATE, "--set", "preprocess.pillow.decode=simplejpeg",
         "--set", "preprocess.pillow.resize={name: pillow, filter: bicubic, size: 64}"],
    ],
    "bisect": [["bisect", "--model", "model.onnx", "--images", "photos", "--preprocess",
                "opencv-train", "--json", "-q"]],
}  # fmt: skip
"""Name → commands, of which each is the words after ``alignkit``; ``*`` is its run."""
SHARED = {
    "two": "opencv: {preset: opencv-train, size: 64}, pillow: {preset: pillow-train, size: 64}",
    "gpu": "torchpipe-gpu: {preset: torchpipe-gpu-surrogate, size: 64}",
    "digits": "{name: digits-on-photos, train: 120, eval: 80}",
    "photos": "{name: images, root: photos}",
    "given": "[{name: given, onnx: model.onnx, preprocess: opencv}]",
    "onnx": "{backends: [{name: onnxruntime, precision: [fp32, fp16]}]}",
    "churn": "{rules: [{metric: churn, fail: 0.02}]}",
}
FILES = """\
name: quickstart
data: $digits
preprocess: {$two, $gpu}
train: {model: small-cnn, epochs: 3, seeds: [0, 1, 2]}
evaluate: {backends: [torch, {name: onnxruntime, precision: fp16}]}
gate: {rules: [{metric: churn, fail: 0.02}, {metric: recall.macro, margin: 0.01}]}
---
name: consistency
data: $digits
preprocess: {$two}
train:
  {model: small-cnn, epochs: 4, batch_size: 16, seeds: [0], fractions: [1.0, 0.3],
   augment: {flip: 0.5, crop: 4}}
evaluate: {backends: [torch, {name: simulated, precision: [tf32, fp16]}]}
gate: $churn
---
name: backends
data: $digits
preprocess: {$two}
train: {model: small-cnn, epochs: 4, seeds: [0]}
evaluate:
  backends:
    - {name: torch, precision: [fp32, bf16, fp16]}
    - {name: onnxruntime, precision: [fp32, fp16, int8]}
gate: $churn
---
name: my-model
data: $digits
preprocess: {$two, $gpu}
models: $given
evaluate: $onnx
gate: $churn
---
name: unlabelled
data: $photos
preprocess: {$two, $gpu}
models: $given
evaluate: $onnx
gate: $churn
---
name: detection
task: detection
data: {name: objects-on-photos, train: 20, eval: 30}
preprocess: {$two}
models: [{name: boxes, onnx: boxes.onnx, preprocess: opencv}]
gate: {rules: [{metric: boxes.lost, fail: 0.02}, {metric: map50, margin: 0.01}]}
---
name: segmentation
task: segmentation
data: {name: objects-on-photos, truth: mask, train: 20, eval: 30}
preprocess: {$two}
models: [{name: mask, onnx: mask.onnx, preprocess: opencv}]
gate: {rules: [{metric: pixel_churn, fail: 0.02}, {metric: miou, margin: 0.01}]}
---
name: embeddings
task: embedding
data: {name: digit-identities, train: 24, eval: 20}
preprocess: {$two}
train: {model: small-cnn, loss: arcface, embedding: 16, epochs: 2, seeds: [0]}
evaluate: {resamples: 200}
gate: {rules: [{metric: recall@1.kept, margin: 0.05}, {metric: neighbour_churn, fail: 0.1}]}
---
name: score
task: {name: score, score: "score.py:score", better: less}
data: $photos
preprocess: {$two}
models: $given
---
name: pass
data: $photos
preprocess: {$two}
gate: {rules: [{metric: resize.mean_abs, fail: 60}, {metric: decode.mean_abs, fail: 9}]}
---
name: baseline
data: $photos
preprocess: {$two}
gate: {rules: [{preset: strict, against: baseline}]}
---
name: fail
data: $photos
preprocess: {$two}
gate: {rules: [{metric: resize.mean_abs, fail: 0.01}, {metric: decode.mean_abs, fail: 9}]}
"""
"""Files of the cases; the words after $ are keys of :data:`SHARED`."""
SCORE = """\
def score(outputs, sample):
    (answer,) = outputs.values()
    return float(abs(answer).max())
"""


def make_inputs(folder: Path) -> None:
    """Write photographs, a classifier, a detector and a segmenter of random weights, and files."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for index in range(12):
        coarse = rng.integers(0, 256, (9, 12, 3), np.uint8)
        size = (160 + 16 * index, 120 + 8 * index)
        Image.fromarray(coarse).resize(size, 2).save(folder / f"photos/{index}.jpg", quality=85)

    def write(name: str, shape: list[Any], weights: dict[str, Any], *nodes: Any) -> None:
        float32 = TensorProto.FLOAT
        graph = helper.make_graph(
            nodes,
            name,
            [helper.make_tensor_value_info("images", float32, ["n", 3, 64, 64])],
            [helper.make_tensor_value_info("logits", float32, ["n", *shape])],
            [numpy_helper.from_array(value, key) for key, value in weights.items()],
        )
        opset = [helper.make_opsetid("", 17)]
        save(
            helper.make_model(graph, opset_imports=opset, ir_version=8),
            folder / f"{name}.onnx",
        )

    node = helper.make_node

    def weights(*shape: int, scale: float = 0.05) -> Any:
        return rng.normal(0, scale, shape).astype(np.float32)

    write(
        "model", [10], {"weights": weights(3 * 64 * 64, 10)},
        node("Flatten", ["images"], ["flat"]), node("MatMul", ["flat", "weights"], ["logits"]),
    )  # fmt: skip
    write(
        "mask", [11, 64, 64], {"weights": weights(11, 3, 1, 1, scale=1)},
        node("Conv", ["images", "weights"], ["logits"]),
    )  # fmt: skip
    rows, columns = np.mgrid[4:64:8, 4:64:8].reshape(2, 1, -1).astype(np.float32)
    grid = np.stack([columns, rows, np.full_like(rows, 16), np.full_like(rows, 16)], axis=1)
    sizes = {"shape": np.array([0, 14, 64]), "parts": np.array([4, 10])}
    write(
        "boxes", [14, 64], {"weights": weights(14, 3, 8, 8, scale=0.1), "grid": grid, **sizes},
        node("Conv", ["images", "weights"], ["map"], strides=[8, 8]),
        node("Reshape", ["map", "shape"], ["rows"]),
        node("Split", ["rows", "parts"], ["moved", "scores"], axis=1),
        node("Add", ["moved", "grid"], ["boxes"]), node("Sigmoid", ["scores"], ["sure"]),
        node("Concat", ["boxes", "sure"], ["logits"], axis=1),
    )  # fmt: skip
    (folder / "score.py").write_text(SCORE)
    for text in Template(FILES).substitute(SHARED).split("---\n"):
        name = text.split("\n", 1)[0].removeprefix("name: ")
        (folder / f"{name}.yaml").write_text(text)


def answers(checkout: Path, commands: list[list[str]], folder: Path) -> tuple[list[int], list[Any]]:
    """Run commands of a checkout; return the exit code of each, and its JSON or else its errors."""
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    codes, documents = [], []
    for command in commands:
        words = [str(max(folder.glob(each))) if "*" in each else each for each in command]
        ended = subprocess.run(
            [sys.executable, "-m", "alignkit", *words],
            cwd=folder, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        codes.append(ended.returncode)
        documents.append(json.loads(ended.stdout) if ended.stdout.strip() else ended.stderr)
    return codes, documents


def named(part: Any) -> str:
    """Name a part of a list by its `NAMES`; empty if it has none."""
    known = part if isinstance(part, dict) else {}
    return ",".join(str(known[key]) for key in NAMES if isinstance(known.get(key), str | int))


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield place and value of each number below a JSON value."""
    if isinstance(value, dict):
        for key, each in value.items():
            # records of two formats are compared by what they hold
            if key != "format" and not TIMED.search(key):
                yield from numbers(each, f"{place}.{key}")
    elif isinstance(value, list):
        met = Counter[str]()
        for each in value:
            name = named(each)
            yield from numbers(each, f"{place}[{name}{'#' * bool(name)}{met[name]}]")
            met[name] += 1
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value


def compared(name: str, before: tuple[list[int], Any], now: tuple[list[int], Any]) -> bool:
    """Print a line about a case, and each number that differs; tell whether none does."""
    (old_codes, old), (new_codes, new) = before, now
    one, other = dict(numbers(old)), dict(numbers(new))
    shared = one.keys() & other.keys()
    apart = {
        place: abs(one[place] - other[place]) / max(abs(one[place]), abs(other[place]))
        for place in sorted(shared)
        if one[place] != other[place]
    }
    # the first of many would hide the one that moved
    differ = sorted(apart, key=lambda place: -apart[place])
    print(
        f"{name:18} exit {old_codes} → {new_codes}; {len(shared)} numbers, {len(differ)} differ; "
        f"{len(one) - len(shared)} removed, {len(other) - len(shared)} added",
        flush=True,
    )
    for place in differ[:10]:
        print(f"    {place}: {one[place]!r} → {other[place]!r}, {apart[place]:.1g} of it")
    for side in (old, new):  # where a command printed no JSON, what it said
        print(*(f"    {each}" for each in side if isinstance(each, str)), sep="", end="")
    # a case without a number would show nothing
    return not differ and old_codes == new_codes and bool(shared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("names", nargs="*", choices=[[], *CASES])
    parser.add_argument("--store", type=Path, metavar="FILE")
    given = parser.parse_args()
    versions = {name: version(name) for name in ("numpy", "opencv-python", "pillow")}
    stored = {"commit": given.commit, "versions": versions, "codes": {}, "numbers": {}}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        base = folder / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "-q", "--detach", str(base), given.commit], check=True)
        try:
            sides = [folder / "before", folder / "now"]
            for side in sides:
                side.mkdir()
                make_inputs(side)
            same = []
            with ThreadPoolExecutor() as beside:
                for name in given.names or CASES:
                    words = CASES[name]
                    before, now = beside.map(answers, (base, ROOT), (words, words), sides)
                    same.append(compared(name, before, now))
                    stored["codes"][name] = before[0]
                    stored["numbers"][name] = dict(numbers(before[1]))
        finally:
            subprocess.run([*git, "remove", "--force", str(base)], check=True)
    if given.store:
        given.store.write_text(json.dumps(stored, indent=1) + "\n")
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
