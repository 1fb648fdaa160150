"""Distance of simulated precisions from the same precisions of runtimes that compute in them.

Every column of a simulation is compared with every runtime's of that precision, on the same model
and tensors, beside the distance of that runtime from the reference, which is float32. A ratio below
1 says that the simulation is nearer to the runtime than float32 is. The report of the run divides
int8 into its quantisation and its kernels.

    PYTHONPATH=. python benchmarks/simulated.py [RUN]

RUN is the folder of a run whose columns have both, e.g. ``torch`` and ``openvino`` in fp16 and
bf16, and ``simulated`` in both, at the kernels of the engine and with ``boundaries: nodes``.
Without it, a small CNN is trained on digits and predicts in torch's bf16 and ONNX Runtime's fp16.
The rounds of a figure are its models and paths.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from figures import Figure, show

from alignkit.compare.predictions import Predictions
from alignkit.record import Cell
from alignkit.record.document import artifact_file, read_record
from alignkit.text import columns

EXPERIMENT = """\
name: simulated
data: {name: digits-on-photos, train: 400, eval: 200}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {epochs: 2, seeds: [0]}
evaluate:
  backends:
    - {name: torch, precision: [fp32, bf16]}
    - {name: onnxruntime, precision: fp16}
    - {name: simulated, precision: [bf16, fp16]}
    - {name: simulated, boundaries: nodes, precision: [bf16, fp16]}
"""
HEAD = (
    "row", "served with", "runtime", "simulation", "images", "runtime − fp32: mean", "max", "churn",
    "simulation − runtime: mean", "max", "churn", "ratio of means",
)  # fmt: skip


def main(folder: Path) -> None:
    """Print the table of a run, and the ratio of each pair of columns."""
    record = read_record(folder)
    cells = [cell for cell in record.cells if cell.ran]
    rows = [HEAD]
    found: defaultdict[str, list[float]] = defaultdict(list)
    for real in cells:
        for simulated in cells:
            if _pair(real, simulated):
                reference = next(
                    each
                    for each in cells
                    if _tensors(each) == _tensors(real) and each.numeric is None
                )
                rows.append(_row(folder, reference, real, simulated))
                ran, made = real.column.runtime, simulated.column.runtime
                found[f"mean distance: {made} from {ran} / {ran} from fp32"].append(
                    float(rows[-1][-1])
                )
    print(record.name)
    print(columns(rows))
    show([Figure(what, ratios) for what, ratios in found.items()])


def small_run(root: Path) -> Path:
    """Run the small experiment; return the folder of its run."""
    (root / "simulated.yaml").write_text(EXPERIMENT)
    command = [sys.executable, "-m", "alignkit", "run", "simulated.yaml", "--no-open", "-q"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=root)
    runs = [each.parent for each in (root / "reports" / "simulated").glob("*/record.json")]
    return runs[0] if runs else sys.exit(done.stderr)


def _tensors(cell: Cell) -> tuple[str, int, str]:
    return cell.trained_with, cell.seed, cell.inputs


def _pair(real: Cell, simulated: Cell) -> bool:
    return (
        not real.simulation
        and bool(simulated.simulation)
        and real.precision == simulated.precision != "int8"
        and _tensors(real) == _tensors(simulated)
        and real.evaluated_with == simulated.evaluated_with
    )


def _logits(folder: Path, cell: Cell) -> np.ndarray:
    assert cell.predictions is not None
    logits: np.ndarray = Predictions.from_parquet(artifact_file(folder, cell.predictions)).logits
    return logits.astype(np.float64)


def _row(folder: Path, reference: Cell, real: Cell, simulated: Cell) -> tuple[str, ...]:
    exact, computed, made = (_logits(folder, each) for each in (reference, real, simulated))
    rounded, apart = np.abs(computed - exact), np.abs(made - computed)
    changed = [
        f"{100 * np.mean(one.argmax(1) != other.argmax(1)):.2f} %"
        for one, other in ((computed, exact), (made, computed))
    ]
    return (
        f"{real.trained_with} seed {real.seed}",
        real.evaluated_with,
        real.column.runtime,
        simulated.column.runtime,
        str(len(exact)),
        f"{rounded.mean():.2g}",
        f"{rounded.max():.2g}",
        changed[0],
        f"{apart.mean():.2g}",
        f"{apart.max():.2g}",
        changed[1],
        f"{apart.mean() / rounded.mean():.3f}",
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("run", type=Path, nargs="?")
    given = parser.parse_args()
    if given.run:
        main(given.run)
    else:
        with tempfile.TemporaryDirectory() as name:
            main(small_run(Path(name)))
