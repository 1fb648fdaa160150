"""A server of the protocol over HTTP, in this process, that does wrong what a test asks for."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Barrier, BrokenBarrierError, Lock, Thread
from typing import Any

CLASSES = 3
Answer = tuple[int, bytes]


@dataclass
class Endpoint:
    """What it holds, what it was asked, and ``fault``, which may answer in its place.

    Its logits of a file are the file's first bytes; of a tensor, the first pixels of its rows.
    """

    port: int = 0
    classes: int = CLASSES
    metadata: dict[str, Any] = field(default_factory=dict)
    fault: Callable[[Answer], Answer | None] = lambda answer: answer
    """An inference's answer → what is sent; ``None`` closes the connection half-way."""
    infer: Callable[[dict[str, Any], int], Any] | None = None
    """A request and the classes → the document of the answer; the protocol's by default."""
    redirect: str = ""
    """Another endpoint, to which every inference is sent on."""
    redirects_questions: bool = False
    """Whether questions about the server and the model are sent on too."""
    meet: Barrier | None = None
    """Holds every inference until as many are under way."""
    pause: float = 0
    """Seconds between the bytes of every answer."""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Path and headers of each request."""
    inferences: int = 0
    lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def describe(self, kind: str = "BYTES", shape: tuple[int, ...] = (-1,), **more: Any) -> None:
        tensors = {
            "inputs": [{"name": "image", "datatype": kind, "shape": list(shape)}],
            "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, self.classes]}],
        }
        self.metadata = {"name": "m", "platform": "test", "versions": ["1"], **tensors, **more}


def infer(request: dict[str, Any], classes: int) -> dict[str, Any]:
    (given,) = request["inputs"]
    if given["datatype"] == "BYTES":
        rows = [list(base64.b64decode(each)[:classes]) for each in given["data"]]
    else:
        images, size = given["shape"][0], len(given["data"]) // given["shape"][0]
        rows = [given["data"][index * size :][:classes] for index in range(images)]
    flat = [float(value) for row in rows for value in row]
    output = {"name": "logits", "datatype": "FP32", "shape": [len(rows), classes], "data": flat}
    return {"model_name": "m", "outputs": [output]}


class Handler(BaseHTTPRequestHandler):
    endpoint: Endpoint
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.endpoint.asked.append((self.path, dict(self.headers)))
        if self.endpoint.redirects_questions:
            self.redirect()
        elif self.path.startswith("/v2/models"):
            self.answer(200, json.dumps(self.endpoint.metadata).encode())
        else:
            self.answer(200, b'{"name": "faulty", "version": "1", "extensions": []}')

    def do_POST(self) -> None:
        endpoint = self.endpoint
        with endpoint.lock:
            endpoint.asked.append((self.path, dict(self.headers)))
            endpoint.inferences += 1
        if endpoint.redirect:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.redirect()
            return
        if endpoint.meet:
            try:
                endpoint.meet.wait(20)
            except BrokenBarrierError:
                self.answer(400, b'{"error": "nobody else came"}')
                return
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        document = (endpoint.infer or infer)(request, endpoint.classes)
        answer = endpoint.fault((200, json.dumps(document).encode()))
        if answer is None:
            self.answer(200, b'{"model_name"', claimed=1000)
            self.close_connection = True
        else:
            self.answer(*answer)

    def redirect(self) -> None:
        self.send_response(307)
        self.send_header("Location", self.endpoint.redirect + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def answer(self, status: int, body: bytes, claimed: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body) if claimed is None else claimed))
        self.end_headers()
        parts = [bytes([each]) for each in body] if self.endpoint.pause else [body]
        for part in parts:
            self.wfile.write(part)
            time.sleep(self.endpoint.pause)

    def log_message(self, *_: object) -> None:
        """Tests read `Endpoint.asked`."""


class Server(ThreadingHTTPServer):
    daemon_threads = True
    # five by default: the system drops more that come at once, and they come again seconds later
    request_queue_size = 1024

    def handle_error(self, *_: object) -> None:
        """Clients that give up are what is tested."""


@contextmanager
def faulty() -> Iterator[Endpoint]:
    """Serve until the block ends."""
    endpoint = Endpoint()
    endpoint.describe()
    handler = type("Bound", (Handler,), {"endpoint": endpoint})
    with Server(("127.0.0.1", 0), handler) as server:
        endpoint.port = server.server_address[1]
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield endpoint
        finally:
            server.shutdown()
            thread.join()
