"""Configurations to try: all this machine can run, or those that serving libraries offer.

A plugin's options are read from its fields: every choice of a ``Literal`` and both values of a
``bool`` are tried, any other field stays at its default.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from itertools import product
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np

from alignkit.decoders import DECODERS, Decoder
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.errors import ConfigError
from alignkit.machine import without_messages
from alignkit.plugins import ADDED_LATER, PluginTable
from alignkit.preprocess import Colour, Crop, Orient, Preprocess, Quantise, Resize
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.presets import decoder_evidence
from alignkit.resizers import RESIZERS, AsIs, Resizer
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.resizers.torch import TorchResizer
from alignkit.resizers.torchvision import TorchvisionResizer
from alignkit.text.names import brief_evidence

Rounding = Literal["none", "round", "truncate"]
RGB = Colour()
WHOLE = Crop()


@dataclass(frozen=True, slots=True)
class Framing:
    """The settings that all configurations share: geometry, colours, and the limit of pixels."""

    resize: Resize
    """Configurations replace its resizer, and nothing else."""
    crop: Crop = WHOLE
    orient: Literal["none", "exif"] = "none"
    colour: Colour = RGB
    max_pixels: int = MAX_PIXELS
    """Images whose header declares more are not decoded."""

    @classmethod
    def of(cls, preprocess: Preprocess) -> Framing:
        """Take those of ``preprocess``; a decoder that orients by itself counts as ``exif``."""
        policy = "exif" if preprocess.decode.orients else preprocess.orient.policy
        return cls(
            preprocess.resize, preprocess.crop, policy, preprocess.colour, preprocess.max_pixels
        )

    @property
    def resamples(self) -> bool:
        """Whether there is a resize; without one, no resizer is called."""
        return self.resize.fit != "none"

    @property
    def size(self) -> tuple[int, int]:
        """(height, width) of the result."""
        return self.crop.size or self.resize.size


@dataclass(frozen=True, slots=True)
class Configuration:
    """One choice of libraries and rounding from bytes to pixels, for any geometry."""

    decode: Decoder
    resizer: Resizer
    rounding: Rounding = "none"

    def preprocess(
        self, geometry: Framing, normalise: Normalise, name: str = "match"
    ) -> Preprocess:
        """Complete it to a `Preprocess`."""
        return Preprocess(
            name,
            self.decode,
            replace(geometry.resize, resizer=self.resizer)
            if geometry.resamples
            else geometry.resize,
            # such a decoder has turned the image already
            Orient("none" if self.decode.orients else geometry.orient),
            geometry.crop,
            Quantise(self.rounding),
            geometry.colour,
            normalise,
            max_pixels=geometry.max_pixels,
        )


def configurations(
    geometry: Framing, *, decoders: Sequence[str] = (), resizers: Sequence[str] = ()
) -> tuple[Configuration, ...]:
    """List all that can run here, plainest first; ``decoders`` and ``resizers`` filter by name.

    Raises `ConfigError` for an unknown name, or a plugin whose options have no default, and
    `MissingDependency` for a library that is missing.
    """
    all_decoders = [
        decoder
        for decoder in _plugins(DECODERS, decoders)
        # such a decoder cannot leave a turned image as it is
        if geometry.orient == "exif" or not decoder.orients
    ]
    found, probe = [], np.zeros((4, 4, 3), np.uint8)
    known = _plugins(RESIZERS, resizers)
    if not geometry.resamples:
        list(known)  # for a mistake in a name
        return tuple(Configuration(decoder, AsIs()) for decoder in all_decoders)
    for resizer in known:
        # bytes are rounded already; OpenCV's floats, once rounded, differ from its bytes by one
        # level at most: too little for configurations of their own
        with without_messages():  # torchpipe writes a line when it is first used
            floats = resizer.resize(probe, 3, 3).dtype != np.uint8
        floats = floats and not isinstance(resizer, OpenCVResizer)
        rules: tuple[Rounding, ...] = get_args(Rounding) if floats else ("none",)
        found += [Configuration(*each) for each in product(all_decoders, (resizer,), rules)]
    return tuple(found)


def _plugins(table: PluginTable, only: Sequence[str]) -> Iterator[Any]:
    for name in only:
        table.find(name).require(name)
    for name, plugin in table.items():
        if (name in only or not only) and not plugin.missing() and not table.reason(name):
            found = [*filter(_searched, variants(plugin.load()))]
            if not found and name in only:
                raise ConfigError(
                    f"{table.kind} {name!r} has options without a default, so a search cannot try "
                    "it"
                )
            yield from found


def _searched(plugin: Any) -> bool:
    """Tell whether a search of its own tries it: nvJPEG on cores; simplejpeg has libjpeg's rule."""
    if not isinstance(plugin, NvjpegModelDecoder):
        return True
    return plugin.dct != "islow" and not plugin.engine


def variants(plugin: type[Any]) -> Iterator[Any]:
    """Yield the plugin with every combination of options that it accepts, its defaults first.

    Of nvjpeg-model the rules that some decoder follows.
    """
    if issubclass(plugin, NvjpegModelDecoder):
        yield from plugin.rules()
        return
    if any(
        each.init and each.default is each.default_factory is MISSING for each in fields(plugin)
    ):
        return  # such an option, of another package's plugin, has no value to try
    hints = get_type_hints(plugin)
    # the functions of OpenCV, added later, differ on few files, and would triple the search
    choices = {
        each.name: (each.default,)
        if each.metadata.get(ADDED_LATER)
        else _choices(hints[each.name], each.default)
        for each in fields(plugin)
        if each.init
    }
    for values in product(*choices.values()):
        try:
            yield plugin(**dict(zip(choices, values, strict=True)))
        except ConfigError:  # a combination the plugin itself refuses
            continue


def _choices(hint: Any, default: Any) -> tuple[Any, ...]:
    if get_origin(hint) is Literal:
        others = [choice for choice in get_args(hint) if choice != default]
        return (default, *others)
    return (default, not default) if hint is bool else (default,)


_ON_THE_CPU = (
    "decode on the CPU (OpenCV, torchpipe DecodeMat, torchvision, nvImageCodec "
    "fancy_upsampling=True)"
)
_NVJPEG = (
    "nvJPEG {} with its default flags (torchpipe DecodeTensor, torchvision decode_jpeg on CUDA, "
    "DALI mixed) ({{}})"
)
_SMOOTH_NVJPEG = (
    "nvJPEG {} with NVJPEG_FLAGS_UPSAMPLING_WITH_INTERPOLATION (nvImageCodec, DALI "
    "jpeg_fancy_upsampling=True) ({{}})"
)
_ENGINE = "a GPU's JPEG engine ({}); or nvImageCodec fancy_upsampling=False on the CPU"
_SERVING_DECODES: tuple[tuple[str, Decoder], ...] = (
    (_ON_THE_CPU, OpenCVDecoder()),
    (_NVJPEG.format("13"), NvjpegModelDecoder("repeat", "float-up", "even")),
    (_SMOOTH_NVJPEG.format("13"), NvjpegModelDecoder("interpolate", "float-up", "even")),
    (_NVJPEG.format("up to 12.8"), NvjpegModelDecoder()),
    (_SMOOTH_NVJPEG.format("up to 12.8"), NvjpegModelDecoder("interpolate")),
    (_ENGINE, NvjpegModelDecoder("repeat", "float-up", "even", engine=True)),
)
"""Names of ways to decode, with a place for the label of a surrogate; the decoder that behaves like
it here, the same library or a surrogate of one that needs a GPU."""
_SERVING_RESIZES: tuple[tuple[str, Resizer, Rounding], ...] = (
    ("torchpipe ResizeMat or cv2.resize", OpenCVResizer(), "none"),
    ("cv2.resize INTER_AREA", OpenCVResizer("area"), "none"),
    ("torchpipe ResizeTensor", TorchResizer(align_corners=True), "none"),
    ("F.interpolate align_corners=False", TorchResizer(), "none"),
    ("F.interpolate align_corners=False, rounded", TorchResizer(), "round"),
    ("F.interpolate antialias=True", TorchResizer(antialias=True), "none"),
    ("F.interpolate antialias=True, rounded", TorchResizer(antialias=True), "round"),
    ("torchvision resize antialias=True", TorchvisionResizer(), "none"),
    ("torchvision resize antialias=False", TorchvisionResizer(antialias=False), "none"),
)


def serving_options(*, resamples: bool = True) -> dict[Configuration, str]:
    """Return the options of serving libraries: the configuration that behaves like it → its name.

    They answer the reverse of the usual question: which settings of the serving libraries reproduce
    the pixels that a model was trained on? GPU libraries do not run on every machine, so each
    option has a CPU configuration in its place; where that is a surrogate, its name says so and
    names the evidence.
    """
    labelled = [
        (decode, decoder, brief_evidence(decoder_evidence(decoder)))
        for decode, decoder in _SERVING_DECODES
    ]
    if not resamples:
        return {
            Configuration(decoder, AsIs()): f"{decode.format(label)}; no resize"
            for decode, decoder, label in labelled
        }
    return {
        Configuration(decoder, resizer, rounding): f"{decode.format(label)}; {resize}"
        for (decode, decoder, label), (resize, resizer, rounding) in product(
            labelled, _SERVING_RESIZES
        )
    }
