"""The contract in `alignkit.datasets` as tests."""

from __future__ import annotations

import pickle
from dataclasses import astuple, replace
from typing import Any, get_args
from unittest import SkipTest

import numpy as np

from alignkit.annotations import Annotation, Boxes, Mask
from alignkit.datasets import DATASETS, Dataset
from alignkit.decoders.exif import exif_orientation
from alignkit.preprocess.image_header import declared_size
from alignkit.samples import Samples, Split
from alignkit.testing.decoder_contract import check_version

_READ = 20
"""Images whose bytes are read."""


class DatasetContract:
    """Tests of a data set."""

    plugin: Dataset

    def test_has_unique_ids_and_a_label_in_its_classes_for_each(self) -> None:
        """Check ids and labels of both splits."""
        for split, samples in zip(get_args(Split), _both(self.plugin), strict=True):
            assert len(set(samples.ids)) == len(samples), f"{split}: ids are not unique"
            wrong = [each for each in samples.labels if not 0 <= each < len(samples.classes)]
            assert not wrong, f"{split}: label {wrong[:1]} of {len(samples.classes)} classes"
        assert len(self.plugin.evaluation()), "the evaluation split is empty"

    def test_annotates_every_image_as_it_says(self) -> None:
        """Check that every annotation is of the kind ``truth``, and of the classes."""
        truth = getattr(self.plugin, "truth", "class")  # of a plugin that extends no `Dataset`
        for samples in _both(self.plugin):
            found = samples.truth
            assert not len(samples) or found == truth, f"truth is {truth}, the samples' {found}"
            known = range(len(samples.classes))
            for name, each in zip(samples.ids, samples.annotations, strict=False):
                assert each.truth == truth, f"{name}: {each.truth} among {truth}"
                if each.truth != "mask":  # masks are read from files: the next test reads some
                    wrong = [label for label in each.present() if label not in known]
                    assert not wrong, f"{name}: class {wrong[:1]} of {len(known)}"

    def test_annotates_within_the_images(self) -> None:
        """Check that boxes lie in their images, and that masks have their size and classes."""
        samples = self.plugin.evaluation()
        if samples.truth not in ("boxes", "mask"):
            raise SkipTest("it has no boxes and no masks")
        for index in range(min(_READ, len(samples))):
            name, encoded, each = (
                samples.ids[index],
                samples.read(index),
                samples.annotations[index],
            )
            size = declared_size(encoded)
            if size is None:
                continue  # an image that cannot be decoded
            sides = size if exif_orientation(encoded) < 5 else size[::-1]
            if isinstance(each, Boxes):
                inside = (each.corners >= 0).all() and (each.corners <= [*sides[::-1]] * 2).all()
                assert inside, f"{name}: a box leaves the image"
                area = (each.corners[:, 2:] > each.corners[:, :2]).all()
                assert area, f"{name}: a box has no area"
            elif isinstance(each, Mask):
                shape = each.read().shape
                assert shape == sides, f"{name}: its mask is {shape}, the image {sides}"
                wrong = [label for label in each.present() if label >= len(samples.classes)]
                assert not wrong, f"{name}: class {wrong[:1]} of {len(samples.classes)}"

    def test_shares_classes_and_no_sample_between_its_splits(self) -> None:
        """Check that the classes are the same, or are identities, and that no image is in both."""
        training, evaluation = _both(self.plugin)
        if not len(training):
            raise SkipTest("it has no training images")
        if getattr(self.plugin, "held_out", False):  # of a plugin that extends no `Dataset`
            named = self.plugin.trained_names(), self.plugin.class_names()
            for samples, names in zip((training, evaluation), named, strict=True):
                assert not names or samples.classes == names, "it names other identities"
                unique = len({*samples.classes}) == len(samples.classes)
                assert unique, "an identity is there twice"
        else:
            same = training.truth == "none" or training.classes == evaluation.classes
            assert same, "the splits have different classes"
        shared = {*training.ids} & {*evaluation.ids}
        assert not shared, f"{len(shared)} samples are in both splits, as {min(shared, default='')}"

    def test_gives_the_same_samples_twice(self) -> None:
        """Check that a copy with the same options gives the same samples in the same order."""
        whole: Any = self.plugin
        first, again = self.plugin.evaluation(), replace(whole).evaluation()
        assert first.ids == again.ids, "the order or the ids differ the second time"
        assert first.labels == again.labels, "the labels differ the second time"
        same = all(map(_are_equal, first.annotations[:_READ], again.annotations[:_READ]))
        assert same, "the annotations differ the second time"
        assert first.fingerprint == again.fingerprint, "the fingerprint differs the second time"

    def test_reads_the_same_bytes_again_and_in_another_process(self) -> None:
        """Check that the first images are bytes, also read by a pickled part of the places."""
        samples = self.plugin.evaluation()
        order = range(min(_READ, len(samples)))[::-1]
        try:
            part = pickle.loads(pickle.dumps(samples.read.only(order)))  # noqa: S301 - pickled here
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise AssertionError(f"'read' cannot be sent to another process: {error}") from error
        for place, index in enumerate(order):
            name, data = samples.ids[index], samples.read(index)
            assert isinstance(data, bytes), f"{name} is read as no bytes"
            assert data, f"{name} is read as no bytes"
            assert samples.read(index) == data, f"{name} is read as other bytes again"
            assert part(place) == data, f"{name} is read as other bytes after it was pickled"

    def test_counts_and_fingerprints_are_those_of_its_samples(self) -> None:
        """Check ``counts()`` and ``fingerprint(split)``."""
        both = _both(self.plugin)
        said, found = tuple(self.plugin.counts()), tuple(map(len, both))
        assert said == found, f"counts() says {said}, and the splits have {found}"
        split: Split
        for split, samples in zip(get_args(Split), both, strict=True):
            if len(samples):
                key = self.plugin.fingerprint(split)
                same = key == samples.fingerprint
                assert same, f"fingerprint({split!r}) is {key[:12]}, not that of the samples"

    def test_names_the_library_that_ran(self) -> None:
        """Check that ``version()`` names it in a version that cache keys hold too."""
        check_version(self.plugin, DATASETS)


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
