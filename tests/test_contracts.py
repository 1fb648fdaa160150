"""A contract fails for a plugin that breaks its rule, and names the numbers."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders import DECODERS, Decoded
from alignkit.decoders.pillow import PillowDecoder
from alignkit.errors import DataError
from alignkit.plugins import Plugin
from alignkit.resizers.pillow import PillowResizer
from alignkit.testing import DatasetContract, DecoderContract, ResizerContract
from tests.contracts import broken
from tests.photos import encoded, photo


@dataclass(frozen=True)
class BGR(PillowDecoder):
    def decode(self, encoded):
        decoded = PillowDecoder().decode(encoded)
        if decoded.image is None:
            return decoded
        return Decoded("ok", np.ascontiguousarray(decoded.image[..., ::-1]))


@dataclass(frozen=True)
class Raises(PillowDecoder):
    def decode(self, encoded):
        decoded = PillowDecoder().decode(encoded)
        if decoded.image is None:
            raise OSError("cannot identify")
        return decoded


@dataclass(frozen=True)
class Refuses(PillowDecoder):
    def decode(self, encoded):
        decoded = PillowDecoder().decode(encoded)
        if decoded.image is None:
            raise DataError("this is no image")
        return decoded


@dataclass(frozen=True)
class Turns(PillowDecoder):
    def decode(self, encoded):
        decoded = PillowDecoder().decode(encoded)
        if decoded.image is None:
            return decoded
        return Decoded("ok", np.ascontiguousarray(np.rot90(decoded.image)))


@dataclass(frozen=True)
class ReadOnly(PillowDecoder):
    def decode(self, encoded):
        decoded = PillowDecoder().decode(encoded)
        if decoded.image is not None:
            decoded.image.flags.writeable = False
        return decoded


@dataclass(frozen=True)
class Transposes(PillowResizer):
    def resize(self, image, height, width):
        return np.moveaxis(super().resize(image, width, height), 0, 1)


@pytest.mark.parametrize(
    ("decoder", "test", "says"),
    [
        (BGR(), "red_green_blue", "[30, 100, 20"),
        (Raises(), "no_image", "OSError: cannot identify"),
        (Refuses(), "no_image", "DataError: this is no image"),
        (Turns(), "turns_by_exif", "orients = False"),
        (ReadOnly(), "owned", "read-only; return a copy"),
    ],
)
def test_a_decoder_that_breaks_a_rule_fails_its_test(decoder, test, says):
    found = broken(DecoderContract, decoder)
    (finding,) = [each for name, each in found.items() if test in name]
    assert says in finding


def test_a_plugin_that_keeps_the_contract_fails_none(tmp_path):
    assert broken(DecoderContract, PillowDecoder(), skips=True) == {}
    assert broken(ResizerContract, PillowResizer(), skips=True) == {}
    for name in ("a", "b"):
        (tmp_path / f"{name}.jpg").write_bytes(encoded(photo()))
    assert broken(DatasetContract, Images(tmp_path)) == {}


def test_a_resizer_that_swaps_rows_and_columns_fails():
    assert "test_keeps_rows_columns_and_channels_apart" in broken(ResizerContract, Transposes())


@dataclass(frozen=True)
class Says:
    words: str

    def version(self):
        return self.words


@pytest.mark.parametrize(
    ("said", "keyed", "holds"),
    [
        ("lib 1.2", "lib 1.2.5", True),
        ("lib 5.0.0", "lib 5.0.0.93", True),
        ("lib 11.25", "lib 1.2.0", False),
        ("lib 3.1.2", "lib 1.2.0", False),
        ("lib 1.25", "lib 1.2.0", False),
    ],
)
def test_versions_are_compared_by_whole_numbers(said, keyed, holds, monkeypatch):
    monkeypatch.setitem(DECODERS, "says", Plugin(f"{__name__}:Says"))
    monkeypatch.setattr(Plugin, "version", lambda _: keyed)
    found = broken(DecoderContract, Says(said)).get("test_names_the_library_that_ran", "")
    assert (f"cache keys hold '{keyed}'" in found) != holds


def test_a_subclass_with_a_plugin_is_run_by_pytest(tmp_path):
    (tmp_path / "test_mine.py").write_text(
        "from alignkit.decoders.pillow import PillowDecoder\n"
        "from alignkit.testing import DecoderContract\n\n\n"
        "class TestMine(DecoderContract):\n    plugin = PillowDecoder()\n"
    )
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path]
    done = subprocess.run(line, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout
