"""Time of `alignkit gate` for 500 photographs, as a multiple of decoding and resizing them.

The gate has no model and runs in a new process with an empty reports folder, so that start-up,
imports, self-test and hashing are included. Two paths are compared stage by stage, then each with
its baseline. The bare loop decodes and resizes every image once for each of the two paths, in as
many threads. Target: 60 s on two cores (the CPU tier of a pull request's checks).

    python benchmarks/gate.py [--images FOLDER] [--count N] [--repeats N]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from figures import Figure, alternate, ratios, show
from prepare import bare_loop, bundled_photos

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


def alignkit(verb: str, file: Path, reports: Path) -> None:
    """Carry out a command, which exits with 0."""
    quiet = ["-q", "--no-html"] if verb == "gate" else []
    command = [sys.executable, "-m", "alignkit", *verb.split(), file, "--reports", reports, *quiet]
    kept = {name: value for name, value in os.environ.items() if name != "CI"}
    subprocess.run(
        command, check=True, env=kept, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def written(folder: Path, rules: str) -> Path:
    file = folder / "gate.yaml"
    file.write_text(FILE.replace("RULES", rules).replace("IMAGES", str(folder / "images")))
    return file


def gate(folder: Path, rules: str, reports: Path) -> None:
    """Carry out a gate whose reports folder is empty, except for its baseline."""
    alignkit("gate", written(folder, rules), reports)
    shutil.rmtree(reports)


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
    threads = available_threads()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "images").mkdir()
        for index in range(given.count):
            (folder / "images" / f"{index:05}.jpg").write_bytes(files[index % len(files)])
        used = [files[index % len(files)] for index in range(given.count)]
        alignkit("baseline record", written(folder, BASELINE), folder / "reports")
        works = {
            "decode and resize alone": lambda: [bare_loop(used, 224, threads) for _ in range(2)],
            "gate against the reference": lambda: gate(folder, REFERENCE, folder / "new"),
            "gate against the baseline": lambda: gate(folder, BASELINE, folder / "new"),
        }
        costs = alternate(works, given.repeats)
    print(f"{given.count} images, {threads} threads; seconds of each repeat, CPU time in brackets")
    for name, side in costs.items():
        print(f"{name:27}", ", ".join(f"{each.wall:.1f} ({each.cpu:.1f})" for each in side))
    bare, *gates = costs.items()
    figures = []
    for name, side in gates:
        walls = [each.wall for each in side]
        alone = [each.wall for each in bare[1]]
        figures.append(Figure(f"{name}, {given.count} images", walls, at_most=60, unit="s"))
        figures.append(Figure(f"{name} / decode and resize alone", ratios(walls, alone)))
    show(figures)


if __name__ == "__main__":
    main()
