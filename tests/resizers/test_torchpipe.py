"""`TorchpipeResizer` against the libraries torchpipe calls."""

import cv2
import numpy as np
import pytest
import torch

from alignkit.resizers.torchpipe import TorchpipeResizer
from tests.photos import photo

SIZES = [(24, 32), (130, 200), (61, 97), (3, 4), (4, 3)]


@pytest.mark.parametrize("size", SIZES)
def test_mat_equals_cv2_resize(size):
    assert np.array_equal(
        TorchpipeResizer("mat").resize(photo(), *size), cv2.resize(photo(), size[::-1])
    )


@pytest.mark.parametrize("size", SIZES)
def test_tensor_equals_interpolate_with_aligned_corners(size):
    tensor = torch.tensor(photo()).permute(2, 0, 1)[None].float()
    direct = torch.nn.functional.interpolate(tensor, size, mode="bilinear", align_corners=True)
    resized = TorchpipeResizer("tensor").resize(photo(), *size)
    assert resized.dtype == np.float32
    assert np.array_equal(resized, direct[0].permute(1, 2, 0).numpy())


def test_tensor_refuses_a_side_of_one_pixel_as_torchpipe_does():
    with pytest.raises(RuntimeError, match="h or w"):
        TorchpipeResizer("tensor").resize(photo(), 1, 20)


def test_its_two_ops_are_far_apart():
    mat, tensor = (TorchpipeResizer(op).resize(photo(), 24, 32) for op in ("mat", "tensor"))
    assert np.abs(mat - tensor).mean() > 1
