"""Every resizer keeps the contract of `alignkit.resizers`."""

import pytest

from alignkit.resizers import RESIZERS, Resizer
from alignkit.testing import ResizerContract
from tests.contracts import held, names_of


@pytest.fixture(scope="module", params=RESIZERS)
def resizer(request) -> Resizer:
    plugin = RESIZERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("name", names_of(ResizerContract))
def test_keeps_the_contract(resizer, name):
    held(ResizerContract, resizer, name)


def test_names_what_ran(resizer):
    assert type(resizer).__module__.rpartition(".")[2] in resizer.version()
