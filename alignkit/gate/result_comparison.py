"""Comparison of two stacks by their results, where one is a function.

A function has no stages. Its image is compared as the stage ``colour``, its tensor as
``normalise``, the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from alignkit.arrays import unreal
from alignkit.controls.planted_faults import differences
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.gate_option import Gate
from alignkit.gate.named_checks import groups_sentence, place_of_worst
from alignkit.judge import BLANK, UNSCALED
from alignkit.preprocess import Preprocess
from alignkit.record import Control, CoverageDiff, Measurements
from alignkit.samples import Samples, copies_among
from alignkit.text.numbers import copies_sentence, count, significant

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.compare.image_groups import ImageGroups

Function: TypeAlias = Callable[[bytes], Any]
"""Encoded image → (h, w, 3) in 0..255, or a normalised (3, h, w) or (1, 3, h, w) tensor."""
ResultStage: TypeAlias = Literal["colour", "normalise"]
_CALLED = "it is called with the file's bytes, not with its path"
_FAULTS: dict[str, Callable[[npt.NDArray[Any]], npt.NDArray[Any]]] = {
    "planted fault: with channels swapped": lambda image: image[..., ::-1],
    "planted fault: turned by half": lambda image: image[::-1, ::-1],
    BLANK: lambda image: image * 0 + image.mean().astype(image.dtype),
}
_SEEN_UNITS = 0.002
"""`SEEN` in normalised units."""
_IMAGE = 30.0
"""Grey levels that an image which is not almost black exceeds."""
_TENSOR = 10.0
"""Greatest value of a normalised tensor, with a margin."""


@dataclass(frozen=True, slots=True, eq=False)
class ResultComparison:
    """Two stacks' results compared, at least one of them a function's."""

    stage: ResultStage
    record: Measurements
    worst: str
    """The image that differs most, and where; empty if none does."""
    unit: str
    """Grey levels, or normalised units if two functions give tensors."""
    apart: Mapping[int, float]
    """Row → root mean square difference of an image of one size and finite values."""
    kept: Mapping[int, npt.NDArray[Any]]
    """Row of some first and some farthest images → the candidate's result, or the reference's if
    that is the function."""
    controls: tuple[Control, ...]
    """How far faults that are planted in the reference's results move them, for loose limits."""
    groups: ImageGroups | None
    """A few images that differ far more than the others, by ``apart``."""
    repeated: str
    """Says how many images are copies, and of a few images that a function gave them another
    image's result; or nothing."""

    @property
    def checked(self) -> str:
        """Say which stages the comparison covers."""
        if self.stage == "normalise":
            said = "The whole result was checked, as a normalised tensor."
        else:
            said = "The pixels before normalisation were checked; normalise was not."
        return f"{said} {self.repeated}".strip()

    def explained(
        self, a: Preprocess | Function, b: Preprocess | Function, samples: Samples
    ) -> str:
        """Say what explains most of a difference from a `Preprocess`, or that nothing does."""
        from alignkit.search.match_result import AS_ROUNDING
        from alignkit.search.result_hypotheses import TRIED_IMAGES, explain

        stack = a if isinstance(a, Preprocess) else b
        of_one_shape = not self.record.pixels[0].shape_mismatches
        if not isinstance(stack, Preprocess) or not of_one_shape:
            return ""
        if lost := [row for row in range(len(samples)) if row not in self.apart]:
            held = f"{len(lost)} of {count(len(samples), 'image')}"
            return f"A result for {held} holds NaN or infinity, such as {samples.ids[lost[0]]}."
        far = self.groups.far_least if self.groups else 0.0
        parts = [[row for row in self.kept if self.apart[row] >= far]]
        if self.groups and self.groups.near_most > AS_ROUNDING:
            parts.insert(0, [row for row in self.kept if self.apart[row] < far])
        said, greatest = [self.grouped(samples)], max(self.apart.values())
        for part in filter(None, parts):
            rows = sorted(part, key=self.apart.__getitem__, reverse=True)[:TRIED_IMAGES]
            results = [self.kept[row] for row in rows]
            said.append(explain(stack, results, samples.take(rows), greatest, len(self.apart)))
        return " ".join(filter(None, said))

    def grouped(self, samples: Samples) -> str:
        """Say that a few images differ far more than the others, in a sentence; or nothing."""
        if not self.groups:
            return ""
        worst = samples.ids[max(self.apart, key=self.apart.__getitem__)]
        return groups_sentence(self.groups, worst, f"{self.unit}, root mean square")


def refuse_others(gate: Gate, stage: ResultStage) -> None:
    """Raise `ConfigError` for a rule about a stage that a function does not have."""
    for rule in gate.rules or ():
        for each in rule.expanded():
            metric = each.measured
            if metric.kind == "coverage" or metric.stage == stage:
                continue
            unit = "normalised units" if stage == "normalise" else "grey levels"
            named = f"{rule.preset!r} asks for {metric.name}" if rule.preset else metric.name
            advice = (
                f"use {stage}.{metric.field}, in {unit}"
                if metric.kind == "pixel" and metric.field not in ("psnr", "ssim")
                else f"use a rule about {stage}, such as {stage}.mean_abs"
            )
            raise ConfigError(f"rules: {named}: a function has only its result; {advice}")


def stage_of(a: Preprocess | Function, b: Preprocess | Function, samples: Samples) -> ResultStage:
    """Return the stage that results are compared as, from the first image's result.

    Raises `ConfigError` if a function gives no image.
    """
    # a function gives one kind of array
    tensors = any(_called(side, samples, 0).shape[0] == 3
                  for side in (a, b) if not isinstance(side, Preprocess))  # fmt: skip
    return "normalise" if tensors else "colour"


def compare_results(
    a: Preprocess | Function, b: Preprocess | Function, samples: Samples, stage: ResultStage
) -> ResultComparison:
    """Compare the results for every image.

    Raises `ConfigError` if a function gives no image, and `NothingCompared` if a `Preprocess`
    cannot decode one or a function's results are not of its images.
    """
    import numpy as np

    from alignkit.compare.compare_pixels import pixel_stage
    from alignkit.compare.image_groups import image_groups
    from alignkit.compare.pixel_diff import PixelDiff
    from alignkit.compare.pixel_sums import pixel_sums
    from alignkit.gate.read_bytes import digest_of, require_read
    from alignkit.search.result_hypotheses import TRIED_IMAGES

    tensors = stage == "normalise"
    total, greatest, worst, reached = PixelDiff(stage, "isolated"), 0.0, "", list[float]()
    faults = _FAULTS | ({UNSCALED: _unscaled} if tensors else {})
    planted = dict.fromkeys(faults, PixelDiff(stage, "cumulative"))
    apart: dict[int, float] = {}
    kept: dict[int, npt.NDArray[Any]] = {}
    given: list[tuple[bytes, bytes]] = []
    unit, levels, seen = _levels(a, b, tensors=tensors)
    both = (_results(side, samples, tensor=tensors) for side in (a, b))
    for row, (name, left, right) in enumerate(zip(samples.ids, *both, strict=True)):
        if not tensors:
            reached += _refuse_normalised(left, right)
        given.append((digest_of(left), digest_of(right)))
        if left.shape != right.shape:
            total += PixelDiff(stage, "isolated", None, 1)
            sizes = f"{_by(left)} by the reference, {_by(right)} by the candidate"
            worst = worst or f"The result for {name} is {sizes}."
            continue
        for fault, spoil in faults.items():
            spoilt = spoil(left.transpose(1, 2, 0)).transpose(2, 0, 1) if tensors else spoil(left)
            sums = pixel_sums(left, spoilt, channels="first" if tensors else "last")
            planted[fault] += PixelDiff(stage, "cumulative", sums)
        sums = pixel_sums(left, right, channels="first" if tensors else "last")
        total += PixelDiff(stage, "isolated", sums)
        if np.isfinite(distance := _rms(left, right, levels)):
            apart[row] = distance
            kept[row] = right if isinstance(a, Preprocess) else left
            others = [each for each in kept if each >= TRIED_IMAGES]
            if len(others) > TRIED_IMAGES:  # the farthest, and some first ones
                del kept[min(others, key=apart.__getitem__)]
        if (sums.mean_abs or 0.0) > greatest:
            greatest = sums.mean_abs or 0.0
            worst = place_of_worst(name, left, right, tensors=tensors)
    _refuse_scale(reached, of=2 * len(samples))
    facts = pixel_stage(total, reference="reference", candidate="candidate")
    repeated = ""
    if not facts.non_finite:  # which fails by itself, and says more
        repeated = require_read((a, b), samples, given, as_array=array_of)
        # others with the result of another image have just been refused, or said
        alike = [left.hex() + right.hex() for left, right in given]
        repeated = repeated or copies_sentence(len(copies_among(samples.ids, alike)), len(samples))
    covered = CoverageDiff(reference="reference", candidate="candidate", images=len(samples),
                           only_reference=0, only_candidate=0)  # fmt: skip
    record = Measurements(pixels=(facts,), coverage_diffs=(covered,))
    groups = image_groups(Counter(apart.values()), seen=seen)
    controls = tuple(
        Control(
            name=fault, expected="a difference", observed="", passed=None,
            differences=differences([pixel_stage(each, reference="", candidate="")]),
        )
        for fault, each in planted.items()
    )  # fmt: skip
    return ResultComparison(stage, record, worst, unit, apart, kept, controls, groups, repeated)


def _unscaled(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    scaled: npt.NDArray[Any] = image - image.min()
    return scaled / (scaled.max() or 1)


def _levels(
    a: Preprocess | Function, b: Preprocess | Function, *, tensors: bool
) -> tuple[str, npt.NDArray[np.float64] | float, float]:
    """Return the unit of distances, the factor from the results to it, and `SEEN` in it."""
    import numpy as np

    from alignkit.compare.image_groups import SEEN

    stack = a if isinstance(a, Preprocess) else b
    if not tensors:
        return "grey levels", 1.0, SEEN
    if not isinstance(stack, Preprocess):
        return "normalised units", 1.0, _SEEN_UNITS
    return "grey levels", 255 * np.asarray(stack.normalise.std)[:, None, None], SEEN


def _rms(
    left: npt.NDArray[Any], right: npt.NDArray[Any], levels: npt.NDArray[np.float64] | float
) -> float:
    import numpy as np

    with np.errstate(invalid="ignore"):  # of two infinities
        difference = (right.astype(np.float64) - left) * levels
    return float(np.sqrt((difference**2).mean()))


def _by(array: npt.NDArray[Any]) -> str:
    height, width = array.shape[1:] if array.shape[0] == 3 else array.shape[:2]
    return f"{height}x{width}"


def _results(
    side: Preprocess | Function, samples: Samples, *, tensor: bool
) -> Iterator[npt.NDArray[Any]]:
    """Yield a stack's result for each image: (h, w, 3), or (3, h, w) of a tensor."""
    from alignkit.preprocess.image_taps import encoded_images, take_pixels

    if not isinstance(side, Preprocess):
        yield from (_called(side, samples, index) for index in range(len(samples)))
        return
    for (taken,) in take_pixels([side], encoded_images(samples)):
        # no coverage is counted here, so a failed image must not pass unseen
        if taken.pixels is None:
            raise NothingCompared(f"{side.name} cannot decode an image: {taken.reason}")
        yield side.normalise(taken.pixels) if tensor else taken.pixels


def _called(side: Function, samples: Samples, index: int) -> npt.NDArray[Any]:
    """Return a function's `array_of` one image."""
    encoded = samples.read(index)
    try:
        result = side(encoded)
    except Exception as error:
        error.add_note(f"raised by the function on {samples.ids[index]}; {_CALLED}")
        raise
    return array_of(result)


def array_of(result: Any) -> npt.NDArray[Any]:
    """Return a function's result as an array of its own: (h, w, 3), or (3, h, w) of a tensor."""
    import numpy as np

    if hasattr(result, "detach"):  # a tensor of torch's
        result = result.detach().cpu()
        # NumPy has no bfloat16 and no float8; float32 holds all of their numbers
        result = result.float() if result.is_floating_point() else result
    if reason := unreal(result):
        raise ConfigError(f"the function's result {reason}")
    array: npt.NDArray[np.generic] = np.asarray(result)
    if array.ndim == 4 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 0 or array.dtype.kind not in "biuf":
        raise ConfigError(f"the function returns {type(result).__name__}, no array; {_CALLED}")
    if array.ndim != 3 or 3 not in (array.shape[0], array.shape[2]):
        raise ConfigError(
            f"the function gives an array of shape {array.shape}; it must be (h, w, 3), or "
            "(3, h, w) for a tensor"
        )
    # bytes are compared in exact integers; a copy, as the function may use its buffer again
    return array.astype(np.uint8 if array.dtype == np.uint8 else np.float32)


def _refuse_scale(greatest: Sequence[float], *, of: int) -> None:
    """Raise `ConfigError` for images of two functions whose floats are on no scale of 0..255.

    ``greatest`` has the greatest value of each float array; bicubic resizers overshoot 255.
    """
    most = max(greatest, default=0.0)
    # one image may be almost black, but not all of both sides
    small = len(greatest) == of and 0 < most <= _TENSOR
    if small or most > 2 * 255:
        raise ConfigError(
            f"the functions' (h, w, 3) arrays reach {significant(most)} over all images, and grey "
            "levels 0..255 are compared; scale them, or return (3, h, w) for a tensor"
        )


def _refuse_normalised(left: npt.NDArray[Any], right: npt.NDArray[Any]) -> list[float]:
    """Raise `ConfigError` for (h, w, 3) whose values are those of a tensor and not grey levels.

    Return the greatest value of each array of floats.
    """
    import numpy as np

    greatest = [float(np.abs(each).max(initial=0.0)) for each in (left, right)]
    for array, own, other in zip((left, right), greatest, reversed(greatest), strict=True):
        # an image may be almost black, but then it is so on the other side as well
        negative = bool((array < 0).any())
        if array.dtype.kind == "f" and 0 < own <= _TENSOR and (other > _IMAGE or negative):
            low, high = float(array.min()), float(array.max())
            raise ConfigError(
                f"the function's (h, w, 3) array looks normalised (values {significant(low)} to "
                f"{significant(high)}); return (3, h, w), or grey levels 0..255"
            )
    both = zip((left, right), greatest, strict=True)
    return [own for array, own in both if array.dtype.kind == "f"]
