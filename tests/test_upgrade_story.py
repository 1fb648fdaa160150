"""A library is upgraded for real, in two virtual environments: red where its pixels move, and only
then.

Pillow 9.5.0 → 13.0.0 moves its bilinear resize by one level where an image is clearly taller than wide:
3 of the 6 made here, 6 of the 61 photographs. OpenCV 4.8.1 → 5.0.0 is bit-identical on all of them in
decode and every resize.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from alignkit.resizers.opencv import OpenCVResizer
from tests.photos import encoded, photo

ROOT = Path(__file__).parents[1]
BASE = (
    "filelock", "jinja2", "platformdirs", "pyarrow", "pydantic", "pyyaml", "rich", "typer", "xxhash",
)  # fmt: skip
FILE = """\
# Does this library still give the pixels it gave?
name: story
data: {{name: images, root: {root}}}
preprocess: {paths}
gate: {{rules: [{{preset: strict, against: baseline}}]}}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.version_info[:2] != (3, 11), reason="Pillow 9.5.0 has wheels up to Python 3.11"
    ),
]


def environment(folder: Path, *packages: str) -> Path:
    """A virtual environment's Python with these packages and what a pixel gate needs besides."""
    python = folder / "bin" / "python"
    uv = shutil.which("uv")
    make = [uv, "venv", "-q", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    install = (
        [uv, "pip", "install", "-q", "--python", python]
        if uv
        else [python, "-m", "pip", "install", "-q"]
    )
    subprocess.run([*make, folder], check=True, timeout=300)
    done = subprocess.run(
        [*install, *BASE, *packages], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        pytest.skip(f"the package index does not give {packages}: {done.stderr.strip()[-200:]}")
    return python


class Machine:
    """A machine with its own libraries; the checkout and its baselines are shared."""

    def __init__(self, python: Path, folder: Path, file: Path) -> None:
        self.python, self.folder, self.file = python, folder, file

    def __call__(self, *words: str, ci: bool = False) -> tuple[int, str]:
        kept = {key: value for key, value in os.environ.items() if key != "CI"}
        variables = {**kept, "PYTHONPATH": str(ROOT), **({"CI": "true"} if ci else {})}
        verb, *more = words
        group = verb.split()
        quiet = ["-q", "--no-html"] if verb == "gate" else []
        command = [self.python, "-m", "alignkit", *group, str(self.file), *more, *quiet]
        done = subprocess.run(
            command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False,
            timeout=300, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def pillows(tmp_path_factory) -> tuple[Path, Path]:
    """Two Pythons, with Pillow before and after."""
    folder = tmp_path_factory.mktemp("pillow")
    other = ("numpy>=2", "opencv-python-headless>=4.11")
    return (
        environment(folder / "old", "pillow==9.5.0", *other),
        environment(folder / "new", "pillow==13.0.0", *other),
    )


@pytest.fixture(scope="module")
def opencvs(tmp_path_factory) -> tuple[Path, Path]:
    """Two Pythons, with OpenCV before and after; a machine that has not been renewed has NumPy 1."""
    folder = tmp_path_factory.mktemp("opencv")
    other = ("pillow", "pyarrow")
    return (
        environment(folder / "old", "opencv-python-headless==4.8.1.78", "numpy<2", *other),
        environment(folder / "new", "opencv-python-headless==5.0.0.93", "numpy>=2", *other),
    )


SIZES = {"tall": (388, 232), "taller": (400, 220), "less-tall": (388, 283), "wide": (232, 388),
         "wider": (300, 420), "square": (300, 300)}  # fmt: skip


@pytest.fixture
def images(tmp_path) -> Path:
    """Six JPEGs, three of them clearly taller than wide."""
    folder = tmp_path / "images"
    folder.mkdir()
    whole = photo("china", 427, 640)
    for name, (height, width) in SIZES.items():
        (folder / f"{name}.jpg").write_bytes(encoded(whole[:height, :width], quality=90))
    return folder


def machines(
    tmp_path: Path, pythons: tuple[Path, Path], library: str, root: Path, **resizes: dict
) -> tuple[Machine, Machine]:
    """Before and after; ``resizes`` gives each path its options."""
    paths = {
        path: {"decode": library, "resize": {"name": library, "size": 224, **options}}
        for path, options in (resizes or {"serving": {}}).items()
    }
    file = tmp_path / "gate.yaml"
    file.write_text(FILE.format(paths=json.dumps(paths), root=root))
    before, after = pythons
    return Machine(before, tmp_path, file), Machine(after, tmp_path, file)


def test_a_pillow_that_moves_pixels_stops_ci_until_it_is_approved(tmp_path, pillows, images):
    before, after = machines(tmp_path, pillows, "pillow", images)
    assert before("baseline record")[0] == 0
    assert before("gate", ci=True)[0] == 0

    code, told = after("gate", ci=True)
    assert code == 1
    assert "resize.changed" in told
    assert "decode.changed" not in told
    assert "3 images change here first: pillow 9.5.0 → pillow 13.0.0" in told
    assert after("baseline approve", "--reason", "sneaky", ci=True)[0] == 2

    assert after("gate")[0] == 1
    code, told = after("baseline review")
    assert code == 0
    command = re.findall(
        "^alignkit (baseline approve) .*--path serving --stage resize", told, re.MULTILINE
    )
    assert command == ["baseline approve"]
    reason = "Pillow 13 rounds bilinear differently; retrained"
    code, told = after(
        "baseline approve", "--path", "serving", "--stage", "resize", "--reason", reason
    )
    assert (code, "approved 6 lines" in told) == (0, True)

    code, told = after("gate", ci=True)
    assert code == 0, told
    code, told = after("baseline log")
    assert reason in told
    assert "pillow 9.5.0 → pillow 13.0.0" in told


def test_of_the_photographs_it_moves_six(tmp_path, pillows, shared_data):
    before, after = machines(tmp_path, pillows, "pillow", shared_data / "photos")
    assert before("baseline record")[0] == 0
    code, told = after("gate", ci=True)
    assert code == 1
    assert "6 images change here first: pillow 9.5.0 → pillow 13.0.0" in told


@pytest.mark.parametrize("which", ["made here", "photographs"])
def test_an_opencv_that_moves_nothing_stays_green(tmp_path, opencvs, images, which, request):
    if which == "photographs":
        images = request.getfixturevalue("shared_data") / "photos"
    every = get_args(get_type_hints(OpenCVResizer)["interpolation"])
    resizes = {each: {"interpolation": each} for each in every}
    before, after = machines(tmp_path, opencvs, "opencv", images, **resizes)
    assert before("baseline record")[0] == 0
    code, told = after("gate", ci=True)
    assert code == 0, told
    assert "Aligned" in told
