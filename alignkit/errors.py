"""Errors that a user can act on. Each is printed without a traceback and has an exit code.

Anything else that is raised is a defect of alignkit and keeps its traceback.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import ClassVar


class ExitCode(IntEnum):
    """The stable meaning of alignkit's exit status; see docs/commands.md."""

    PASS = 0
    DRIFT = 1
    USAGE = 2
    CRASHED = 3
    MISSING = 4
    NOTHING_COMPARED = 5
    BASELINE = 6
    INCONCLUSIVE = 7
    INTERRUPTED = 130
    """By SIGINT, as Ctrl-C sends it."""
    TERMINATED = 143
    """By SIGTERM, as ``kill``, a container's stop or a batch system sends it."""


GRAVITY = (
    ExitCode.PASS,
    ExitCode.INCONCLUSIVE,
    ExitCode.DRIFT,
    ExitCode.BASELINE,
    ExitCode.NOTHING_COMPARED,
    ExitCode.USAGE,
    ExitCode.MISSING,
    ExitCode.CRASHED,
    ExitCode.INTERRUPTED,
    ExitCode.TERMINATED,
)
"""From best to worst. A missing measurement is worse than any finding: of several experiments, one
that drifted must not hide one that did not run."""


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """Return the most severe of several exit codes; `ExitCode.PASS` if there is none.

    >>> worst([ExitCode.DRIFT, ExitCode.USAGE, ExitCode.PASS]).name
    'USAGE'
    """
    return max(codes, key=GRAVITY.index, default=ExitCode.PASS)


class Terminated(KeyboardInterrupt):
    """An interruption by SIGTERM, which ends a command in the same way as Ctrl-C."""


def interruption_code(error: KeyboardInterrupt) -> ExitCode:
    """Return the exit code of an interruption, 128 plus the number of its signal."""
    return ExitCode.TERMINATED if isinstance(error, Terminated) else ExitCode.INTERRUPTED


_USER = re.compile(r"(?<=:/)(/*)[^/\s@]*:[^/\s@]*@")
_QUERY = re.compile(r"(?<=:/)([^\s?'\"]+)\?[^\s'\",})>]+")


def without_credentials(text: str) -> str:
    """Return a text without the passwords and queries of the URLs in it.

    >>> without_credentials("s3://me:open-sesame@box/a and https://host/a?sig=abc")
    's3://…@box/a and https://host/a?…'
    """
    return _QUERY.sub(r"\1?…", _USER.sub(r"\1…@", text))


SECRET_NAME = re.compile(
    r"SECRET|TOKEN|PASS|CREDENTIAL|KEY$|KEY_ID|SAS|AUTH(?!OR(?!I)|_SOCK)|COOKIE|HEADER|BEARER|[^D]PWD",
    re.IGNORECASE,
)
"""Names of variables and fields whose values are secrets; ``OLDPWD`` is none."""
_HIDDEN = re.compile(rf"\bstorage\b|\bx-\w|{SECRET_NAME.pattern}", re.IGNORECASE)
"""Names of YAML after which nothing is shown: also options of a store, and headers."""
_NAMED = re.compile(r"([\w.-]+)[\"']?\s*[:=]\s*(?=\S)")


def without_secrets(line: str) -> str:
    """Return a line of a file, or an override, without what follows a name that may be a secret's.

    >>> without_secrets("data: {root: a, storage: {headers: {Cookie: open-sesame}}}")
    'data: {root: a, storage: …'
    """
    shown = without_credentials(line)
    ends = (each.end() for each in _NAMED.finditer(shown) if _HIDDEN.search(each[1]))
    end = next(ends, None)
    return shown if end is None else f"{shown[:end]}…"


class AlignkitError(Exception):
    """Error whose message tells the user the next step."""

    exit_code: ClassVar[ExitCode] = ExitCode.USAGE
    shared: bool = False
    """Whether every process of a torchrun group raises it; `alignkit.rank.shared` sets it."""


# each class says what the user has to change; those that name no exit code have `USAGE`


class ConfigError(AlignkitError):
    """The experiment file, an override or an option is wrong."""


class DataError(AlignkitError):
    """Images or labels that cannot be used as they are."""


class UnreadableImage(DataError):  # noqa: N818 - the field's word
    """An image file that cannot be read: one failed image, where images are reported one by one."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"cannot read {path}: {reason}")
        self.path = path
        self.reason = reason
        """Without the path."""

    def __reduce__(self) -> tuple[type[UnreadableImage], tuple[Path, str]]:
        """Survive pickle, which would give the message as the only argument."""
        return type(self), (self.path, self.reason)


class ChangedImage(UnreadableImage):
    """An image file that changed after the fingerprint of the data was taken."""


class WorkspaceError(AlignkitError):
    """A file of a run cannot be written or is in use by another run."""

    exit_code = ExitCode.CRASHED


class RecordError(AlignkitError):
    """A stored record is missing, damaged or newer than this alignkit."""


class DamagedRecord(RecordError):  # noqa: N818 - a kind of the above
    """A stored document, or a file that it names, is not as alignkit wrote it."""

    def __init__(self, damage: str, again: str = "make it again") -> None:
        super().__init__(f"{damage}; {again}")
        self.damage = damage
        """The file and what is wrong with it, without the next step."""


class BaselineError(AlignkitError):
    """A baseline is missing, damaged, newer than this alignkit or of another environment."""

    exit_code = ExitCode.BASELINE


class NotComparable(AlignkitError):  # noqa: N818 - the field's word
    """Two runs whose classes, images or environments are not the same."""

    exit_code = ExitCode.BASELINE


class MissingDependency(AlignkitError):  # noqa: N818 - the field's word, used in the design
    """A library, decoder, backend or GPU is not on this machine."""

    exit_code = ExitCode.MISSING


class NothingCompared(AlignkitError):  # noqa: N818
    """No image or no cell was left to compare."""

    exit_code = ExitCode.NOTHING_COMPARED


class TrainingError(AlignkitError):
    """A training gave no usable model."""

    exit_code = ExitCode.CRASHED


class RankError(AlignkitError):
    """Another process of a torchrun group ended, or they cannot go on together."""

    exit_code = ExitCode.CRASHED


class WorkerError(AlignkitError):
    """A process that reads images for a `MixedLoader` ended."""

    exit_code = ExitCode.CRASHED


class BackendError(AlignkitError):
    """A runtime could not load or run a model exactly as it was asked to."""

    exit_code = ExitCode.CRASHED


class EngineError(BackendError):
    """Workers of an engine that are gone, so that no lot can be worked on."""


class EngineMissing(EngineError, MissingDependency):  # noqa: N818 - as its second base
    """An engine that cannot start or be reached, or a worker unlike this process."""

    exit_code = ExitCode.MISSING


class ConfigWarning(UserWarning):
    """A setting that had no effect or that the user should confirm; shown on stderr."""


STUCK = "alignkit-stuck"
"""Name of a thread in a library that may not return: a command ends without waiting for it."""
DEFECT = "This is a bug in alignkit, not in your experiment; please report it with the above."
