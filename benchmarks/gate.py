"""Seconds that `alignkit gate` takes for 500 photographs, from the command to the verdict.

The gate has no model and runs in a new process with an empty reports folder, so that start-up,
imports, self-test and hashing are included. Two paths are compared stage by stage, then each with
its baseline. Target: 60 s on two cores (the CPU tier of a pull request's checks).

    python benchmarks/gate.py [--images FOLDER] [--count N] [--repeats N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from prepare import bundled_photos

from alignkit.torch_settings import available_threads

FILE = """\
# How long does it take?
name: gate
data: {name: images, root: IMAGES}
preprocess:
  training: {decode: pillow, resize: {name: opencv, size: 224}}
  serving: {decode: opencv, resize: {name: opencv, size: 224}}
gate: {rules: [RULES]}
"""
REFERENCE = "{preset: decode}, {preset: strict, path: serving}"
BASELINE = "{preset: strict, against: baseline}"


def alignkit(verb: str, file: Path, reports: Path) -> tuple[float, float]:
    """Time a command that exits with 0: wall-clock and CPU seconds."""
    quiet = ["-q", "--no-report"] if verb == "gate" else []
    command = [sys.executable, "-m", "alignkit", *verb.split(), file, "--reports", reports, *quiet]
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    began, before = time.monotonic(), os.times()
    subprocess.run(
        command, check=True, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    took, after = time.monotonic() - began, os.times()
    used = after.children_user + after.children_system
    return took, used - before.children_user - before.children_system


def written(folder: Path, rules: str) -> Path:
    file = folder / "gate.yaml"
    file.write_text(FILE.replace("RULES", rules).replace("IMAGES", str(folder / "images")))
    return file


def measured(folder: Path, rules: str, repeats: int) -> str:
    file = written(folder, rules)
    took = sorted(alignkit("gate", file, folder / f"reports-{n}") for n in range(repeats))
    for n in range(repeats):
        shutil.rmtree(folder / f"reports-{n}")
    return in_words(*took)


def in_words(*took: tuple[float, float]) -> str:
    return ", ".join(f"{seconds:.1f} (of processors {used:.1f})" for seconds, used in took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, help="a folder of JPEGs; by default bundled photos")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    files = (
        [path.read_bytes() for path in sorted(given.images.glob("*.jp*g"))]
        if given.images
        else bundled_photos(given.count)
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        for index in range(given.count):
            (folder / "images" / f"{index:05}.jpg").write_bytes(files[index % len(files)])
        print(f"{given.count} images, {available_threads()} threads, seconds of each repeat")
        print("against the reference", measured(folder, REFERENCE, given.repeats))
        file = written(folder, BASELINE)
        recorded = alignkit("baseline record", file, folder / "reports")
        print("baseline record", in_words(recorded))
        print("against the baseline", measured(folder, BASELINE, given.repeats))


if __name__ == "__main__":
    main()
