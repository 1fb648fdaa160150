"""Attribution inside decode: chroma upsampling, inverse DCT and rounding of colours.

Some decoders are a known setting of these switches: OpenCV, Pillow, torchvision and torchpipe
contain libjpeg-turbo and offer no switch, simplejpeg contains it too and offers two, and
nvjpeg-model has all three. If a decoder's pixels equal, image by image, those of a decoder with
switches, that one replaces it here, and two decoders can be mixed switch by switch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from alignkit.attribute import PathAttribution, attribute
from alignkit.attribute.attributed_mixtures import mix_stages
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.decoders import DECODERS, Decoder
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.outcome import Skipped
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures
from alignkit.samples import Samples

Switches: TypeAlias = SimpleJPEGDecoder | NvjpegModelDecoder
# names of classes, so that no plugin's module is imported
_LIBJPEG_TURBO = ("OpenCVDecoder", "PillowDecoder", "TorchvisionDecoder", "TorchpipeDecoder")


def attribute_decode(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    resamples: int = RESAMPLES,
) -> PathAttribution | Skipped:
    """Divide the effect of decode on the pixels among its switches.

    They are ``decode.upsampling``, ``decode.dct`` and ``decode.colour``; all later stages are the
    reference's. `Skipped` if a decoder has no known setting, if its pixels differ from those of its
    setting or cannot be compared on any image, or if the settings agree.
    """
    if reference.decode == candidate.decode:
        return Skipped("the two decoders are the same")
    settings = _settings(reference, candidate, samples)
    if isinstance(settings, Skipped):
        return settings
    return attribute(
        replace(reference, decode=settings[0]),
        replace(reference, name=candidate.name, decode=settings[1]),
        samples,
        decoder_switches=True,
        resamples=resamples,
    )


def as_libjpeg(decoder: Decoder) -> SimpleJPEGDecoder | None:
    """Return libjpeg-turbo's switches of a decoder; ``None`` if it does not contain it."""
    if isinstance(decoder, SimpleJPEGDecoder):
        return decoder
    return SimpleJPEGDecoder() if type(decoder).__name__ in _LIBJPEG_TURBO else None


def as_model(decoder: Decoder) -> NvjpegModelDecoder | None:
    """Return a decoder's switches as nvjpeg-model's, which has no fast DCT; ``None`` if unknown."""
    if isinstance(decoder, NvjpegModelDecoder):
        return decoder
    switches = as_libjpeg(decoder)
    if switches is None or switches.dct == "ifast":
        return None
    return NvjpegModelDecoder(
        "repeat" if switches.chroma == "nearest" else "interpolate", dct="islow", colour="round"
    )


def _settings(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> tuple[Switches, Switches] | Skipped:
    """Return the switches of the two decoders, proven on these images and different."""
    both = _of_one_class(reference.decode, candidate.decode)
    if isinstance(both, Skipped):
        return both
    proven = frozenset(range(len(samples)))  # narrowed to the images that prove both settings
    for path, setting in zip((reference, candidate), both, strict=True):
        equal = _equal(reference, path.decode, setting, samples)
        if isinstance(equal, Skipped):
            return equal
        proven &= equal
    known_as = name_of(both[0], DECODERS)
    if not proven:
        return Skipped(
            f"none of {len(samples)} images is decoded by both decoders and by {known_as}, so that "
            "nothing is known of their switches"
        )
    if both[0] == both[1]:
        return Skipped(
            "the two decoders are libjpeg-turbo with the same switches, their pixels equal "
            f"{known_as}'s on {len(proven)} of {len(samples)} images"
        )
    return both


def _of_one_class(reference: Decoder, candidate: Decoder) -> tuple[Switches, Switches] | Skipped:
    """Return both decoders' switches, as options of one decoder.

    simplejpeg is preferred, because it is faster and has the fast DCT.
    """
    ways: tuple[Callable[[Decoder], Switches | None], ...] = as_libjpeg, as_model
    for way in ways:
        left, right = way(reference), way(candidate)
        if left is not None and right is not None:
            return left, right
    for decoder in (reference, candidate):
        if as_libjpeg(decoder) is None and as_model(decoder) is None:
            name = type(decoder).__name__
            return Skipped(
                f"{name} has no switches and is not known to be libjpeg-turbo or nvJPEG's rule"
            )
    return Skipped("nvjpeg-model has no fast DCT (dct: ifast), so that the two cannot be mixed")


def _equal(
    path: Preprocess, decoder: Decoder, setting: Switches, samples: Samples
) -> frozenset[int] | Skipped:
    """Return the indices of the images that the setting and the decoder decode to equal pixels.

    `Skipped` if they decode any image differently.
    """
    if decoder == setting:
        return frozenset(range(len(samples)))
    mixed = make_stage_mixtures(replace(path, decode=decoder), replace(path, decode=setting))
    both = (frozenset[str](), frozenset({"decode"}))
    equal = set()
    all_made = mix_stages(mixed, both, encoded_images(samples))
    for index, (sample, made) in enumerate(zip(samples.ids, all_made, strict=True)):
        if isinstance(made, LeftOut):
            continue
        if made[both[0]] is not made[both[1]]:  # mixtures of equal pixels share one array
            names = type(decoder).__name__, name_of(setting, DECODERS)
            return Skipped(f"{names[0]} and {names[1]} decode {sample} differently")
        equal.add(index)
    return frozenset(equal)
