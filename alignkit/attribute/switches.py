"""Inside decode: which of libjpeg-turbo's switches two decoders differ by.

OpenCV, Pillow, torchvision and torchpipe hold libjpeg-turbo and offer no switch; simplejpeg holds
it too and offers both. Where a decoder's pixels are proven, image by image, to be simplejpeg's with
some setting of the switches, simplejpeg stands for it here, and the decoders can be mixed switch by
switch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alignkit.attribute import PathAttribution, attribute
from alignkit.attribute.mixtures import mix_stages
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.outcome import Skipped
from alignkit.preprocess.isolated import encoded_images
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures

if TYPE_CHECKING:
    from alignkit.decoders import Decoder
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

LIBJPEG_TURBO = ("OpenCVDecoder", "PillowDecoder", "TorchvisionDecoder", "TorchpipeDecoder")


def attribute_decode(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    resamples: int = RESAMPLES,
    threads: int = 2,
) -> PathAttribution | Skipped:
    """Divide what decode does to the pixels among ``decode.chroma`` and ``decode.dct``.

    All later stages are the reference's. `Skipped` where a decoder has no known setting, where its
    pixels turn out to be others or cannot be compared on any image, or where the settings agree.
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
        threads=threads,
    )


def expressed(decoder: Decoder) -> SimpleJPEGDecoder | None:
    """The switches a decoder is said to run with, as simplejpeg; ``None`` if nothing is said."""
    if isinstance(decoder, SimpleJPEGDecoder):
        return decoder
    return SimpleJPEGDecoder() if type(decoder).__name__ in LIBJPEG_TURBO else None


def _settings(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> tuple[SimpleJPEGDecoder, SimpleJPEGDecoder] | Skipped:
    """The two decoders as simplejpeg's switches, proven on these images and not the same."""
    proven = frozenset(range(len(samples)))
    settings = []
    for path in (reference, candidate):
        setting = expressed(path.decode)
        if setting is None:
            name = type(path.decode).__name__
            return Skipped(f"{name} has no switches and is not known to be libjpeg-turbo")
        equal = _equal(reference, path.decode, setting, samples)
        if isinstance(equal, Skipped):
            return equal
        proven &= equal
        settings.append(setting)
    if not proven:
        return Skipped(
            f"none of {len(samples)} images is decoded by both decoders and by simplejpeg, so that "
            "nothing is known of their switches"
        )
    if settings[0] == settings[1]:
        return Skipped(
            "the two decoders are libjpeg-turbo with the same switches, their pixels equal "
            f"simplejpeg's on {len(proven)} of {len(samples)} images"
        )
    return settings[0], settings[1]


def _equal(
    path: Preprocess, decoder: Decoder, setting: SimpleJPEGDecoder, samples: Samples
) -> frozenset[int] | Skipped:
    """The images, by index, whose pixels prove that simplejpeg can stand for the decoder.

    `Skipped` if one's pixels prove that it cannot.
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
        if made[both[0]] is not made[both[1]]:
            return Skipped(f"{type(decoder).__name__} and simplejpeg decode {sample} differently")
        equal.add(index)
    return frozenset(equal)
