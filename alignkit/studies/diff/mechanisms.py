"""Known mechanisms by which two paths differ: one of them does something that the other does not.

Each comes with its evidence, and with the path as it would be without it, so that
`alignkit.studies.diff.diff_cause` can measure how much of a difference it explains.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from alignkit.decoders import Decoded
from alignkit.decoders.decoder_switches import as_libjpeg
from alignkit.decoders.pillow import PillowDecoder
from alignkit.plugins import name_of
from alignkit.preprocess import Colour, Orient, Preprocess, Quantise
from alignkit.preprocess.image_header import declared_size, image_format
from alignkit.record import KnownEffect
from alignkit.record.blame_facts import MechanismName
from alignkit.resizers import RESIZERS, Resizer

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels

_Without: TypeAlias = Preprocess | tuple[Preprocess, Preprocess] | None
"""A path without a mechanism; with its control, if another library computes it."""


@dataclass(frozen=True, slots=True)
class Known:
    """A mechanism that one path has and the other has not."""

    sentence: str
    """In words; ``{a}`` has it and ``{b}`` has not, ``{ka}`` and ``{kb}`` are their kernels."""
    evidence: str
    without: Callable[[Preprocess, Preprocess], _Without]
    """Return `a` with `b`'s behaviour in this alone; ``None`` if they do not differ in it.

    Where that takes another library, the control comes first: `a` as it is, in that library, so
    that the libraries' rounding is not taken for the mechanism."""
    acts_on: Callable[[Preprocess, bytes], bool] = lambda _path, _encoded: True
    """Whether it may act on an image of `a`, by the file's header."""
    published: KnownEffect | None = None
    """Its effect on a model, as somebody else measured it."""
    shown_as: MechanismName | None = None
    """As `alignkit.compare.named_mechanisms` finds it in the pixels; ``None`` if it cannot."""
    done_by: Literal["a", "b"] = "a"
    """The path that pixels show to do it."""

    def said(self, a: Preprocess, b: Preprocess) -> str:
        """Say it of two paths, of which `a` has it."""
        return self.sentence.format(a=a.name, b=b.name, ka=kernel_of(a), kb=kernel_of(b))


def _shrinks(path: Preprocess, encoded: bytes) -> bool:
    """Tell whether a path's resize may shrink an image, upright or turned."""
    size = declared_size(encoded)
    # an unknown header leaves it open
    return size is None or any(
        each > target
        for turned in (size, size[::-1])
        for each, target in zip(turned, path.resize.target(*turned), strict=True)
    )


def _is_no_jpeg(_path: Preprocess, encoded: bytes) -> bool:
    return image_format(encoded) != "JPEG"


def _with(path: Preprocess, resizer: Resizer) -> Preprocess:
    return replace(path, resize=replace(path.resize, resizer=resizer))


def _resizer(path: Preprocess) -> tuple[str, Resizer]:
    return name_of(path.resize.resizer, RESIZERS), path.resize.resizer


@dataclass(frozen=True, slots=True)
class ResizeInFloat:
    """OpenCV's resize, and Pillow's as the same kernel with a filter, both without rounding."""

    kernel: str
    """``linear`` or ``cubic``."""
    antialias: bool

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Resample (h, w, 3) ``uint8`` → (height, width, 3) ``float32``."""
        import cv2
        import numpy as np
        from PIL import Image as PillowImage

        levels = image.astype(np.float32)
        # of an image that grows, the libraries' cubic kernels differ, and no filter
        if not self.antialias and (height < image.shape[0] or width < image.shape[1]):
            how = cv2.INTER_LINEAR if self.kernel == "linear" else cv2.INTER_CUBIC
            return cv2.resize(levels, (width, height), interpolation=how)  # type: ignore[return-value]
        how = PillowImage.Resampling[f"BI{self.kernel}".upper()]
        planes = (PillowImage.fromarray(levels[..., each]) for each in range(3))
        return np.stack([np.asarray(each.resize((width, height), how)) for each in planes], axis=2)

    def version(self) -> str:
        """Return the versions of both libraries."""
        import cv2
        import PIL

        return f"pillow {PIL.__version__}, opencv {cv2.__version__}"


def _filtering(a: Preprocess, b: Preprocess) -> _Without:
    if filters(a.resize.resizer) is not False or not filters(b.resize.resizer):
        return None
    from alignkit.resizers.opencv import OpenCVResizer
    from alignkit.resizers.torch import TorchResizer

    name, resizer = _resizer(a)
    kernel = kernel_of(a)
    if kernel not in ("linear", "cubic"):
        return None
    if name == "opencv" and isinstance(b.resize.resizer, OpenCVResizer):
        return _with(a, OpenCVResizer("area"))
    if name == "opencv" or getattr(resizer, "op", "") == "mat":
        # OpenCV has no such option; its levels are whole
        whole = replace(a, quantise=Quantise("round"))
        control, filtered = (ResizeInFloat(kernel, antialias=each) for each in (False, True))
        return _with(whole, control), _with(whole, filtered)
    if name in ("torchpipe", "torchpipe-cuda"):
        cornered = TorchResizer(align_corners=True)
        return _with(a, cornered), _with(a, replace(cornered, antialias=True))
    return _with(a, replace(resizer, antialias=True))  # type: ignore[type-var]


def kernel_of(path: Preprocess) -> str:
    """Name the kernel of a path's resize: ``linear``, ``cubic``, …; empty if it is not known."""
    return kernel(path.resize.resizer)


def _same_kernel(a: Preprocess, b: Preprocess) -> Preprocess | None:
    mine, theirs = kernel_of(a), kernel_of(b)
    name, resizer = _resizer(a)
    if mine == theirs or not {mine, theirs} <= {"linear", "cubic"} or name not in KERNEL_OPTIONS:
        return None
    bi = name in ("pillow", "torch", "torchvision", "torchvision-cuda")
    own = f"bi{theirs}" if bi else theirs
    return _with(a, replace(resizer, **{KERNEL_OPTIONS[name]: own}))  # type: ignore[type-var]


def _half_pixel(a: Preprocess, b: Preprocess) -> _Without:
    if not aligns_corners(a.resize.resizer) or aligns_corners(b.resize.resizer):
        return None
    from alignkit.resizers.torch import TorchResizer

    resizer = a.resize.resizer
    if isinstance(resizer, TorchResizer):
        return _with(a, replace(resizer, align_corners=False))
    return _with(a, TorchResizer(align_corners=True)), _with(a, TorchResizer())


def _geometry(a: Preprocess, b: Preprocess) -> Preprocess | None:
    mine, theirs = a.resize, b.resize
    same = (mine.fit, mine.size, a.crop.size) == (theirs.fit, theirs.size, b.crop.size)
    # DALI's keep_scale belongs to one geometry
    if same or hasattr(mine.resizer, "keep_scale"):
        return None
    resize = replace(theirs, resizer=mine.resizer)
    return replace(a, resize=resize, crop=b.crop)


def _chroma(a: Preprocess, b: Preprocess) -> Preprocess | None:
    smooth = {"chroma": "smooth", "upsampling": "interpolate"}
    theirs = as_libjpeg(b.decode) or b.decode
    if not any(getattr(theirs, option, "") == value for option, value in smooth.items()):
        return None
    mine = next((each for each in smooth if hasattr(a.decode, each)), "")
    if not mine or getattr(a.decode, mine) == smooth[mine]:
        return None
    return replace(a, decode=replace(a.decode, **{mine: smooth[mine]}))  # type: ignore[type-var]


def _rounded_colour(a: Preprocess, b: Preprocess) -> Preprocess | None:
    # of libjpeg-turbo it is known, of another decoder without the option it is not
    unknown = "round" if as_libjpeg(b.decode) else ""
    mine, theirs = getattr(a.decode, "colour", ""), getattr(b.decode, "colour", unknown)
    if mine != "truncate" or theirs not in ("round", "even"):
        return None
    return replace(a, decode=replace(a.decode, colour=theirs))  # type: ignore[type-var]


def _accurate_dct(a: Preprocess, b: Preprocess) -> Preprocess | None:
    theirs = as_libjpeg(b.decode) or b.decode
    if getattr(a.decode, "dct", "") != "ifast" or getattr(theirs, "dct", "") != "islow":
        return None
    return replace(a, decode=replace(a.decode, dct="islow"))  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class PillowHighByte(PillowDecoder):
    """Pillow that takes the high byte of 16-bit grey."""

    def decode(self, encoded: bytes) -> Decoded:
        """Decode one image."""
        import numpy as np
        from PIL import Image as PillowImage

        decoded = PillowDecoder.decode(self, encoded)
        if decoded.image is None:
            return decoded
        with PillowImage.open(io.BytesIO(encoded)) as opened:
            opened.load()
            if not opened.mode.startswith("I"):
                return decoded
            high = np.asarray(opened).astype(np.int64) >> 8
        return replace(decoded, image=np.dstack([high.clip(0, 255).astype(np.uint8)] * 3))


def _high_byte(a: Preprocess, b: Preprocess) -> Preprocess | None:
    pillow = [isinstance(path.decode, PillowDecoder) for path in (a, b)]
    return replace(a, decode=PillowHighByte()) if pillow == [True, False] else None


def _turned(a: Preprocess, b: Preprocess) -> Preprocess | None:
    turns = [path.decode.orients or path.orient.policy == "exif" for path in (a, b)]
    return replace(a, orient=Orient("exif")) if turns == [False, True] else None


def _as_rgb(a: Preprocess, b: Preprocess) -> Preprocess | None:
    different = a.colour.space == "bgr" and b.colour.space != "bgr"
    # not b's colour, which may be NV12 as well
    return replace(a, colour=Colour("rgb")) if different else None


def _without_nv12(a: Preprocess, b: Preprocess) -> Preprocess | None:
    spaces = [path.colour.space.startswith("nv12") for path in (a, b)]
    return replace(a, colour=Colour("rgb")) if spaces == [True, False] else None


def _rounded(a: Preprocess, b: Preprocess) -> Preprocess | None:
    different = a.quantise.rule == "truncate" and b.quantise.rule != "truncate"
    return replace(a, quantise=Quantise("round")) if different else None


CLIPPED = Known(
    "{a} clips the levels of 16-bit grey images at 255, which makes them nearly white, {b} takes "
    "their high byte",
    "docs/preprocessing.md, Decoders; python-pillow/Pillow #3011",
    _high_byte,
    acts_on=_is_no_jpeg,
)
KNOWN = (
    Known(
        "{a} and {b} show other parts of an image to the model: their resize and crop keep another "
        "shape or another share of it",
        "the options of both paths",
        _geometry,
    ),
    Known(
        "{a} interpolates with a {ka} kernel, {b} with a {kb} one",
        "the options of both paths",
        _same_kernel,
    ),
    Known(
        "{b} filters when it shrinks an image (antialias), {a} does not",
        "Pillow's handbook, Concepts, Filters; docs.opencv.org, cv::resize (INTER_AREA to shrink); "
        "pytorch.org, torch.nn.functional.interpolate (antialias)",
        _filtering,
        acts_on=_shrinks,
        shown_as="antialias",
        done_by="b",
        published=KnownEffect(
            stacks="torch's resize without and with its filter",
            levels=None,
            effect="ResNet-18 is right on 68.93 % and 69.75 % of ImageNet",
            kind="published",
            source="github.com/shift-happens-benchmark/icml-2022, pull request 62",
        ),
    ),
    Known(
        "{a} lays its grid through the centres of the corner pixels (align_corners), {b} through "
        "the edges of the image",
        "pytorch.org, torch.nn.functional.interpolate (align_corners); torchpipe 0.2.25, "
        "ResizeTensor.cpp",
        _half_pixel,
        shown_as="corners",
    ),
    Known(
        "{a} repeats the samples of chroma, {b} interpolates between them",
        "docs/preprocessing.md, nvjpeg-model; libjpeg-turbo, TJFLAG_FASTUPSAMPLE",
        _chroma,
        shown_as="chroma",
    ),
    Known(
        "{a} cuts RGB levels off and {b} rounds them, so that {a} is darker",
        "docs/diff.md, Surrogates: verified against stored output of nvJPEG",
        _rounded_colour,
    ),
    Known(
        "{a} decodes with the fast inverse DCT, {b} with the accurate one",
        "libjpeg-turbo, JDCT_IFAST; tensorflow.org, tf.io.decode_jpeg (dct_method)",
        _accurate_dct,
        shown_as="inverse_dct",
    ),
    CLIPPED,
    Known(
        "{b} turns images by their EXIF orientation, {a} does not",
        "the options of both paths",
        _turned,
    ),
    Known(
        "{a} gives its channels in the order BGR, {b} in RGB",
        "the options of both paths",
        _as_rgb,
    ),
    Known(
        "{a} passes NV12, which halves the resolution of chroma, {b} does not",
        "docs/preprocessing.md",
        _without_nv12,
    ),
    Known(
        "{a} cuts unrounded levels off to bytes, {b} does not, so that {a} is darker",
        "pytorch.org, Tensor.to(torch.uint8); docs/diff.md, Surrogates",
        _rounded,
    ),
)
"""The mechanisms that are known; their order is that of the sentence where several are named."""


# a resizer's options in common words
KERNEL_OPTIONS = {"pillow": "filter", "opencv": "interpolation", "torch": "mode",
                  "torchvision": "interpolation", "torchvision-cuda": "interpolation",
                  "dali": "interpolation", "dali-gpu": "interpolation",
                  "ResizeInFloat": "kernel"}  # fmt: skip
"""Resizer → its option that names the kernel."""
_KERNELS = {"bilinear": "linear", "linear-exact": "linear", "bicubic": "cubic", "nn": "nearest",
            "lanczos4": "lanczos", "lanczos3": "lanczos"}  # fmt: skip
"""A library's name of a kernel → the common one, where they differ."""
_TORCHPIPE = ("torchpipe", "torchpipe-cuda")


def kernel(resizer: Resizer) -> str:
    """Name the kernel: ``linear``, ``cubic``, …; empty if it is not known."""
    name = name_of(resizer, RESIZERS)
    if name in _TORCHPIPE:
        return "linear"
    own = getattr(resizer, KERNEL_OPTIONS.get(name, ""), "")
    return _KERNELS.get(own, own)


def filters(resizer: Resizer) -> bool | None:
    """Tell whether it averages when it shrinks; ``None`` of a resizer that is not known."""
    name = name_of(resizer, RESIZERS)
    if name == "pillow":
        return bool(resizer.filter != "nearest")  # type: ignore[attr-defined]
    if name == "opencv":
        return bool(resizer.interpolation == "area")  # type: ignore[attr-defined]
    return False if name in _TORCHPIPE else getattr(resizer, "antialias", None)


def aligns_corners(resizer: Resizer) -> bool:
    """Tell whether its grid lies through the centres of the corner pixels."""
    tensor = name_of(resizer, RESIZERS) == "torchpipe-cuda"
    tensor = tensor or getattr(resizer, "op", "") == "tensor"
    return tensor or bool(getattr(resizer, "align_corners", False))
