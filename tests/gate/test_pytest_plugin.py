"""The pytest plugin, in pytest runs of its own."""

import subprocess
import sys

import pytest

from tests.photos import make_jpegs

TEST = """
PATH = {"decode": DECODER, "resize": {"name": "opencv", "size": 32}}

def test_stack(preprocess_baseline):
    preprocess_baseline.check(PATH, ["photo.jpg"])

def test_pair(assert_preprocess_aligned):
    assert_preprocess_aligned(PATH, {**PATH, "decode": "opencv"}, ["photo.jpg"])
"""


@pytest.fixture
def run(tmp_path):
    """Run the tests of a project of its own, decoding with ``decoder``."""
    (tmp_path / "photo.jpg").write_bytes(make_jpegs()["low-quality"])

    def call(*arguments, decoder="pillow"):
        (tmp_path / "test_it.py").write_text(TEST.replace("DECODER", decoder))
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        return done.returncode, done.stdout + done.stderr

    return call


NEAREST = '{"name": "simplejpeg", "chroma": "nearest"}'


@pytest.mark.slow
def test_a_baseline_is_approved_once_and_then_holds(run, tmp_path):
    code, told = run(decoder='"pillow"')
    assert code == 1
    assert "holds no baseline" in told
    assert "--alignkit-update" in told
    assert not (tmp_path / "alignkit.baseline").exists()
    assert run("--alignkit-update=first", decoder='"pillow"')[0] == 0
    assert len(list(tmp_path.glob("alignkit.baseline/test_it/test_stack/*.jsonl"))) == 1
    assert run(decoder='"pillow"')[0] == 0
    code, told = run(decoder=NEAREST)
    assert code == 1
    assert "Decode images that are not bit-identical" in told
    assert told.count("FAILED") == 2


def test_approving_is_refused_in_ci(run, monkeypatch, tmp_path):
    monkeypatch.setenv("CI", "1")
    code, told = run("--alignkit-update", decoder='"pillow"')
    assert code == 4
    assert "refused in CI" in told
    assert not (tmp_path / "alignkit.baseline").exists()
