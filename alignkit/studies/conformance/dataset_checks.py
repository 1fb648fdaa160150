"""Checks of the contract in `alignkit.datasets`."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import astuple, replace
from functools import partial
from typing import Any, get_args

import numpy as np

from alignkit.annotations import Annotation, Boxes, Mask
from alignkit.datasets import Dataset
from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess.image_header import declared_size
from alignkit.samples import Samples, Split
from alignkit.studies.conformance import Check, Nonconforming, NotApplicable, require

_READ = 20
"""Images whose bytes are read."""


def checks(dataset: Dataset) -> Iterator[Check]:
    """Yield every check of a data set."""
    yield Check("has unique ids, and a label in its classes for each", lambda: labels(dataset))
    yield Check("annotates every image as it says", lambda: annotated(dataset))
    yield Check("annotates within the images", lambda: within(dataset.evaluation()))
    yield Check("shares classes and no sample between its splits", lambda: disjoint(dataset))
    yield Check("gives the same samples twice", lambda: twice(dataset))
    yield Check("reads every image as bytes", lambda: readable(dataset.evaluation()))
    yield Check("reads the same bytes in another process", lambda: sent(dataset.evaluation()))
    yield Check("counts as many samples as it gives", partial(counts, dataset))
    yield Check("knows the fingerprint of its samples", partial(fingerprints, dataset))


def labels(dataset: Dataset) -> str:
    """Check ids and labels of both splits."""
    training, evaluation = _both(dataset)
    for split, samples in (("train", training), ("eval", evaluation)):
        require(len(set(samples.ids)) == len(samples), f"{split}: ids are not unique")
        wrong = [each for each in samples.labels if not 0 <= each < len(samples.classes)]
        require(not wrong, f"{split}: label {wrong[:1]} of {len(samples.classes)} classes")
    require(len(evaluation), "the evaluation split is empty")
    return f"{len(training)} and {len(evaluation)} samples, {len(evaluation.classes)} classes"


def annotated(dataset: Dataset) -> str:
    """Check that every annotation is of the kind ``truth``, and of the classes."""
    truth = getattr(dataset, "truth", "class")  # of a plugin that extends no `Dataset`
    for samples in _both(dataset):
        found = samples.truth
        require(not len(samples) or found == truth, f"truth is {truth}, the samples' {found}")
        known = range(len(samples.classes))
        for name, each in zip(samples.ids, samples.annotations, strict=False):
            require(each.truth == truth, f"{name}: {each.truth} among {truth}")
            if each.truth != "mask":  # masks are read from files: `within` reads some
                wrong = [label for label in each.present() if label not in known]
                require(not wrong, f"{name}: class {wrong[:1]} of {len(known)}")
    return truth


def within(samples: Samples) -> str:
    """Check that boxes lie in their images, and that masks have their size and their classes."""
    if samples.truth not in ("boxes", "mask"):
        raise NotApplicable("it has no boxes and no masks")
    looked = range(min(_READ, len(samples)))
    for index in looked:
        name, encoded, each = samples.ids[index], samples.read(index), samples.annotations[index]
        size = declared_size(encoded)
        if size is None:
            continue  # an image that cannot be decoded
        sides = size if exif_orientation(encoded) < 5 else size[::-1]
        if isinstance(each, Boxes):
            inside = (each.corners >= 0).all() and (each.corners <= [*sides[::-1]] * 2).all()
            require(inside, f"{name}: a box leaves the image")
            area = (each.corners[:, 2:] > each.corners[:, :2]).all()
            require(area, f"{name}: a box has no area")
        elif isinstance(each, Mask):
            shape = each.read().shape
            require(shape == sides, f"{name}: its mask is {shape}, the image {sides}")
            wrong = [label for label in each.present() if label >= len(samples.classes)]
            require(not wrong, f"{name}: class {wrong[:1]} of {len(samples.classes)}")
    return f"{len(looked)} images"


def disjoint(dataset: Dataset) -> str:
    """Check that the classes are the same, or are identities, and that no image is in both."""
    training, evaluation = _both(dataset)
    if not len(training):
        raise NotApplicable("it has no training images")
    if getattr(dataset, "held_out", False):  # of a plugin that extends no `Dataset`
        for samples, names in (
            (training, dataset.trained_names()),
            (evaluation, dataset.class_names()),
        ):
            require(not names or samples.classes == names, "it names other identities")
            unique = len({*samples.classes}) == len(samples.classes)
            require(unique, "an identity is there twice")
    else:
        require(
            training.truth == "none" or training.classes == evaluation.classes,
            "the splits have different classes",
        )
    shared = set(training.ids) & set(evaluation.ids)
    require(
        not shared, f"{len(shared)} samples are in both splits, the first {min(shared, default='')}"
    )
    return "no sample in common"


def twice(dataset: Dataset) -> str:
    """Check that a copy with the same options gives the same samples in the same order."""
    whole: Any = dataset
    first, again = dataset.evaluation(), replace(whole).evaluation()
    require(first.ids == again.ids, "the order or the ids differ the second time")
    require(first.labels == again.labels, "the labels differ the second time")
    same = all(map(_are_equal, first.annotations[:_READ], again.annotations[:_READ]))
    require(same, "the annotations differ the second time")
    require(first.fingerprint == again.fingerprint, "the fingerprint differs the second time")
    return f"{len(first)} samples, fingerprint {first.fingerprint[:12]}"


def sent(samples: Samples) -> str:
    """Check that images are read as the same bytes in another process, by a part of the places."""
    order = range(min(_READ, len(samples)))[::-1]
    reads = samples.read.only(order)
    try:
        part = pickle.loads(pickle.dumps(reads))  # noqa: S301 - pickled here
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise Nonconforming(f"'read' cannot be sent to another process: {error}") from error
    for place, index in enumerate(order):
        same = part(place) == samples.read(index)
        require(same, f"{samples.ids[index]} is read as other bytes after it was pickled")
    return f"{len(order)} images"


def readable(samples: Samples) -> str:
    """Check that the first images are bytes, equal when they are read again."""
    for index in range(min(_READ, len(samples))):
        data = samples.read(index)
        require(isinstance(data, bytes) and data, f"{samples.ids[index]} is read as no bytes")
        require(samples.read(index) == data, f"{samples.ids[index]} is read as other bytes again")
    return f"{min(_READ, len(samples))} images"


def counts(dataset: Dataset) -> str:
    """Check ``counts()``."""
    told, found = tuple(dataset.counts()), tuple(len(each) for each in _both(dataset))
    require(told == found, f"counts() says {told}, and the splits have {found}")
    return f"{told[0]} and {told[1]}"


def fingerprints(dataset: Dataset) -> str:
    """Check that ``fingerprint(split)`` is that of the samples."""
    split: Split
    for split, samples in zip(get_args(Split), _both(dataset), strict=True):
        if not len(samples):
            continue
        told = dataset.fingerprint(split)
        same = told == samples.fingerprint
        require(
            same, f"fingerprint({split!r}) is {told[:12]}, the samples' {samples.fingerprint[:12]}"
        )
    return "those of the samples"


def _are_equal(first: Annotation, again: Annotation) -> bool:
    if isinstance(first, Boxes) and isinstance(again, Boxes):
        pairs = zip(astuple(first), astuple(again), strict=True)
        return all(np.array_equal(a, b) for a, b in pairs)
    if isinstance(first, Mask) and isinstance(again, Mask):
        return np.array_equal(first.read(), again.read())
    return first == again


def _both(dataset: Dataset) -> tuple[Samples, Samples]:
    evaluation = dataset.evaluation()
    # a set without training images may refuse to give that split
    none = Samples((), (), evaluation.classes, evaluation.read, "")
    return dataset.training() if dataset.counts()[0] else none, evaluation
