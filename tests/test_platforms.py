"""The core and `all` resolve on every platform of docs/install.md, from wheels alone.

Where `all` does, each extra that it is made of does too.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # half a minute of asking the package index
ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = {
    "Linux on x86-64": "x86_64-manylinux_2_28",
    "Linux on ARM": "aarch64-manylinux_2_28",
    "macOS on Apple silicon": "aarch64-apple-darwin",
    "Windows on x86-64": "x86_64-pc-windows-msvc",
}
"""Name in docs/install.md → uv's name."""
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = ("", "all")


def uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if not found:
        pytest.skip("uv is not installed")
    return found


def resolved(program, platform, python, extra):
    """The pinned requirements, or what uv says against them."""
    words = [program, "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    words += ["--python", sys.executable]  # else uv looks for each version of Python
    words += ["--only-binary", ":all:", "--python-platform", PLATFORMS[platform]]
    words += ["--python-version", python, "pyproject.toml", *(["--extra", extra] if extra else [])]
    # PyTorch and ONNX Runtime need macOS 14
    environment = {**os.environ, "MACOSX_DEPLOYMENT_TARGET": "14.0"}
    done = subprocess.run(
        words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout if done.returncode == 0 else done.stderr


@pytest.fixture(scope="module")
def resolutions():
    program = uv()
    code, told = resolved(program, "Linux on x86-64", "3.11", "")
    if code and ("network" in told.lower() or "connect" in told.lower() or "dns" in told.lower()):
        pytest.skip(f"no package index can be reached: {told.splitlines()[0]}")
    each = [*product(PLATFORMS, PYTHONS, EXTRAS)]
    with ThreadPoolExecutor(8) as pool:
        return dict(zip(each, pool.map(lambda one: resolved(program, *one), each), strict=True))


def test_every_platform_and_python_resolves_from_wheels(resolutions):
    failed = {place: told for place, (code, told) in resolutions.items() if code}
    assert not failed


def test_each_platform_gets_what_its_line_in_the_docs_says(resolutions):
    lines = (ROOT / "docs" / "install.md").read_text().splitlines()
    for (platform, _, extra), (_, told) in resolutions.items():
        names = {line.partition("==")[0] for line in told.splitlines()}
        everything = {"torch", "torchvision", "onnx", "pandas", "scikit-learn"}
        assert extra != "all" or everything <= names
        assert ("faiss-cpu" in names) == (extra == "all"), platform
        (row,) = [line.split("|") for line in lines if line.startswith(f"| {platform} |")]
        _, _, jpeglib, onnxruntime, torchpipe, *_ = (cell.strip() for cell in row)
        assert ("jpeglib" in names) == (jpeglib == "yes"), platform
        if extra == "all":
            assert onnxruntime.strip("`") in names, platform
            assert ("torchpipe" in names) == (torchpipe == "yes"), platform
        else:
            assert not {"torch", "scipy", "onnx"} & names
