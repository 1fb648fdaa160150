"""Starts a real MLServer on loopback, from an environment of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CLASSIFIER = Path(__file__).with_name("classifier.py")
STARTED_WITHIN = 60.0
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Served:
    """Where it listens; both of its models are the same file."""

    http: str
    grpc: str
    files: str = "by-file"
    """Name of the model that takes encoded files."""
    tensors: str = "by-tensor"


def model_settings(
    name: str,
    onnx: Path,
    size: int,
    classes: int,
    ends: tuple[int, str],
    normalise: tuple[Sequence[float], Sequence[float]],
) -> dict:
    shapes = {"by-file": [-1], "by-tensor": [-1, 3, size, size]}
    files = name == "by-file"
    given = {"name": "image", "datatype": "BYTES" if files else "FP32", "shape": shapes[name]}
    if files:  # over HTTP files come as text
        given["parameters"] = {"content_type": "base64"}
    mean, std = normalise
    extra = {"size": size, "mean": mean, "std": std, "ends_at": ends[0], "ends_by": ends[1]}
    return {
        "name": name,
        "platform": "onnxruntime behind Pillow" if files else "onnxruntime",
        "implementation": "classifier.Classifier",
        "inputs": [given],
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, classes]}],
        "parameters": {"uri": str(onnx.resolve()), "version": "1", "extra": extra},
    }


def free_ports(count: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@contextmanager
def serving(
    executable: str,
    folder: Path,
    onnx: Path,
    *,
    size: int,
    classes: int,
    ends: tuple[int, str] = (0, ""),
    normalise: tuple[Sequence[float], Sequence[float]] = (MEAN, STD),
) -> Iterator[Served]:
    """An MLServer with the model behind files and behind tensors, until the block ends.

    ``ends`` is the request of a model at which it sends its own process a signal, and which;
    ``normalise`` the mean and standard deviation that it computes with.
    """
    http, grpc, metrics = free_ports(3)
    settings = {"host": "127.0.0.1", "http_port": http, "grpc_port": grpc, "metrics_port": metrics}
    settings |= {"parallel_workers": 0, "debug": False}
    (folder / "settings.json").write_text(json.dumps(settings))
    shutil.copy(CLASSIFIER, folder)
    for name in ("by-file", "by-tensor"):
        (folder / name).mkdir()
        described = json.dumps(model_settings(name, onnx, size, classes, ends, normalise))
        (folder / name / "model-settings.json").write_text(described)
    # the tests' own PYTHONPATH would shadow the server's packages
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [executable, "start", "."],
            cwd=folder,
            stdout=log,
            stderr=log,
            env=environment | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(folder)},
        )
        try:
            wait_for(f"http://127.0.0.1:{http}/v2/health/ready", process, folder / "log.txt")
            yield Served(f"http://127.0.0.1:{http}", f"grpc://127.0.0.1:{grpc}")
        finally:
            process.kill()  # it may be stopped already
            process.wait(30)


def wait_for(url: str, process: subprocess.Popen, log: Path) -> None:
    until = time.monotonic() + STARTED_WITHIN
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"MLServer did not start:\n{log.read_text()[-3000:]}")


if __name__ == "__main__":  # python -m tests.endpoint.mlserver EXECUTABLE ONNX SIZE CLASSES
    import tempfile

    program, graph, side, names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as place:
        start = serving(program, Path(place), Path(graph), size=int(side), classes=int(names))
        with start as served:
            print(served, flush=True)
            sys.stdin.read()
