"""The file that `alignkit calibrate --recorder` prints: `recorder`, with JPEG files made here.

torchvision encodes 4:2:0 alone, so the recorder carries its files. They are made when it is
printed: equal encoders give equal bytes on every machine.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from importlib import resources

import numpy as np

from alignkit.arrays import Image
from alignkit.errors import AlignkitError
from alignkit.preprocess.stress import SUBSAMPLINGS, Stress
from alignkit.studies.calibrate import PROGRESSIVE, by_pillow

WHOLE, CUT, LARGE = (32, 48), (21, 35), (160, 208)
"""(height, width): whole blocks; blocks and chroma samples that are cut at the edges; a size at
which a decoder may take another way than for small images."""
PICTURES = (
    ("noise", 90, CUT),
    ("smooth", 75, WHOLE),
    ("smooth", 75, CUT),
    ("saturated", 90, WHOLE),
)
"""Content, quality and size. More would make the file too long to send and read."""
_PLACE = "JPEGS: dict[str, str] = {}\n"
_WIDTH = 96


def recorder_file() -> str:
    """Return the recorder's source with its JPEG files in it."""
    source = (
        resources.files("alignkit.studies.calibrate").joinpath("recorder.py").read_text("utf-8")
    )
    assert source.count(_PLACE) == 1
    lines = ["JPEGS: dict[str, str] = {\n"]
    for name, data in recorder_jpegs().items():
        text = base64.b64encode(data).decode()
        parts = [text[start : start + _WIDTH] for start in range(0, len(text), _WIDTH)]
        lines += [f'    "{name}": (\n', *(f'        "{part}"\n' for part in parts), "    ),\n"]
    return source.replace(_PLACE, "".join([*lines, "}\n"]))


def recorder_jpegs() -> dict[str, bytes]:
    """Make the files by name: ``420-baseline-noise-51x37.jpg``."""
    return dict(_jpegs())


def _jpegs() -> Iterator[tuple[str, bytes]]:
    for content, quality, (height, width) in PICTURES:
        image = picture(content, height, width)
        end = f"{content}-{width}x{height}.jpg"
        for sampling in SUBSAMPLINGS:
            yield f"{sampling}-baseline-{end}", Stress(sampling, quality).encode(image)
        if (content, height) == ("smooth", WHOLE[0]):  # the odd size is the harder case
            continue
        for sampling, code in PROGRESSIVE.items():
            options = {"quality": quality, "subsampling": code, "progressive": True}
            yield (
                f"{sampling.replace(':', '')}-progressive-{end}",
                by_pillow(image, **options),
            )
        grey = image[..., 1]
        yield f"grey-baseline-{end}", by_pillow(grey, quality=quality)
        yield f"grey-progressive-{end}", by_pillow(grey, quality=quality, progressive=True)
    height, width = LARGE
    large = picture("smooth", height, width)
    yield f"420-baseline-large-{width}x{height}.jpg", Stress("420", 75).encode(large)
    restarts = {"quality": 75, "subsampling": 2, "restart_marker_blocks": 3}
    cut = picture("smooth", *CUT)
    yield f"420-restarts-smooth-{CUT[1]}x{CUT[0]}.jpg", by_pillow(cut, **restarts)


def picture(content: str, height: int, width: int) -> Image:
    """Draw (height, width, 3): uniform noise, smooth waves, or patches of the purest colours."""
    down, across = np.mgrid[:height, :width]
    if content == "noise":
        return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    if content == "smooth":
        waves = [np.sin(across / 9 + down / 13 + shift) for shift in (0, 2, 4)]
        return np.rint(127.5 + 110 * np.stack(waves, axis=-1)).astype(np.uint8)
    if content == "saturated":
        patch = (across // 5 + 3 * (down // 7)) % 8
        bits = np.stack([patch & 1, patch >> 1 & 1, patch >> 2 & 1], axis=-1)
        return (255 * bits).astype(np.uint8)
    raise AlignkitError(f"no picture {content!r}")
