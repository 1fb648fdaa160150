"""Attribution inside decode: the switches of libjpeg-turbo in which two decoders differ.

OpenCV, Pillow, torchvision and torchpipe contain libjpeg-turbo and offer no switch; simplejpeg
contains it too and offers both. If a decoder's pixels equal, image by image, those of simplejpeg
with some setting of the switches, simplejpeg replaces it here, and the decoders can be mixed switch
by switch.
"""

from __future__ import annotations

from dataclasses import replace

from alignkit.attribute import PathAttribution, attribute
from alignkit.attribute.attributed_mixtures import mix_stages
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.decoders import Decoder
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.outcome import Skipped
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures
from alignkit.samples import Samples

# names of classes, so that no plugin's module is imported
_LIBJPEG_TURBO = ("OpenCVDecoder", "PillowDecoder", "TorchvisionDecoder", "TorchpipeDecoder")


def attribute_decode(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    *,
    resamples: int = RESAMPLES,
) -> PathAttribution | Skipped:
    """Divide the effect of decode on the pixels among ``decode.chroma`` and ``decode.dct``.

    All later stages are the reference's. `Skipped` if a decoder has no known setting, if its pixels
    differ from simplejpeg's or cannot be compared on any image, or if the settings agree.
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


def expressed(decoder: Decoder) -> SimpleJPEGDecoder | None:
    """Return a decoder's documented switches, as simplejpeg; ``None`` if they are unknown."""
    if isinstance(decoder, SimpleJPEGDecoder):
        return decoder
    return SimpleJPEGDecoder() if type(decoder).__name__ in _LIBJPEG_TURBO else None


def _settings(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> tuple[SimpleJPEGDecoder, SimpleJPEGDecoder] | Skipped:
    """Return the two decoders as simplejpeg's switches, proven on these images and different."""
    proven = frozenset(range(len(samples)))  # narrowed to the images that prove both settings
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
    """Return the indices of the images that simplejpeg and the decoder decode to equal pixels.

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
            return Skipped(f"{type(decoder).__name__} and simplejpeg decode {sample} differently")
        equal.add(index)
    return frozenset(equal)
