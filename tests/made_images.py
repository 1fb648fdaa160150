"""Small image files of every format, kind and way to note an orientation, made here.

The writers are Pillow and OpenCV; what they do not write (a chunk, a tag, an old header) is put
together by hand from the format's specification.
"""

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product

import cv2
import numpy as np
from PIL import Image, ImageSequence

from tests.photos import encoded, photo

ORIENTATIONS = range(1, 9)
HEIGHT, WIDTH = 20, 36
Noted = Callable[[bytes, int], bytes]
"""A file, and an orientation → the file with the orientation noted in it."""


def colours() -> np.ndarray:
    return photo(height=HEIGHT, width=WIDTH)


def _mode(mode: str) -> Image.Image:
    """The photo in a mode of Pillow; alpha falls from left to right."""
    image = Image.fromarray(colours())
    if mode in ("RGBA", "LA"):
        image = image.convert(mode.removesuffix("A"))
        image.putalpha(Image.linear_gradient("L").rotate(90).resize(image.size))
    elif mode == "I;16":
        # squares of levels, so that few are below 256
        image = Image.fromarray(np.asarray(image.convert("L")).astype(np.uint16) ** 2)
    elif mode == "P;4":
        return image.quantize(4)
    return image if image.mode == mode else image.convert(mode)


def _cv2(kind: str, image: np.ndarray, *options: int) -> bytes:
    return cv2.imencode(kind, image, options)[1].tobytes()


def _deep(channels: int) -> np.ndarray:
    """16 bits a sample, BGR order."""
    levels = colours()[..., ::-1].astype(np.uint16) * 257 - 100
    return levels if channels == 3 else np.ascontiguousarray(levels[..., 0])


def _pages(kind: str, mode: str, **options: object) -> bytes:
    first = _mode(mode)
    other = first.transpose(Image.Transpose.ROTATE_180)
    return encoded(first, kind, save_all=True, append_images=[other], **options)


def _bmp(layout: str, length: int, bits: int) -> bytes:
    """Write a BMP by hand: file header, bitmap header, palette, rows of whole words."""
    rows = colours()[..., ::-1]
    if bits == 16:
        parts = (rows >> 3).astype(np.uint16)
        rows = (parts[..., 2] << 10 | parts[..., 1] << 5 | parts[..., 0]).view(np.uint8)
    elif bits == 8:
        rows = rows[..., 0]
    rows = np.ascontiguousarray(rows if length < 0 else rows[::-1]).reshape(HEIGHT, -1)
    padding = -rows.shape[1] % 4
    pixels = np.pad(rows, ((0, 0), (0, padding))).tobytes()
    grey = b"".join(bytes([level] * 3) for level in range(256)) if bits == 8 else b""
    values = [abs(length), WIDTH, -HEIGHT if length < 0 else HEIGHT, 1, bits]
    values += [0] * (len(struct.unpack(layout, bytes(struct.calcsize(layout)))) - len(values))
    header = struct.pack(layout, *values)
    start = 14 + len(header) + len(grey)
    return b"BM" + struct.pack("<IHHI", start + len(pixels), 0, 0, start) + header + grey + pixels


def _small_frame() -> bytes:
    """A GIF whose screen is larger than its only frame."""
    file = bytearray(encoded(_mode("P"), "GIF"))
    struct.pack_into("<HH", file, 6, WIDTH + 9, HEIGHT + 5)
    return bytes(file)


def _pam(kind: str, image: np.ndarray) -> bytes:
    height, width, channels = image.shape
    head = f"P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH {channels}\nMAXVAL 255\nTUPLTYPE {kind}\n"
    return f"{head}ENDHDR\n".encode() + image.tobytes()


_SAVED = {
    "JPEG": {
        "4:2:0": ("RGB", {}), "4:4:4": ("RGB", {"subsampling": 0}), "grey": ("L", {}),
        "CMYK": ("CMYK", {}), "progressive": ("RGB", {"progressive": True}),
        "with ICC": ("RGB", {"icc_profile": bytes(200)}),
    },
    "PNG": {
        "RGB": ("RGB", {}), "grey": ("L", {}), "alpha": ("RGBA", {}), "palette": ("P", {}),
        "grey and alpha": ("LA", {}), "palette and alpha": ("P", {"transparency": 3}),
        "1 bit": ("1", {}), "2 bits": ("P;4", {"bits": 2}), "16-bit grey": ("I;16", {}),
        "one clear colour": ("RGB", {"transparency": (0, 0, 0)}),
    },
    "WebP": {
        "lossy": ("RGB", {}), "lossless": ("RGB", {"lossless": True}), "lossy, alpha": ("RGBA", {}),
        "lossless, alpha": ("RGBA", {"lossless": True, "exact": True}),
    },
    "AVIF": {
        "4:2:0": ("RGB", {}), "4:4:4": ("RGB", {"subsampling": "4:4:4", "quality": 100}),
        "grey": ("L", {}), "alpha": ("RGBA", {}),
    },
    "TIFF": {
        "RGB": ("RGB", {}), "grey": ("L", {}), "alpha": ("RGBA", {}), "palette": ("P", {}),
        "CMYK": ("CMYK", {}), "1 bit": ("1", {}), "16-bit grey": ("I;16", {}), "float": ("F", {}),
        "grey and alpha": ("LA", {}), "YCbCr": ("YCbCr", {}), "Lab": ("LAB", {}),
        "32-bit grey": ("I", {}), "LZW": ("RGB", {"compression": "tiff_lzw"}),
        "deflate, alpha": ("RGBA", {"compression": "tiff_adobe_deflate"}),
        "JPEG inside": ("RGB", {"compression": "jpeg"}), "fax": ("1", {"compression": "group4"}),
        "PackBits": ("L", {"compression": "packbits"}),
    },
    "BMP": {
        "RGB": ("RGB", {}), "grey": ("L", {}), "palette": ("P", {}), "1 bit": ("1", {}),
        "alpha": ("RGBA", {}),
    },
    "GIF": {
        "palette": ("P", {}), "grey": ("L", {}), "transparent": ("P", {"transparency": 3}),
    },
    "PNM": {"RGB": ("RGB", {}), "grey": ("L", {}), "1 bit": ("1", {}), "16-bit grey": ("I;16", {})},
    "JPEG 2000": {
        "RGB": ("RGB", {}), "grey": ("L", {}), "alpha": ("RGBA", {}), "16-bit grey": ("I;16", {}),
        "codestream": ("RGB", {"no_jp2": True}),
    },
    **{kind: {"RGB": ("RGB", {})} for kind in ("TGA", "PCX", "SGI", "ICO", "DDS", "IM", "QOI")},
}  # fmt: skip
"""Format → kind → mode and options with which Pillow saves it."""
_PILLOW_NAMES = {"PNM": "PPM", "JPEG 2000": "JPEG2000"}
_OTHERS: dict[tuple[str, str], Callable[[], bytes]] = {
    ("JPEG", "two pictures (MPO)"): lambda: _pages("MPO", "RGB"),
    ("PNG", "16-bit RGB"): lambda: _cv2(".png", _deep(3)),
    ("PNG", "animated"): lambda: _pages("PNG", "RGB"),
    ("PNG", "animated, alpha"): lambda: _pages("PNG", "RGBA"),
    ("WebP", "animated"): lambda: _pages("WEBP", "RGB", lossless=True),
    ("WebP", "animated, alpha"): lambda: _pages("WEBP", "RGBA", lossless=True),
    ("AVIF", "animated"): lambda: _pages("AVIF", "RGB"),
    ("AVIF", "10 bits"): lambda: _cv2(".avif", _deep(3) >> 6, cv2.IMWRITE_AVIF_DEPTH, 10),
    ("TIFF", "16-bit RGB"): lambda: _cv2(".tiff", _deep(3)),
    ("TIFF", "float RGB"): lambda: _cv2(".tiff", colours().astype(np.float32) / 255),
    ("TIFF", "two pages"): lambda: _pages("TIFF", "RGB"),
    ("TIFF", "two grey pages"): lambda: _pages("TIFF", "L"),
    ("BMP", "alpha, V5 header"): lambda: _cv2(".bmp", np.asarray(_mode("RGBA"))),
    ("BMP", "OS/2 header of 12 bytes"): lambda: _bmp("<IHHHH", 12, 24),
    ("BMP", "OS/2 header of 12 bytes, palette"): lambda: _bmp("<IHHHH", 12, 8),
    ("BMP", "OS/2 header of 16 bytes"): lambda: _bmp("<IIIHH", 16, 24),
    ("BMP", "OS/2 header of 64 bytes"): lambda: _bmp("<IiiHHIIiiII24x", 64, 24),
    ("BMP", "top row first"): lambda: _bmp("<IiiHHIIiiII", -40, 24),
    ("BMP", "V4 header"): lambda: _bmp("<IiiHHIIiiII68x", 108, 24),
    ("BMP", "16 bits a pixel"): lambda: _bmp("<IiiHHIIiiII", 40, 16),
    ("GIF", "animated"): lambda: _pages("GIF", "P"),
    ("GIF", "first frame smaller than the screen"): _small_frame,
    ("PNM", "16-bit RGB"): lambda: _cv2(".ppm", _deep(3)),
    ("PNM", "in text"): lambda: b"P2 2 2 255\n0 80\n160 255\n",
    ("PNM", "PAM, alpha"): lambda: _pam("RGB_ALPHA", np.asarray(_mode("RGBA"))),
    ("PNM", "PFM"): lambda: _cv2(".pfm", colours().astype(np.float32)),
    ("Sun raster", "RGB"): lambda: _cv2(".ras", colours()[..., ::-1].copy()),
    ("HDR", "RGB"): lambda: _cv2(".hdr", colours().astype(np.float32) / 255),
}


def _saved() -> Iterator[tuple[tuple[str, str], Callable[[], bytes]]]:
    for form, kinds in _SAVED.items():
        for kind, (mode, options) in kinds.items():
            name = _PILLOW_NAMES.get(form, form)
            yield (form, kind), partial(_save, mode, name, **options)


def _save(mode: str, name: str, **options: object) -> bytes:
    return encoded(_mode(mode), name, **options)


KINDS = {**dict(_saved()), **_OTHERS}
"""(format, kind) → the function that writes the file, upright."""


def tiff_block(orientation: int, order: str = "<") -> bytes:
    """The TIFF structure of an EXIF block with the orientation alone."""
    magic = b"II*\0" if order == "<" else b"MM\0*"
    return magic + struct.pack(order + "IHHHIHHI", 8, 1, 0x0112, 3, 1, orientation, 0, 0)


def xmp(orientation: int) -> bytes:
    return (
        '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-'
        'syntax-ns#"><rdf:Description xmlns:tiff="http://ns.adobe.com/tiff/1.0/" '
        f'tiff:Orientation="{orientation}"/></rdf:RDF></x:xmpmeta>'
    ).encode()


def _segment(content: Callable[[int], bytes]) -> Noted:
    """Note it in an APP1 segment of a JPEG."""

    def noted(file: bytes, orientation: int) -> bytes:
        held = content(orientation)
        return file[:2] + b"\xff\xe1" + struct.pack(">H", len(held) + 2) + held + file[2:]

    return noted


def _png_chunk(kind: bytes, content: Callable[[int], bytes], *, last: bool = False) -> Noted:
    """Note it in a PNG chunk, behind the header or behind the pixels."""

    def noted(file: bytes, orientation: int) -> bytes:
        held = kind + content(orientation)
        chunk = struct.pack(">I", len(held) - 4) + held + struct.pack(">I", zlib.crc32(held))
        at = len(file) - 12 if last else 33
        return file[:at] + chunk + file[at:]

    return noted


def _webp_chunk(kind: bytes, content: Callable[[int], bytes]) -> Noted:
    """Note it in a chunk of an extended WebP, which a plain one becomes."""

    def noted(file: bytes, orientation: int) -> bytes:
        held = content(orientation)
        body = file[12:]
        if not body.startswith(b"VP8X"):
            alpha = body.startswith(b"VP8L") and body[12] & 0x10  # of the lossless header
            size = struct.pack("<HBHB", WIDTH - 1, 0, HEIGHT - 1, 0)
            body = b"VP8X" + struct.pack("<II", 10, 0x10 if alpha else 0) + size + body
        flags = body[8] | (8 if kind == b"EXIF" else 4)
        chunk = kind + struct.pack("<I", len(held)) + held + bytes(len(held) % 2)
        body = b"WEBP" + body[:8] + bytes([flags]) + body[9:] + chunk
        return b"RIFF" + struct.pack("<I", len(body)) + body

    return noted


def _tiff_tag(tag: int, kind: int, content: Callable[[int], bytes]) -> Noted:
    """Write the tag into a copy of a TIFF's first directory, at the end of the file."""

    def noted(file: bytes, orientation: int) -> bytes:
        order = "<" if file.startswith(b"II") else ">"
        held = content(orientation)
        (old,) = struct.unpack_from(order + "I", file, 4)
        (count,) = struct.unpack_from(order + "H", file, old)
        entries = [file[at : at + 12] for at in range(old + 2, old + 2 + 12 * count, 12)]
        entries = [each for each in entries if struct.unpack_from(order + "H", each)[0] != tag]
        following = file[old + 2 + 12 * count : old + 6 + 12 * count]
        file += bytes(len(file) % 2)
        if kind == 3:
            value = struct.pack(order + "HHIHH", tag, kind, 1, orientation, 0)
        else:
            value = struct.pack(order + "HHII", tag, kind, len(held), len(file))
            file += held + bytes(len(held) % 2)
        entries = sorted([*entries, value], key=lambda each: struct.unpack_from(order + "H", each))
        start = struct.pack(order + "I", len(file))
        new = struct.pack(order + "H", len(entries)) + b"".join(entries) + following
        return file[:4] + start + file[8:] + new

    return noted


def _gif_extension(file: bytes, orientation: int) -> bytes:
    """Note it as Adobe's XMP specification does: an application extension with a magic trailer."""
    at = 13 + (3 << (file[10] & 7) + 1 if file[10] & 0x80 else 0)
    trailer = b"\1" + bytes(range(255, -1, -1)) + b"\0"
    return b"GIF89a" + file[6:at] + b"!\xff\x0bXMP DataXMP" + xmp(orientation) + trailer + file[at:]


def _jp2_box(file: bytes, orientation: int) -> bytes:
    if not file.startswith(b"\0\0\0\x0cjP"):
        return file
    held = b"JpgTiffExif->JP2" + tiff_block(orientation)
    return file + struct.pack(">I4s", len(held) + 8, b"uuid") + held


def _avif(**noted: Callable[[int], bytes]) -> Noted:
    """Let Pillow write it again: of EXIF, it notes the orientation as ``irot`` and ``imir``."""

    def write(file: bytes, orientation: int) -> bytes:
        first, *others = [
            each.copy() for each in ImageSequence.Iterator(Image.open(io.BytesIO(file)))
        ]
        options = {name: content(orientation) for name, content in noted.items()}
        return encoded(first, "AVIF", save_all=True, append_images=others, **options)

    return write


def _avif_item(file: bytes, orientation: int) -> bytes:
    """Let OpenCV write it again, with EXIF and without ``irot``."""
    image = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_UNCHANGED)
    block = np.frombuffer(tiff_block(orientation), np.uint8)
    depth = (cv2.IMWRITE_AVIF_DEPTH, 8 if image.dtype == np.uint8 else 10)
    kinds = [cv2.IMAGE_METADATA_EXIF]
    return cv2.imencodeWithMetadata(".avif", image, kinds, [block], depth)[1].tobytes()


def _profile(orientation: int) -> bytes:
    """ImageMagick's hexadecimal text of an EXIF block."""
    block = b"Exif\0\0" + tiff_block(orientation)
    text = f"\nexif\n{len(block):8}\n{block.hex()}\n".encode()
    return b"Raw profile type exif\0\0" + zlib.compress(text)


def _exif(orientation: int) -> bytes:
    return b"Exif\0\0" + tiff_block(orientation)


NOTED: dict[str, dict[str, Noted]] = {
    "JPEG": {
        "EXIF": _segment(_exif),
        "EXIF, big-endian": _segment(lambda each: b"Exif\0\0" + tiff_block(each, ">")),
        "XMP": _segment(lambda each: b"http://ns.adobe.com/xap/1.0/\0" + xmp(each)),
    },
    "PNG": {
        "EXIF": _png_chunk(b"eXIf", tiff_block),
        "EXIF behind the pixels": _png_chunk(b"eXIf", tiff_block, last=True),
        "EXIF with JPEG's identifier": _png_chunk(b"eXIf", _exif),
        "XMP": _png_chunk(
            b"iTXt", lambda each: b"XML:com.adobe.xmp\0\0\0\0\0" + xmp(each)
        ),
        "raw profile": _png_chunk(b"zTXt", _profile),
    },
    "WebP": {
        "EXIF": _webp_chunk(b"EXIF", tiff_block),
        "EXIF with JPEG's identifier": _webp_chunk(b"EXIF", _exif),
        "XMP": _webp_chunk(b"XMP ", xmp),
    },
    "AVIF": {
        "irot and imir": _avif(exif=_exif),
        "EXIF": _avif_item,
        "XMP": _avif(xmp=xmp),
    },
    "TIFF": {
        "tag": _tiff_tag(0x0112, 3, lambda _: b""),
        "XMP": _tiff_tag(700, 1, xmp),
    },
    "GIF": {"XMP": _gif_extension},
    "JPEG 2000": {"EXIF": _jp2_box},
}  # fmt: skip
"""Format → place of the orientation → how it is noted there."""
_NOT_WRITTEN = {("AVIF", "animated", "irot and imir"), ("AVIF", "animated", "EXIF")}
"""Pillow 13.0.0 ends the process on the first; OpenCV keeps one frame of the second."""


def made_images(*, whole: bool) -> Iterator[tuple[str, str, str, int, bytes]]:
    """Yield format, kind, place and value of the orientation, and the file.

    Not ``whole``: the kinds upright, and of each format its first kind in every orientation.
    """
    seen = set()
    for (form, kind), write in KINDS.items():
        file = write()
        yield form, kind, "", 1, file
        if whole or form not in seen:
            for (place, noted), value in product(NOTED.get(form, {}).items(), ORIENTATIONS):
                if (form, kind, place) not in _NOT_WRITTEN:
                    yield form, kind, place, value, noted(file, value)
        seen.add(form)
