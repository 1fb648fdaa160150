"""Cost of an evaluation relative to a bare loop over the same session with the same batches.

`predict` adds to the loop: reading and normalising the batches, their hash, repeated predictions of
the first images one at a time, and the file it writes. The bare loop uses batches in memory. The
two alternate; only their ratio is meaningful. Target: 1.15.

    python benchmarks/predict.py [--backend NAME] [--images N] [--batch N] [--size N] [--repeats N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from figures import Figure, ratios, show
from prepare import bundled_photos

from alignkit.experiment import load_experiment
from alignkit.models.architectures import build_model
from alignkit.outcome import Measured
from alignkit.plan import make_plan
from alignkit.predict import model_source, open_session, predict
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.progress import NoProgress
from alignkit.train import train_models
from alignkit.workspace import Context, Workspace

MODEL = "resnet18"
EXPERIMENT = """
name: predict
data: {{name: folder, root: "{root}/data"}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: {size}}}}}
  pillow: {{preset: pillow-train, size: {size}}}
models: [{{name: mine, weights: "{root}/mine.pt", model: {model}, preprocess: opencv}}]
evaluate: {{backends: [{backend}], batch_size: {batch}}}
"""


def write_experiment(root: Path, options: argparse.Namespace) -> Path:
    """Write two classes of images, random weights, and the experiment file."""
    for index, encoded in enumerate(bundled_photos(options.images + 2)):
        split = "eval" if index < options.images else "train"  # train must not be empty
        file = root / "data" / split / "ab"[index % 2] / f"{index:05}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded)
    torch.manual_seed(0)
    torch.save(build_model(MODEL, 2, options.size, options.size).state_dict(), root / "mine.pt")
    file = root / "predict.yaml"
    text = EXPERIMENT.format(
        root=root, model=MODEL, size=options.size, backend=options.backend, batch=options.batch
    )
    file.write_text(text)
    return file


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Print the seconds of both and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--backend", default="onnxruntime")
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measure(Path(folder), options)


def measure(root: Path, options: argparse.Namespace) -> None:
    """Measure both alternately on one session."""
    plan = make_plan(load_experiment(write_experiment(root, options)))
    workspace = Workspace(root / "reports")
    context = Context(workspace, NoProgress())
    train, evaluation = plan.data.training(), plan.data.evaluation()
    sets = prepare_sets(plan.preprocesses, train, evaluation, context, trains=True)
    [trained] = train_models(plan, sets, context)
    assert isinstance(trained.ended, Measured)
    checkpoint = trained.ended.value
    cell = plan.evaluations[0]
    prepared = sets.evaluated(cell.preprocess.name)
    rows = prepared.decoded
    parts = np.split(rows, range(options.batch, len(rows), options.batch))
    batches = [prepared.batch(each, cell.preprocess.normalise) for each in parts]
    onnx = model_source(cell, checkpoint, sets, workspace).onnx
    with open_session(cell.runtime, checkpoint, onnx) as session:

        def loop() -> None:
            for batch in batches:
                session.predict(batch)

        bare, whole = [], []
        for repeat in range(options.repeats):
            fresh = Workspace(root / str(repeat))  # an empty cache
            bare.append(timed(loop))
            whole.append(
                timed(
                    lambda to=fresh: predict(
                        cell,
                        checkpoint,
                        session,
                        prepared,
                        sets.evaluation,
                        batch_size=options.batch,
                        workspace=to,
                    )
                )
            )
    report(options, len(rows), bare, whole)


def report(options: argparse.Namespace, images: int, bare: list[float], whole: list[float]) -> None:
    print(
        f"{MODEL} in {options.backend}, {images} images of {options.size} px, batches of "
        f"{options.batch}"
    )
    print(f"bare loop   {statistics.median(bare):.2f} s  ({min(bare):.2f} to {max(bare):.2f})")
    print(f"evaluation  {statistics.median(whole):.2f} s  ({min(whole):.2f} to {max(whole):.2f})")
    show(
        [Figure("evaluation / bare loop over the session, time", ratios(whole, bare), at_most=1.15)]
    )


if __name__ == "__main__":
    main()
