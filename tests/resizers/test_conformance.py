"""Every resizer keeps the contract of `alignkit.resizers`."""

import numpy as np
import pytest

from alignkit.resizers import RESIZERS, Resizer
from tests import conformance
from tests.photos import photo

SIZES = {
    "shrunk": (24, 32),
    "enlarged": (130, 200),
    "squashed": (97, 61),
    "unchanged": (61, 97),
    "two rows": (2, 97),
}


@pytest.fixture(scope="module", params=RESIZERS)
def resizer(request) -> Resizer:
    plugin = RESIZERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("name", SIZES)
def test_gives_the_size_asked_for_and_leaves_its_input_alone(resizer, name):
    conformance.check_resize(resizer, photo(), *SIZES[name])


def test_keeps_a_plain_image_plain(resizer):
    plain = np.full((40, 50, 3), (200, 100, 30), np.uint8)
    assert np.abs(resizer.resize(plain, 17, 23) - plain[0, 0].astype(float)).max() < 1e-3


def test_keeps_rows_columns_and_channels_apart(resizer):
    image = np.zeros((40, 60, 3), np.uint8)
    image[:20, :30, 0] = 255
    resized = resizer.resize(image, 20, 20)
    assert resized[:8, :8, 0].min() > 250
    assert resized[12:, :, :].max() < 5
    assert resized[:, 12:, :].max() < 5
    assert resized[..., 1:].max() == 0


def test_may_be_called_from_threads(resizer):
    conformance.check_resizing_in_threads(resizer, [photo(), photo("flower"), photo()[:50]])


def test_names_what_ran(resizer):
    conformance.check_version(resizer, type(resizer).__module__.rpartition(".")[2])
