"""What every plugin of a family must keep, whatever its library; see the families' docstrings."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from alignkit.decoders import Decoded, Decoder
from alignkit.resizers import Resizer

UNREADABLE = {
    "empty": b"",
    "one byte": b"\xff",
    "text": b"this is no image" * 20,
    "zeros": bytes(4096),
    "only the start of a JPEG": b"\xff\xd8\xff\xe0",
    "start and end of a JPEG": b"\xff\xd8\xff\xd9",
    "only the start of a PNG": b"\x89PNG\r\n\x1a\n",
}


def check_decoded(decoded: Decoded) -> None:
    """Outcome, pixels and reason belong together."""
    assert decoded.outcome in {"ok", "corrupt", "failed", "unsupported"}
    assert (decoded.image is not None) == (decoded.outcome in {"ok", "corrupt"})
    assert bool(decoded.reason) == (decoded.outcome != "ok")
    if decoded.image is not None:
        assert decoded.image.dtype == np.uint8
        assert decoded.image.ndim == 3
        assert decoded.image.shape[2] == 3
        assert decoded.image.flags.c_contiguous
        assert decoded.image.flags.writeable


def check_valid_file(decoder: Decoder, encoded: bytes, *, optional: bool = False) -> None:
    """It decodes; a file of an optional kind may be unsupported instead."""
    decoded = decoder.decode(encoded)
    check_decoded(decoded)
    if optional and decoded.outcome == "unsupported":
        return
    assert decoded.outcome == "ok", decoded.reason
    again = decoder.decode(encoded)
    assert again.image is not None
    assert decoded.image is not None
    assert not np.shares_memory(decoded.image, again.image)
    first = again.image.copy()
    decoded.image[:] = 0  # the caller owns it
    assert np.array_equal(again.image, first)


def check_unreadable(decoder: Decoder, encoded: bytes) -> None:
    decoded = decoder.decode(encoded)
    check_decoded(decoded)
    assert decoded.outcome in {"failed", "unsupported"}


def check_damage(decoder: Decoder, encoded: bytes) -> None:
    """Cut anywhere, or with bytes changed anywhere, a file ends in an outcome."""
    rng = np.random.default_rng(0)
    for length in np.linspace(0, len(encoded) - 1, 25).astype(int):
        check_decoded(decoder.decode(encoded[:length]))
    for _ in range(40):
        damaged = bytearray(encoded)
        for position in rng.integers(2, len(encoded), 6):
            damaged[position] = rng.integers(256)
        check_decoded(decoder.decode(bytes(damaged)))


def check_decoding_in_threads(decoder: Decoder, files: list[bytes]) -> None:
    alone = [decoder.decode(file).image for file in files]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(decoder.decode, files * 5))
    for index, decoded in enumerate(together):
        assert np.array_equal(decoded.image, alone[index % len(files)])


def check_resize(resizer: Resizer, image: np.ndarray, height: int, width: int) -> None:
    """Shape, dtype and range; the input stays as it was, read-only or not, strided or not."""
    before = image.copy()
    resized = resizer.resize(image, height, width)
    assert resized.shape == (height, width, 3)
    assert resized.dtype in {np.dtype(np.uint8), np.dtype(np.float32)}
    assert np.array_equal(image, before)
    assert not np.shares_memory(resized, image)
    frozen = image.copy()
    frozen.flags.writeable = False
    assert np.array_equal(resizer.resize(frozen, height, width), resized)
    strided = np.ascontiguousarray(image[..., ::-1])[..., ::-1]
    assert np.array_equal(resizer.resize(strided, height, width), resized)


def check_resizing_in_threads(resizer: Resizer, images: list[np.ndarray]) -> None:
    alone = [resizer.resize(image, 30, 40) for image in images]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda image: resizer.resize(image, 30, 40), images * 5))
    for index, resized in enumerate(together):
        assert np.array_equal(resized, alone[index % len(images)])


def check_version(plugin: Decoder | Resizer, library: str) -> None:
    """Names the library with a version number."""
    version = plugin.version()
    assert library in version
    assert any(character.isdigit() for character in version)
