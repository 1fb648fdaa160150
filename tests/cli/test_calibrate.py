"""`alignkit calibrate`."""

import json

import numpy as np
import pytest

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.plugins import gpu_present
from alignkit.resizers.torch import TorchResizer
from alignkit.studies.calibrate.surrogate_stages import Pair, Surrogate, surrogates


@pytest.mark.skipif(gpu_present(), reason="here the real stacks can run")
def test_what_cannot_run_here_is_told_and_exits_4(alignkit, tmp_path):
    told = alignkit("calibrate", "torchvision-cuda-surrogate", "--out", tmp_path, "--quiet")
    assert told.code == 4
    for stage in ("decode", "resize"):
        assert f"torchvision-cuda-surrogate: {stage} not measured, needs an NVIDIA GPU" in told.out
    assert not list(tmp_path.iterdir())  # nothing is written of nothing


def test_what_can_run_is_measured_and_written(alignkit, tmp_path, monkeypatch):
    path = surrogates()[0].path
    decoder, resizer = SimpleJPEGDecoder(), TorchResizer()
    pairs = (
        Pair("decode", decoder, decoder, "", False),
        Pair("resize", resizer, resizer, "", False),
    )
    monkeypatch.setattr("alignkit.studies.calibrate.SIZES", ((96, 127), (61, 90)))
    monkeypatch.setattr(
        "alignkit.studies.calibrate.surrogate_stages.surrogates",
        lambda: (Surrogate("same", path, pairs),),
    )
    told = alignkit("calibrate", "--out", tmp_path, "--residuals", tmp_path, "--quiet")
    assert told.code == 0, told.err
    assert told.out.startswith("same: decode equal (against simplejpeg")
    assert json.loads((tmp_path / "same.json").read_text())["decode"]["probe"]["images"] == 132
    with np.load(tmp_path / "same.npz") as kept:
        assert len(kept.files) == 132


def test_an_unknown_surrogate_is_refused(alignkit):
    told = alignkit("calibrate", "torchpipe-gpu-surogate")
    assert told.code == 2
    assert "did you mean 'torchpipe-gpu-surrogate'" in told.err
