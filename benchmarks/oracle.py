"""Differences of numbers and exit codes between a commit and the checkout, command by command.

    python benchmarks/oracle.py COMMIT [NAME…]

Both run in this environment, one after the other, on images and models that the cases make. Every
number of a command's JSON is compared by its place in it, bit by bit, but those of clocks and of
memory. A place that one side alone has is counted: it is what was added or removed. Exits with 1 if
a number or an exit code differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TIMED = re.compile(r"seconds|started|duration|memory|bytes|elapsed|_ms|per_second|environment|cpu")
"""Keys whose numbers are of a clock or of a process."""
SMALL = ["--set", "data.train=120", "--set", "data.eval=80"]
RUN = ["run", "FILE", "--quick", "--reports", "runs", "--images", "none", "--json", "-q"]
DIFF = ["diff", "photos", "-p", "opencv-train", "-p", "pillow-train", "--json", "-q"]
CASES: dict[str, list[str]] = {
    "quickstart": ["experiments/quickstart.yaml", *RUN, "--set", "train.seeds=[0]"],
    "consistency": ["experiments/consistency.yaml", *RUN],
    "backends": ["experiments/backends.yaml", *RUN],
    "detection": ["experiments/detection.yaml", *RUN],
    "segmentation": ["experiments/segmentation.yaml", *RUN],
    "embeddings": ["experiments/embeddings.yaml", *RUN],
    "diff": DIFF,
    "diff with a model": [*DIFF, "--model", "model.onnx", "--size", "64"],
    "match": ["match", "--target", "torchvision-eval", "--images", "photos", "--json", "-q"],
    "gate that passes": ["gate", "pass.yaml", "--reports", "gates", "--json", "-q"],
    "gate that fails": ["gate", "fail.yaml", "--reports", "gates", "--json", "-q"],
    "bisect": ["bisect", "--model", "model.onnx", "--images", "photos", "--preprocess",
               "opencv-train", "--json", "-q"],
}  # fmt: skip
"""Name → words after ``alignkit``; a file before ``run`` takes the place of ``FILE``."""
GATE = """\
name: oracle
data: {{name: images, root: photos}}
preprocess:
  opencv: {{preset: opencv-train, size: 64}}
  pillow: {{preset: pillow-train, size: 64}}
gate: {{rules: [{{metric: resize.mean_abs, fail: {limit}}}, {{metric: decode.mean_abs, fail: 9}}]}}
"""


def make_inputs(folder: Path) -> None:
    """Write photographs, a small classifier and two gates."""
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save
    from PIL import Image

    rng = np.random.default_rng(0)
    (folder / "photos").mkdir()
    for index in range(12):
        coarse = rng.integers(0, 256, (9, 12, 3), np.uint8)
        size = (160 + 16 * index, 120 + 8 * index)
        Image.fromarray(coarse).resize(size, 2).save(folder / f"photos/{index}.jpg", quality=85)
    weights = rng.normal(0, 0.05, (3 * 64 * 64, 10)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["images"], ["flat"]),
            helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
        ],
        "linear",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["n", 3, 64, 64])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 10])],
        [numpy_helper.from_array(weights, "weights")],
    )
    opset = [helper.make_opsetid("", 17)]
    save(helper.make_model(graph, opset_imports=opset, ir_version=8), folder / "model.onnx")
    for name, limit in (("pass", 60), ("fail", 0.01)):
        (folder / f"{name}.yaml").write_text(GATE.format(limit=limit))


def answer(checkout: Path, words: list[str], folder: Path) -> tuple[int, Any]:
    """Run a command of a checkout; return its exit code and its JSON, ``None`` without any."""
    if words[0].endswith(".yaml"):
        file, *words = words
        words = [str(checkout / file) if each == "FILE" else each for each in words] + SMALL
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-m", "alignkit", *words],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ended.returncode, json.loads(ended.stdout) if ended.stdout.strip() else None


def numbers(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    """Yield place and value of each number below a JSON value."""
    if isinstance(value, dict):
        for key, each in value.items():
            if not TIMED.search(key):
                yield from numbers(each, f"{place}.{key}")
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from numbers(each, f"{place}[{index}]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield place, value


def compared(name: str, before: tuple[int, Any], now: tuple[int, Any]) -> bool:
    """Print a line about a case, and each number that differs; tell whether none does."""
    (old_code, old), (new_code, new) = before, now
    one, other = dict(numbers(old)), dict(numbers(new))
    shared = one.keys() & other.keys()
    differ = [place for place in sorted(shared) if one[place] != other[place]]
    print(
        f"{name:18} exit {old_code} → {new_code}; {len(shared)} numbers, {len(differ)} differ; "
        f"{len(one) - len(shared)} removed, {len(other) - len(shared)} added",
        flush=True,
    )
    for place in differ[:10]:
        print(f"    {place}: {one[place]!r} → {other[place]!r}")
    # a case without a number would show nothing
    return not differ and old_code == new_code and bool(shared)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit")
    parser.add_argument("names", nargs="*", choices=[[], *CASES])
    given = parser.parse_args()
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
            same = [
                compared(
                    name,
                    *(
                        answer(checkout, CASES[name], side)
                        for checkout, side in zip((base, ROOT), sides, strict=True)
                    ),
                )
                for name in given.names or CASES
            ]
        finally:
            subprocess.run([*git, "remove", "--force", str(base)], check=True)
    sys.exit(not all(same))


if __name__ == "__main__":
    main()
