"""Two small photographs and a path, for the controls."""

from __future__ import annotations

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.preprocess import Colour, ColourSpace, Preprocess, Resize
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.samples import Samples
from tests.photos import encoded, photo


def photographs() -> Samples:
    """A landscape and a portrait."""
    files = [encoded(photo("china", 96, 128)), encoded(photo("flower", 120, 90))]
    return Samples(("china.jpg", "flower.jpg"), (), (), files.__getitem__, "two photographs")


def opencv_path(space: ColourSpace = "rgb") -> Preprocess:
    """OpenCV throughout, to 48 x 48."""
    resize = Resize(OpenCVResizer(), (48, 48))
    return Preprocess("opencv", OpenCVDecoder(), resize, colour=Colour(space))
