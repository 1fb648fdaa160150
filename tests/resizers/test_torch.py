"""`TorchResizer` against ``interpolate`` called directly, and against the definition of its grids."""

import numpy as np
import pytest
import torch
from scipy.ndimage import map_coordinates

from alignkit.errors import ConfigError
from alignkit.resizers.torch import TorchResizer
from tests.photos import photo


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("antialias", [False, True])
def test_equals_interpolate(mode, align_corners, antialias):
    tensor = torch.tensor(photo()).permute(2, 0, 1)[None].float().contiguous()
    direct = torch.nn.functional.interpolate(
        tensor, (24, 32), mode=mode, align_corners=align_corners, antialias=antialias
    )
    resized = TorchResizer(mode, align_corners, antialias).resize(photo(), 24, 32)
    assert np.array_equal(resized, direct[0].permute(1, 2, 0).numpy())


def test_nearest_equals_interpolate():
    tensor = torch.tensor(photo()).permute(2, 0, 1)[None].float()
    direct = torch.nn.functional.interpolate(tensor, (24, 32), mode="nearest")
    resized = TorchResizer("nearest").resize(photo(), 24, 32)
    assert np.array_equal(resized, direct[0].permute(1, 2, 0).numpy())


@pytest.mark.parametrize("align_corners", [False, True])
def test_samples_the_grid_its_option_names(align_corners):
    height, width = 24, 32
    rows, columns = (
        np.linspace(0, source - 1, target)
        if align_corners
        else (np.arange(target) + 0.5) * source / target - 0.5
        for source, target in ((61, height), (97, width))
    )
    grid = np.meshgrid(rows, columns, indexing="ij")
    expected = np.stack(
        [
            map_coordinates(plane.astype(float), grid, order=1)
            for plane in np.moveaxis(photo(), 2, 0)
        ],
        axis=-1,
    )
    resized = TorchResizer(align_corners=align_corners).resize(photo(), height, width)
    assert np.allclose(resized, expected, atol=1e-3)


@pytest.mark.parametrize("option", ["align_corners", "antialias"])
def test_refuses_what_nearest_cannot_take(option):
    with pytest.raises(ConfigError, match="nearest"):
        TorchResizer("nearest", **{option: True})
