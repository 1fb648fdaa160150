"""Checks of the contract in `alignkit.datasets`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any, get_args

from alignkit.datasets import Dataset
from alignkit.samples import Samples, Split
from alignkit.studies.conformance import Check, NotApplicable, require

_READ = 20
"""Images whose bytes are read."""


def checks(dataset: Dataset) -> Iterator[Check]:
    """Yield every check of a data set."""
    yield Check("has unique ids, and a label in its classes for each", lambda: labels(dataset))
    yield Check("shares classes and no sample between its splits", lambda: disjoint(dataset))
    yield Check("gives the same samples twice", lambda: twice(dataset))
    yield Check("reads every image as bytes", lambda: readable(dataset.evaluation()))
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


def disjoint(dataset: Dataset) -> str:
    """Check that no evaluation image is trained on."""
    training, evaluation = _both(dataset)
    if not len(training):
        raise NotApplicable("it has no training images")
    require(
        not training.labels or training.classes == evaluation.classes,
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
    require(first.fingerprint == again.fingerprint, "the fingerprint differs the second time")
    return f"{len(first)} samples, fingerprint {first.fingerprint[:12]}"


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


def _both(dataset: Dataset) -> tuple[Samples, Samples]:
    evaluation = dataset.evaluation()
    # a set without training images may refuse to give that split
    none = Samples((), (), evaluation.classes, evaluation.read, "")
    return dataset.training() if dataset.counts()[0] else none, evaluation
