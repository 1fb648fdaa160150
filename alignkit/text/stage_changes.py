"""The options in which a stage of two paths differs, in words: the cause of what changes there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from alignkit.preprocess.stages import HALF, ROUNDINGS, UNNAMED_ROUNDING
from alignkit.record import PathFacts, StageFacts
from alignkit.text.numbers import listed

_OF_LIBRARIES = ("decode", "resize")
"""Stages with many options; the others are short in full."""


def option_changes(before: Any, after: Any) -> list[str]:
    """List the options of a stage that differ, as in ``resizer.antialias: False → True``.

    >>> option_changes({"resizer": {"filter": "box"}}, {"resizer": {"filter": "bicubic"}})
    ['resizer.filter: box → bicubic']
    >>> option_changes({"auto": True}, {})
    ['auto: True → False']
    >>> letterbox = {"fit": "letterbox", "rounding": "down"}
    >>> option_changes(letterbox, {"fit": "letterbox", "rounding": "floor", "half": "up"})
    ['half: down → up', 'rounding: even → floor']
    """
    one, other = _flat(before), _flat(after)
    default = ROUNDINGS.get(one.get("fit", ""))
    if default and one["fit"] == other.get("fit"):
        older = ("rounding", UNNAMED_ROUNDING)
        one, other = (
            {name: default if (name, value) == older else value for name, value in side.items()}
            for side in (one, other)
        )
    return [
        f"{name}: {one.get(name, absent)} → {other.get(name, absent)}"
        for name in sorted(one.keys() | other.keys())
        # a flag that an identity leaves out is not set
        for flag in ["False" if "True" in (one.get(name), other.get(name)) else "none"]
        for absent in [HALF if name == "half" else flag]
        if one.get(name, absent) != other.get(name, absent)
    ]


def unshown(stages: Sequence[str]) -> str:
    """Say that options differ and images do not show it; empty without a stage.

    Images that have the size of the result already show no resize, and grey ones no order of
    channels: equal pixels of such images say nothing of others.

    >>> unshown(["decode", "resize"])
    'the options of decode and resize differ, and no pixel of these images shows it'
    """
    if not stages:
        return ""
    return f"the options of {listed(list(stages))} differ, and no pixel of these images shows it"


def stage_change(reference: PathFacts, candidate: PathFacts, stage: str) -> str:
    """Describe a stage, reference → candidate; empty if it has the same options on both paths.

    Of one library only the options that differ are named; two are named with all of theirs.
    """
    one, other = (_stage(path, stage) for path in (reference, candidate))
    if one is None or other is None or one.options == other.options:
        return ""
    if stage in _OF_LIBRARIES and _implementations(one.options) == _implementations(other.options):
        return "; ".join(option_changes(one.options, other.options))
    return " → ".join(_without_same_end(one.label, other.label))


def _without_same_end(one: str, other: str) -> tuple[str, str]:
    """Leave out the last words that two labels share, such as the size of a resize.

    >>> _without_same_end("Pillow filter=box 224x224", "Torch mode=bilinear 224x224")
    ('Pillow filter=box', 'Torch mode=bilinear')
    """
    left, right = one.split(), other.split()
    while len(left) > 1 and len(right) > 1 and left[-1] == right[-1]:
        left.pop()
        right.pop()
    return " ".join(left), " ".join(right)


def _stage(path: PathFacts, name: str) -> StageFacts | None:
    return next((each for each in path.stages if each.stage == name), None)


def _implementations(options: Mapping[str, Any]) -> list[str]:
    """Name the classes of a stage and of the plugins in it."""
    inner = [_implementations(each) for each in options.values() if isinstance(each, Mapping)]
    return [str(options.get("stage", "")), *(name for names in inner for name in names)]


def _flat(options: Any, prefix: str = "") -> dict[str, str]:
    """Name nested options by their path, as in ``resizer.antialias``."""
    if not isinstance(options, dict):
        return {prefix.rstrip("."): "none" if options is None else str(options)}
    flat: dict[str, str] = {}
    for name, value in options.items():
        flat |= _flat(value, f"{prefix}{name}.")
    return flat
