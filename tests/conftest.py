"""Fixtures every test file may use."""

from pathlib import Path

import pytest
import torch

from tests.photos import make_jpegs

torch.set_num_threads(1)  # tests are small; threads only fight each other


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of public images beside the checkout."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("../shared/data, the folder of public test images, is not here")
    return folder


@pytest.fixture(scope="session")
def jpegs() -> dict[str, bytes]:
    """Small valid JPEGs of one photo, by kind; see `tests.photos.make_jpegs`."""
    return make_jpegs()
