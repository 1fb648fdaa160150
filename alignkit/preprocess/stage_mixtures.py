"""Mixtures of two `Preprocess`: each stage comes from the reference or from the candidate.

A *factor* is the unit that is swapped: usually a stage; two stages joined where they cannot be
combined apart; or one switch of a decoder. The set of factors taken from the candidate names a
mixture: the empty set is the reference, the full set the candidate.

The turn by EXIF orientation belongs to ``orient`` and not to ``decode``, even where the decoder
turns the image: that turn is undone, which is exact, before the orient stage applies the path's
policy. So a decoder that turns by itself equals one followed by ``orient: exif``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from alignkit.decoders import digest_of
from alignkit.errors import AlignkitError, ConfigError
from alignkit.preprocess import STAGES, Crop, Orient, Preprocess, Resize, StageName, Turn
from alignkit.preprocess.image_header import MAX_PIXELS, decode

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.arrays import Batch, Image
    from alignkit.preprocess.geometry import Geometry

FromCandidate: TypeAlias = frozenset[str]
"""The factors that a mixture takes from the candidate."""
FACTORIAL_LIMIT = 4
"""Greatest number of factors of which every subset is computed: 16 mixtures."""
_Orientations: TypeAlias = dict[tuple[int, int], int]
"""``id`` of a decoder and of an orient stage → the orientation by which they turn one image."""
_SWITCHES = {"chroma": "upsampling"}
"""Option of a decoder → its name as a factor, where that is another."""


@dataclass(frozen=True, slots=True)
class MixedStage:
    """One stage of all mixtures, with the variants of it that they use."""

    stage: StageName
    factors: FromCandidate
    """The factors this stage's variant depends on; empty where the two paths agree."""
    variants: Mapping[FromCandidate, Any]
    """Which of ``factors`` come from the candidate → the stage to run."""


@dataclass(frozen=True, slots=True)
class StageMixtures:
    """All mixtures of two paths, stage by stage."""

    factors: tuple[str, ...]
    """In the order of the stages; empty if the paths do not differ."""
    stages: tuple[MixedStage, ...]
    notes: tuple[str, ...] = ()
    """Reasons why some stages are not swapped by themselves, a sentence each."""
    max_pixels: int = MAX_PIXELS
    """The lower limit of the two paths."""
    paths: tuple[Preprocess, ...] = ()
    """The two, reference first."""

    def image(self, encoded: bytes, wanted: Iterable[FromCandidate]) -> MixedImage | LeftOut:
        """Compute each wanted mixture of one image, and the place of its pixels in the input.

        A stage is computed once for all mixtures that give it the same input. Mixtures whose
        pixels are equal share one array. Return `LeftOut` if any of them fails on the image.
        """
        from alignkit.preprocess.image_taps import result_or_reason

        try:
            made = result_or_reason(lambda: self._image(encoded, tuple(wanted)))
        except _NotDecodedError as undecoded:
            return LeftOut(str(undecoded))
        return LeftOut(made) if isinstance(made, str) else made

    def tensors(
        self, encoded: bytes, wanted: Iterable[FromCandidate]
    ) -> dict[FromCandidate, Batch] | LeftOut:
        """Compute the tensors of `image` alone."""
        made = self.image(encoded, wanted)
        return made if isinstance(made, LeftOut) else made.tensors

    def _image(self, encoded: bytes, wanted: Collection[FromCandidate]) -> MixedImage:
        decided: FromCandidate = frozenset()
        turns = {orientation: Turn(orientation) for orientation in range(1, 9)}
        known: _Orientations = {}
        values: dict[FromCandidate, Any] = {decided: encoded}
        stored: dict[FromCandidate, tuple[int, int]] = {}
        digest = ""
        for mixed in self.stages:
            before, decided = decided, decided | mixed.factors
            outputs: dict[tuple[int, int], Any] = {}
            step: dict[FromCandidate, Any] = {}
            for taken in dict.fromkeys(each & decided for each in wanted):
                source, stage = values[taken & before], mixed.variants[taken & mixed.factors]
                if mixed.stage == "orient":
                    stage = turns[self._orientation(taken, encoded, known)]
                # identity suffices: `_equal_ones_shared` lets equal inputs be one object
                computation = (id(source), id(stage))
                if computation not in outputs:
                    outputs[computation] = self.apply(mixed.stage, stage, source, encoded)
                step[taken] = outputs[computation]
            values = _equal_ones_shared(step)
            if mixed.stage == "decode":
                stored = {taken: values[taken & decided].shape[:2] for taken in wanted}
                digest = digest_of(values[frozenset()]) if frozenset() in values else ""
        tensors = {taken: values[taken & decided] for taken in wanted}
        return MixedImage(tensors, self._places(encoded, stored, known), digest)

    def _places(
        self,
        encoded: bytes,
        stored: Mapping[FromCandidate, tuple[int, int]],
        orientations: _Orientations,
    ) -> dict[FromCandidate, Geometry]:
        """Find each mixture's place, from (height, width) of its image before any turn."""
        from alignkit.decoders.exif import exif_orientation

        in_file = exif_orientation(encoded)
        known: dict[tuple[Any, ...], Geometry] = {}
        places = {}
        for taken, size in stored.items():
            stages = self._geometric_stages(taken)
            turns = stages["orient"].policy == "exif"
            orientation = self._orientation(taken, encoded, orientations) if turns else in_file
            same = (size, orientation, *map(id, stages.values()))
            if same not in known:
                height, width = size if orientation < 5 else size[::-1]
                path = replace(self.paths[0], **stages)
                known[same] = path.geometry(width, height, orientation)
            places[taken] = known[same]
        return places

    def _geometric_stages(self, taken: FromCandidate) -> dict[str, Any]:
        """Return the stages of a mixture that decide where an image's pixels lie."""
        chosen: dict[str, Any] = {
            mixed.stage: mixed.variants[taken & mixed.factors]
            for mixed in self.stages
            if mixed.stage in ("orient", "resize", "crop")
        }
        # a decoder's own turn is undone: the policy alone decides, and one of "none" comes from a
        # path whose decoder does not turn
        still = (each.decode for each in self.paths if not each.decode.orients)
        return {**chosen, "decode": next(still, self.paths[0].decode)}

    def _orientation(self, taken: FromCandidate, encoded: bytes, known: _Orientations) -> int:
        """Return the orientation by which a mixture turns: as its decoder's library reads it."""
        decode, orient = (
            mixed.variants[taken & mixed.factors] for mixed in self.stages[:2]
        )  # the first two of `STAGES`
        # some decoders find it by decoding twice more: once an image, not once a mixture
        both = (id(decode), id(orient))
        if both not in known:
            known[both] = orient.turn(decode, encoded).orientation
        return known[both]

    def apply(self, name: StageName, stage: Any, source: Any, encoded: bytes) -> Any:
        """Run one stage on the output of the stages before it."""
        return _decoded(stage, encoded, self.max_pixels) if name == "decode" else stage(source)


class MixedImage(NamedTuple):
    """One image in every mixture."""

    tensors: dict[FromCandidate, Batch]
    """(3, height, width) float32 each, normalised."""
    places: dict[FromCandidate, Geometry]
    digest: str = ""
    """`alignkit.decoders.digest_of` what the reference decodes; empty if it is in no mixture."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An image that some mixture could not prepare; it is left out of all of them."""

    reason: str


class _NotDecodedError(AlignkitError):
    """A decoder gave no pixels."""


def differing_stages(reference: Preprocess, candidate: Preprocess) -> tuple[StageName, ...]:
    """List the stages whose implementation or options differ; none if the paths agree."""
    left, right = _stages(reference), _stages(candidate)
    return tuple(stage for stage in STAGES if left[stage] != right[stage])


def make_stage_mixtures(
    reference: Preprocess, candidate: Preprocess, *, decoder_switches: bool = False
) -> StageMixtures:
    """Find the stages by which two paths can be mixed.

    With ``decoder_switches``, ``decode`` is split into the switches in which two decoders of the
    same class differ: ``decode.upsampling``, ``decode.dct`` and ``decode.colour``. Raise
    `ConfigError` if the paths prepare inputs of different sizes, as no stage can be blamed for
    that.
    """
    if reference.size != candidate.size:
        raise ConfigError(
            f"{reference.name!r} prepares {_by(reference.size)} and {candidate.name!r} "
            f"{_by(candidate.size)} pixels; give both the same size to compare them"
        )
    left, right = _stages(reference), _stages(candidate)
    named: dict[StageName, str] = {stage: stage for stage in differing_stages(reference, candidate)}
    notes = _joined_geometry(named, left, right, reference.size)
    stages = []
    for stage in STAGES:
        if stage == "decode" and decoder_switches and stage in named:
            stages.append(_switch_stage(left[stage], right[stage]))
        else:
            stages.append(_mixed_stage(stage, named.get(stage), left[stage], right[stage]))
    factors = dict.fromkeys(factor for mixed in stages for factor in sorted(mixed.factors))
    # a mixture must not decode what one of the paths refuses
    limit = min(reference.max_pixels, candidate.max_pixels)
    return StageMixtures(tuple(factors), tuple(stages), notes, limit, (reference, candidate))


def all_mixtures(factors: Iterable[str]) -> tuple[FromCandidate, ...]:
    """List every subset, smallest first: the full factorial."""
    listed = tuple(factors)
    return tuple(
        frozenset(chosen)
        for size in range(len(listed) + 1)
        for chosen in combinations(listed, size)
    )


def mixtures(factors: Sequence[str]) -> tuple[FromCandidate, ...]:
    """List the mixtures to compute: every subset of few factors, else none, each one, and all."""
    if len(factors) <= FACTORIAL_LIMIT:
        return all_mixtures(factors)
    # subsets would double with every factor
    singles = (frozenset({factor}) for factor in factors)
    return (frozenset(), *singles, frozenset(factors))


def mixtures_in_runtimes(
    factors: Sequence[str], runtimes: Iterable[str]
) -> tuple[FromCandidate, ...]:
    """List the mixtures of ``factors``, and those of them and each other runtime, each once."""
    chosen = (tuple(factors), *((*factors, runtime) for runtime in runtimes))
    return tuple(dict.fromkeys(taken for each in chosen for taken in mixtures(each)))


def _stages(preprocess: Preprocess) -> dict[StageName, Any]:
    stages: dict[StageName, Any] = {stage: getattr(preprocess, stage) for stage in STAGES}
    if preprocess.decode.orients:  # whatever the path's own policy is, which comes too late
        stages["orient"] = Orient("exif")
    return stages


def _mixed_stage(
    stage: StageName, factor: str | None, reference: Any, candidate: Any
) -> MixedStage:
    nothing: FromCandidate = frozenset()
    if factor is None:
        return MixedStage(stage, nothing, {nothing: reference})
    taken = frozenset({factor})
    return MixedStage(stage, taken, {nothing: reference, taken: candidate})


def _switch_stage(reference: Any, candidate: Any) -> MixedStage:
    """Split ``decode`` by the options in which two decoders of one class differ."""
    if type(reference) is not type(candidate):
        return _mixed_stage("decode", "decode", reference, candidate)
    options = {
        f"decode.{_SWITCHES.get(each.name, each.name)}": (each.name, getattr(candidate, each.name))
        for each in fields(reference)
        if getattr(reference, each.name) != getattr(candidate, each.name)
    }
    variants = {
        taken: replace(reference, **dict(options[factor] for factor in taken))
        for taken in all_mixtures(options)
    }
    return MixedStage("decode", frozenset(options), variants)


def _joined_geometry(
    named: dict[StageName, str],
    reference: Mapping[StageName, Any],
    candidate: Mapping[StageName, Any],
    size: tuple[int, int],
) -> tuple[str, ...]:
    """Join ``resize`` and ``crop`` in ``named`` where one path's cannot follow the other's."""
    if not {"resize", "crop"} & named.keys():
        return ()
    mixed = ((reference["resize"], candidate["crop"]), (candidate["resize"], reference["crop"]))
    broken = [pair for pair in mixed if _result(*pair) != size]
    if not broken:
        return ()
    named["resize"] = named["crop"] = "resize+crop"
    resize, crop = broken[0]
    cut = f"a crop to {_by(crop.size)}" if crop.size else "no crop"
    note = (
        f"resize and crop are swapped together: {resize.fit} to {_by(resize.size)} followed by "
        f"{cut} does not give {_by(size)}"
    )
    return (note,)


def _result(resize: Resize, crop: Crop) -> tuple[int, int] | None:
    """Return (height, width) for any image; ``None`` where it depends on the image or fails."""
    if crop.size is None:
        return resize.size if resize.fit != "shorter" else None
    room = (min(resize.size),) * 2 if resize.fit == "shorter" else resize.size
    fits = crop.size[0] <= room[0] and crop.size[1] <= room[1]
    return crop.size if fits else None


def _by(size: tuple[int, int]) -> str:
    return f"{size[0]}x{size[1]}"


def _decoded(decoder: Any, encoded: bytes, max_pixels: int) -> Image:
    """Decode, without the turn that some decoders add."""
    from alignkit.decoders.exif import turn_of, unturn

    decoded = decode(decoder, encoded, max_pixels)
    if decoded.image is None:
        raise _NotDecodedError(f"{type(decoder).__name__} {decoded.outcome}: {decoded.reason}")
    image: Image = decoded.image
    return unturn(image, turn_of(decoder, encoded)) if decoder.orients else image


def _equal_ones_shared(step: dict[FromCandidate, Any]) -> dict[FromCandidate, Any]:
    """Let mixtures with equal arrays hold one array, so that later stages run once for them."""
    distinct: list[Any] = []
    seen: dict[int, Any] = {}
    for value in step.values():
        if id(value) not in seen:
            twin = next((other for other in distinct if _equal(other, value)), None)
            if twin is None:
                distinct.append(value)
            seen[id(value)] = value if twin is None else twin
    return {taken: seen[id(value)] for taken, value in step.items()}


def _equal(left: npt.NDArray[np.generic], right: npt.NDArray[np.generic]) -> bool:
    import numpy as np

    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    # nearly every pair that differs does so in every 16th row
    return np.array_equal(left[..., ::16, :, :], right[..., ::16, :, :]) and np.array_equal(
        left, right
    )
