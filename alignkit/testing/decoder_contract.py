"""The contract in `alignkit.decoders` as tests."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any
from unittest import SkipTest

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Image
from alignkit.decoders import DECODERS, Decoded, Decoder
from alignkit.machine import without_messages
from alignkit.plugins import PluginTable, name_of

UNREADABLE = {
    "empty": b"",
    "one byte": b"\xff",
    "text": b"this is no image" * 20,
    "zeros": bytes(4096),
    "only the start of a JPEG": b"\xff\xd8\xff\xe0",
    "start and end of a JPEG": b"\xff\xd8\xff\xd9",
    "only the start of a PNG": b"\x89PNG\r\n\x1a\n",
}
OPTIONAL = ("cmyk",)
"""Kinds of JPEG that a decoder may leave as unsupported."""
_CUTS, _DAMAGES, _BYTES = 25, 40, 6
"""Lengths at which a file is cut, files with changed bytes, and changed bytes in each."""
_COLOUR = (200, 100, 30)
_MAJOR_MINOR = r"(?<![\d.])\d+\.\d+"
"""Regular expression of the first two numbers of a version."""


class DecoderContract:
    """Tests of a decoder, on JPEG files made here."""

    plugin: Decoder
    files: Sequence[bytes] = ()
    """Valid files of another format, for a decoder that reads no JPEG."""

    def test_gives_owned_rgb_pixels_of_valid_files(self) -> None:
        """Check JPEG files of every kind and the files given."""
        for kind, encoded in jpegs(picture()).items():
            found = self.plugin.decode(encoded)
            if self.files or (kind in OPTIONAL and found.outcome == "unsupported"):
                check_decoded(found)
            else:
                _valid(self.plugin, encoded, kind)
        for index, encoded in enumerate(self.files):
            _valid(self.plugin, encoded, f"file {index}")

    def test_ends_in_an_outcome_for_what_is_no_image(self) -> None:
        """Check bytes that are no image."""
        for name, encoded in UNREADABLE.items():
            with without_messages():
                found = self.plugin.decode(encoded)
            check_decoded(found)
            known = found.outcome in ("failed", "unsupported")
            assert known, f"{name} bytes are called {found.outcome}"

    def test_ends_in_an_outcome_for_damaged_files(self) -> None:
        """Check files cut anywhere, or with bytes changed anywhere."""
        made = jpegs(picture())
        for kind in ("420", "progressive", "grey", "cmyk"):
            for encoded in damaged(made[kind]):
                with without_messages():
                    found = self.plugin.decode(encoded)
                check_decoded(found)

    def test_gives_the_channels_in_the_order_red_green_blue(self) -> None:
        """Check the colour of a plain image."""
        plain = np.full((16, 16, 3), _COLOUR, np.uint8)
        image = self._pixels(_jpeg(plain, quality=100))
        seen = tuple(map(int, image[8, 8]))
        apart = np.abs(image.astype(int) - plain).max()
        assert apart <= 2, f"a plain image of {_COLOUR} is decoded as {seen}"

    def test_turns_by_exif_only_if_its_class_says_so(self) -> None:
        """Check a file of EXIF orientation 6."""
        height, width = picture().shape[:2]
        shape = self._pixels(jpegs(picture())["exif-6"]).shape[:2]
        turns = bool(getattr(self.plugin, "orients", False))
        found = f"{height}x{width} px of orientation 6 are decoded as {shape[0]}x{shape[1]}"
        expected = (width, height) if turns else (height, width)
        assert shape == expected, f"orients is {turns}, and {found}"

    def test_may_be_called_from_threads(self) -> None:
        """Check that threads get the pixels of single calls."""
        made = jpegs(picture())
        check_threads(self._pixels, [made[kind] for kind in ("420", "444", "grey")])

    def test_names_the_library_that_ran(self) -> None:
        """Check that ``version()`` names it in a version that cache keys hold too."""
        check_version(self.plugin, DECODERS)

    def _pixels(self, encoded: bytes) -> Image:
        image = self.plugin.decode(encoded).image
        if image is None:
            raise SkipTest("it decodes no JPEG")
        return image


def check_decoded(decoded: Decoded) -> None:
    """Check that outcome, pixels and reason belong together."""
    assert isinstance(decoded, Decoded), f"decode() gives {type(decoded).__name__}, no Decoded"
    outcome, image = decoded.outcome, decoded.image
    assert outcome in ("ok", "corrupt", "failed", "unsupported"), f"outcome {outcome!r}"
    fits = (image is not None) == (outcome in ("ok", "corrupt"))
    assert fits, f"outcome {outcome!r} with image {image is not None}"
    fits = bool(decoded.reason) == (outcome != "ok")
    assert fits, f"outcome {outcome!r}, reason {decoded.reason!r}"
    if image is not None:
        assert image.dtype == np.uint8, f"pixels of {image.dtype}, expected uint8"
        assert image.ndim == 3, f"shape {image.shape}, expected (h, w, 3)"
        assert image.shape[2] == 3, f"shape {image.shape}, expected (h, w, 3)"
        assert image.flags.c_contiguous, "pixels are not C-contiguous; use np.ascontiguousarray"
        assert image.flags.writeable, "pixels are read-only; return a copy"


def _valid(decoder: Decoder, encoded: bytes, kind: str) -> None:
    decoded, again = decoder.decode(encoded), decoder.decode(encoded)
    check_decoded(decoded)
    assert decoded.outcome == "ok", f"a valid file, {kind}, is {decoded.outcome}: {decoded.reason}"
    assert decoded.image is not None
    assert again.image is not None, f"{kind}: a second decode gives no image"
    assert not np.shares_memory(decoded.image, again.image), "two decodes share their memory"
    assert np.array_equal(decoded.image, again.image), f"{kind}: two decodes differ"
    first = again.image.copy()
    decoded.image[:] = 0  # the caller owns it
    assert np.array_equal(again.image, first), "a change of one image changes another"


def damaged(encoded: bytes) -> list[bytes]:
    """Cut a file at many lengths, and change some bytes in copies of it."""
    rng = np.random.default_rng(0)
    files = [encoded[:length] for length in np.linspace(0, len(encoded) - 1, _CUTS).astype(int)]
    for _ in range(_DAMAGES):
        changed = bytearray(encoded)
        for position in rng.integers(2, len(encoded), _BYTES):
            changed[position] = rng.integers(256)
        files.append(bytes(changed))
    return files


def check_threads(call: Callable[[Any], npt.NDArray[Any]], arguments: Sequence[Any]) -> None:
    """Check that a function gives the same pixels in threads as alone."""
    alone = [call(each) for each in arguments]
    with ThreadPoolExecutor(4) as pool:
        for index, image in enumerate(pool.map(call, [*arguments] * 5)):
            same = np.array_equal(image, alone[index % len(arguments)])
            assert same, f"call {index} of {5 * len(arguments)} in threads gave other pixels"


def check_version(plugin: Any, table: PluginTable) -> None:
    """Check that ``version()`` names what runs, in a version that cache keys hold too.

    A key that holds only the package's own version would keep results of an older library.
    """
    said = plugin.version()
    assert isinstance(said, str), f"version() gives {said!r}, expected text"
    assert said, "version() gives no text"
    name = name_of(plugin, table)
    keyed = table[name].version() if name in table else ""
    # a wheel's number may go on where the library's ends: 5.0.0.93
    numbers = re.findall(_MAJOR_MINOR, keyed)
    assert not keyed or not {*numbers}.isdisjoint(re.findall(_MAJOR_MINOR, said)), (
        f"version() says {said!r}, and cache keys hold {keyed!r}: name the distribution whose "
        "code runs in the entry point's Plugin, and its version in version()"
    )


def picture(height: int = 61, width: int = 97) -> Image:
    """Draw (height, width, 3): waves of colour with some noise, odd-sized by default."""
    down, across = np.mgrid[:height, :width]
    waves = [np.sin(across / 9 + down / 13 + shift) for shift in (0, 2, 4)]
    noise = np.random.default_rng(0).normal(0, 8, (height, width, 3))
    return np.clip(127.5 + 100 * np.stack(waves, axis=-1) + noise, 0, 255).astype(np.uint8)


def jpegs(image: Image) -> dict[str, bytes]:
    """Encode (h, w, 3) in the kinds of JPEG that one meets; all are valid."""
    from PIL import Image as Pillow
    from PIL import ImageCms

    whole = Pillow.fromarray(image)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    kinds = {
        "420": _jpeg(whole, subsampling="4:2:0", quality=90),
        "422": _jpeg(whole, subsampling="4:2:2", quality=90),
        "444": _jpeg(whole, subsampling="4:4:4", quality=90),
        "low-quality": _jpeg(whole, subsampling="4:2:0", quality=20),
        "progressive": _jpeg(whole, progressive=True, quality=90),
        "restart-markers": _jpeg(whole, restart_marker_rows=1),
        "optimised": _jpeg(whole, optimize=True),
        "grey": _jpeg(whole.convert("L")),
        "cmyk": _jpeg(whole.convert("CMYK")),
        "icc": _jpeg(whole, icc_profile=profile),
        "one-pixel": _jpeg(whole.crop((0, 0, 1, 1))),
    }
    return kinds | {f"exif-{number}": _jpeg(whole, exif=_exif(number)) for number in range(2, 9)}


def _jpeg(image: Any, **options: Any) -> bytes:
    from PIL import Image as Pillow

    whole = Pillow.fromarray(image) if isinstance(image, np.ndarray) else image
    file = io.BytesIO()
    whole.save(file, "JPEG", **options)
    return file.getvalue()


@cache
def _exif(orientation: int) -> bytes:
    from PIL import Image as Pillow

    tags = Pillow.Exif()
    tags[0x0112] = orientation
    return tags.tobytes()
