"""One answer to what a machine can run, for doctor, list and plan."""

from alignkit.backends import BACKENDS
from alignkit.backends.torch import TorchBackend
from alignkit.backends.usable import usable_backends
from alignkit.plugins import Plugin


def test_every_backend_is_asked_for_every_device_and_precision():
    found = {(each.backend, each.device, each.precision): each.reason for each in usable_backends()}
    assert {backend for backend, _, _ in found} == set(BACKENDS)
    for device in ("cpu", "cuda"):
        for precision in TorchBackend.precisions:
            reason = TorchBackend(device=device).impossible(precision)
            assert found["torch", f"device={device}", precision] == reason
    assert found["torch", "device=cpu", "fp32"] == ""


def test_a_library_that_is_missing_makes_all_of_it_unusable_with_the_fix(monkeypatch):
    absent = Plugin(BACKENDS["torch"].target, module="no_such_library", extra="tensorrt")
    monkeypatch.setitem(BACKENDS, "torch", absent)
    reasons = {each.reason for each in usable_backends() if each.backend == "torch"}
    assert reasons == {"no_such_library is not installed: pip install 'alignkit[tensorrt]'"}
