"""Every resizer keeps the contract of `alignkit.resizers`."""

import pytest

from alignkit.resizers import RESIZERS, Resizer
from alignkit.studies.conformance import resizer_checks, version_check
from tests.photos import photo


@pytest.fixture(scope="module", params=RESIZERS)
def resizer(request) -> Resizer:
    plugin = RESIZERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return plugin.load()()


@pytest.mark.parametrize("name", resizer_checks.TARGETS)
def test_gives_the_size_asked_for_and_leaves_its_input_alone(resizer, name):
    resizer_checks.one_size(resizer, photo(), *resizer_checks.TARGETS[name])


def test_keeps_a_plain_image_plain(resizer):
    resizer_checks.plain_image(resizer)


def test_keeps_rows_columns_and_channels_apart(resizer):
    resizer_checks.directions(resizer)


def test_may_be_called_from_threads(resizer):
    resizer_checks.in_threads(resizer, [photo(), photo("flower"), photo()[:50]])


def test_names_what_ran(resizer):
    plugin = next(each for each in RESIZERS.values() if each.load() is type(resizer))
    assert version_check(resizer, plugin.version()).run()
    assert type(resizer).__module__.rpartition(".")[2] in resizer.version()
