"""Answers of an endpoint → logits, if they are what the experiment declares."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.arrays import Logits

_SUM_TOLERANCE = 1e-3
"""Greatest distance of a sum of float16 probabilities from 1."""


def logits_of(answers: Logits, declared: str) -> Logits:
    """Return logits unchanged and the logarithm of probabilities.

    Rows without a negative value that add up to 1 count as probabilities. Raises `BackendError` if
    the answers are not of the ``declared`` kind, ``logits`` or ``probabilities``.
    """
    likely = bool((answers >= 0).all() and (abs(answers.sum(1) - 1) < _SUM_TOLERANCE).all())
    if likely != (declared == "probabilities"):
        verb, meant = ("look like", "probabilities") if likely else ("are no", "logits")
        raise BackendError(f"the endpoint's answers {verb} probabilities: set 'answers: {meant}'")
    # a probability of 0 would have no logarithm
    return np.log(np.maximum(answers, np.finfo(np.float32).tiny)) if likely else answers
