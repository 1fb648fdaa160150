"""Small pictures of the images that neighbours name: of which, how large, and how many."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from alignkit.record import Neighbour, Neighbours
from alignkit.record.picture_facts import is_picture, thumbnail_png
from alignkit.runner.assemble import neighbour_pictures
from tests.report.records import quickstart

IDS = tuple(f"{index}.jpg" for index in range(12))


def pixels(index):
    """120 x 60 pixels of one colour, which tells images apart."""
    return np.full((60, 120, 3), 10 * index, np.uint8)


SETS = SimpleNamespace(
    evaluation=SimpleNamespace(ids=IDS, labels=[index // 4 for index in range(12)], classes="abc"),
    evaluated=lambda path: SimpleNamespace(path=path, image=pixels),
)


def query(name, *near):
    found = tuple(Neighbour(f"{index}.jpg", 0.5, True) for index in near)
    return Neighbours(f"{name}.jpg", found[:1], found[1:])


def matrix(*lists):
    """Entries of the row opencv, as many as there are lists, and what they are compared with."""
    row = [each for each in quickstart().matrix if each.trained_with == "opencv"]
    compared = [each for each in row if each.drift][: len(lists)]
    return [
        next(each for each in row if each.aligned),
        *(
            each.model_copy(update={"drift": replace(each.drift, neighbours=found)})
            for each, found in zip(compared, lists, strict=True)
        ),
    ]


def test_every_image_of_the_lists_has_one_picture_of_the_baseline_s_path(tmp_path):
    made = neighbour_pictures(
        matrix((query(0, 1, 2),), (query(2, 1, 5),)), SETS, tmp_path, limit=10**6
    )
    assert [each.id for each in made] == ["0.jpg", "1.jpg", "2.jpg", "5.jpg"]
    assert {each.path for each in made} == {"opencv"}
    assert [each.label for each in made] == ["a", "a", "a", "b"]
    for each in made:
        picture = np.array(Image.open(tmp_path / each.picture.path))
        assert picture.shape == (40, 80, 3)
        assert (picture == 10 * IDS.index(each.id)).all()
        assert is_picture(each.picture.path, (tmp_path / each.picture.path).read_bytes())


def test_of_too_many_the_first_query_of_every_comparison_comes_first(tmp_path):
    lists = matrix((query(0, 1), query(2, 3)), (query(4, 5), query(6, 7)))
    room = sum(len(thumbnail_png(pixels(index))) for index in (0, 1, 4, 5, 2, 3))
    ids = [each.id for each in neighbour_pictures(lists, SETS, tmp_path, limit=room)]
    assert ids == ["0.jpg", "1.jpg", "4.jpg", "5.jpg", "2.jpg", "3.jpg"]
    # no query with a part of its neighbours
    ids = [each.id for each in neighbour_pictures(lists, SETS, tmp_path, limit=room - 1)]
    assert ids == ["0.jpg", "1.jpg", "4.jpg", "5.jpg"]
    assert neighbour_pictures(lists, SETS, tmp_path, limit=0) == ()


def test_a_run_without_neighbours_writes_nothing(tmp_path):
    assert neighbour_pictures(quickstart().matrix, SETS, tmp_path, limit=10**6) == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shape", [(80, 60), (30, 20), (1, 500), (240, 240)])
def test_a_thumbnail_is_no_larger_than_its_picture_or_80_pixels(tmp_path, shape):
    values = np.random.default_rng(0).uniform(0, 255, (*shape, 3)).astype(np.float32)
    (tmp_path / "t.png").write_bytes(thumbnail_png(values))
    found = np.array(Image.open(tmp_path / "t.png"))
    scale = min(1, 80 / max(shape))
    assert found.shape == (*(max(1, round(scale * side)) for side in shape), 3)
    if scale == 1:
        assert (found == np.rint(values)).all()
    elif shape == (240, 240):  # the mean of nine pixels
        means = np.rint(values).reshape(80, 3, 80, 3, 3).mean(axis=(1, 3))
        assert np.abs(found - means).max() <= 0.5 + 1e-6
