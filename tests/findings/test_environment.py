"""Where a run was made."""

import platform
import re
import subprocess
from importlib import metadata

import pytest

from alignkit.decoders import DECODERS
from alignkit.findings import environment as module
from alignkit.findings.environment import environment, git_revision
from alignkit.record import Environment


@pytest.fixture(scope="module")
def found() -> Environment:
    return environment()


def test_versions_are_those_installed(found):
    assert found.python == platform.python_version()
    for name in ("torch", "torchvision", "pillow", "numpy", "scikit-learn", "torchpipe"):
        assert found.versions[name] == metadata.version(name)
    assert "opencv-python-headless" not in found.versions


def test_every_decoder_names_its_codec_build(found):
    assert set(found.codecs) == {name for name, plugin in DECODERS.items() if not plugin.missing()}
    assert all(re.search(r"\d+\.\d+", build) for build in found.codecs.values())
    assert "jpeg" in found.codecs["opencv"].lower()


def test_flags_that_change_numbers_are_told(found, monkeypatch):
    assert {"cudnn TF32", "torch threads", "torch deterministic algorithms"} <= set(found.flags)
    assert "NVIDIA_TF32_OVERRIDE" not in found.flags
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")
    assert module.flags()["NVIDIA_TF32_OVERRIDE"] == "0"


def test_it_can_be_stored_in_a_record(found):
    assert Environment.model_validate_json(found.model_dump_json()) == found


def test_the_revision_says_whether_tracked_files_were_changed(tmp_path):
    def git(*arguments: str) -> None:
        identity = ["-c", "user.name=x", "-c", "user.email=x@example.org"]
        subprocess.run(
            ["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True
        )

    assert git_revision(tmp_path) == ""
    git("init")
    assert git_revision(tmp_path) == ""
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "x")
    clean = git_revision(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}", clean)
    (tmp_path / "untracked").write_text("1")
    assert git_revision(tmp_path) == clean
    (tmp_path / "a").write_text("2")
    assert git_revision(tmp_path) == f"{clean}-dirty"
