"""Boxes of one image as the JSON values that a page draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from alignkit.tasks.detection.box_pairs import match_boxes
from alignkit.tasks.detection.box_tables import FoundBoxes, TrueBoxes


def drawn_found(
    found: FoundBoxes, names: Sequence[str], score: float, beside: FoundBoxes | None
) -> list[dict[str, Any]]:
    """List the boxes of an image whose score is at least ``score``.

    With those of another answer ``beside`` them each has its ``kind``, and a match its ``shift``.
    """
    counted = np.flatnonzero(found.scores >= score).tolist()
    drawn = {
        box: {
            "corners": found.corners[box].tolist(),
            "class": names[found.classes[box]],
            "score": float(found.scores[box]),
        }
        for box in counted
    }
    if beside is None:
        return list(drawn.values())
    pairs = match_boxes(found, beside, score)
    for box in pairs.lost.tolist():
        drawn[box]["kind"] = "alone"
    matches = zip(pairs.first.tolist(), pairs.second.tolist(), pairs.shifts.tolist(), strict=True)
    for box, other, shift in matches:
        same = found.classes[box] == beside.classes[other]
        drawn[box] |= {"kind": "matched" if same else "class changed", "shift": shift}
    return list(drawn.values())


def drawn_truth(truth: TrueBoxes, names: Sequence[str]) -> list[dict[str, Any]]:
    """List the objects of an image."""
    each = zip(truth.corners.tolist(), truth.classes.tolist(), truth.crowd.tolist(), strict=True)
    return [
        {"corners": corners, "class": names[of_class], **({"kind": "crowd"} if crowd else {})}
        for corners, of_class, crowd in each
    ]
