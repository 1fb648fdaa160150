"""Attribution inside decode: chroma upsampling, inverse DCT and rounding of colours.

Some decoders are a known setting of these switches: OpenCV, Pillow, torchvision and torchpipe
contain libjpeg-turbo and offer no switch, simplejpeg contains it too and offers two, and
nvjpeg-model has all three. If a decoder's pixels equal, image by image, those of a decoder with
switches, that one replaces it here, and two decoders can be mixed switch by switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from alignkit.attribute import attribute
from alignkit.attribute.attributed_mixtures import mix_stages, task_of
from alignkit.attribute.mixture_records import CellSession, ModelSession
from alignkit.compare.bootstrap import RESAMPLES
from alignkit.decoders import DECODERS, Decoder
from alignkit.decoders.decoder_switches import Switches, switches_of
from alignkit.outcome import Skipped
from alignkit.plugins import name_of
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images
from alignkit.preprocess.stage_mixtures import LeftOut, make_stage_mixtures
from alignkit.record import AttributionFacts
from alignkit.samples import Samples
from alignkit.task_facts import TaskFacts


@dataclass(frozen=True, slots=True)
class DecodeModels:
    """The models whose changed predictions are divided among the switches."""

    sessions: Sequence[ModelSession]
    """One for each seed, all in the same runtime."""
    backend: str
    precision: str


def attribute_decode(
    reference: Preprocess,
    candidate: Preprocess,
    samples: Samples,
    models: DecodeModels | None = None,
    *,
    resamples: int = RESAMPLES,
) -> tuple[AttributionFacts, ...] | Skipped:
    """Divide the effect of decode among its switches: on the pixels, and on the predictions.

    They are ``decode.upsampling``, ``decode.dct`` and ``decode.colour``; all later stages are the
    reference's. `Skipped` if a decoder has no known setting, if its pixels differ from those of its
    setting or cannot be compared on any image, or if the settings agree.
    """
    if reference.decode == candidate.decode:
        return Skipped("the two decoders are the same")
    settings = _settings(reference, candidate, samples)
    if isinstance(settings, Skipped):
        return settings
    paths = (
        replace(reference, decode=settings[0]),
        replace(reference, name=candidate.name, decode=settings[1]),
    )
    sessions = (
        [{frozenset[str](): _of_reference(each)} for each in models.sessions] if models else []
    )
    divided = attribute(*paths, samples, sessions, decoder_switches=True, resamples=resamples)
    runtimes: dict[str, dict[str, str]] = {"pixels": {}}
    if models:
        runtime = {"backend": models.backend, "precision": models.precision}
        runtimes |= dict.fromkeys(divided_metrics(task_of(sessions)), runtime)
    return tuple(
        divided[metric].model_copy(update={"metric": f"{metric}.decode", **runtime})
        for metric, runtime in runtimes.items()
        if divided[metric].shares
    )


def divided_metrics(task: TaskFacts) -> tuple[str, ...]:
    """Name the metrics of predictions that are divided among the switches."""
    return (*(("logits",) if task.class_scores else ()), "churn", task.matrices[0])


def _of_reference(session: ModelSession) -> ModelSession:
    # these mixtures end at another candidate: the reference with the other's decoder
    return session.without_candidate() if isinstance(session, CellSession) else session


def _settings(
    reference: Preprocess, candidate: Preprocess, samples: Samples
) -> tuple[Switches, Switches] | Skipped:
    """Return the switches of the two decoders, proven on these images and different."""
    both = switches_of(reference.decode, candidate.decode)
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
        # mixtures of equal pixels share one array
        if made.tensors[both[0]] is not made.tensors[both[1]]:
            names = type(decoder).__name__, name_of(setting, DECODERS)
            return Skipped(f"{names[0]} and {names[1]} decode {sample} differently")
        equal.add(index)
    return frozenset(equal)
