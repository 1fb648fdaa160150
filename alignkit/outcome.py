"""How one piece of a run ended: a cell that failed or could not run is a value, not a hole."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from alignkit.errors import AlignkitError, RankError, WorkspaceError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured(Generic[T]):
    """It ran, and this is what it gave."""

    value: T


@dataclass(frozen=True, slots=True)
class Skipped:
    """It cannot run on this machine."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """It was started and ended in an error."""

    message: str
    traceback: str


Ended: TypeAlias = Measured[T] | Skipped | Failed


def attempt(work: Callable[[], T]) -> Measured[T] | Failed:
    """Do ``work`` and give its value, or the error it ended in.

    A `WorkspaceError` and a `RankError` are raised on: when nothing can be stored, or another
    process of the group is gone, no other cell can end better.
    """
    try:
        return Measured(work())
    except (WorkspaceError, RankError):
        raise
    except AlignkitError as error:
        return Failed(str(error), "")
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises belongs to its cell
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
