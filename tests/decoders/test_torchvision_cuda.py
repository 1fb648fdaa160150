"""The decoder of torchvision on a GPU beside a model on the same GPU."""

import threading

import pytest

from tests.photos import encoded, photo


@pytest.mark.gpu
def test_decoding_in_another_thread_leaves_the_answers_of_a_model_alone():
    """torchvision writes pixels in a stream of its own, into memory of the current one."""
    import torch
    import torchvision

    from alignkit.decoders.torchvision import TorchvisionCudaDecoder

    torch.manual_seed(0)
    model = torchvision.models.resnet18(weights=None).eval().cuda()
    batches = [torch.randn(16, 3, 224, 224, device="cuda") for _ in range(4)]
    decoder, stop, decoded = TorchvisionCudaDecoder(), threading.Event(), []
    files = [encoded(photo(height=480, width=side), quality=90) for side in (320, 480, 640)]

    def decode():
        while not stop.is_set():
            decoded.extend(decoder.decode(each).outcome for each in files)

    with torch.inference_mode():
        alone = [model(each).cpu() for each in batches]
        threads = [threading.Thread(target=decode) for _ in range(2)]
        for each in threads:
            each.start()
        try:
            for _ in range(200):
                # all at once, so that the model frees memory which its kernels have yet to read
                together = [model(each) for each in batches]
                for one, other in zip(together, alone, strict=True):
                    torch.testing.assert_close(one.cpu(), other, atol=1e-4, rtol=1e-4)
        finally:
            stop.set()
            for each in threads:
                each.join()
    assert set(decoded) == {"ok"}


def test_each_thread_has_a_stream_of_its_own(monkeypatch):
    """A stream is an object of torch alone until something is queued, so a CPU can tell."""
    import torch

    from alignkit.decoders.torchvision import _own_stream

    made = []
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: made.append(device) or object())
    found = []
    threads = [threading.Thread(target=lambda: found.append(_own_stream())) for _ in range(2)]
    for each in threads:
        each.start()
        each.join()
    assert len(set(map(id, found))) == 2
    assert found[0] is not _own_stream() is _own_stream()
