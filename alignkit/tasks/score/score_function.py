"""Calls of the user's functions: outputs and sample of one image → its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import isfinite
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from alignkit.annotations import Annotation
from alignkit.arrays import FloatArray, unreal
from alignkit.errors import AlignkitError, ConfigError
from alignkit.preprocess.geometry import Geometry
from alignkit.samples import Samples
from alignkit.tasks.own_code import own_function, raised
from alignkit.tasks.score import OwnScore
from alignkit.tasks.score.score_answers import ScoreAnswers
from alignkit.tasks.score.score_tallies import ScoreTallies

ONLY_OUTPUT = "output"
"""Name of the output of a model that has one, where the task names none."""
GREATEST_SCORE = 1e100
"""Greatest size of a score, so that sums and squares of it are finite."""
_Outputs = tuple[npt.NDArray[np.float32], ...]
_READING: dict[str, Callable[..., Any]] = {}
"""Name → the function that was seen to follow its outputs."""


class PlacedOutputs(NamedTuple):
    """The outputs of one image, and its mapping."""

    outputs: _Outputs
    place: Geometry


class ScoreRecord(NamedTuple):
    """The scores of one image; its outputs only if ``changed`` will compare them."""

    values: FloatArray
    """(names,), NaN where the function gave none."""
    defined: npt.NDArray[np.bool_]
    """(names,), whether the function gave a value."""
    whole: bool
    """Whether outputs and scores are finite."""
    read: bool
    """Whether other outputs would give an image of its batch another score."""
    kept: _Outputs | None
    """``None`` if the task has no ``changed``."""


@dataclass(frozen=True, slots=True)
class ScoredSample:
    """All that is known of an image that the user's function rates."""

    id: str
    read: Callable[[], bytes]
    """Returns the encoded image."""
    label: str | None
    """Name of its class; ``None`` if the data has none."""
    annotation: Annotation | None
    """`Boxes`, `Mask` or `LabelSet` of `alignkit.annotations`; ``None`` if the data has none."""
    classes: tuple[str, ...]
    """Names of the data's classes."""
    geometry: Geometry
    """Its ``to_image`` maps places in the model's input to the oriented image."""


def scored(task: OwnScore, records: Sequence[PlacedOutputs], samples: Samples) -> list[ScoreRecord]:
    """Rate a batch; raise `ConfigError` if a function raises, or returns anything else."""
    function = own_function(task.score, "score")
    found, asked = [], list[_Asked]()
    for index, (image, record) in enumerate(zip(samples.ids, records, strict=True)):
        sample = _sample(samples, index, record.place)
        given = _named(_output_names(task), record.outputs)
        values, defined = _row(task, image, _called(function, task.score, image, given, sample))
        asked.append(_Asked(image, sample, record.outputs, (values.tobytes(), defined.tobytes())))
        finite = all(bool(np.isfinite(each).all()) for each in record.outputs)
        whole = finite and bool((np.isfinite(values) | ~defined).all())
        # copies: a runtime may use its memory again
        kept = tuple(each.copy() for each in record.outputs) if task.changed else None
        found.append(ScoreRecord(values, defined, whole, read=True, kept=kept))
    if task.changed:
        # a mistake in it would else be found after all images are predicted
        pairs = list(pairwise(record.outputs for record in records))[:1]
        says_changed(task.changed, samples.ids[: len(pairs)], _output_names(task), pairs)
    if not _reads(task, function, asked):
        found = [each._replace(read=False) for each in found]
    return found


class _Asked(NamedTuple):
    """An image that the function rated, and what it gave."""

    image: str
    sample: ScoredSample
    outputs: _Outputs
    given: tuple[bytes, bytes]


def _reads(task: OwnScore, function: Callable[..., Any], asked: Sequence[_Asked]) -> bool:
    """Tell whether the function gives some image another score for other outputs.

    These are those of the image before, the own ones from the end to the beginning, and zeros. Once
    it does, it is not asked again.
    """
    if _READING.get(task.score) is function:
        return True
    for place, each in enumerate(asked):
        turned = tuple(np.ascontiguousarray(own[..., ::-1]) if own.ndim else own
                       for own in each.outputs)  # fmt: skip
        nothing = tuple(np.zeros_like(own) for own in each.outputs)
        for other in (asked[place - 1].outputs, turned, nothing):
            with suppress(Exception):  # what it raises of these outputs, it has read in them
                told = function(_named(_output_names(task), other), each.sample)
                if tuple(part.tobytes() for part in _row(task, each.image, told)) == each.given:
                    continue
            _READING[task.score] = function
            return True
    return False


def joined_scores(
    task: OwnScore, ids: Sequence[str], records: Sequence[ScoreRecord]
) -> ScoreAnswers:
    """Join the scores of images."""
    shape = (len(ids), len(task.score_names))
    values = np.array([each.values for each in records], np.float64).reshape(shape)
    defined = np.array([each.defined for each in records], np.bool_).reshape(shape)
    kept = [each.kept for each in records if each.kept is not None]
    return ScoreAnswers(
        ids=tuple(ids),
        scores=ScoreTallies(task.score_names, values, defined),
        kept=tuple(kept) if len(kept) == len(records) else (),
        output_names=_output_names(task),
        whole=np.array([each.whole for each in records], np.bool_),
        read=np.array([each.read for each in records], np.bool_),
        tolerance=task.tolerance,
        better=task.better,
        changed_by=task.changed,
    )


def says_changed(
    name: str,
    images: Sequence[str],
    outputs: Sequence[str],
    pairs: Sequence[tuple[_Outputs, _Outputs]],
) -> list[bool]:
    """Ask the user's function ``name`` of each image whether two answers to it differ.

    Raise `ConfigError` if it raises, or returns anything but true or false.
    """
    function, found = own_function(name, "changed"), []
    for image, pair in zip(images, pairs, strict=True):
        given = (_named(outputs, each) for each in pair)
        said = _called(function, name, image, *given)
        if not isinstance(said, bool | np.bool_):
            raise ConfigError(
                f"{name} gives {type(said).__name__} for {image!r}; return True if the answers "
                "differ, else False"
            )
        found.append(bool(said))
    return found


def _output_names(task: OwnScore) -> tuple[str, ...]:
    return task.outputs or (ONLY_OUTPUT,)


def _named(names: Sequence[str], outputs: _Outputs) -> dict[str, npt.NDArray[np.float32]]:
    # copies: the function may write into its arrays
    return {name: each.copy() for name, each in zip(names, outputs, strict=True)}


def _sample(samples: Samples, index: int, place: Geometry) -> ScoredSample:
    return ScoredSample(
        id=samples.ids[index],
        read=partial(samples.read, index),
        label=samples.classes[samples.labels[index]] if samples.labels else None,
        annotation=samples.annotations[index] if samples.annotations else None,
        classes=samples.classes,
        geometry=place,
    )


def _called(function: Callable[..., Any], name: str, image: str, *given: Any) -> Any:
    """Call a function of the user's own; raise `ConfigError` with what it raises, and where."""
    try:
        return function(*given)
    except AlignkitError:
        raise
    except Exception as error:
        raise ConfigError(f"{name} raised {raised(error)} for the image {image!r}") from error


def _row(task: OwnScore, image: str, found: Any) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
    """Check the scores of an image; return them in the order of the names, NaN without a value."""
    names = task.score_names
    if not isinstance(found, Mapping) and not task.names:
        found = {names[0]: found}
    if not isinstance(found, Mapping):
        raise ConfigError(
            f"{task.score} gives {type(found).__name__} for {image!r}, and a mapping of "
            f"{', '.join(names)} to numbers is expected"
        )
    if {*found} != {*names}:
        given = ", ".join(map(str, found)) or "nothing"
        raise ConfigError(
            f"{task.score} gives {given} for {image!r}, and {', '.join(names)} is expected; write "
            f"'names: [{given}]' in the task, and return the same names for every image"
        )
    values = [_number(task, image, name, found[name]) for name in names]
    return np.array(values), np.array([found[name] is not None for name in names])


def _number(task: OwnScore, image: str, name: str, value: Any) -> float:
    if value is None:
        return float("nan")
    kind = f"{type(value).__name__} as {name} of {image!r}"
    number = "return a number, or None where the image has none"
    if isinstance(value, str | bytes):  # float() reads some
        raise ConfigError(f"{task.score} gives {kind}; {number}")
    if reason := unreal(value):
        raise ConfigError(f"{task.score} gives {kind}, which {reason}")
    try:
        found = float(value)
        small = abs(found) <= GREATEST_SCORE or not isfinite(found)
    except OverflowError:  # a whole number beyond float64
        small = False
    except Exception as error:  # of a type of the user's, or a tensor of several values
        said = "" if isinstance(error, TypeError) else f" ({raised(error)})"
        raise ConfigError(f"{task.score} gives {kind}; {number}{said}") from error
    if not small:
        raise ConfigError(
            f"{task.score} gives {kind} that is beyond ±{GREATEST_SCORE:g}; give it a larger "
            "unit, or return None"
        )
    return found
