"""`alignkit calibrate`."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.plugins import gpu_present
from alignkit.resizers.torch import TorchResizer
from alignkit.studies.calibrate.surrogate_stages import Pair, Surrogate, surrogates


@pytest.mark.skipif(gpu_present(), reason="here the real stacks can run")
def test_what_cannot_run_here_is_told_and_exits_4(alignkit, tmp_path):
    told = alignkit(
        "calibrate", "torchvision-cuda-surrogate", "--out", f"json={tmp_path}", "--quiet"
    )
    assert told.code == 4
    for stage in ("decode", "resize"):
        assert (
            f"torchvision-cuda-surrogate: {stage} not measured here, needs an NVIDIA GPU"
            in told.out
        )
    stored = [line for line in told.out.splitlines() if "decode verified" in line]
    assert stored
    assert all(": evidence that is stored: decode verified" in line for line in stored)
    assert not list(tmp_path.iterdir())  # nothing is written of nothing
    told = alignkit("calibrate", "torchvision-cuda-surrogate", "--json", "--progress", "none")
    found = json.loads(told.out)["torchvision-cuda-surrogate"]
    assert (told.code, told.err, found["measured"]) == (4, "", {})
    assert set(found["missing"]) == {"decode", "resize"}


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
    told = alignkit(
        "calibrate", "--out", f"json={tmp_path}", "--out", f"residuals={tmp_path}", "--quiet"
    )
    assert told.code == 0, told.err
    assert told.out.startswith("same: measured here: decode equal (against simplejpeg")
    assert json.loads((tmp_path / "same.json").read_text())["decode"]["probe"]["images"] == 132
    with np.load(tmp_path / "same.npz") as kept:
        assert len(kept.files) == 132


def test_an_unknown_surrogate_is_refused(alignkit):
    told = alignkit("calibrate", "torchpipe-gpu-surogate")
    assert told.code == 2
    assert "did you mean 'torchpipe-gpu-surrogate'" in told.err


@pytest.mark.slow  # the printed file and the command each load torch
def test_the_recorders_pairs_of_a_cpu_are_answered_with_libjpegs_rule(alignkit, tmp_path):
    """From the printed file to the answer, as two people do it."""
    printed = alignkit("calibrate", "--recorder")
    assert printed.code == 0
    (tmp_path / "record.py").write_text(printed.out)
    command = [sys.executable, "-I", "record.py", "--device", "cpu", "--out", "pairs"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    out = tmp_path / "out"
    told = alignkit("calibrate", "--pairs", tmp_path / "pairs", "--out", f"json={out}", "--quiet")
    assert told.code == 0, told.err
    text = told.out.replace("\N{NO-BREAK SPACE}", "")
    assert "torchvision.io.decode_jpeg on the CPU; no GPU took part" in text
    assert "libjpeg-turbo (interpolate, islow, round) reproduces 4:1:1 baseline, 4:2:0" in text
    assert re.search(r"grey progressive: 0 of \d{6} samples differ\.\n", text)
    assert "No rule" not in text
    assert "not compared" not in text
    kinds = json.loads((out / "pairs.json").read_text())["sources"][0]["kinds"]
    assert len(kinds) == 10
    for kind in kinds.values():
        best = kind["rules"][0]
        assert (best["wrong"], kind["reproduced"]) == (0, True)
        assert {"torchvision", "nvjpeg-model (interpolate, islow, round)"} <= set(best["alike"])


def test_pairs_of_which_none_can_be_compared_exit_5(alignkit, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"\xff\xd8")
    (tmp_path / "a.ppm").write_bytes(b"P6")
    told = alignkit("calibrate", "--pairs", tmp_path, "--quiet")
    assert told.code == 5
    assert "not compared: a.ppm: its JPEG header is damaged" in told.out
    assert alignkit("calibrate", "--pairs", tmp_path / "none").code == 2
    (tmp_path / "a.ppm").unlink()
    assert alignkit("calibrate", "--pairs", tmp_path).code == 5


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--pairs", ".", "torchpipe-gpu-surrogate"), "--pairs takes no preset"),
        (("--recorder", "--images", "."), "--recorder takes no preset"),
        (("--recorder", "--pairs", "."), "use one of them"),
        (("--recorder", "--out", "json=."), "prints to stdout"),
        (("--pairs", ".", "--rows", "P5"), "STEM=N"),
        (("--pairs", ".", "--rows", "P5=0"), "STEM=N"),
        (("--rows", "P5=1"), "belong to --pairs"),
        (("--by", "pair", "--recorder"), "belong to --pairs"),
    ],
)
def test_options_that_do_not_belong_together_are_refused(alignkit, words, reason):
    told = alignkit("calibrate", *words)
    assert (told.code, reason in told.err) == (2, True), told.err
