"""Commands that repeat a part of a run: a cell, or the comparison of an image."""

from __future__ import annotations

import shlex
from itertools import pairwise

from alignkit.record.stored import Placed

_DROPPED = ("--cell", "--out", "--only")
"""Options of a command, each with its value, that no other command takes over."""


def pair_name(reference: str, candidate: str) -> str:
    """Return the name of a pair of paths in a link."""
    return f"{reference}>{candidate}"


def cell_option(cell: Placed) -> str:
    """``--cell opencv/pillow/torch/bf16``, as a shell takes it."""
    return shlex.join(["--cell", str(cell.place)])


def cell_command(command: str, cell: Placed) -> str:
    """Return the shell line that runs one cell and the one it is compared with.

    Empty if ``command`` is not that of a run.
    """
    words = shlex.split(command)
    if words[:2] != ["alignkit", "run"]:  # a gate has no --cell
        return ""
    return f"{shlex.join(of_the_whole(words))} {cell_option(cell)}"


def image_command(command: str, reference: str, candidate: str, image: str = "") -> str:
    """Return the shell line that compares two paths, stage by stage, on one image.

    ``command`` is that of the run, gate or diff that showed it; empty if it was another. Without
    an ``image`` the line ends where its name is to stand.
    """
    words = shlex.split(command)
    if words[:2] == ["alignkit", "diff"]:
        line = of_the_whole(words)
    elif words[:1] == ["alignkit"] and words[1] in ("run", "gate"):
        overrides = [word for pair in pairwise(words) if pair[0] == "--set" for word in pair]
        line = ["alignkit", "diff", "--config", words[2], *overrides]
        line += ["--preprocess", reference, "--preprocess", candidate]
    else:
        return ""
    # quoted by itself: the page's script appends the name of an image to a line that has none
    return f"{shlex.join([*line, '--only'])} {shlex.quote(image) if image else ''}"


def of_the_whole(words: list[str]) -> list[str]:
    """Drop the options that narrow or place a command, whether their values are apart or not."""
    kept = []
    following = iter(words)
    for word in following:
        if word in _DROPPED:
            next(following)
        elif not word.startswith(tuple(f"{option}=" for option in _DROPPED)):
            kept.append(word)
    return kept
