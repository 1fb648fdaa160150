"""A live endpoint that gives back its preprocessed tensors, asked and matched."""

import numpy as np
import pytest

from alignkit.errors import BackendError, ConfigError, MissingDependency
from alignkit.search.endpoint_target import endpoint_of, endpoint_target, record_endpoint
from tests.search.preprocessing_server import prepared, preprocessing
from tests.search.test_search import photographs

pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
FEW = photographs().take(range(4))


@pytest.fixture
def served():
    with preprocessing() as it:
        yield it


def address(served, model="prepare"):
    return f"{served.url}/v2/models/{model}"


def ask(served, folder, **options):
    return record_endpoint(endpoint_of(address(served), **options), FEW, folder)


@pytest.mark.parametrize(
    "given", [("BYTES", [-1]), ("BYTES", [-1, 1]), ("UINT8", [-1]), ("UINT8", [-1, -1])]
)
def test_each_tensor_is_kept_as_the_server_made_it_of_that_image(served, tmp_path, given):
    served.input = given
    assert ask(served, tmp_path) == ()
    for row, name in enumerate(FEW.ids):
        expected = prepared(FEW.read(row))
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), expected)


def test_an_image_the_endpoint_refuses_is_left_out_with_its_reason(served, tmp_path):
    third = FEW.read(3)
    served.refuses = lambda encoded: encoded == third
    only = {"decoders": ("pillow",), "resizers": ("pillow",)}
    target, rows = endpoint_target(endpoint_of(address(served)), FEW, tmp_path, **only)
    assert 3 not in rows
    assert len(rows) == 3
    assert "answered for 3 of 4 images; the first it did not, 3.jpg" in target.facts[0]
    assert "not an image I know" in target.facts[0]


def test_an_endpoint_that_refuses_every_image_has_failed(served, tmp_path):
    served.refuses = lambda encoded: True
    with pytest.raises(BackendError, match=r"0\.jpg: the endpoint refused a request"):
        ask(served, tmp_path)


@pytest.mark.parametrize(
    ("outputs", "output", "message"),
    [
        ({"logits": [-1, 10]}, "", "which output of prepare is the preprocessed image"),
        ({"a": [-1, 3, 96, 96], "b": [-1, 3, 96, 96]}, "", "name one with --tensor"),
        ({"images": [-1, 3, 96, 96]}, "image", r"It has images \[-1, 3, 96, 96\]"),
    ],
)
def test_a_model_without_one_clear_tensor_is_refused_with_what_it_has(
    served, tmp_path, outputs, output, message
):
    served.outputs = outputs
    with pytest.raises(BackendError, match=message):
        ask(served, tmp_path, output=output)


def test_of_several_outputs_the_named_one_is_asked_for(served, tmp_path):
    served.outputs = {"a": [-1, 3, 96, 96], "b": [-1, 3, 96, 96]}
    assert ask(served, tmp_path, output="b") == ()


def test_a_model_that_takes_tensors_is_not_sent_files(served, tmp_path):
    served.input = ("FP32", [-1, 3, 96, 96])
    with pytest.raises(BackendError, match=r"takes FP32 .* and an encoded file is BYTES"):
        ask(served, tmp_path)


def test_an_endpoint_that_is_down_or_has_no_such_model_says_so(served, tmp_path):
    with pytest.raises(BackendError, match="no such model"):
        record_endpoint(endpoint_of(address(served, "other")), FEW, tmp_path)


def test_the_header_comes_from_the_environment_and_is_sent_with_every_request(
    served, tmp_path, monkeypatch
):
    with pytest.raises(MissingDependency, match="TOKEN"):
        endpoint_of(address(served), header_env="TOKEN")
    monkeypatch.setenv("TOKEN", "Bearer of-a-secret")
    ask(served, tmp_path, header_env="TOKEN")
    assert {each["Authorization"] for each in served.headers} == {"Bearer of-a-secret"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("http://host:8000", "give http://HOST:PORT/v2/models/NAME"),
        ("http://host/v2/models/", "give http://HOST:PORT/v2/models/NAME"),
        ("ftp://x/v2/models/m", "--target begins with http://"),
        ("http://me:secret@host/v2/models/m", "--target holds no user, password"),
        ("http://me:secret@host", "give http://HOST:PORT/v2/models/NAME"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused_with_the_form_expected(given, told):
    with pytest.raises(ConfigError, match=told) as caught:
        endpoint_of(given)
    assert "secret" not in str(caught.value)
