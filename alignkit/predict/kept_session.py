"""`GivenSession`: a user's model, opened once in each process of an engine that predicts with it.

It has the driver's number of threads, and its files, runtime and processor, or there is none: other
ones give other bits.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from alignkit.errors import EngineMissing
from alignkit.plugins import name_of
from alignkit.predict.given_model import Opened, open_given
from alignkit.preprocess import stage_identity
from alignkit.tasks import TASKS
from alignkit.torch_settings import available_threads, threads_of
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from alignkit.backends import Session
    from alignkit.models.user_model import UserModel
    from alignkit.tasks import Outputs

_opening = threading.Lock()
_KEPT: dict[tuple[int, str], tuple[Opened, ExitStack]] = {}
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
        with _opening:
            place = os.getpid(), self.key
            if place not in _KEPT:
                for other in [each for each in _KEPT if each[0] == place[0]]:
                    _KEPT.pop(other)[1].close()
                stack = ExitStack()
                with threads_of(self.threads):
                    opened = stack.enter_context(self._open())
                atexit.register(_closed, place)
                _KEPT[place] = opened, stack
            return _KEPT[place][0]

    @contextmanager
    def _open(self) -> Iterator[Opened]:
        # a copy, as the driver has computed and sent what its own file holds
        model = replace(self.model)
        with open_given(model, self.size) as found:
            own = _facts(model, self.size, found)
            if name := next((each for each in self.facts if self.facts[each] != own[each]), None):
                raise EngineMissing(
                    f"{model.name}: a worker has another {name} ({own[name]}) than this process "
                    f"({self.facts[name]}); give both the same"
                )
            yield replace(found, session=_Locked(found.session, threading.Lock()))


@contextmanager
def kept_session(model: UserModel, size: tuple[int, int]) -> Iterator[tuple[GivenSession, Opened]]:
    """Open a model in the driver, whose local engine uses it; raise as `open_given` does."""
    with ExitStack() as stack:
        found = stack.enter_context(open_given(model, size))
        opened = replace(found, session=_Locked(found.session, threading.Lock()))
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


@dataclass(frozen=True, slots=True, eq=False)
class _Locked:
    """A session that threads may share: those of torch and OpenVINO are not safe in them."""

    session: Session
    lock: threading.Lock

    def predict(self, inputs: Any, /) -> Outputs:
        with self.lock:
            return self.session.predict(inputs)

    def effective(self) -> dict[str, str]:
        return self.session.effective()

    def close(self) -> None:
        self.session.close()
