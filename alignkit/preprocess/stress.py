"""`Stress`: images encoded again as a kind of JPEG that the set may lack.

The drift of chroma upsampling shows on subsampled images only. A set of mostly 4:4:4 images, such
as ImageNet, hides that of a camera's or a phone's 4:2:0 files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.arrays import Image

SUBSAMPLINGS = ("444", "422", "420", "440", "411")
_SYNTAX = re.compile(r"(\d{3}):q(\d{1,3})")


@dataclass(frozen=True, slots=True)
class Stress:
    """Encoding as baseline JPEG by simplejpeg: libjpeg-turbo, accurate DCT, standard tables."""

    subsampling: str
    """One of `SUBSAMPLINGS`."""
    quality: int
    """1 to 100."""

    @property
    def name(self) -> str:
        """Return ``4:2:0 q90``."""
        return f"{':'.join(self.subsampling)} q{self.quality}"

    def encode(self, image: Image) -> bytes:
        """Encode (h, w, 3) RGB as a JPEG without EXIF or ICC profile."""
        import simplejpeg

        # not Pillow: it offers fewer subsamplings
        encoded: bytes = simplejpeg.encode_jpeg(
            image, quality=self.quality, colorspace="RGB", colorsubsampling=self.subsampling
        )
        return encoded

    def encoder(self) -> str:
        """Return the library and version of the encoder."""
        from alignkit.decoders.simplejpeg import SimpleJPEGDecoder

        return SimpleJPEGDecoder().version()


def parse_stress(text: str) -> tuple[Stress, ...]:
    """Parse a list such as ``420:q90,444:q75``; raise `ConfigError` for anything else.

    >>> [stress.name for stress in parse_stress("420:q90,444:q75")]
    ['4:2:0 q90', '4:4:4 q75']
    """
    stresses = []
    for part in filter(None, map(str.strip, text.split(","))):
        match = _SYNTAX.fullmatch(part)
        if not match or match[1] not in SUBSAMPLINGS or not 1 <= int(match[2]) <= 100:
            raise ConfigError(
                f"--stress {part}: write a chroma subsampling ({', '.join(SUBSAMPLINGS)}) and a "
                "quality of 1 to 100, for example 420:q90,444:q75"
            )
        stresses.append(Stress(match[1], int(match[2])))
    # each once, in the order given
    return tuple(dict.fromkeys(stresses))
