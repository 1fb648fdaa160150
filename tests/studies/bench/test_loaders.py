"""Whole benches of loaders by the command: a planted leak, faults, pixels, memory."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alignkit.extras import missing_library
from tests import outside
from tests.photos import encoded, whole_photo

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the memory"),
]
ROOT = Path(__file__).parents[3]
IMAGES, BATCH = 40, 4
LEAK, EVERY = 122 * 4096, 20
"""Bytes that a process keeps every so many images: 1 MB an epoch, in one process or two."""
DECODER = f'''\
import mmap
import os
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import ClassVar

from alignkit.decoders import Decoded
from alignkit.decoders.opencv import OpenCVDecoder

KEPT, NUMBERS, ONE = [], count(1), Lock()


@dataclass(frozen=True, slots=True)
class Planted:
    """OpenCV, with a leak or a fault in a process of a loader."""

    orients: ClassVar[bool] = False
    leaks: bool = False
    dies: bool = False

    def decode(self, encoded: bytes) -> Decoded:
        with ONE:
            number = next(NUMBERS)
        if self.leaks and number % {EVERY} == 0:
            memory = mmap.mmap(-1, {LEAK}, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            memory.write(b"1" * {LEAK})
            KEPT.append(memory)
        # the images are prepared before, by processes that load no torch
        if self.dies and number > 60 and "torch" in __import__("sys").modules:
            os.abort()
        return OpenCVDecoder().decode(encoded)

    def version(self) -> str:
        return OpenCVDecoder().version()
'''
FILE = """\
name: planted
data: {{name: images, root: {root}}}
preprocess:
{paths}
"""
OPENCV = "resize: {name: opencv, size: 48}"
PLAIN = f"  plain: {{decode: opencv, {OPENCV}}}"
PILLOW = "  pillow: {decode: pillow, resize: {name: pillow, size: 48}}"


@pytest.fixture
def bench(tmp_path):
    """Write the file with these paths, and call the command on it."""
    site, root = tmp_path / "site", tmp_path / "images"
    site.mkdir()
    root.mkdir()
    (site / "planted.py").write_text(DECODER)
    outside.installed(site, "alignkit-planted", {"planted": "planted:Planted"})
    photo = whole_photo("china")
    for number in range(IMAGES):
        (root / f"{number:02}.jpg").write_bytes(encoded(np.roll(photo[::3, ::3], number, axis=1)))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}

    def call(*words: object, paths: tuple[str, ...], code: int = 0) -> dict:
        (tmp_path / "planted.yaml").write_text(FILE.format(root=root, paths="\n".join(paths)))
        command = ["bench", "planted.yaml", "--loaders", "--json", "--quiet"]
        command += ["--batch", BATCH, *words]
        done = subprocess.run(
            [sys.executable, "-m", "alignkit", *map(str, command)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    return call


def loaders(record: dict, kind: str = "") -> dict:
    return {
        (each["path"], each["kind"]): each
        for each in record["loaders"]
        if each["kind"] == kind or (not kind and each["kind"] != "DALI")
    }


def test_a_planted_leak_shows_in_the_memory_after_the_last_epoch(bench):
    leaking = f"  leaking: {{decode: {{name: planted, leaks: true}}, {OPENCV}}}"
    record = bench("--cpus", 2, "--rounds", 12, paths=(PLAIN, leaking))
    for kind in ("DataLoader", "MixedLoader"):
        grown = {
            path: loaders(record)[path, kind]["memory"]["last"]
            - loaders(record)[path, kind]["memory"]["first"]
            for path in ("plain", "leaking")
        }
        # eleven epochs of 1 MB, and what the loader itself gains
        assert grown["leaking"] - grown["plain"] == pytest.approx(11e6, abs=3e6)


def test_speed_and_memory_are_those_of_other_computations(bench):
    record = bench("--cpus", 1, "--rounds", 3, "--memory", "500MB", paths=(PLAIN, PILLOW))
    for (path, kind), each in loaders(record).items():
        speeds = [one["images"] / one["seconds"] for one in each["rounds"]]
        assert len(speeds) == 3
        assert each["throughput"]["value"] == np.median(speeds)
        assert (each["gain"] is None) == ((path, kind) == ("plain", "DataLoader"))
        memory, largest = each["memory"], each["largest"]
        assert memory["peak"] > memory["rest"] > 50e6
        # so many images wait, and must be in memory
        waiting = 2 if kind == "DataLoader" else 4
        assert largest["fits"] * (waiting + 1) * 48 * 48 * 3 * 4 < 5e8
        assert largest["fits"] > 2 * BATCH
        assert largest["reason"].startswith("out of memory: it held 5")


def test_a_fault_of_one_loader_leaves_the_others(bench):
    dying = f"  dying: {{decode: {{name: planted, dies: true}}, {OPENCV}}}"
    record = bench("--cpus", 1, "--rounds", 2, paths=(PLAIN, dying), code=3)
    found = loaders(record)
    states = {(path, each["state"]) for (path, _), each in found.items()}
    assert states == {("plain", "measured"), ("dying", "failed")}
    assert "crashed: SIGABRT" in found["dying", "MixedLoader"]["reason"]
    assert "DataLoader worker" in found["dying", "DataLoader"]["reason"]


@pytest.mark.skipif(bool(missing_library("nvidia.dali")), reason="needs the extra dali")
def test_a_pipeline_of_dali_is_timed(bench):
    paths = ("  dali: {preset: dali-resnet, size: 48}", PLAIN)
    record = bench("--cpus", 2, "--rounds", 3, paths=paths)
    found = loaders(record, "DALI")["dali", "DALI"]
    assert found["state"] == "measured"
    assert found["throughput"]["value"] > 0


@pytest.mark.skipif(not missing_library("nvidia.dali"), reason="DALI has batches ready before")
def test_few_images_are_timed_where_no_loader_has_batches_ready_before_an_epoch(bench):
    record = bench("--cpus", 1, "--rounds", 2, "--batch", 30, paths=(PLAIN, PILLOW))
    for each in loaders(record).values():
        assert [one["images"] for one in each["rounds"]] == [IMAGES, IMAGES]
