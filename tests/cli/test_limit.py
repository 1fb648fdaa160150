"""No command decodes an image whose header declares more pixels than its path's limit."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from alignkit.decoders import DECODERS, Decoded
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.plugins import Plugin
from tests.photos import encoded, make_jpegs, photo

LIMITED = """\
name: small
data: {{name: images, root: {root}}}
preprocess:
  a: {{decode: {{name: watched, log: {log}}}, resize: {{name: opencv, size: 32}}, max_pixels: 6000}}
  b: {{preset: pillow-train, size: 32, max_pixels: 6000}}
"""


@dataclass(frozen=True)
class WatchedDecoder:
    """Decode as OpenCV does, and log each image's size: worker processes share only files."""

    log: str = os.devnull
    orients: ClassVar[bool] = False

    def decode(self, encoded: bytes) -> Decoded:
        found = OpenCVDecoder().decode(encoded)
        with Path(self.log).open("a") as file:
            file.write("{}x{}\n".format(*found.image.shape[:2]))
        return found

    def version(self) -> str:
        return "watched"


@pytest.fixture
def log(tmp_path) -> Path:
    return tmp_path / "sizes"


@pytest.fixture
def file(tmp_path, log) -> Path:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("420", "444", "422"):
        (images / f"{name}.jpg").write_bytes(make_jpegs()[name])
    (images / "large.jpg").write_bytes(encoded(photo("flower", 80, 76)))
    path = tmp_path / "small.yaml"
    path.write_text(LIMITED.format(root=images, log=log))
    return path


@pytest.mark.parametrize(
    "command",
    ["gate FILE", "run FILE --no-open", "baseline record FILE", "match --target FILE:a --images DIR --decoders opencv --resizers opencv"],
)  # fmt: skip
def test_no_command_decodes_more_than_the_limit(
    alignkit, command, file, log, tmp_path, monkeypatch
):
    monkeypatch.setitem(DECODERS, "watched", Plugin("tests.cli.test_limit:WatchedDecoder"))
    monkeypatch.chdir(tmp_path)
    words = [each.replace("FILE", str(file)).replace("DIR", str(file.parent / "images")) for each in command.split()]  # fmt: skip
    told = alignkit(*words)
    assert told.code in (0, 1), told.err
    sizes = log.read_text().split()
    assert sizes
    assert "80x76" not in sizes
