import numpy as np
import pytest
import torch

from alignkit.backends import torch as torch_backend
from alignkit.backends.torch import TorchBackend
from alignkit.errors import BackendError
from alignkit.numerics import float32_precision, named_arithmetic, observed_float32, reproducible
from tests.backends.model import trained_model


@pytest.fixture(scope="module")
def model():
    return trained_model()


def effective(model, precision, **options):
    session = TorchBackend(**options).open(model.checkpoint, None, precision)
    session.close()
    return session.effective()


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp32", "float32"), ("fp16", "float16"), ("bf16", "bfloat16")]
)
def test_every_layer_returns_the_type_of_the_precision(model, precision, dtype):
    assert effective(model, precision)["layers return"] == f"{dtype}, verified"


def test_fp32_is_proven_to_be_ieee(model):
    assert effective(model, "fp32")["float32 products"] == "ieee, verified"


def test_the_memory_format_is_told(model):
    assert effective(model, "fp32")["layout"] == "channels_last"
    assert effective(model, "fp32", channels_last=False)["layout"] == "contiguous_format"


def test_arithmetic_that_is_not_ieee_is_refused(model, monkeypatch):
    monkeypatch.setattr("alignkit.numerics.observed_float32", lambda device: "tf32")
    with pytest.raises(BackendError, match="fp32: products are computed in tf32"):
        TorchBackend().open(model.checkpoint, None, "fp32")


def test_a_layer_that_widens_is_refused(model, monkeypatch):
    forward = torch.nn.Flatten.forward
    monkeypatch.setattr(torch.nn.Flatten, "forward", lambda self, each: forward(self, each).float())
    monkeypatch.setattr(torch.nn.Linear, "forward", lambda self, each: each @ self.weight.float().T)
    with pytest.raises(BackendError, match="fp16: layers return float16, float32"):
        TorchBackend().open(model.checkpoint, None, "fp16")


def test_fp16_differs_from_float32_with_rounded_weights(model):
    """Inputs and activations are narrow too, not the weights alone."""
    narrow = model.predict(TorchBackend(), "fp16")
    rounded = torch_backend.TorchBackend().open(model.checkpoint, None, "fp32")
    rounded.model.half().float()
    assert not np.array_equal(rounded.predict(model.batch), narrow)


@pytest.mark.parametrize(("bits", "name"), [(23, "ieee"), (10, "tf32"), (7, "bf16")])
def test_the_probe_names_arithmetic_by_its_mantissa(bits, name):
    assert named_arithmetic(lambda value: round(value * 2**bits) / 2**bits == value) == name


def test_float32_precision_is_set_and_put_back():
    conv = torch.backends.cudnn.conv
    before = conv.fp32_precision
    with float32_precision("tf32"):
        assert conv.fp32_precision == "tf32"
        assert torch.backends.mkldnn.conv.fp32_precision == "ieee"
    with pytest.raises(ZeroDivisionError), float32_precision("ieee"):
        raise ZeroDivisionError
    assert conv.fp32_precision == before


def test_reproducible_keeps_outer_generators_still():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    with reproducible(torch.device("cpu"), 1):
        torch.rand(5)
        assert torch.are_deterministic_algorithms_enabled()
    assert torch.equal(torch.rand(1), expected)
    assert observed_float32(torch.device("cpu")) == "ieee"
