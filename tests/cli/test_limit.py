"""No command decodes an image whose header declares more pixels than its path's limit."""

from pathlib import Path

import pytest

from alignkit.decoders.opencv import OpenCVDecoder
from tests.photos import encoded, make_jpegs, photo

LIMITED = """\
name: small
data: {{name: images, root: {root}}}
preprocess:
  a: {{preset: opencv-train, size: 32, max_pixels: 6000}}
  b: {{preset: pillow-train, size: 32, max_pixels: 6000}}
"""


@pytest.fixture
def file(tmp_path) -> Path:
    images = tmp_path / "images"
    images.mkdir()
    for name in ("420", "444", "422"):
        (images / f"{name}.jpg").write_bytes(make_jpegs()[name])
    (images / "large.jpg").write_bytes(encoded(photo("flower", 80, 76)))
    path = tmp_path / "small.yaml"
    path.write_text(LIMITED.format(root=images))
    return path


@pytest.mark.parametrize(
    "command",
    ["gate FILE", "run FILE --no-open", "baseline record FILE", "match --target FILE:a --images DIR --decoders opencv --resizers opencv"],
)  # fmt: skip
def test_no_command_decodes_more_than_the_limit(alignkit, command, file, tmp_path, monkeypatch):
    sizes = []
    decoding = OpenCVDecoder.decode

    def watched(self, data):
        found = decoding(self, data)
        sizes.append(found.image.shape[:2])
        return found

    monkeypatch.setattr(OpenCVDecoder, "decode", watched)
    monkeypatch.chdir(tmp_path)
    words = [each.replace("FILE", str(file)).replace("DIR", str(file.parent / "images")) for each in command.split()]  # fmt: skip
    told = alignkit(*words)
    assert told.code in (0, 1), told.err
    assert sizes
    assert (80, 76) not in sizes
