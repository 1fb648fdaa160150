"""A server of the Open Inference Protocol v2 over HTTP whose model preprocesses, with Pillow alone."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import numpy as np
from PIL import Image

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
SIZE = 96


def prepared(encoded: bytes) -> np.ndarray:
    """(1, 3, 96, 96), written from Pillow's and torchvision's documentation."""
    image = Image.open(io.BytesIO(encoded)).convert("RGB").resize((SIZE, SIZE), Image.BILINEAR)
    scaled = (np.asarray(image, np.float64) / 255 - MEAN) / STD
    return scaled.astype(np.float32).transpose(2, 0, 1)[None]


@dataclass
class Served:
    """What it says of its model, and what it answers for no image."""

    url: str = ""
    outputs: dict[str, list[int]] = field(default_factory=lambda: {"images": [-1, 3, SIZE, SIZE]})
    input: tuple[str, list[int]] = ("BYTES", [-1])
    refuses: Any = lambda encoded: False
    headers: list[dict[str, str]] = field(default_factory=list)

    def metadata(self) -> dict[str, Any]:
        kind, shape = self.input
        outputs = [
            {"name": name, "datatype": "FP32", "shape": shape}
            for name, shape in self.outputs.items()
        ]
        given = [{"name": "file", "datatype": kind, "shape": shape}]
        return {"name": "prepare", "versions": ["1"], "inputs": given, "outputs": outputs}

    def infer(self, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        (given,) = request["inputs"]
        if given["datatype"] == "UINT8":
            encoded = bytes(np.ravel(given["data"]).astype(np.uint8))
        else:
            encoded = base64.b64decode(np.ravel(given["data"])[0])
        if self.refuses(encoded):
            return 400, {"error": "not an image I know"}
        tensor = prepared(encoded)
        wanted = request["outputs"][0]["name"]
        data = tensor.ravel().tolist()
        output = {"name": wanted, "datatype": "FP32", "shape": [*tensor.shape], "data": data}
        return 200, {"model_name": "prepare", "outputs": [output]}


class Handler(BaseHTTPRequestHandler):
    served: Served
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/v2/models/prepare"):
            self.answer(200, self.served.metadata())
        elif self.path.startswith("/v2/models"):
            self.answer(404, {"error": "no such model"})
        else:
            self.answer(200, {"name": "pillow", "version": "1", "extensions": []})

    def do_POST(self) -> None:
        self.served.headers.append(dict(self.headers))
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(*self.served.infer(request))

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def preprocessing() -> Iterator[Served]:
    """Serve until the block ends."""
    served = Served()
    handler = type("Bound", (Handler,), {"served": served})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        try:
            yield served
        finally:
            server.shutdown()
            thread.join()
