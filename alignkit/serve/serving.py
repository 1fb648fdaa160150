"""A serving option as its own process has it: bytes of an image → decode ▸ resize ▸ wait ▸ run.

The model is loaded once and answers one request at a time, in the order of their arrival, as a
server's single instance does: clients decode side by side, and wait for it. An endpoint gets the
requests side by side.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

from alignkit.backends import EncodedFiles
from alignkit.errors import DataError
from alignkit.predict import open_session
from alignkit.preprocess import Taps
from alignkit.preprocess.image_header import decode
from alignkit.record.bench_facts import ServedStage
from alignkit.serve.closed_loop import closed_loop

if TYPE_CHECKING:
    import numpy.typing as npt

    from alignkit.backends import Session
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan.work import Runtime
    from alignkit.preprocess import Preprocess

STAGES_SERVED: tuple[ServedStage, ...] = get_args(ServedStage)
COLUMNS = ("client", "begin_ns", *(f"{each}_ns" for each in STAGES_SERVED))
"""Columns of `LoopTimes.requests`."""


@dataclass(frozen=True, slots=True)
class Serving:
    """All that an option's process needs; it can be pickled."""

    preprocess: Preprocess
    runtime: Runtime
    checkpoint: Checkpoint
    file: Path | None
    """Of `alignkit.predict.model_file`."""
    images: Sequence[bytes]
    """Encoded; requests take them in turn."""
    batch: int
    """Images of a request."""


class LoopTimes(NamedTuple):
    """One round as it was timed."""

    seconds: float
    cpu_seconds: float
    """Of this process, all its threads."""
    requests: npt.NDArray[Any]
    """(requests, 6) int64, see `COLUMNS`; begins are those of `time.perf_counter_ns`."""

    def throughput(self) -> float:
        """Compute the requests a second while every client has one under way.

        That ends with the last answer of the client that first finds no request left; the others
        are then about to drain. Of a request still under way counts the share that lies before.
        """
        import numpy as np

        clients, begin = self.requests[:, 0], self.requests[:, 1]
        taken = self.requests[:, 2:].sum(axis=1)
        end = min((begin + taken)[clients == each].max() for each in np.unique(clients))
        before = np.minimum(begin + taken, end) - np.minimum(begin, end)
        return float((before / taken).sum() / (end - begin.min()) * 1e9)


# One instance behind a queue, as sessions of OpenVINO and torch are not safe in threads; the wait
# for it is a stage of its own.
class Server:
    """An open session that answers requests."""

    def __init__(self, serving: Serving, opened: ExitStack) -> None:
        """Open the session; ``opened`` closes it. Raises as `open_session` does."""
        runtime = serving.runtime
        session = open_session(runtime, serving.checkpoint, serving.file)
        self._session: Session = opened.enter_context(session)
        self._serving = serving
        self._line: SimpleQueue[_Waiting] | None = None if runtime.backend.live else SimpleQueue()
        if self._line is not None:
            threading.Thread(target=self._instance, name="instance", daemon=True).start()

    def effective(self) -> dict[str, str]:
        """Return what the session says of itself."""
        return self._session.effective()

    def round(
        self, clients: int, requests: int, first: int, *, alive: Callable[[], object] = lambda: None
    ) -> LoopTimes:
        """Answer ``requests`` of so many clients, of the images from number ``first`` on.

        ``alive`` is that of `closed_loop`.
        """
        import numpy as np

        used = time.process_time()
        batch, images = self._serving.batch, len(self._serving.images)

        def answer(request: int) -> tuple[int, ...]:
            begin = (first + request) * batch
            return self.answer([each % images for each in range(begin, begin + batch)])

        ended = closed_loop(answer, clients=clients, requests=requests, alive=alive)
        used = time.process_time() - used
        rows = [(client, *each) for client, each in zip(ended.clients, ended.answers, strict=True)]
        return LoopTimes(ended.seconds, used, np.array(rows, np.int64))

    def answer(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Answer a request of these images; return its begin and each stage's nanoseconds."""
        clock = time.perf_counter_ns
        serving = self._serving
        encoded = [serving.images[number] for number in numbers]
        begun = decoded = resized = clock()
        inputs: Any
        if serving.runtime.backend.own_path:
            inputs = EncodedFiles(encoded, serving.preprocess.normalise)
        else:
            path = serving.preprocess
            images = [Taps(decode(path.decode, each, path.max_pixels)) for each in encoded]
            decoded = clock()
            inputs = _tensors(path, encoded, images)
            resized = clock()
        if self._line is None:
            free = clock()
            self._session.predict(inputs)
        else:
            waiting = _Waiting(inputs)
            self._line.put(waiting)
            free = waiting.begun()
        return begun, decoded - begun, resized - decoded, free - resized, clock() - free

    def _instance(self) -> None:
        """Run the requests that wait, the first one first."""
        while self._line is not None:
            self._line.get().run(self._session)


class _Waiting:
    """A request in the line of the model's only instance.

    A lock would not keep the order: a client that comes late may overtake those that wait for it.
    """

    def __init__(self, inputs: Any) -> None:
        self._inputs = inputs
        self._done = threading.Event()
        self._begun = 0
        self._fault: BaseException | None = None

    def run(self, session: Session) -> None:
        """Run it, in the instance's thread."""
        self._begun = time.perf_counter_ns()
        try:
            session.predict(self._inputs)
        except BaseException as error:  # noqa: BLE001 - raised in the client's thread
            self._fault = error
        self._done.set()

    def begun(self) -> int:
        """Wait for the answer; return when the run began. Raises as the run does."""
        self._done.wait()
        if self._fault is not None:
            raise self._fault
        return self._begun


def _tensors(path: Preprocess, encoded: Sequence[bytes], images: Sequence[Taps]) -> Any:
    import numpy as np

    pixels = []
    for data, begun in zip(encoded, images, strict=True):
        last = path.taps(data, begun).last
        if last is None:
            raise DataError(
                f"{path.name} decoded an image before, and not now: {begun.decoded.reason}"
            )
        pixels.append(last)
    # one image needs no copy
    stacked: Any = pixels[0][None] if len(pixels) == 1 else np.stack(pixels)
    return np.ascontiguousarray(path.normalise(stacked))
