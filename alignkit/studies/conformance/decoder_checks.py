"""Checks of the contract in `alignkit.decoders`."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Image
from alignkit.decoders import Decoded, Decoder
from alignkit.machine import without_messages
from alignkit.samples import Samples
from alignkit.studies.conformance import Check, Nonconforming, NotApplicable, require

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
_THREADS = 4


def checks(decoder: Decoder) -> Iterator[Check]:
    """Yield every check of a decoder, on JPEG files made here."""
    files = jpegs(picture())
    yield Check(
        "returns Decoded: RGB, uint8, contiguous, owned", partial(valid_files, decoder, files)
    )
    yield Check("ends in an outcome for what is no image", partial(unreadable_files, decoder))
    yield Check(
        "never raises for damaged files",
        lambda: "; ".join(damaged_file(decoder, files[kind]) for kind in ("420", "progressive")),
    )
    yield Check("gives the channels in the order R, G, B", partial(channel_order, decoder))
    yield Check(
        "turns by EXIF only if its class says 'orients'",
        partial(orientation, decoder, files["exif-6"]),
    )
    three = [files[kind] for kind in ("420", "444", "grey")]
    yield Check("may be called from threads", partial(in_threads, decoder, three))


def check_decoded(decoded: Decoded) -> None:
    """Check that outcome, pixels and reason belong together."""
    require(isinstance(decoded, Decoded), f"decode() gives {type(decoded).__name__}, no Decoded")
    outcome, image = decoded.outcome, decoded.image
    known = ("ok", "corrupt", "failed", "unsupported")
    require(outcome in known, f"outcome {outcome!r}, expected one of {', '.join(known)}")
    with_pixels = outcome in ("ok", "corrupt")
    require(
        (image is not None) == with_pixels, f"outcome {outcome!r} with image {image is not None}"
    )
    require(
        bool(decoded.reason) == (outcome != "ok"), f"outcome {outcome!r}, reason {decoded.reason!r}"
    )
    if image is not None:
        require(image.dtype == np.uint8, f"pixels of {image.dtype}, expected uint8")
        require(image.ndim == 3 and image.shape[2] == 3, f"shape {image.shape}, expected (h, w, 3)")
        require(image.flags.c_contiguous, "pixels are not C-contiguous; use np.ascontiguousarray")
        require(image.flags.writeable, "pixels are read-only; return a copy")


def valid_file(decoder: Decoder, encoded: bytes, *, optional: bool = False) -> Decoded:
    """Check a valid file, which decodes; one of an optional kind may be unsupported instead."""
    decoded = decoder.decode(encoded)
    check_decoded(decoded)
    if optional and decoded.outcome == "unsupported":
        return decoded
    require(decoded.outcome == "ok", f"a valid file is {decoded.outcome}: {decoded.reason}")
    again = decoder.decode(encoded)
    assert decoded.image is not None
    require(again.image is not None, "a second decode of the same file gives no image")
    assert again.image is not None
    require(not np.shares_memory(decoded.image, again.image), "two decodes share their memory")
    require(np.array_equal(decoded.image, again.image), "two decodes of one file differ")
    first = again.image.copy()
    decoded.image[:] = 0  # the caller owns it
    require(np.array_equal(again.image, first), "a change of one image changes another")
    return decoded


def valid_files(decoder: Decoder, files: Mapping[str, bytes]) -> str:
    """Check JPEG files of every kind; a decoder of another format leaves all as unsupported."""
    unsupported = []
    for kind, encoded in files.items():
        if decoder.decode(encoded).outcome == "unsupported":
            unsupported.append(kind)
            continue
        decoded = valid_file(decoder, encoded)
        assert decoded.image is not None
    if len(unsupported) == len(files):
        raise NotApplicable("it decodes no JPEG; give files of its format with --images")
    refused = [kind for kind in unsupported if kind not in OPTIONAL]
    require(not refused, f"valid JPEG files are unsupported: {', '.join(refused)}")
    other = f", unsupported: {', '.join(unsupported)}" if unsupported else ""
    return f"{len(files) - len(unsupported)} of {len(files)} kinds of JPEG{other}"


def given_files(decoder: Decoder, samples: Samples) -> str:
    """Check the user's own files: each ends in an outcome, and one at least is ok."""
    outcomes = []
    for index, name in enumerate(samples.ids):
        decoded = decoder.decode(samples.read(index))
        try:
            check_decoded(decoded)
        except Nonconforming as broken:
            raise Nonconforming(f"{name}: {broken}") from None
        outcomes.append(decoded.outcome)
    said = _counted(outcomes)
    require("ok" in outcomes, f"none is ok: {said}")
    return said


def _counted(outcomes: Iterable[str]) -> str:
    counts = Counter(outcomes)
    files = sum(counts.values())
    return f"{files} files: {', '.join(f'{count} {name}' for name, count in counts.items())}"


def unreadable_files(decoder: Decoder) -> str:
    """Check bytes that are no image: they end as failed or unsupported."""
    with without_messages():
        for name, encoded in UNREADABLE.items():
            unreadable_file(decoder, name, encoded)
    return f"{len(UNREADABLE)} kinds of bytes"


def unreadable_file(decoder: Decoder, name: str, encoded: bytes) -> None:
    """Check bytes that are no image."""
    decoded = decoder.decode(encoded)
    check_decoded(decoded)
    require(
        decoded.outcome in ("failed", "unsupported"), f"{name} bytes are called {decoded.outcome}"
    )


def damaged_file(decoder: Decoder, encoded: bytes) -> str:
    """Check that a file ends in an outcome, cut anywhere or with bytes changed anywhere."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(0, len(encoded) - 1, _CUTS).astype(int)
    files = [encoded[:length] for length in lengths]
    for _ in range(_DAMAGES):
        damaged = bytearray(encoded)
        for position in rng.integers(2, len(encoded), _BYTES):
            damaged[position] = rng.integers(256)
        files.append(bytes(damaged))
    with without_messages():
        outcomes = [decoder.decode(each) for each in files]
    for each in outcomes:
        check_decoded(each)
    return _counted(each.outcome for each in outcomes)


def channel_order(decoder: Decoder) -> str:
    """Check the colour of a plain image."""
    plain = np.full((16, 16, 3), _COLOUR, np.uint8)
    decoded = decoder.decode(_jpeg(plain, quality=100))
    if decoded.image is None:
        raise NotApplicable("it decodes no JPEG")
    apart = np.abs(decoded.image.astype(int) - plain).max()
    seen = tuple(int(each) for each in decoded.image[8, 8])
    require(apart <= 2, f"a plain image of {_COLOUR} is decoded as {seen}")
    return f"{_COLOUR} is decoded as {seen}"


def orientation(decoder: Decoder, turned: bytes) -> str:
    """Check whether a file of EXIF orientation 6 is turned, as the class says."""
    decoded = decoder.decode(turned)
    if decoded.image is None:
        raise NotApplicable("it decodes no JPEG")
    stored = _size(turned)
    says = bool(getattr(decoder, "orients", False))
    expected = stored[::-1] if says else stored
    shape = decoded.image.shape[:2]
    found = f"{stored[0]}x{stored[1]} px of orientation 6 are decoded as {shape[0]}x{shape[1]}"
    require(shape == expected, f"orients is {says}, and {found}")
    return "turned" if says else "not turned"


def in_threads(decoder: Decoder, files: Sequence[bytes]) -> str:
    """Check that threads get the pixels of single calls."""
    return same_in_threads(partial(_pixels, decoder), files)


def same_in_threads(call: Callable[[Any], npt.NDArray[Any]], arguments: Sequence[Any]) -> str:
    """Check that a function gives the same pixels in threads as alone."""
    alone = [call(each) for each in arguments]
    with ThreadPoolExecutor(_THREADS) as pool:
        together = list(pool.map(call, [*arguments] * 5))
    for index, image in enumerate(together):
        same = np.array_equal(image, alone[index % len(arguments)])
        require(same, f"call {index} of {len(together)} in {_THREADS} threads gave other pixels")
    return f"{len(together)} calls in {_THREADS} threads"


def _pixels(decoder: Decoder, encoded: bytes) -> Image:
    image = decoder.decode(encoded).image
    if image is None:
        raise NotApplicable("it decodes no JPEG")
    return image


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


def _size(encoded: bytes) -> tuple[int, int]:
    from PIL import Image as Pillow

    with Pillow.open(io.BytesIO(encoded)) as image:
        return image.height, image.width
