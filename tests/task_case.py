"""Images, places and answers of tasks, made up from a seed."""

from __future__ import annotations

import numpy as np

from alignkit.annotations import LabelSet, Mask
from alignkit.preprocess.geometry import Geometry
from alignkit.samples import Samples
from alignkit.tasks import ClassMap

NAMES = ("sky", "road", "car")


def squash(width: int, height: int, to_width: int, to_height: int, orientation: int = 1):
    """A whole image resized to any sides."""
    return Geometry(
        width=width,
        height=height,
        input_width=to_width,
        input_height=to_height,
        scale_x=to_width / width,
        scale_y=to_height / height,
        shift_x=0.0,
        shift_y=0.0,
        orientation=orientation,
    )


def shifted(width: int, height: int, input_width: int, input_height: int, left: float, top: float):
    """An image that keeps its scale: padded where a shift is positive, cropped where negative."""
    return Geometry(width, height, input_width, input_height, 1.0, 1.0, left, top)


def samples_of(ids, annotations=(), classes=NAMES) -> Samples:
    return Samples(
        ids=tuple(ids),
        labels=(),
        classes=tuple(classes) if annotations else (),
        read=lambda index: b"bytes %d" % index,
        fingerprint="",
        annotations=tuple(annotations),
    )


def masks_of(masks) -> list[Mask]:
    return [Mask(lambda each=each: each) for each in masks]


def labels_of(truth) -> list[LabelSet]:
    return [LabelSet(tuple(np.flatnonzero(each).tolist())) for each in truth]


def ids(count: int) -> list[str]:
    return [f"{index}.jpg" for index in range(count)]


def resamples(n: int, draws: int, seed: int = 0):
    """Weights (n, draws) of bootstrap draws, and the images of each draw."""
    drawn = np.random.default_rng(seed).integers(0, n, (draws, n))
    weights = np.stack([np.bincount(each, minlength=n) for each in drawn], axis=1)
    return weights.astype(np.float32), drawn


def ones(answers):
    return np.ones((len(answers), 1), np.float32)


CLASSES = ClassMap(NAMES)
