"""Answers of an endpoint → logits, if they are what the experiment declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.arrays import Logits

_SUM_TOLERANCE = 1e-3
"""Greatest distance of a sum of float16 probabilities from 1."""
_ROWS, _APART = 4, 0.1
"""Answers, and how far apart they are, from which sums of 1 are no accident of logits."""


@dataclass(slots=True)
class AnswerReader:
    """The reading of a session's answers: one that shows the kind decides for those that follow."""

    declared: str
    """``logits``, ``probabilities``, or ``auto``: logits that do not look like probabilities."""
    _logits: bool = False
    """Whether an answer was no probabilities."""

    @property
    def kind(self) -> str:
        """The kind that answers are taken for."""
        return "logits" if self.declared == "auto" else self.declared

    def logits_of(self, answers: Logits) -> Logits:
        """Return logits unchanged and the logarithm of probabilities.

        Rows without a negative value that add up to 1 look like probabilities; so may logits of
        near-equal images. Raise `BackendError` if the answers are not of the declared kind.
        """
        likely = bool((answers >= 0).all() and (abs(answers.sum(1) - 1) < _SUM_TOLERANCE).all())
        self._logits = self._logits or not likely
        if self.declared == "probabilities":
            if not likely:
                raise BackendError(
                    "the endpoint's answers are no probabilities: set 'answers: logits'"
                )
            # a probability of 0 would have no logarithm
            return np.log(np.maximum(answers, np.finfo(np.float32).tiny))
        sure = len(answers) >= _ROWS and np.ptp(answers, axis=0).max() > _APART
        if likely and not self._logits and (sure or self.declared == "auto"):
            raise BackendError(
                "the endpoint's answers look like probabilities: set 'answers: probabilities'"
                + ", or 'answers: logits' if they are such" * (not sure)
            )
        return answers
