"""The kserve backend: its options, what goes over the wire, and an endpoint that misbehaves.

Against a real server of the protocol it is tested in tests/endpoint.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from alignkit.backends import EncodedFiles
from alignkit.backends.endpoint import requests
from alignkit.backends.kserve import KServeBackend
from alignkit.errors import BackendError, ConfigError, MissingDependency
from alignkit.models.checkpoint import Checkpoint
from alignkit.preprocess.normalise import Normalise
from tests.endpoint.faulty import CLASSES, faulty

CHECKPOINT = Checkpoint("m", CLASSES, 2, 2, Path("none"), "k")
FILES = [bytes([index, 2 * index, 3 * index]) for index in range(9)]
EXPECTED = np.array([list(each) for each in FILES], np.float32)
SECRET = "Bearer hunter2-hunter2"


@pytest.fixture
def endpoint(monkeypatch):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    monkeypatch.setattr(requests, "PAUSE", 0.001)
    with faulty() as it:
        yield it


def ask(endpoint, files=FILES, checkpoint=CHECKPOINT, **options):
    """(logits, effective) of a session that is opened for it."""
    options = {"timeout": 20.0, **options}
    session = KServeBackend(endpoint.url, "m", **options).open(checkpoint, None, "served")
    try:
        if options.get("sends") == "tensors":
            return session.predict(files)[0], session.effective()
        return session.predict(EncodedFiles(files, Normalise()))[0], session.effective()
    finally:
        session.close()


@pytest.mark.parametrize("images", [1, 4, 100])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_answers_come_back_in_the_order_of_the_files(endpoint, images, concurrency):
    logits, facts = ask(endpoint, images_per_request=images, concurrency=concurrency)
    assert logits.dtype == np.float32
    assert np.array_equal(logits, EXPECTED)
    assert facts == {
        "precision": "served",
        "endpoint": endpoint.url,
        "server": "faulty 1",
        "model": "m, versions: 1",
        "platform": "test",
        "sent": "files, image, JSON",
        "compared": "logits, logits",
        "requests so far": f"{2 + -(-len(FILES) // images)}, 0 of them sent again",
    }


def test_tensors_are_sent_as_every_other_backend_gets_them(endpoint):
    endpoint.describe("FP32", (-1, 3, 2, 2))
    batch = np.random.default_rng(0).normal(size=(5, 3, 2, 2)).astype(np.float32)
    logits, facts = ask(endpoint, batch, sends="tensors", images_per_request=2)
    assert np.array_equal(logits, batch.reshape(5, -1)[:, :CLASSES])
    assert facts["sent"] == "tensors, image, JSON"


def test_as_many_requests_as_asked_for_are_under_way_at_once(endpoint):
    endpoint.meet = threading.Barrier(3)
    assert np.array_equal(ask(endpoint, concurrency=3)[0], EXPECTED)


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_servers_error_half_of_the_time_is_asked_again_and_counted(endpoint, status):
    def sometimes(answer):
        return (status, b'{"error": "busy"}') if endpoint.inferences % 2 else answer

    endpoint.fault = sometimes
    logits, facts = ask(endpoint, concurrency=1)
    assert np.array_equal(logits, EXPECTED)
    assert facts["requests so far"] == "11, 9 of them sent again"


def test_a_server_that_never_recovers_is_told_with_its_own_words(endpoint):
    endpoint.fault = lambda _: (500, b'{"error": "out of memory"}')
    with pytest.raises(BackendError, match=r"no answer in 3 tries: 500, .*out of memory"):
        ask(endpoint, FILES[:1])
    assert endpoint.inferences == 3


def test_what_is_wrong_with_the_request_is_not_sent_again(endpoint):
    endpoint.fault = lambda _: (400, b'{"error": "bad dimensions"}')
    with pytest.raises(BackendError, match=r"refused a request: 400, .*bad dimensions"):
        ask(endpoint, FILES[:1])
    assert endpoint.inferences == 1


@pytest.mark.parametrize("questions", [False, True])
def test_a_redirect_is_refused_as_it_would_carry_the_images_and_the_header_elsewhere(
    endpoint, monkeypatch, questions
):
    monkeypatch.setenv("SERVICE_TOKEN", "Bearer hunter2-hunter2")
    with faulty() as elsewhere:
        endpoint.redirect, endpoint.redirects_questions = elsewhere.url, questions
        with pytest.raises(BackendError) as caught:
            ask(endpoint, FILES[:1], header="X-Api-Key", header_env="SERVICE_TOKEN")
        assert not elsewhere.asked
    said = f"refused a request: 307, the server sends requests on to {elsewhere.url}/v2"
    assert said in str(caught.value)
    assert endpoint.inferences == (0 if questions else 1)  # the same answer would come again


def test_an_answer_cut_off_half_way_is_asked_again(endpoint):
    endpoint.fault = lambda answer: None if endpoint.inferences == 1 else answer
    logits, facts = ask(endpoint, concurrency=1)
    assert np.array_equal(logits, EXPECTED)
    assert facts["requests so far"].endswith(", 1 of them sent again")
    endpoint.fault = lambda _: None
    with pytest.raises(BackendError, match="no answer in one try: no connection"):
        ask(endpoint, FILES[:1], retries=0)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>Bad gateway</html>", "not of the protocol"),
        (b"", "not of the protocol"),
        (b'{"outputs": 3}', "not of the protocol"),
        (b'{"outputs": []}', "holds no output 'logits'"),
        (
            b'{"outputs": [{"name":"logits", "datatype":"FP32", "shape":[1,2], "data":[1,2]}]}',
            "answered FP32 1x2 as 'logits' for 1 images, and declares FP32 .x3",
        ),
        (
            b'{"outputs": [{"name":"logits", "datatype":"INT64", "shape":[1,3], "data":[1,2,3]}]}',
            "answered INT64 1x3 as 'logits' for 1 images",
        ),
    ],
)  # fmt: skip
def test_garbage_is_told_for_what_it_is(endpoint, body, told):
    endpoint.fault = lambda _: (200, body)
    with pytest.raises(BackendError, match=told):
        ask(endpoint, FILES[:1])
    assert endpoint.inferences == 1


def test_a_slow_answer_is_waited_for_as_long_as_asked(endpoint):
    released = threading.Event()
    endpoint.fault = lambda answer: answer if released.wait(20) else None
    with pytest.raises(BackendError, match=r"no answer in 2 tries: nothing came within 0.2 s"):
        ask(endpoint, FILES[:1], timeout=0.2, retries=1)
    released.set()


def test_an_answer_that_trickles_in_has_the_same_deadline(endpoint):
    endpoint.pause = 0.05  # byte by byte: no single read waits for as long as 0.3 s
    with pytest.raises(BackendError, match=r"no answer in one try: nothing came within 0.3 s"):
        ask(endpoint, FILES[:1], timeout=0.3, retries=0)
    assert len(endpoint.asked) <= 1  # none where the server begins later than the deadline


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_an_endpoint_that_accepts_and_says_nothing_is_told(endpoint, scheme):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        backend = KServeBackend(url, "m", timeout=0.3, retries=0)
        with pytest.raises(BackendError, match=r"no answer in one try: nothing came within 0.3 s"):
            backend.open(CHECKPOINT, None, "served")


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_an_endpoint_that_is_down_is_told(endpoint, scheme):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))  # nobody else gets this port, and nobody listens at it
        url = f"{scheme}://127.0.0.1:{deaf.getsockname()[1]}"
        backend = KServeBackend(url, "m", timeout=20.0, retries=1)
        with pytest.raises(BackendError, match=r"in 2 tries: (no connection|UNAVAILABLE)"):
            backend.open(CHECKPOINT, None, "served")


def test_an_endpoint_that_dies_in_the_middle_is_told(monkeypatch):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    monkeypatch.setattr(requests, "PAUSE", 0.001)
    with faulty() as dying:
        session = KServeBackend(dying.url, "m", retries=1).open(CHECKPOINT, None, "served")
        assert session.predict(EncodedFiles(FILES[:2], Normalise()))[0].shape == (2, CLASSES)
        dying.fault = lambda _: None
    with pytest.raises(BackendError, match="no answer in 2 tries: no connection"):
        session.predict(EncodedFiles(FILES, Normalise()))
    session.close()


def test_the_header_is_sent_and_never_shown(endpoint, monkeypatch):
    monkeypatch.setenv("ENDPOINT_TOKEN", SECRET)

    def telling(_):
        sent = endpoint.asked[-1][1]["Authorization"]
        return 401, f'{{"error": "not allowed: {sent}, {sent.split()[1]}"}}'.encode()

    told = {"header_env": "ENDPOINT_TOKEN"}
    logits, facts = ask(endpoint, **told)
    assert np.array_equal(logits, EXPECTED)
    assert all(headers["Authorization"] == SECRET for _, headers in endpoint.asked)
    endpoint.fault = telling
    with pytest.raises(BackendError, match=r"401, .*not allowed: …, …") as caught:
        ask(endpoint, FILES[:1], **told)
    backend = KServeBackend(endpoint.url, "m", **told)
    assert "hunter2" not in f"{caught.value!r} {facts} {asdict(backend)} {backend!r}"


def test_a_variable_that_is_not_set_makes_the_cell_impossible(monkeypatch):
    monkeypatch.delenv("ENDPOINT_TOKEN", raising=False)
    backend = KServeBackend("http://h", "m", header_env="ENDPOINT_TOKEN")
    assert "ENDPOINT_TOKEN holds no header" in backend.impossible("served")
    with pytest.raises(MissingDependency, match="ENDPOINT_TOKEN"):
        backend.open(CHECKPOINT, None, "served")


def test_the_address_may_come_from_the_environment(endpoint, monkeypatch):
    monkeypatch.delenv("MY_ENDPOINT", raising=False)
    backend = KServeBackend("$MY_ENDPOINT", "m")
    assert "MY_ENDPOINT names no endpoint" in backend.impossible("served")
    monkeypatch.setenv("MY_ENDPOINT", endpoint.url)
    session = backend.open(CHECKPOINT, None, "served")
    assert session.effective()["endpoint"] == endpoint.url
    session.close()
    monkeypatch.setenv("MY_ENDPOINT", "http://me:secret@host")
    with pytest.raises(ConfigError, match="MY_ENDPOINT holds no user") as caught:
        backend.open(CHECKPOINT, None, "served")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("described", "options", "told"),
    [
        ({"kind": "FP32"}, {}, "takes FP32 .* set 'sends: tensors'"),
        ({}, {"sends": "tensors"}, "takes BYTES .* set 'sends: files'"),
        (
            {"kind": "FP32", "shape": (-1, 3, 4, 4)},
            {"sends": "tensors"},
            r"takes FP32 \?x3x4x4, and the path gives FP32 \?x3x2x2; change the path's size",
        ),
        ({"kind": "FP32", "shape": (-1, 2, 2, 3)}, {"sends": "tensors"}, "channels last"),
        ({"kind": "FP32", "shape": (-1, 12)}, {"sends": "tensors"}, r"takes FP32 \?x12, and"),
        ({"inputs": []}, {}, "declares no inputs of the model; name one as 'input'"),
        ({}, {"input": "x"}, "has the inputs image; name one as 'input'"),
        (
            {"outputs": [{"name": n, "datatype": "FP32"} for n in ("a", "b")]},
            {},
            "has the outputs a, b; name one as 'output'",
        ),
        (
            {"outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 1000]}]},
            {},
            r"gives FP32 \?x1000 as 'logits': it has 1000 outputs for 3 classes",
        ),
        (
            {"outputs": [{"name": "names", "datatype": "BYTES", "shape": [-1, 3]}]},
            {},
            r"gives BYTES \?x3 as 'names'",
        ),
    ],
)  # fmt: skip
def test_a_model_the_data_does_not_fit_is_refused_before_any_image(
    endpoint, described, options, told
):
    endpoint.describe(**described)
    with pytest.raises(BackendError, match=told):
        ask(endpoint, **options)
    assert endpoint.inferences == 0


def test_probabilities_are_compared_by_their_logarithm_and_only_if_declared(endpoint):
    probabilities = np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]], np.float32)
    endpoint.describe("FP32", (-1, 3, 2, 2))
    batch = np.zeros((2, 3, 2, 2), np.float32)
    batch.reshape(2, -1)[:, :CLASSES] = probabilities
    together = {"sends": "tensors", "images_per_request": 2}
    with pytest.raises(BackendError, match="look like probabilities: set 'answers: probabilities'"):
        ask(endpoint, batch, **together)
    logits, facts = ask(endpoint, batch, answers="probabilities", **together)
    assert np.allclose(np.exp(logits), probabilities, atol=1e-7)
    assert np.isfinite(logits).all()
    assert facts["compared"] == "logits, probabilities"
    with pytest.raises(BackendError, match="are no probabilities: set 'answers: logits'"):
        ask(endpoint, 2 * batch, answers="probabilities", **together)


def test_the_version_asked_for_is_the_one_that_answers(endpoint):
    ask(endpoint, model_version="7")
    assert {path for path, _ in endpoint.asked} == {
        "/v2", "/v2/models/m/versions/7", "/v2/models/m/versions/7/infer"
    }  # fmt: skip


def test_the_first_failure_cancels_what_is_under_way():
    begun, ended = [], []

    async def never() -> None:
        begun.append(True)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    async def fails() -> None:
        await asyncio.sleep(0)
        raise BackendError("first")

    loop = requests.Loop()
    with pytest.raises(BackendError, match="first"):
        loop.run(requests.gather_limited([never, fails, never], 2))
    loop.close()
    assert begun == ended
    assert not loop.thread.is_alive()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "endpoint:8000"}, "'url' begins with http://"),
        ({"url": "http://"}, "'url' begins with"),
        ({"url": "http://me:secret@host"}, "holds no user, password or query"),
        ({"url": "http://host/?token=1"}, "holds no user, password or query"),
        ({"url": "$endpoint"}, "or [$] and an environment variable in capitals"),
        ({"header_env": "Bearer abc"}, "name of an environment variable in capitals"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, told):
    with pytest.raises(ConfigError, match=told) as caught:
        replace(KServeBackend("http://h", "m"), **options)
    assert "secret" not in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_no_precision_can_be_asked_of_an_endpoint(precision):
    assert "cannot be asked of an endpoint" in KServeBackend("http://h", "m").impossible(precision)


def test_several_outputs_of_any_shape_come_in_the_tasks_order(endpoint):
    from alignkit.tasks.detection import Detection

    sides = {"scores": [2], "boxes": [2, 4], "labels": [2]}
    kinds = {"scores": "FP32", "boxes": "FP32", "labels": "INT64"}
    endpoint.describe(outputs=[
        {"name": name, "datatype": kinds[name], "shape": [-1, *each]} for name, each in sides.items()
    ])  # fmt: skip

    def answered(_):
        outputs = [
            {"name": name, "datatype": kinds[name], "shape": [1, *each],
             "data": list(range(int(np.prod(each))))}
            for name, each in sides.items()
        ]  # fmt: skip
        return 200, json.dumps({"model_name": "m", "outputs": outputs}).encode()

    endpoint.fault = answered
    checkpoint = replace(CHECKPOINT, task=Detection())
    session = KServeBackend(endpoint.url, "m", timeout=20.0).open(checkpoint, None, "served")
    try:
        outputs = session.predict(EncodedFiles(FILES[:3], Normalise()))
        assert session.effective()["compared"] == "boxes, labels, scores, logits"
    finally:
        session.close()
    assert [each.shape for each in outputs] == [(3, 2, 4), (3, 2), (3, 2)]
    assert (outputs[0][1].ravel() == range(8)).all()
    assert outputs[1].dtype == np.float32
