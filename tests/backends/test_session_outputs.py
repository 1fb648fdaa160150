"""What a module returns is named, and padded where images have different numbers of objects."""

import numpy as np
import pytest
import torch

from alignkit.backends.session_outputs import as_outputs, gives_lists, in_pieces, wanted_names
from alignkit.errors import BackendError
from alignkit.models.module_outputs import named_outputs


def test_detections_of_each_image_are_padded_with_nan():
    def found(count):
        return {"boxes": torch.ones(count, 4), "labels": torch.full((count,), 7)}

    outputs = named_outputs([found(2), found(0)])
    assert {name: tuple(each.shape) for name, each in outputs.items()} == {
        "boxes": (2, 2, 4), "labels": (2, 2)
    }  # fmt: skip
    assert (outputs["labels"][0] == 7).all()
    assert outputs["boxes"][1].isnan().all()


def test_tuples_are_numbered_and_dictionaries_keep_their_names():
    one, two = torch.zeros(1, 2), torch.zeros(1, 3)
    assert [*named_outputs((one, two))] == ["0", "1"]
    assert [*named_outputs({"out": one, "aux": None})] == ["out"]
    assert [*named_outputs(one)] == ["output"]


def test_what_is_no_tensor_is_refused():
    with pytest.raises(BackendError, match="returns dict of out: str, and not tensors"):
        named_outputs({"out": "text"})


def test_whole_numbers_become_float32_only_if_it_holds_them():
    (found,) = as_outputs([np.array([2**24], np.int64)])
    assert found.dtype == np.float32
    assert found[0] == 2**24
    with pytest.raises(BackendError, match="whole number 16777217"):
        as_outputs([np.array([2**24 + 1], np.int64)])


def test_outputs_that_are_not_there_or_not_named_are_refused():
    assert wanted_names((), ["only"]) == ["only"]
    with pytest.raises(BackendError, match="no output 'logit'; its outputs are boxes"):
        wanted_names(("logit",), ["boxes"])
    with pytest.raises(BackendError, match=r"has 2 outputs .*name the wanted ones"):
        wanted_names((), ["a", "b"])


def test_a_graph_for_one_image_runs_a_batch_one_by_one():
    seen = []

    def run(part):
        seen.append(len(part))
        return (part * 2,)

    batch = np.arange(3, dtype=np.float32)[:, None]
    assert (in_pieces(batch, 1, run)[0] == batch * 2).all()
    assert seen == [1, 1, 1]
    with pytest.raises(BackendError, match="exactly 2 images at once"):
        in_pieces(batch, 2, run)


def test_lists_of_a_graph_for_one_image_get_an_axis_of_images():
    found = iter([2, 0, 1])

    def run(part):
        count = next(found)
        return np.full((count, 4), part[0, 0]), np.full(count, part[0, 0], np.float32)

    batch = np.arange(3, dtype=np.float32)[:, None]
    boxes, labels = in_pieces(batch, 1, run, [(None, 4), (None,)])
    none = np.nan
    np.testing.assert_array_equal(labels, [[0, 0], [none, none], [2, none]])
    np.testing.assert_array_equal(boxes, np.repeat(labels[:, :, None], 4, axis=2))
    found = iter([1])
    assert [each.shape for each in in_pieces(batch[:1], 1, run, [(None, 4), (5,)])] == [
        (1, 1, 4), (1, 1),
    ]  # fmt: skip
    # a number an image, and shapes that no file states
    assert not gives_lists([(1,), (1, 5), None])


def test_images_with_fewer_objects_are_padded_where_a_graph_takes_one_image():
    def run(part):
        count = int(part[0, 0])
        return np.ones((1, count, 4), np.float32), np.ones((1, count), np.float32)

    boxes, scores = in_pieces(np.array([[2], [0], [1]], np.float32), 1, run)
    assert boxes.shape == (3, 2, 4)
    assert np.isnan(scores).tolist() == [[False, False], [True, True], [False, True]]
    assert np.isnan(boxes[1]).all()
