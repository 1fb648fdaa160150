"""Answers that are no classes, as the page's list has them: their words, and how they changed.

Two answers in the same words may differ, as one box for another, and two in other words may not, as
masks below the task's limit. So the task says which changed, and the page does not compare words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from alignkit.compare.answers import Answers, aligned
from alignkit.record.picture_facts import pack
from alignkit.report.image_order import Both, ImageOrder
from alignkit.task_facts import TaskFacts
from alignkit.text import printable
from alignkit.text.task_words import capital

CHANGE_KINDS = ("", "worse", "better", "neither", "changed")
"""What a change is, by its number in `turned`; the last where the truth is not known."""


def said_answers(order: ImageOrder, read: Mapping[str, Answers], task: TaskFacts) -> dict[str, Any]:
    """Return the words of each image's truth and of each cell's answers, as numbers in one list."""
    words: dict[str, int] = {}
    truth: dict[str, str] = {}
    said = {}
    for key, each in read.items():
        listed_at = [(place, name) for place, name in enumerate(each.ids) if name in order.places]
        truth |= {name: each.truth_said(place) for place, name in listed_at if name not in truth}
        names = tuple(name for _, name in listed_at)
        said[key] = names, _coded(words, [each.said(place) for place, _ in listed_at])
    true = _coded(words, list(truth.values())) if any(truth.values()) else None
    # "no prediction" is a number of classes alone, and the last that a type has means no image
    dtype = np.min_scalar_type(len(words) + 1)
    missing = int(np.iinfo(dtype).max)

    def packed(ids: Sequence[str], numbers: npt.NDArray[Any]) -> dict[str, str]:
        return pack(order.spread(tuple(ids), numbers.astype(dtype), missing))

    listed = "\n".join(printable(each).replace("\n", " ") for each in words)
    return {
        "labels": None if true is None else packed(tuple(truth), true),
        "predictions": {key: packed(*each) for key, each in said.items()},
        "words": pack(np.frombuffer(listed.encode(), np.uint8)),
        "kinds": CHANGE_KINDS,
        # a column without a head is left out
        "heads": {
            "label": "" if true is None else "Truth",
            "before": capital(task.answer),
            "seeds": "Change",
            "margin": "",
        },
    }


def _coded(words: dict[str, int], said: Sequence[str]) -> npt.NDArray[np.int64]:
    return np.array([words.setdefault(each, len(words)) for each in said], np.int64)


def packed_turns(order: ImageOrder, seeds: Sequence[Both]) -> list[dict[str, str]]:
    """Return each seed's `turned` of all images, 0 for those that were not compared."""
    found = []
    for both in seeds:
        turns = np.zeros(len(order.ids), np.uint8)
        if not set(both[0].ids).isdisjoint(both[1].ids):
            before, after = aligned(*both)
            turns = order.spread(before.ids, turned(before, after), 0)
        found.append(pack(turns))
    return found


def turned(before: Answers, after: Answers) -> npt.NDArray[np.uint8]:
    """Tell, (n,), how each image's answer changed: a place in `CHANGE_KINDS`."""
    gain = after.quality() - before.quality()
    kinds = np.select([gain < 0, gain > 0, gain == 0], [1, 2, 3], 4)
    return np.where(before.changed(after), kinds, 0).astype(np.uint8)
