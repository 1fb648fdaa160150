"""The names of a matrix row, what its models were trained with besides the seed, and of a cell."""

from __future__ import annotations

from collections.abc import Sequence

FULL = 1.0


def row_name(paths: Sequence[str], fraction: float = FULL, model: str = "") -> str:
    """The path; with what sets the row apart in brackets.

    >>> row_name(["opencv"], 0.05)
    'opencv (5 %)'
    >>> row_name(["opencv", "pillow"])
    'opencv+pillow (mix)'
    >>> row_name(["opencv"], model="mine")
    'opencv (model mine)'
    """
    notes = ["mix"] if len(paths) > 1 else []
    if model:
        notes.append(f"model {model}")
    if fraction != FULL:
        notes.append(f"{100 * fraction:g} %")
    return "+".join(paths) + (f" ({', '.join(notes)})" if notes else "")


def cell_name(trained_with: str, evaluated_with: str, backend: str, precision: str) -> str:
    """A place in the matrix, on the command line and in the report.

    >>> cell_name("opencv (5 %)", "pillow", "torch", "bf16")
    'opencv (5 %)/pillow/torch/bf16'
    """
    return f"{trained_with}/{evaluated_with}/{backend}/{precision}"


def is_row_of(row: str, path: str) -> bool:
    """Whether a row's models were trained with this path alone, on all images.

    >>> is_row_of("opencv (model mine)", "opencv"), is_row_of("opencv (5 %)", "opencv")
    (True, False)
    """
    return row == path or row.startswith(f"{path} (model ")


def paths_of(row: str) -> tuple[str, ...]:
    """The paths in a row's name; a path's own name holds neither ``+`` nor a bracket.

    >>> paths_of("opencv+pillow (mix, 5 %)")
    ('opencv', 'pillow')
    """
    return tuple(row.partition(" (")[0].split("+"))
