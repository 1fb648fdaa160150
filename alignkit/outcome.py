"""A unit of work: `PlannedWork` before it is done, its outcome as a value after."""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

from alignkit.errors import AlignkitError, EngineError, RankError, WorkspaceError
from alignkit.extras import missing_dependency
from alignkit.workspace import WorkKind, content_key

_T = TypeVar("_T")


class PlannedWork(ABC):
    """A unit of work before it is done, known by everything that its result depends on."""

    __slots__ = ()
    kind: ClassVar[WorkKind]

    @property
    @abstractmethod
    def parts(self) -> dict[str, Any]:
        """Everything that the result depends on."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The work in words, the same whatever the options are."""

    @property
    @abstractmethod
    def skipped(self) -> str:
        """The reason why it cannot be done here; empty if it can."""

    @property
    def key(self) -> str:
        """Content hash of ``parts``."""
        return content_key(self.parts)

    @property
    def live(self) -> bool:
        """Whether its result may differ tomorrow, so that every run does it."""
        return False


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

    Raise `WorkspaceError`, `RankError` and `EngineError`: when nothing can be stored, or another
    process of the group or an engine has ended, no other cell can succeed.
    """
    try:
        return Measured(work())
    # before `AlignkitError`, of which all are kinds
    except (WorkspaceError, RankError, EngineError):
        raise
    except AlignkitError as error:
        # no traceback: its message is written for the user
        return Failed(str(error), "")
    except Exception as error:  # noqa: BLE001 - whatever a runtime raises belongs to its cell
        if isinstance(error, ModuleNotFoundError) and (missing := missing_dependency(error)):
            return Failed(str(missing), "")
        return Failed(f"{type(error).__name__}: {error}", traceback.format_exc())
