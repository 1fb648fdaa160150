"""The commands that repeat a part of what a page shows: one cell, one image."""

from __future__ import annotations

import shlex
from itertools import pairwise

from alignkit.record.stored import Placed

RUNS = ("run", "gate")
DROPPED = ("--cell", "--out", "--only")
"""Options of the whole, each with its value, that a part of it does not take over."""


def cell_option(cell: Placed) -> str:
    """``--cell opencv/pillow/torch/bf16``, as a shell takes it."""
    return shlex.join(["--cell", str(cell.place)])


def cell_command(command: str, cell: Placed) -> str:
    """The shell line that runs one cell and what it is compared with.

    Empty if ``command`` is not that of a run.
    """
    words = shlex.split(command)
    if words[:2] != ["alignkit", "run"]:
        return ""
    return f"{shlex.join(_without(words, DROPPED))} {cell_option(cell)}"


def image_command(command: str, reference: str, candidate: str, image: str = "") -> str:
    """The shell line that compares two paths, stage by stage, on one image.

    ``command`` is that of the run, gate or diff that showed it; empty if it was another. Without
    an ``image`` the line ends where its name is to stand.
    """
    words = shlex.split(command)
    if words[:2] == ["alignkit", "diff"]:
        line = _without(words, DROPPED)
    elif words[:1] == ["alignkit"] and words[1] in RUNS:
        line = ["alignkit", "diff", "--config", words[2], *_overrides(words)]
        line += ["--preprocess", reference, "--preprocess", candidate]
    else:
        return ""
    return f"{shlex.join([*line, '--only'])} {shlex.quote(image) if image else ''}"


def _overrides(words: list[str]) -> list[str]:
    return [word for pair in pairwise(words) if pair[0] == "--set" for word in pair]


def _without(words: list[str], options: tuple[str, ...]) -> list[str]:
    kept = []
    following = iter(words)
    for word in following:
        if word in options:
            next(following)
        elif not word.startswith(tuple(f"{option}=" for option in options)):
            kept.append(word)
    return kept
