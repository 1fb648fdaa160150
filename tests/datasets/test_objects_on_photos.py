from __future__ import annotations

import io
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.datasets import digits_on_photos, objects_on_photos
from alignkit.datasets.objects_on_photos import ObjectsOnPhotos, compose
from alignkit.errors import ConfigError

SMALL = ObjectsOnPhotos(train=12, eval=40)


@pytest.fixture(scope="module")
def composed():
    return [compose("eval", index, 0) for index in range(60)]


def contents(samples):
    return [samples.read(index) for index in range(len(samples))]


def test_the_same_options_give_the_same_images_and_annotations(tmp_path, monkeypatch):
    first = SMALL.evaluation()
    before = contents(first), [each.corners.tolist() for each in first.annotations]
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "other"))
    again = SMALL.evaluation()
    assert (contents(again), [each.corners.tolist() for each in again.annotations]) == before


def test_a_larger_set_begins_with_the_smaller_one_and_another_seed_gives_other_images():
    more = ObjectsOnPhotos(train=14, eval=1)
    assert contents(more.training())[:12] == contents(SMALL.training())
    other = ObjectsOnPhotos(train=12, eval=1, seed=1)
    assert not set(contents(SMALL.training())) & set(contents(other.training()))


def test_boxes_masks_and_labels_are_of_the_same_images_and_agree(cache):
    boxes = SMALL.evaluation()
    masks = replace(SMALL, truth="mask").evaluation()
    labels = replace(SMALL, truth="labels").evaluation()
    assert contents(boxes) == contents(masks) == contents(labels)
    assert len(list((cache / "objects-on-photos").glob("eval-*/"))) == 1
    assert (boxes.truth, masks.truth, labels.truth) == ("boxes", "mask", "labels")
    for index in range(len(boxes)):
        own, mask = boxes.annotations[index], masks.annotations[index].read()
        assert {masks.classes[each] for each in masks.annotations[index].present()} == {
            "background",
            *(boxes.classes[each] for each in own.classes),
        }
        assert labels.annotations[index].labels == own.present()
        # each box is the smallest around its strokes, and nothing lies outside of the boxes
        inside = np.zeros_like(mask, bool)
        for label, (left, top, right, bottom) in zip(
            own.classes, own.corners.astype(int), strict=True
        ):
            part = mask[top:bottom, left:right] == label + 1
            assert part.any(0)[[0, -1]].all()
            assert part.any(1)[[0, -1]].all()
            inside[top:bottom, left:right] = True
        assert not mask[~inside].any()
        assert mask.shape == Image.open(io.BytesIO(boxes.read(index))).size[::-1]


def test_strokes_differ_from_the_photograph_where_the_mask_has_them(monkeypatch):
    white = np.full((427, 640, 3), 255, np.uint8)
    real = digits_on_photos.sources()
    painted = digits_on_photos.Sources(real.digits, real.labels, (white, white))
    monkeypatch.setattr(digits_on_photos, "sources", lambda: painted)
    monkeypatch.setattr(objects_on_photos, "sources", lambda: painted)
    monkeypatch.setattr(digits_on_photos, "NOISE", 0.0)
    for index in range(20):
        found = compose("eval", index, 0)
        grey = np.asarray(Image.open(io.BytesIO(found.jpeg)).convert("L"))
        # strokes are dark on white; JPEG blurs a pixel or two at their edges
        assert ((grey < 128) == (found.mask > 0)).mean() > 0.985


def test_images_are_jpeg_files_of_unequal_sides_with_no_object_to_five(composed):
    counts, sides = set(), set()
    for each in composed:
        image = Image.open(io.BytesIO(each.jpeg))
        assert image.format == "JPEG"
        assert [layer[1:3] for layer in image.layer] == [(2, 2), (1, 1), (1, 1)]
        assert 144 <= min(image.size) <= 224
        assert 208 <= max(image.size) <= 320
        sides.add(image.width > image.height)
        counts.add(len(each.objects))
    assert counts == {0, 1, 2, 3, 4, 5}
    assert sides == {True, False}
    assert 1 <= sum(not each.objects for each in composed) <= 12


def test_objects_do_not_overlap_and_vary_in_size(composed):
    heights = []
    for each in composed:
        boxes = [one[1:] for one in each.objects]
        heights += [bottom - top for _, top, _, bottom in boxes]
        for place, a in enumerate(boxes):
            for b in boxes[:place]:
                assert a[0] >= b[2] or b[0] >= a[2] or a[1] >= b[3] or b[1] >= a[3]
    assert max(heights) > 3 * min(heights)
    assert min(heights) >= 16


def test_the_splits_use_digits_of_their_own(monkeypatch):
    used = {}
    real = digits_on_photos.digits_of

    def digits_of(split, seed):
        used.setdefault(split, set()).update(index for pool in real(split, seed) for index in pool)
        return real(split, seed)

    monkeypatch.setattr(objects_on_photos, "digits_of", digits_of)
    for index in range(10):
        compose("train", index, 0)
        compose("eval", index, 0)
    assert not used["train"] & used["eval"]


def test_damaged_files_are_made_again(cache):
    before = contents(SMALL.training())
    (folder,) = (cache / "objects-on-photos").glob("train-*[0-9a-f]/")
    for name in ("000003.png", "objects.json", "000004.jpg"):
        (folder / name).write_bytes(b"[]")
        assert contents(SMALL.training()) == before
        assert (folder / name).read_bytes() != b"[]"


def test_counts_fingerprints_and_names_make_nothing(cache):
    assert SMALL.counts() == (12, 40)
    kinds = [replace(SMALL, truth=each) for each in ("boxes", "mask", "labels")]
    assert len({each.fingerprint("eval") for each in kinds}) == 3
    assert kinds[1].class_names() == ("background", *"0123456789")
    assert not cache.exists()
    assert SMALL.fingerprint("train") == SMALL.training().fingerprint


@pytest.mark.parametrize("options", [{"train": 0}, {"eval": 10**7}, {"seed": -1}])
def test_options_out_of_range_are_refused(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        ObjectsOnPhotos(**options)
