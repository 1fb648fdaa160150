"""Two stacks that differ in exactly the stages asked for, and images to run them on."""

import hashlib
from dataclasses import replace
from functools import cache

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize
from alignkit.preprocess.normalise import Normalise
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.samples import HeldImages, Samples
from tests.photos import encoded, exif, photo

REFERENCE = Preprocess(
    "reference",
    SimpleJPEGDecoder(),
    Resize(TorchResizer("bilinear"), (40, 40)),
    crop=Crop((32, 32)),
)
CHANGED = {
    "decode": SimpleJPEGDecoder(chroma="nearest"),
    "orient": Orient("exif"),
    "resize": Resize(TorchResizer("bilinear", align_corners=True), (40, 40)),
    "quantise": Quantise("truncate"),
    "colour": Colour("bgr"),
    "normalise": Normalise(mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)),
}
"""What `changed` puts in each stage's place; each of them changes the images below. A crop cannot
differ by itself: the model's input would have another size."""


def changed(*stages: str) -> Preprocess:
    """The reference with some stages replaced."""
    return replace(REFERENCE, name="candidate", **{stage: CHANGED[stage] for stage in stages})


def opencv(**stages: object) -> Preprocess:
    """A stack that is ``uint8`` from end to end."""
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))
    return replace(path, **stages)


@cache
def turned_photos(count: int = 12) -> Samples:
    """4:2:0 JPEGs of odd sizes, of three classes; a third of them turned by EXIF."""
    files = []
    for index in range(count):
        image = photo(("china", "flower")[index % 2], 61 + 3 * index, 97 + index)
        options = {"exif": exif(6)} if index % 3 == 0 else {}
        files.append(encoded(image, quality=85, subsampling="4:2:0", **options))
    return samples_of(files)


def samples_of(files: list[bytes]) -> Samples:
    """Labelled samples, three classes in turn."""
    return Samples(
        ids=tuple(f"{index}.jpg" for index in range(len(files))),
        labels=tuple(index % 3 for index in range(len(files))),
        classes=("a", "b", "c"),
        read=HeldImages(tuple(files)),
        fingerprint=hashlib.sha256(b"".join(files)).hexdigest(),
    )
