"""Two small runs on disk, of which the second can be changed."""

import hashlib

import numpy as np

from alignkit.compare.image_table import write_image_table
from alignkit.compare.pixel_diff import ImageRow
from alignkit.compare.predictions import Predictions
from alignkit.record import Artifact, ImageTableFacts
from alignkit.record.document import write_record
from tests.report.records import CLASSES, quickstart

IDS = tuple(f"eval/{index:04}.jpg" for index in range(100))
LABELS = np.arange(100) % 10
SEEDS = (0, 1)


def artifact(folder, path, write):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target)
    return Artifact(path=path, sha256=hashlib.sha256(target.read_bytes()).hexdigest())


def logits(classes):
    made = np.zeros((len(classes), len(CLASSES)), np.float32)
    made[np.arange(len(classes)), classes] = 1
    return made


def write_small_run(folder, *, flipped=(), silent=(), ids=IDS, means=None, answers=None, labels=None,
                    **changes):  # fmt: skip
    """One model served on two paths; ``flipped``: indices wrong on the other path, with each seed.

    The aligned cell predicts every label right; on the other, outputs of ``silent`` are NaN.
    ``answers(aligned, seed)`` are the predicted classes instead of these.
    """
    folder.mkdir(parents=True, exist_ok=True)
    record = quickstart()
    kept = ("opencv", "opencv"), ("opencv", "torchpipe-gpu")
    entries = [e for e in record.matrix if _kept(e, kept)]
    cells = []
    labels = np.arange(len(ids)) % 10 if labels is None else labels
    for cell in record.cells:
        if not _kept(cell, kept) or cell.seed not in SEEDS:
            continue
        predicted = labels.copy() if answers is None else answers(cell.aligned, cell.seed)
        if not cell.aligned:
            predicted[list(flipped)] = (predicted[list(flipped)] + 1) % 10
        outputs = logits(predicted)
        if not cell.aligned:
            outputs[list(silent)] = np.nan
        made = Predictions(tuple(ids), labels.astype(np.int64), outputs, CLASSES)
        stored = artifact(folder, f"predictions/{len(cells)}.parquet", made.to_parquet)
        cells.append(cell.model_copy(update={"predictions": stored}))
    means = [1.0] * len(ids) if means is None else means
    rows = [ImageRow(name, "ok", "ok", (9.0,) * 7, (float(mean),) * 7, 0.9)
            for name, mean in zip(ids, means, strict=True)]  # fmt: skip
    table = artifact(folder, "data/images.parquet", lambda path: write_image_table(rows, path))
    update = {
        "matrix": tuple(e.model_copy(update={"seeds": SEEDS}) for e in entries),
        "cells": tuple(cells),
        "images": (ImageTableFacts(reference="opencv", candidate="torchpipe-gpu", table=table),),
        "shown": (),
        # runs of two folders are two runs
        "started": f"2026-11-20T10:00:{sum(folder.name.encode()) % 60:02}+00:00",
    }
    write_record(record.model_copy(update=update | changes), folder)
    return folder


def _kept(each, kept):
    path = (each.trained_with, each.evaluated_with)
    return path in kept and (each.backend, each.precision) == ("torch", "fp32")
