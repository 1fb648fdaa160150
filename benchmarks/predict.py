"""Cost of predictions relative to bare loops over the same sessions with the same batches.

    python benchmarks/predict.py [--model mobilenet_v2] [--images 1000] [--batch 64] [--size 224]
                                 [--rounds 1]

*All cells of a model*: 3 paths × torch fp32, onnxruntime fp32 and fp16, as a run predicts them, in
an empty cache: with the export and its check, sessions and their verification, reading, normalising
and hashing of batches, the first images one at a time, and the files. The bare sessions are open
and predict the same batches, which are in memory.

*One evaluation*: `predict` with an open session, in onnxruntime fp32 on one path.

All sides alternate. With random weights; the model has a class for each image, up to 1,000.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import numpy as np
import torch
from figures import Cost, Figure, alternate, ratios, show
from prepare import bundled_photos

from alignkit.backends import Session
from alignkit.experiment import load_experiment
from alignkit.models.architectures import build_model
from alignkit.models.checkpoint import Checkpoint
from alignkit.outcome import Measured
from alignkit.plan import Plan, make_plan
from alignkit.predict import model_source, open_session, predict
from alignkit.predict.predict_cells import predict_cells
from alignkit.prepare.prepared_sets import Sets, prepare_sets
from alignkit.progress import NoProgress
from alignkit.train import Trained, train_models
from alignkit.workspace import Context, Workspace

EXPERIMENT = """
name: predict
data: {{name: folder, root: "{root}/data"}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: {size}}}}}
  pillow: {{preset: pillow-train, size: {size}}}
  torchpipe-gpu: {{preset: torchpipe-gpu-surrogate, size: {size}}}
models: [{{name: mine, weights: "{root}/mine.pt", model: {model}, preprocess: opencv}}]
evaluate:
  backends: [{{name: onnxruntime, precision: [fp32, fp16]}}, torch]
  batch_size: {batch}
"""


@dataclass(frozen=True)
class Case:
    """A model, its data prepared on every path, and the same batches in memory."""

    plan: Plan
    sets: Sets
    trained: Trained
    batches: dict[str, list[np.ndarray]]
    """Path → its normalised batches."""
    folders: Iterator[Path]
    """An empty folder each time."""

    @property
    def model(self) -> Checkpoint:
        assert isinstance(self.trained.ended, Measured)
        return self.trained.ended.value

    @property
    def context(self) -> Context:
        """An empty cache."""
        return Context(Workspace(next(self.folders)), NoProgress())


def write_experiment(root: Path, options: argparse.Namespace) -> Path:
    """Write images of several classes, random weights, and the experiment file."""
    classes = min(options.images, 1000)
    photos = bundled_photos(options.images)
    for split, files in (("eval", photos), ("train", photos[:1] * classes)):
        for index, encoded in enumerate(files):
            file = root / "data" / split / f"{index % classes:04}" / f"{index:05}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(encoded)
    torch.manual_seed(0)
    model = build_model(options.model, classes, options.size, options.size)
    torch.save(model.state_dict(), root / "mine.pt")
    file = root / "predict.yaml"
    file.write_text(
        EXPERIMENT.format(root=root, model=options.model, size=options.size, batch=options.batch)
    )
    return file


def prepared_case(root: Path, options: argparse.Namespace) -> Case:
    plan = make_plan(load_experiment(write_experiment(root, options)))
    context = Context(Workspace(root / "prepared"), NoProgress())
    train, evaluation = plan.samples("train"), plan.samples("eval")
    sets = prepare_sets(plan.experiment.paths, train, evaluation, context, trains=False)
    [trained] = train_models(plan, sets, context)
    batches = {}
    for path in plan.experiment.paths:
        prepared = sets.evaluated(path.name)
        rows = prepared.decoded
        parts = np.split(rows, range(options.batch, len(rows), options.batch))
        batches[path.name] = [prepared.batch(each, path.normalise) for each in parts]
    return Case(plan, sets, trained, batches, (root / str(number) for number in count()))


def all_cells(case: Case) -> None:
    """Predict as a run does."""
    for each in predict_cells(case.plan, case.trained, case.sets, case.context):
        assert isinstance(each.ended, Measured), each.ended


@contextmanager
def open_sessions(case: Case) -> Iterator[list[Session]]:
    """Open a session of each runtime, as a run does."""
    workspace = case.context.workspace
    runtimes = {(each.runtime.name, each.runtime.precision): each for each in case.plan.evaluations}
    with ExitStack() as stack:
        opened = []
        for each in runtimes.values():
            onnx = model_source(each, case.model, case.sets, workspace).onnx
            opened.append(stack.enter_context(open_session(each.runtime, case.model, onnx)))
        yield opened


def bare_loop(case: Case, sessions: Iterable[Session], paths: Iterable[str]) -> None:
    """Predict batches in memory."""
    for session in sessions:
        for path in paths:
            for batch in case.batches[path]:
                session.predict(batch)


def evaluation(case: Case, session: Session) -> None:
    """Predict the first cell with an open session."""
    cell = case.plan.evaluations[0]
    prepared = case.sets.evaluated(cell.preprocess.name)
    predict(
        cell, case.model, session, prepared, case.sets.evaluation,
        batch_size=case.plan.experiment.batch_size, workspace=case.context.workspace,
    )  # fmt: skip


def measure(root: Path, options: argparse.Namespace) -> list[Figure]:
    """Alternate the sides."""
    case = prepared_case(root, options)
    with open_sessions(case) as sessions:
        first = [sessions[0]], [case.plan.experiment.paths[0].name]
        one = alternate(
            {
                "bare": lambda: bare_loop(case, *first),
                "evaluation": lambda: evaluation(case, sessions[0]),
            },
            options.rounds,
        )
        all_of = alternate(
            {
                "bare": lambda: bare_loop(case, sessions, case.batches),
                "cells": lambda: all_cells(case),
            },
            options.rounds,
            warm_up=False,
        )
    size = f"{options.model}, {options.images} images of {options.size} px"
    figures = []
    for unit in ("wall", "cpu"):
        figures.append(_figure(f"one evaluation / bare loop, {size}, {unit}", one, unit, 1.05))
        figures.append(_figure(f"all 9 cells / bare sessions, {size}, {unit}", all_of, unit, 1.1))
    return figures


def _figure(what: str, costs: dict[str, list[Cost]], unit: str, most: float) -> Figure:
    bare, whole = ([getattr(each, unit) for each in side] for side in costs.values())
    return Figure(what, ratios(whole, bare), at_most=most)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", default="mobilenet_v2")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        show(measure(Path(folder), options))


if __name__ == "__main__":
    main()
