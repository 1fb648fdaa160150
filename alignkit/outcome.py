"""Outcome of one unit of work as a value: `Measured`, `Skipped` or `Failed`."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from alignkit.errors import AlignkitError, RankError, WorkspaceError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Measured(Generic[_T]):
    """Work that ran, with its result."""

    value: _T


@dataclass(frozen=True, slots=True)
class Skipped:
    """Work that cannot run on this machine."""

    reason: str


@dataclass(frozen=True, slots=True)
class Failed:
    """Work that was started and ended in an error."""

    message: str
    traceback: str


Outcome: TypeAlias = Measured[_T] | Skipped | Failed


def capture(work: Callable[[], _T]) -> Measured[_T] | Failed:
    """Run ``work`` and return its value, or the error that ended it.

    Raise `WorkspaceError` and `RankError`: when nothing can be stored, or another process of the
    group has ended, no other cell can succeed.
    """
    try:
        return Measured(work())
    except (WorkspaceError, RankError):
        raise
    except AlignkitError as error:
        return Failed(str(error), "")
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises belongs to its cell
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
