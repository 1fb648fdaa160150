"""A check fails for a plugin that breaks its rule, and names the numbers."""

from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.datasets.unlabelled_images import Images
from alignkit.decoders import Decoded
from alignkit.decoders.pillow import PillowDecoder
from alignkit.errors import ConfigError, DataError, MissingDependency
from alignkit.resizers.pillow import PillowResizer
from alignkit.studies.conformance import (
    Check,
    conformance,
    dataset_checks,
    decoder_checks,
    made,
    resizer_checks,
    version_check,
)
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


def failures(checks) -> dict[str, str]:
    results = [made(each) for each in checks]
    return {each.name: each.finding for each in results if each.state == "failed"}


@pytest.mark.parametrize(
    ("decoder", "check", "says"),
    [
        (BGR(), "R, G, B", "is decoded as (30, 100, 20"),
        (Raises(), "no image", "raised OSError: cannot identify"),
        (Refuses(), "no image", "raised DataError: this is no image"),
        (Turns(), "turns by EXIF", "61x97 px of orientation 6 are decoded as 97x61"),
        (ReadOnly(), "owned", "read-only; return a copy"),
    ],
)
def test_a_decoder_that_breaks_a_rule_fails_its_check(decoder, check, says):
    failed = failures(decoder_checks.checks(decoder))
    (finding,) = [each for name, each in failed.items() if check in name]
    assert says in finding


def test_a_decoder_that_keeps_the_contract_fails_none():
    assert not failures(decoder_checks.checks(PillowDecoder()))


def test_a_resizer_that_swaps_rows_and_columns_fails():
    failed = failures(resizer_checks.checks(Transposes()))
    assert "keeps rows, columns and channels apart" in failed
    assert not failures(resizer_checks.checks(PillowResizer()))


def test_a_key_without_the_library_s_version_fails():
    result = made(version_check(PillowDecoder(), "some-package 0.1.0"))
    assert result.state == "failed"
    assert "cache keys hold 'some-package 0.1.0'" in result.finding


@dataclass(frozen=True)
class Says:
    words: str

    def version(self):
        return self.words


@pytest.mark.parametrize(
    ("said", "keyed", "state"),
    [
        ("lib 1.2", "lib 1.2.5", "passed"),
        ("lib 5.0.0", "lib 5.0.0.93", "passed"),
        ("lib 11.25", "lib 1.2.0", "failed"),
        ("lib 3.1.2", "lib 1.2.0", "failed"),
        ("lib 1.25", "lib 1.2.0", "failed"),
    ],
)
def test_versions_are_compared_by_whole_numbers(said, keyed, state):
    assert made(version_check(Says(said), keyed)).state == state


def test_a_library_that_is_missing_ends_the_checks():
    def check():
        raise MissingDependency("lib is not installed")

    with pytest.raises(MissingDependency):
        made(Check("runs", check))


def test_images_for_another_family_are_refused_before_any_check(monkeypatch, tmp_path):
    ran = []
    monkeypatch.setattr(resizer_checks, "checks", lambda _: [Check("runs", lambda: ran.append(1))])
    with pytest.raises(ConfigError, match="--images are for a decoder"):
        conformance("resizer", "pillow", {}, images=[tmp_path])
    with pytest.raises(DataError):
        conformance("decoder", "pillow", {}, images=[tmp_path / "none"])
    assert not ran


def test_data_sets_are_checked_and_a_wrong_folder_is_the_user_s(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.jpg").write_bytes(encoded(photo()))
    assert not failures(dataset_checks.checks(Images(tmp_path)))
    with pytest.raises(DataError, match="does not exist"):
        conformance("dataset", "images", {"root": str(tmp_path / "none")})


def test_given_images_are_decoded_too(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(photo()))
    (tmp_path / "b.jpg").write_bytes(b"no image")
    found = conformance("decoder", "pillow", {}, images=[tmp_path])
    (given,) = [each for each in found.results if "images given" in each.name]
    assert given.finding == "2 files: 1 ok, 1 failed"
    assert found.exit_code == 0


def test_torch_conforms_in_each_precision_that_runs_here():
    found = conformance("backend", "torch", {})
    assert found.exit_code == 0
    assert found.count("passed") >= 4


def test_names_and_options_are_checked_first():
    with pytest.raises(ConfigError, match="no family 'codec'"):
        conformance("codec", "opencv", {})
    with pytest.raises(ConfigError, match="did you mean 'interpolation'"):
        conformance("resizer", "opencv", {"interpolatoin": "area"})
    with pytest.raises(MissingDependency, match="NVIDIA GPU"):
        conformance("decoder", "dali-gpu", {})


def test_a_check_that_raises_says_where():
    def run():
        raise KeyError("nothing")

    result = made(Check("does something", run))
    assert result.state == "failed"
    assert "KeyError: 'nothing' at" in result.finding
    assert "test_conformance.py:" in result.finding
