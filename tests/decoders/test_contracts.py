"""What docs/preprocessing.md and the docstrings say of odd files, measured on every decoder."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from alignkit.decoders import DECODERS
from tests.photos import encoded, exif, photo

PAGE = (Path(__file__).parents[2] / "docs" / "preprocessing.md").read_text()
HERE = [name for name, plugin in DECODERS.items() if not plugin.gpu]


def table() -> dict[str, dict[str, str]]:
    """Decoder → column → cell, of the page's table of contracts."""
    head, _, *rows = re.findall(r"^\|(.*)\|$", PAGE.partition("## Decoders")[2], re.MULTILINE)
    columns = [cell.strip() for cell in head.split("|")]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows[: len(DECODERS)]]
    return {row[0].strip("`"): dict(zip(columns, row, strict=True)) for row in cells}


TABLE = table()


@pytest.fixture(params=HERE)
def decoder(request):
    plugin = DECODERS[request.param]
    if plugin.missing():
        pytest.skip(plugin.missing())
    return request.param, plugin.load()().decode


def distance(image, reference) -> int:
    return int(np.abs(image.astype(int) - reference).max())


def deep(*shape: int) -> tuple[bytes, np.ndarray]:
    """A 16-bit PNG and its levels, RGB."""
    levels = (np.arange(np.prod(shape)) * 37 % 65536).astype(np.uint16).reshape(shape)
    levels = levels if len(shape) == 3 else np.dstack([levels] * 3)
    written = levels[..., ::-1] if len(shape) == 3 else levels[..., 0]
    return cv2.imencode(".png", written)[1].tobytes(), levels


def of_16_bits(decoded, levels) -> str:
    if decoded.image is None:
        return decoded.outcome
    rules = {
        "high byte": levels >> 8,
        "rounded": np.rint(levels / 257),
        "clipped": np.clip(levels, 0, 255),
    }
    for word, expected in rules.items():
        if distance(decoded.image, expected) == 0:
            return word
    return "within 1" if distance(decoded.image, rules["high byte"]) <= 1 else "other"


def test_the_table_has_every_decoder():
    assert list(TABLE) == list(DECODERS)


def test_exif(decoder):
    name, decode = decoder
    turned = decode(encoded(photo(), exif=exif(6))).image.shape == (97, 61, 3)
    assert TABLE[name]["EXIF"] == ("turned" if turned else "ignored")


def test_grey_and_cmyk(decoder, jpegs):
    name, decode = decoder
    pillow = DECODERS["pillow"].load()().decode
    for kind, column in (("grey", "grey"), ("cmyk", "CMYK")):
        decoded = decode(jpegs[kind])
        if decoded.image is None:
            assert TABLE[name][column] == decoded.outcome
            continue
        off = distance(decoded.image, pillow(jpegs[kind]).image)
        assert TABLE[name][column] == ("as Pillow" if off == 0 else f"within {off}")


def test_16_bits(decoder):
    name, decode = decoder
    for column, shape in (("16-bit RGB", (33, 50, 3)), ("16-bit grey", (33, 50))):
        file, levels = deep(*shape)
        assert of_16_bits(decode(file), levels) == TABLE[name][column]


def test_alpha(decoder):
    name, decode = decoder
    opacity = np.tile(np.linspace(0, 255, 97, dtype=np.uint8), (61, 1))
    decoded = decode(encoded(np.dstack([photo(), opacity]), "PNG"))
    if decoded.image is None:
        assert TABLE[name]["alpha"] == decoded.outcome
    else:
        assert TABLE[name]["alpha"] == "dropped"
        assert distance(decoded.image, photo()) == 0


def test_icc(decoder, jpegs):
    name, decode = decoder
    assert TABLE[name]["ICC"] == "ignored"
    assert np.array_equal(decode(jpegs["icc"]).image, decode(encoded(photo())).image)


def test_progressive(decoder):
    name, decode = decoder
    assert TABLE[name]["progressive"] == "as baseline"
    progressive = decode(encoded(photo(), progressive=True)).image
    assert np.array_equal(progressive, decode(encoded(photo())).image)


def test_truncated(decoder, jpegs):
    name, decode = decoder
    half = jpegs["420"][: len(jpegs["420"]) // 2]
    assert decode(half).outcome == TABLE[name]["truncated"]
