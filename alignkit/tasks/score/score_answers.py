"""`ScoreAnswers`: the numbers that a function of the user's own gave to images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, ClassVar, Literal
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray, Labels
from alignkit.compare.answers import Answers, RatioOfSums
from alignkit.compare.idle_answers import SEVERAL
from alignkit.compare.parquet_file import ids_of, numbers_of
from alignkit.errors import DataError
from alignkit.limits import parsed_json
from alignkit.record.stored import Stored
from alignkit.tasks.answers_file import bytes_of, read_answers, write_answers
from alignkit.tasks.score.score_tallies import ScoreTallies
from alignkit.text.numbers import significant


def moves(one: ScoreTallies, other: ScoreTallies) -> FloatArray:
    """Compute Δ, (n, names): NaN where a score is not finite."""
    return other.finite - one.finite


def same_scores(one: ScoreTallies, other: ScoreTallies) -> npt.NDArray[np.bool_]:
    """Tell, (n, names), whether both sides have the same score, or the same kind of none."""
    same = (one.values == other.values) | (np.isnan(one.values) & np.isnan(other.values))
    return np.asarray(same & (one.defined == other.defined))


def moved_images(one: ScoreTallies, other: ScoreTallies, tolerance: float) -> npt.NDArray[np.bool_]:
    """Tell, (n,), whether a score moved by more than the tolerance."""
    # NaN beside a number, or a score beside none, is a change whatever the tolerance
    far = ~(np.abs(moves(one, other)) <= tolerance)
    return np.asarray((far & ~same_scores(one, other)).any(axis=1))


def score_measures(one: ScoreTallies, other: ScoreTallies) -> dict[str, RatioOfSums]:
    """Compute the change of ``score.NAME``, ``score.NAME.apart`` and ``score.NAME.missing``.

    The first two are means of Δ and |Δ| over the images that have both scores, so that a score
    which one side lacks makes no mean better. The third is the share of images with one score
    alone, of those with either.
    """
    all_moves, found = moves(one, other), {}
    for at, name in enumerate(one.names):
        own, others = one.defined[:, at], other.defined[:, at]
        both = own & others
        move, count = np.where(both, all_moves[:, at], 0.0), both.astype(np.float64)
        found[f"score.{name}"] = RatioOfSums(move, count)
        found[f"score.{name}.apart"] = RatioOfSums(np.abs(move), count)
        alone, either = own ^ others, own | others
        found[f"score.{name}.missing"] = RatioOfSums(
            alone.astype(np.float64), either.astype(np.float64)
        )
    return found


_Array = npt.NDArray[np.float32]
Kept = tuple[tuple[_Array, ...], ...]
"""The outputs of each image; empty where nothing compares them."""


class AboutScores(Stored):
    """Facts of the scores beside the rows."""

    task: Literal["score"] = "score"
    names: tuple[str, ...]
    output_names: tuple[str, ...]
    tolerance: float
    better: Literal["more", "less"]
    changed_by: str


def write_scores(
    path: Path,
    ids: Sequence[str],
    scores: ScoreTallies,
    kept: Kept,
    whole: npt.NDArray[np.bool_],
    read: npt.NDArray[np.bool_],
    about: AboutScores,
    besides: Mapping[str, FloatArray],
) -> None:
    """Write ``id, score_0, defined_0, …, whole, read``, and ``outputs`` as bytes of float32.

    A score is null where the function gave none.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for at in range(len(scores.names)):
        columns[f"score_{at}"] = pa.array(scores.values[:, at], mask=~scores.defined[:, at])
        columns[f"defined_{at}"] = scores.defined[:, at].astype(np.int8)
    columns |= {"whole": whole.astype(np.int8), "read": read.astype(np.int8)}
    if kept:
        shapes = [json.dumps([each.shape for each in one]).encode() for one in kept]
        columns["outputs"] = pa.array([output_bytes(one) for one in kept], pa.large_binary())
        columns["shapes"] = pa.array(shapes, pa.large_binary())
    write_answers(path, ids, columns, about, besides)


def read_scores(
    path: Path,
) -> tuple[
    tuple[str, ...], ScoreTallies, Kept, npt.NDArray[np.bool_], npt.NDArray[np.bool_], AboutScores
]:
    """Read a file of `write_scores`, without its further columns.

    Raise `DataError` for any other file.
    """
    table, about = read_answers(path, AboutScores)
    values, defined = (
        np.zeros((table.num_rows, len(about.names)), kind) for kind in (np.float64, np.bool_)
    )
    for at in range(len(about.names)):
        values[:, at] = numbers_of(table, f"score_{at}", path)
        defined[:, at] = numbers_of(table, f"defined_{at}", path)
    kept: Kept = ()
    if about.changed_by:
        rows = zip(bytes_of(table, "outputs", path), bytes_of(table, "shapes", path), strict=True)
        kept = tuple(_arrays(*row, path) for row in rows)
    whole, read = (numbers_of(table, name, path).astype(np.bool_) for name in ("whole", "read"))
    tallies = ScoreTallies(about.names, values, defined)
    return ids_of(table, path), tallies, kept, whole, read, about


def output_bytes(outputs: Sequence[_Array]) -> bytes:
    """Return an image's outputs as little-endian float32, one after the other."""
    return b"".join(each.astype("<f4").tobytes() for each in outputs)


def _arrays(data: bytes, shapes: bytes, path: Path) -> tuple[_Array, ...]:
    """Read the outputs of an image."""
    try:
        sides = [tuple(each) for each in parsed_json(shapes)]
        values = np.frombuffer(data, "<f4").astype(np.float32)
        ends = np.cumsum([prod(each) for each in sides])
        # a part that is too short does not take its shape
        parts = np.split(values, ends[:-1])
        return tuple(part.reshape(each) for part, each in zip(parts, sides, strict=True))
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: the outputs of an image cannot be read ({error})") from None


_Marked = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ScoreAnswers(Answers):
    """Scores and small outputs of images; see `alignkit.compare.answers.Answers`."""

    no_logits: ClassVar[str] = "the outputs of an own score are no logits"

    ids: tuple[str, ...]
    scores: ScoreTallies
    kept: Kept
    """The outputs of each image; empty without a function that compares them."""
    output_names: tuple[str, ...]
    whole: _Marked
    """(n,): whether outputs and scores are finite."""
    read: _Marked
    """(n,): whether other outputs would give an image of its batch another score."""
    tolerance: float
    better: Literal["more", "less"]
    changed_by: str
    """``module:function`` that compares two answers; empty if scores are compared."""
    classes: tuple[str, ...] = field(default=(), init=False)
    """Empty: scores have no classes."""
    _changed: WeakKeyDictionary[ScoreAnswers, _Marked] = field(
        default_factory=WeakKeyDictionary, init=False, repr=False
    )

    def __post_init__(self) -> None:
        shape = (len(self.ids), len(self.names))
        if self.scores.values.shape != shape or self.scores.defined.shape != shape:
            raise DataError(f"scores of shape {shape} are expected, not {self.scores.values.shape}")
        if len(self.kept) != (len(self.ids) if self.changed_by else 0):
            raise DataError(f"{len(self.ids)} images with the outputs of {len(self.kept)}")
        super().__post_init__()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the scores, the main one first."""
        return self.scores.names

    @property
    def labelled(self) -> bool:
        """True: the function knows what it needs."""
        return True

    def finite(self) -> _Marked:
        """Tell, (n,), whether outputs and scores of an image are finite."""
        return self.whole

    @property
    def metric_names(self) -> tuple[str, ...]:
        """``score.NAME`` of each name."""
        return tuple(f"score.{name}" for name in self.names)

    def rows(self, indices: Labels) -> ScoreAnswers:
        """Select the images at ``indices``, in that order."""
        scores = self.scores
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            scores=replace(scores, values=scores.values[indices], defined=scores.defined[indices]),
            kept=tuple(self.kept[index] for index in indices) if self.kept else (),
            whole=self.whole[indices],
            read=self.read[indices],
        )

    def unlike(self, other: ScoreAnswers) -> str:
        """Say why both cannot be compared although the ids agree; empty if they can."""
        mine, theirs = (
            (each.names, each.output_names, each.tolerance, each.better, each.changed_by)
            for each in (self, other)
        )
        return "" if mine == theirs else "the two have different scores"

    def tallies(self) -> ScoreTallies:
        """Return the scores."""
        return self.scores

    @classmethod
    def kinds_of(cls, seeds: Sequence[ScoreAnswers]) -> dict[str, Sequence[str] | FloatArray]:
        """Give the first score, averaged over seeds, (n,)."""
        mean: FloatArray = np.mean([each.scores.values[:, 0] for each in seeds], axis=0)
        return {seeds[0].names[0]: mean}

    def undefined(self, metric: str) -> str:
        """Say how many images have no such score, or one that is not finite; empty if none."""
        at = self._columns[metric]
        defined = self.scores.defined[:, at]
        wrong = np.flatnonzero(defined & ~np.isfinite(self.scores.values[:, at]))
        if len(wrong):
            count = f"the scores of {len(wrong)} of {len(self)} images are not finite"
            return f"{count}, first that of {self.ids[wrong[0]]!r}"
        return "" if defined.any() else "no image has this score"

    @cached_property
    def _columns(self) -> dict[str, int]:
        """Map each metric and measure to the column of its score."""
        return {
            f"score.{name}{suffix}": at
            for at, name in enumerate(self.names)
            for suffix in ("", ".apart", ".missing")
        }

    def measures_of(self, other: ScoreAnswers) -> dict[str, RatioOfSums]:
        """Compute what `score_measures` does."""
        return score_measures(self.scores, other.scores)

    def changed(self, other: ScoreAnswers) -> _Marked:
        """Tell, (n,), whether the user's function says so, or a score moved too far."""
        if other not in self._changed:
            by_function = self._changed_by_function(other) if self.changed_by else None
            self._changed[other] = (
                moved_images(self.scores, other.scores, self.tolerance)
                if by_function is None
                else by_function
            )
        return self._changed[other]

    def one_answer(self, other: ScoreAnswers) -> str:
        """Say that all images have the same scores, or none, on both sides; empty if not.

        Or that scores follow from no outputs, or the user's function tells no images apart.
        """
        if self.changed_by:
            return self._blind(other)
        if not (self.read | other.read).any():
            return (
                "the score function gives the same for any outputs; let it rate those it is given"
            )
        tallies = self.scores, other.scores
        if not any(each.defined.any() for each in tallies):
            return "no image has a score on either side"
        rows = np.concatenate([np.where(e.defined, e.values, np.nan) for e in tallies])
        alike = len(self) >= SEVERAL and np.array_equal(
            rows, np.broadcast_to(rows[0], rows.shape), equal_nan=True
        )
        return f"all {len(self)} images have the same scores on both sides" if alike else ""

    def _blind(self, other: ScoreAnswers) -> str:
        """Say that the user's function tells no two images apart; empty if it does."""
        from alignkit.tasks.score.score_function import says_changed

        if len(self) < SEVERAL or self.changed(other).any():
            return ""
        for name, pair in zip(self.ids, pairwise(self.kept), strict=False):
            unlike = output_bytes(pair[0]) != output_bytes(pair[1])
            if unlike and says_changed(self.changed_by, [name], self.output_names, [pair])[0]:
                return ""
        return f"{self.changed_by} says of no two of {len(self)} images that their answers differ"

    def _changed_by_function(self, other: ScoreAnswers) -> _Marked:
        from alignkit.tasks.score.score_function import says_changed

        pairs = list(zip(self.kept, other.kept, strict=True))
        asked = [
            at
            for at, (mine, theirs) in enumerate(pairs)
            if output_bytes(mine) != output_bytes(theirs)
        ]
        found = np.zeros(len(self), np.bool_)
        ids = [self.ids[at] for at in asked]
        chosen = [pairs[at] for at in asked]
        found[asked] = says_changed(self.changed_by, ids, self.output_names, chosen)
        return found

    def differs(self, other: ScoreAnswers) -> _Marked:
        """Tell, (n,), whether any score differs."""
        return np.asarray(~same_scores(self.scores, other.scores).all(axis=1))

    def quality(self) -> FloatArray:
        """Return the first score, (n,), negative if less is better; NaN where there is none."""
        first = self.scores.values[:, 0]
        return first.copy() if self.better == "more" else -first

    def apart(self, other: ScoreAnswers) -> FloatArray:
        """Compute the mean |Δ| over the scores, (n,); NaN where one is not known on both sides."""
        apart: FloatArray = np.abs(moves(self.scores, other.scores)).mean(axis=1)
        return apart

    def said(self, index: int) -> str:
        """List the scores of an image: ``error 3.2, iou 0.81``."""
        values, defined = self.scores.values[index], self.scores.defined[index]
        return ", ".join(
            f"{name} {significant(value, 4)}" if has else f"no {name}"
            for name, value, has in zip(self.names, values, defined, strict=True)
        )

    def to_parquet(self, path: Path, **besides: FloatArray) -> None:
        """Write a row for each image, with its outputs where these are kept."""
        about = AboutScores(
            **{
                name: getattr(self, name)
                for name in ("names", "output_names", "tolerance", "better", "changed_by")
            },
        )
        marks = self.whole, self.read
        write_scores(path, self.ids, self.scores, self.kept, *marks, about, besides)

    @classmethod
    def from_parquet(cls, path: Path) -> ScoreAnswers:
        """Read a file of `to_parquet`, bit for bit; raise `DataError` for any other file."""
        ids, scores, kept, whole, read, about = read_scores(path)
        own = about.tolerance, about.better, about.changed_by
        try:
            return cls(ids, scores, kept, about.output_names, whole, read, *own)
        except DataError as error:
            raise DataError(f"{path}: {error}") from None
