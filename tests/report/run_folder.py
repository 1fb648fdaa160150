"""The files that lie beside a record: predictions, image tables, pictures."""

import hashlib

import numpy as np

from alignkit.compare.image_table import write_image_table
from alignkit.compare.pixel_diff import ImageRow
from alignkit.compare.predictions import Predictions
from alignkit.preprocess import STAGES
from alignkit.record import Artifact, ImageTableFacts
from alignkit.record.document import write_record
from tests.report.records import CLASSES, SHIFT, predictions, quickstart

IDS = tuple(f"eval/{index:04}.jpg" for index in range(1000))


def artifact(folder, path, write):
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    write(target)
    return Artifact(path=path, sha256=hashlib.sha256(target.read_bytes()).hexdigest())


def logits_of(classes, seed):
    """Logits whose greatest is the class given."""
    draw = np.random.default_rng(seed)
    logits = draw.normal(0, 1, (len(classes), len(CLASSES))).astype(np.float32)
    logits[np.arange(len(classes)), classes] = logits.max(axis=1) + draw.exponential(
        2, len(classes)
    )
    return logits


def made_predictions(cell, index):
    found = predictions(
        cell.trained_with, cell.seed, cell.evaluated_with, f"{cell.backend} {cell.precision}"
    )
    labels = np.arange(len(found)) % 10
    return Predictions(IDS, labels.astype(np.int64), logits_of(found, index), CLASSES)


def image_rows(candidate):
    draw = np.random.default_rng(len(candidate))
    scale = abs(SHIFT[candidate][0]) * 2 + abs(SHIFT[candidate][1]) * 4
    for name in IDS:
        size = float(draw.gamma(3, scale))
        means = tuple(size * (0.1 if stage in {"decode", "orient"} else 1.0) for stage in STAGES)
        yield ImageRow(
            id=name,
            reference="ok",
            candidate="ok",
            max_abs=tuple(min(255.0, round(mean * 15)) for mean in means),
            mean_abs=means,
            ssim=1 - min(size, 50) / 120,
        )


def _flipped(image, cells, made):
    """The second image that changed on pillow becomes one that flips in most seeds."""
    if (image.candidate, image.why) != ("pillow", "changed") or image.id == "eval/0011.jpg":
        return image
    keys = {(c.seed, c.evaluated_with): c.key for c in cells
            if (c.trained_with, c.backend, c.precision) == ("opencv", "torch", "fp32")}  # fmt: skip
    flips = sum(
        made[keys[seed, "opencv"]].predicted != made[keys[seed, "pillow"]].predicted
        for seed, path in keys
        if path == "pillow"
    )
    return image.model_copy(update={"id": IDS[int(flips.argmax())]})


def write_run(folder):
    """A whole run's folder, without its page; returns the record."""
    record = quickstart(folder)
    made = {
        cell.key: made_predictions(cell, index)
        for index, cell in enumerate(record.cells)
        if cell.state == "measured"
    }
    stored = {
        key: artifact(folder, f"cells/{key}.parquet", each.to_parquet) for key, each in made.items()
    }
    cells = tuple(
        cell.model_copy(update={"predictions": stored.get(cell.key)}) for cell in record.cells
    )
    images = tuple(
        ImageTableFacts(
            reference="opencv",
            candidate=candidate,
            table=artifact(
                folder,
                f"data/images-{candidate}.parquet",
                lambda path, name=candidate: write_image_table(list(image_rows(name)), path),
            ),
        )
        for candidate in ("torchpipe-gpu", "pillow")
    )
    whole = record.model_copy(
        update={
            "cells": cells,
            "images": images,
            "shown": tuple(_flipped(each, record.cells, made) for each in record.shown),
        }
    )
    write_record(whole, folder)
    return whole


def write_long_run(folder, *, images):
    """A run of many images: one model on three paths and four runtimes; two paths' pixels compared."""
    record = quickstart()
    ids = tuple(f"eval/{index:06}.jpg" for index in range(images))
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 10, images)
    cells = []
    for index, cell in enumerate(record.cells):
        if (cell.trained_with, cell.seed, cell.state) != ("opencv", 0, "measured"):
            continue
        logits = draw.normal(0, 1, (images, 10)).astype(np.float32)
        logits[np.arange(images), labels] += 3
        made = Predictions(ids, labels, logits, CLASSES)
        stored = artifact(folder, f"cells/{index:03}.parquet", made.to_parquet)
        cells.append(cell.model_copy(update={"predictions": stored}))
    means = draw.gamma(3, 2, images)
    rows = [
        ImageRow(name, "ok", "ok", (float(mean) * 12,) * 7, (float(mean),) * 7, 0.9)
        for name, mean in zip(ids, means, strict=True)
    ]
    table = artifact(folder, "data/images.parquet", lambda path: write_image_table(rows, path))
    facts = ImageTableFacts(reference="opencv", candidate="torchpipe-gpu", table=table)
    whole = record.model_copy(update={"cells": tuple(cells), "images": (facts,), "shown": ()})
    write_record(whole, folder)
    return whole
