"""What a model predicted of every image, as one compact string of a baseline line.

Ids, labels and predicted classes, zlib in base 85: some 5 bytes an image. Logits are not kept, so
that churn, flips and every ratio can be paired with a later run, and distances of logits cannot.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alignkit.errors import BaselineError
from alignkit.record import Drift, LogitDistance

if TYPE_CHECKING:
    from alignkit.compare.predictions import Predictions

NO_LOGITS = "a baseline keeps classes, not logits"


def pack(predictions: Predictions) -> str:
    """Classes, ids, labels and predicted classes (-1: none)."""
    content = [
        predictions.classes,
        predictions.ids,
        predictions.labels.tolist(),
        predictions.predicted.tolist(),
    ]
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    return base64.b85encode(packed).decode()


def unpack(packed: str) -> Predictions:
    """Predictions whose logits are one-hot, NaN where nothing was predicted.

    Raises `BaselineError` for a string that `pack` did not make.
    """
    import numpy as np

    from alignkit.compare.predictions import Predictions
    from alignkit.errors import DataError

    try:
        classes, ids, labels, predicted = json.loads(zlib.decompress(base64.b85decode(packed)))
        logits = np.zeros((len(ids), len(classes)), np.float32)
        for row, chosen in enumerate(predicted):
            logits[row, slice(None) if chosen < 0 else chosen] = np.nan if chosen < 0 else 1
        return Predictions(tuple(ids), np.asarray(labels, np.int64), logits, tuple(classes))
    except (ValueError, TypeError, IndexError, zlib.error, DataError) as error:
        raise BaselineError(
            f"the predictions of a baseline are damaged ({error}); restore it from version control"
        ) from error


def drift_since(before: Sequence[str], after: Sequence[str]) -> Drift:
    """Drift of packed predictions, one pair a seed; raises as `alignkit.compare.drift`."""
    from alignkit.compare import drift

    sides = [[unpack(each) for each in side] for side in (before, after)]
    found = drift(*sides)
    unknown = LogitDistance(max_abs=None, mean_abs=None, cosine=None, reason=NO_LOGITS)
    return replace(found, logits=unknown)
