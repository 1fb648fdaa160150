"""Sessions in the workers of an engine: opened once in each process that predicts lots with them.

They have the driver's number of threads, and its files, runtime and processor, or there are none:
other ones give other bits.
"""

from __future__ import annotations

import atexit
import os
import platform
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager as ContextManager
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from alignkit.errors import EngineMissing
from alignkit.lots import unseen_folder
from alignkit.plugins import name_of
from alignkit.predict.given_model import Opened, open_given
from alignkit.preprocess import stage_identity
from alignkit.stored_file import file_sha256
from alignkit.tasks import TASKS
from alignkit.torch_settings import available_threads, threads_of
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.models.user_model import UserModel
    from alignkit.plan.planned_runtime import Runtime
    from alignkit.tasks import Outputs

_Session = TypeVar("_Session")
_opening = threading.Lock()
_KEPT: dict[tuple[int, str], tuple[Any, ExitStack]] = {}
"""By process, as a forked one must not use its parent's runtime, and by the key of its facts."""


@dataclass(frozen=True, slots=True)
class GivenSession:
    """A model, its input and the facts of its session; can be pickled."""

    model: UserModel
    size: tuple[int, int]
    """(height, width) of the input."""
    facts: Mapping[str, Any]
    """Everything that the answers depend on besides the tensors and the batches, as JSON."""
    threads: int

    @property
    def key(self) -> str:
        """The content hash of `facts`."""
        return content_key(dict(self.facts))

    def opened(self) -> Opened:
        """Return this process's session, which stays open until the process ends or needs another.

        Raises `EngineMissing` if this process has another file or runtime than the driver.
        """
        # a copy of the model, as the driver has computed and sent what its own file holds
        return _kept(self.key, self.threads, partial(self._open, replace(self.model)))

    @contextmanager
    def _open(self, model: UserModel) -> Iterator[Opened]:
        with open_given(model, self.size) as found:
            _require_equal(model.name, self.facts, _facts(model, self.size, found))
            yield replace(found, session=locked(found.session))


@dataclass(frozen=True, slots=True)
class TravellingSession:
    """A model of a run in one runtime, as it travels to a worker."""

    runtime: Runtime
    checkpoint: Checkpoint
    file: Path | None
    """Exported file, or the folder of an engine; ``None`` for a backend that needs none."""
    facts: Mapping[str, Any]
    threads: int

    @classmethod
    def of(cls, runtime: Runtime, checkpoint: Checkpoint, file: Path | None) -> TravellingSession:
        """Return it with the facts of this process; paths are absolute."""
        checkpoint = replace(
            checkpoint,
            weights=checkpoint.weights.resolve(),
            onnx=checkpoint.onnx and checkpoint.onnx.resolve(),
        )
        file = file and file.resolve()
        facts = _cell_facts(runtime, checkpoint, file)
        return cls(runtime, checkpoint, file, facts, available_threads())

    def opened(self) -> Session:
        """Return this process's session, as `GivenSession.opened` does."""
        return _kept(content_key(dict(self.facts)), self.threads, self._open)

    @contextmanager
    def _open(self) -> Iterator[Session]:
        from alignkit.predict import open_session

        for path in filter(None, (self.checkpoint.weights, self.file)):
            if not path.exists():
                raise unseen_folder(path.parent, "--reports", f"the worker on {platform.node()}")
        own = _cell_facts(self.runtime, self.checkpoint, self.file)
        _require_equal(self.runtime.name, self.facts, own)
        with open_session(self.runtime, self.checkpoint, self.file) as session:
            yield locked(session)


def _kept(key: str, threads: int, open_it: Callable[[], ContextManager[_Session]]) -> _Session:
    """Return what this process keeps open under a key, or open it and close another one."""
    with _opening:
        place = os.getpid(), key
        if place not in _KEPT:
            for other in [each for each in _KEPT if each[0] == place[0]]:
                _KEPT.pop(other)[1].close()
            stack = ExitStack()
            with threads_of(threads):
                value = stack.enter_context(open_it())
            atexit.register(_closed, place)
            _KEPT[place] = value, stack
        found: _Session = _KEPT[place][0]
        return found


def _require_equal(model: str, facts: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    if differing := [name for name in facts if facts[name] != own[name]]:
        name = differing[0]
        raise EngineMissing(
            f"{model}: a worker has another {name} ({own[name]}) than this process "
            f"({facts[name]}); give both the same"
        )


@contextmanager
def kept_session(model: UserModel, size: tuple[int, int]) -> Iterator[tuple[GivenSession, Opened]]:
    """Open a model in the driver, whose local engine uses it; raise as `open_given` does."""
    with ExitStack() as stack:
        found = stack.enter_context(open_given(model, size))
        opened = replace(found, session=locked(found.session))
        given = GivenSession(model, size, _facts(model, size, opened), available_threads())
        place = os.getpid(), given.key
        _KEPT[place] = opened, stack
        try:
            yield given, opened
        finally:
            # another thread may have opened the same model
            _KEPT.pop(place, None)


def _facts(model: UserModel, size: tuple[int, int], opened: Opened) -> dict[str, Any]:
    task = TASKS.find(name_of(model.task, TASKS)).version()
    return {
        "model": model.parts,
        "size": list(size),
        **opened.parts,
        "threads": available_threads(),
        "task": [stage_identity(model.task), task],
        "outputs": [len(opened.outputs), content_key({"names": opened.outputs})],
    }


def _closed(place: tuple[int, str]) -> None:
    # a forked process inherits this call
    if os.getpid() == place[0] and place in _KEPT:
        _KEPT.pop(place)[1].close()


def _cell_facts(runtime: Runtime, checkpoint: Checkpoint, file: Path | None) -> dict[str, Any]:
    files = {"weights": checkpoint.weights, "graph": file}
    return {
        "version": runtime.backend.version(),
        **runtime.parts,
        "threads": available_threads(),
        "training": checkpoint.key,
        **{name: _sha256s(path) for name, path in files.items() if path},
    }


def _sha256s(path: Path) -> list[str]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return [file_sha256(each) for each in files]


def locked(session: Session) -> Session:
    """Return a session that threads may share: those of torch and OpenVINO are not safe in them."""
    return _Locked(session, threading.Lock())


@dataclass(frozen=True, slots=True, eq=False)
class _Locked:
    session: Session
    lock: threading.Lock

    def predict(self, inputs: Any, /) -> Outputs:
        with self.lock:
            return self.session.predict(inputs)

    def effective(self) -> dict[str, str]:
        return self.session.effective()

    def close(self) -> None:
        self.session.close()
