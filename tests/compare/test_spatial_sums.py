"""Differences by position, against loops over pixels."""

import cv2
import numpy as np
import pytest

from alignkit.compare.spatial_sums import FOLDS, MAP_SIDE, joined_spatial, spatial_sums
from tests.photos import photo


def pair(height, width, dtype=np.uint8, seed=0):
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (2, height, width, 3)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("size", [(7, 20), (32, 32), (33, 64), (100, 128)])
def test_a_map_has_the_mean_difference_of_each_cell(size, dtype):
    reference, candidate = pair(*size, dtype)
    rows, columns = (min(MAP_SIDE, each) for each in size)
    cells = [[[] for _ in range(columns)] for _ in range(rows)]
    for y in range(size[0]):
        for x in range(size[1]):
            gap = np.abs(candidate[y, x].astype(float) - reference[y, x]).mean()
            cells[y * rows // size[0]][x * columns // size[1]].append(gap)
    sums = spatial_sums("resize", None, reference, candidate, drawn=False)
    expected = [[np.mean(each) for each in row] for row in cells]
    assert sums.maps[rows, columns] == pytest.approx(np.array(expected), rel=1e-5)
    assert sums.drawn == ()


def test_a_large_image_is_sampled_and_keeps_its_means():
    reference, candidate = pair(1000, 700)
    cells = spatial_sums("decode", None, reference, candidate, drawn=False).maps[MAP_SIDE, MAP_SIDE]
    whole = np.abs(candidate.astype(float) - reference).mean()
    assert cells.mean() == pytest.approx(whole, rel=0.02)
    # a lattice that a step of an even number of pixels would take for all, or for nothing
    candidate = reference.copy()
    candidate[::2, ::2] = 255 - reference[::2, ::2]
    cells = spatial_sums("decode", None, reference, candidate, drawn=False).maps[MAP_SIDE, MAP_SIDE]
    assert cells.mean() == pytest.approx(
        np.abs(candidate.astype(float) - reference).mean(), rel=0.1
    )


def test_a_decode_is_folded_by_position_in_luma_and_chroma():
    reference, candidate = pair(48, 80)
    (drawn,) = spatial_sums("decode", None, reference, candidate, drawn=True).drawn
    planes = [
        cv2.cvtColor(each.astype(np.float32) / 255, cv2.COLOR_RGB2YCrCb) * 255
        for each in (reference, candidate)
    ]
    gap = np.abs(planes[1].astype(float) - planes[0])
    for period in FOLDS:
        rows, columns = 48 // period * period, 80 // period * period
        for y, x in ((0, 0), (3, 5), (period - 1, 2)):
            some = gap[y:rows:period, x:columns:period]
            luma, chroma = some[..., 0].mean(), some[..., 1:].mean()
            assert drawn.folds[period][:, y, x] == pytest.approx([luma, chroma], rel=2e-3)


def test_only_drawn_images_of_a_decode_are_folded():
    image = photo("china", 40, 40)
    other = (image // 2).astype(np.uint8)
    assert spatial_sums("resize", image, image, other, drawn=True).drawn[0].folds is None
    assert spatial_sums("decode", None, image[:15], other[:15], drawn=True).drawn[0].folds is None


@pytest.mark.parametrize("size", [(1, 40), (40, 1), (1, 1)])
def test_an_image_of_one_row_or_column_has_no_terms_of_chroma(size):
    (drawn,) = spatial_sums("decode", None, *pair(*size), drawn=True).drawn
    assert drawn.terms is None
    (drawn,) = spatial_sums("decode", None, *pair(2, 2), drawn=True).drawn
    assert drawn.terms is not None


@pytest.mark.parametrize(("source", "target"), [(32767, 20), (20, 32767)])
def test_a_side_that_opencv_does_not_remap_has_no_terms_of_a_resize(source, target):
    image, _ = pair(2, source)
    (drawn,) = spatial_sums("resize", image, *pair(2, target), drawn=True).drawn
    assert drawn.terms is None
    image, _ = pair(2, min(source, 32766))
    (drawn,) = spatial_sums("resize", image, *pair(2, min(target, 32766)), drawn=True).drawn
    assert drawn.terms is not None


def test_sums_of_parts_are_those_of_the_whole():
    parts = [
        spatial_sums("resize", None, *pair(*size, seed=seed), drawn=seed == 1)
        for seed, size in enumerate([(32, 32), (40, 60), (10, 32), (32, 35)])
    ]
    whole = joined_spatial({"resize": each} for each in parts)["resize"]
    assert set(whole.maps) == {(32, 32), (10, 32)}
    expected = parts[0].maps[32, 32] + parts[1].maps[32, 32] + parts[3].maps[32, 32]
    assert np.array_equal(whole.maps[32, 32], expected)
    assert whole.drawn == parts[1].drawn
    halves = [joined_spatial({"resize": each} for each in some) for some in (parts[:2], parts[2:])]
    again = joined_spatial(halves)["resize"]
    assert all(np.allclose(again.maps[size], whole.maps[size]) for size in whole.maps)
