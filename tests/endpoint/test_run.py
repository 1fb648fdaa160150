"""Endpoints in a run: beside other runtimes, misbehaving, and asked anew by the next run."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from threading import Event

import pytest

from alignkit.backends.endpoint import requests
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.progress import NoProgress
from alignkit.runner import run_experiment
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.endpoint.faulty import faulty

YAML = """
name: served
data: {{name: digits-on-photos, train: 10, eval: 30, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
models: {models}
evaluate:
  backends: {backends}
  resamples: 200
report: {{worst: 1}}
"""
ONE = "[{{name: mine, onnx: {onnx}, preprocess: opencv}}]"
TWO = ONE[:-1] + ", {{name: other, onnx: {onnx}, preprocess: pillow}}]"
OWN = "the server's own"


def experiment(tmp_path, *backends: str, models: str = ONE):
    file = tmp_path / "served.yaml"
    listed = "[" + ", ".join(("onnxruntime", *backends)) + "]"
    file.write_text(YAML.format(models=models.format(onnx=trained_model().onnx), backends=listed))
    return load_experiment(file)


def run(found, tmp_path):
    record, _ = run_experiment(found, Context(Workspace(tmp_path / "reports"), NoProgress()))
    return record


def test_endpoints_that_misbehave_fail_their_own_cells_alone(tmp_path, monkeypatch):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    monkeypatch.setenv("ENDPOINT_TOKEN", "Bearer hunter2-hunter2")
    with socket.socket() as deaf, faulty() as endpoint:
        deaf.bind(("127.0.0.1", 0))  # nobody else gets this port, and nobody listens at it
        down = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        endpoint.classes = 10
        endpoint.describe()
        found = experiment(
            tmp_path,
            f"{{name: kserve, url: '{endpoint.url}', model: good, header_env: ENDPOINT_TOKEN}}",
            f"{{name: kserve, url: '{down}', model: down, retries: 0}}",
            f"{{name: kserve, url: '{endpoint.url}', model: unset, header_env: NO_SUCH_TOKEN}}",
        )
        record = run(found, tmp_path)
        first = endpoint.inferences
        run(found, tmp_path)
        assert endpoint.inferences == 2 * first > 30  # what answers live is asked again
    ended = {
        next((word for word in ("good", "down", "unset") if word in cell.backend), cell.backend): (
            cell
        )
        for cell in record.cells
    }
    assert {name: cell.state for name, cell in ended.items()} == {
        "onnxruntime": "measured", "good": "measured", "down": "failed", "unset": "skipped"
    }  # fmt: skip
    assert {cell.evaluated_with for cell in record.cells if cell.backend != "onnxruntime"} == {OWN}
    assert "no answer in one try: no connection" in ended["down"].reason
    assert "NO_SUCH_TOKEN holds no header" in ended["unset"].reason
    everything = b"".join(p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert b"hunter2" not in everything


def test_each_way_to_answer_wrongly_is_told_in_its_own_cell(tmp_path, monkeypatch):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    monkeypatch.setattr(requests, "PAUSE", 0.001)
    released = Event()
    with ExitStack() as stack:
        it = {name: stack.enter_context(faulty()) for name in ("busy", "html", "slow", "narrow")}
        for each in it.values():
            each.classes = 10
            each.describe()
        busy, html, slow, narrow = it.values()
        busy.fault = lambda answer: (503, b"busy") if busy.inferences % 2 else answer
        html.fault = lambda answer: (200, b"<html>") if html.inferences % 2 else answer
        slow.fault = lambda answer: answer if released.wait(20) else None
        narrow.fault = lambda answer: (200, answer[1].replace(b"[1, 10]", b"[1, 5]"))
        backends = [
            f"{{name: kserve, url: '{each.url}', model: {name}, concurrency: 1, "
            f"timeout: {0.3 if name == 'slow' else 20}, retries: 1}}"
            for name, each in it.items()
        ]
        cells = run(experiment(tmp_path, *backends), tmp_path).cells
        released.set()
    ended = {name: cell for cell in cells for name in it if f"model={name}" in cell.backend}
    assert ended["busy"].effective["requests so far"].endswith(" of them sent again")
    assert [ended[name].state for name in it] == ["measured", "failed", "failed", "failed"]
    assert "the answer is not of the protocol" in ended["html"].reason
    assert "no answer in 2 tries: nothing came within 0.3 s" in ended["slow"].reason
    assert "not of the protocol" in ended["narrow"].reason
    own = {cell.state for cell in cells if cell.backend == "onnxruntime"}
    assert own == {"measured"}


def test_an_endpoint_is_asked_about_the_row_it_serves_alone(tmp_path):
    served = "{name: kserve, url: 'http://127.0.0.1:1', model: m, serves: other}"
    plan = make_plan(experiment(tmp_path, served, models=TWO))
    asked = {
        str(each.training.row): each.skipped
        for each in plan.evaluations
        if each.runtime.name.startswith("kserve") and "not installed" not in each.skipped
    }
    mine = asked["opencv (model mine)"]
    assert mine == "the endpoint serves the model of pillow (model other), not this one"
    assert asked.get("pillow (model other)", "") == ""


def test_columns_name_an_endpoints_address_only_to_tell_two_apart(tmp_path):
    first, second = (f"{{name: kserve, url: 'http://h:{n}', model: m, retries: 3}}" for n in (1, 2))
    names = [
        list(dict.fromkeys(e.runtime.name for e in make_plan(experiment(tmp_path, *b)).evaluations))
        for b in ((first,), (first, second))
    ]
    assert names == [
        ["onnxruntime", "kserve model=m"],
        ["onnxruntime", *(f"kserve model=m retries=3 url=http://h:{n}" for n in (1, 2))],
    ]


@pytest.mark.parametrize("serves", ["", ", serves: othr"])
def test_a_row_that_is_not_named_is_asked_for(tmp_path, serves):
    served = f"{{name: kserve, url: 'http://127.0.0.1:1', model: m{serves}}}"
    with pytest.raises(ConfigError, match="serves one model; name its row as 'serves'; "):
        make_plan(experiment(tmp_path, served, models=TWO))


def test_endpoints_alone_leave_nothing_to_compare_with(tmp_path):
    found = experiment(tmp_path)
    served = "evaluate.backends=[{name: kserve, url: 'http://127.0.0.1:1', model: m}]"
    with pytest.raises(ConfigError, match="put one first that receives the paths' images"):
        make_plan(load_experiment(found.file, [served]))
