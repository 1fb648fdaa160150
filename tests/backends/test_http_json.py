"""The http-json backend: its templates, what goes over the wire, and a service that misbehaves."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from alignkit.backends import EncodedFiles
from alignkit.backends.endpoint import requests
from alignkit.backends.endpoint.logits_of import AnswerReader
from alignkit.backends.http_json import HTTPJSONBackend
from alignkit.errors import BackendError, ConfigError
from alignkit.models.checkpoint import Checkpoint
from alignkit.preprocess.normalise import Normalise
from tests.endpoint.faulty import CLASSES, faulty

pytest.importorskip("aiohttp", reason="needs the extra http-json")

CHECKPOINT = Checkpoint("m", CLASSES, 2, 2, Path("none"), "k")
FILES = [bytes([index, 2 * index, 3 * index]) for index in range(9)]
EXPECTED = np.array([list(each) for each in FILES], np.float32)
PLSC = '{"base64_string": {images}}'


def first_bytes(texts):
    return [[float(each) for each in base64.b64decode(text)[:CLASSES]] for text in texts]


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setattr(requests, "PAUSE", 0.001)
    with faulty() as it:
        it.infer = lambda request, _: first_bytes(request["base64_string"])
        yield it


def ask(service, inputs=FILES, request=PLSC, **options):
    """Return (numbers, facts) of a session that is opened for it."""
    backend = HTTPJSONBackend(service.url, request, timeout=20.0, **options)
    session = backend.open(CHECKPOINT, None, "served")
    try:
        given = EncodedFiles(inputs, Normalise()) if isinstance(inputs, list) else inputs
        return session.predict(given)[0], session.effective()
    finally:
        session.close()


@pytest.mark.parametrize("images", [1, 4, 100])
@pytest.mark.parametrize("concurrency", [1, 3])
def test_answers_come_back_in_the_order_of_the_files(service, images, concurrency):
    numbers, facts = ask(service, images_per_request=images, concurrency=concurrency)
    assert numbers.dtype == np.float32
    assert np.array_equal(numbers, EXPECTED)
    assert facts["requests so far"] == f"{-(-len(FILES) // images)}, 0 of them sent again"
    assert facts["sent"] == "files, JSON"


def test_one_image_may_be_the_whole_of_a_request(service):
    service.infer = lambda request, _: {"data": {"row": first_bytes([request["image"]])[0]}}
    numbers, _ = ask(service, request='{"image": {image}, "top": 3}', answer="data.row")
    assert np.array_equal(numbers, EXPECTED)


def test_a_list_on_the_way_is_followed_item_by_item(service):
    service.infer = lambda request, _: {
        "results": [{"embedding": row} for row in first_bytes(request["base64_string"])]
    }
    numbers, _ = ask(service, answer="results.embedding", images_per_request=4)
    assert np.array_equal(numbers, EXPECTED)


def test_tensors_travel_exactly_as_every_other_backend_gets_them(service):
    batch = np.random.default_rng(0).normal(size=(5, 3, 2, 2)).astype(np.float32)
    batch[0, 0, 0, 0] = np.float32(1e-42)
    service.infer = lambda request, _: {
        "predictions": [np.array(each).ravel()[:CLASSES].tolist() for each in request["instances"]]
    }
    numbers, _ = ask(
        service, batch, '{"instances": {images}}', answer="predictions", sends="tensors",
        images_per_request=2,
    )  # fmt: skip
    assert np.array_equal(numbers, batch.reshape(5, -1)[:, :CLASSES])


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_services_error_half_of_the_time_is_asked_again_and_counted(service, status):
    service.fault = lambda answer: (status, b"busy") if service.inferences % 2 else answer
    numbers, facts = ask(service, concurrency=1)
    assert np.array_equal(numbers, EXPECTED)
    assert facts["requests so far"] == "9, 9 of them sent again"


@pytest.mark.parametrize(
    ("fault", "said", "sent"),
    [
        ((500, b"out of memory"), "no answer in 3 tries: 500, out of memory", 3),
        ((400, b"bad image"), "refused a request: 400, bad image", 1),
        ((302, b""), "refused a request: 302", 1),
        (None, "no answer in 3 tries: no connection", 3),
        ((200, b"<html>Bad gateway</html>"), "not of the protocol, JSONDecodeError", 1),
        ((200, b""), "not of the protocol, JSONDecodeError", 1),
        ((200, b"\xff\xfe"), "not of the protocol, UnicodeDecodeError", 1),
        ((200, b'{"error": "no face"}'), "no rows of numbers .*no face", 1),
        ((200, b"[]"), "answered 0 for 1 images", 1),
        ((200, b"7"), "answered one number for 1 images", 1),
        ((200, b"[[1, 2, 3], [4, 5, 6]]"), "answered 2x3 for 1 images", 1),
        ((200, b"[[1, 2], [3]]"), "no rows of numbers of one length", 1),
        ((200, b'[["1"], ["x"]]'), "no rows of numbers", 1),
    ],
)
def test_each_fault_is_one_message(service, fault, said, sent):
    service.fault = lambda _: fault
    with pytest.raises(BackendError, match=said):
        ask(service, FILES[:1])
    assert service.inferences == sent


def test_a_missing_key_is_named_with_the_answer(service):
    with pytest.raises(BackendError, match=r"no key 'rows'; .*: \[\[0\.0, 0\.0, 0\.0\]\]"):
        ask(service, FILES[:1], answer="rows")


def test_an_answer_without_an_end_is_not_read_whole(service, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_ANSWER_BYTES", "100")
    service.fault = lambda _: (200, b" " * 200)
    with pytest.raises(BackendError, match=r"refused a request: .*more than 100 bytes"):
        ask(service, FILES[:1])


def test_a_slow_answer_has_a_deadline(service):
    service.pause = 0.05
    backend = HTTPJSONBackend(service.url, PLSC, timeout=0.3, retries=0)
    session = backend.open(CHECKPOINT, None, "served")
    with pytest.raises(BackendError, match=r"nothing came within 0.3 s"):
        session.predict(EncodedFiles(FILES[:1], Normalise()))
    session.close()


def test_the_header_is_sent_and_never_shown(service, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "Bearer hunter2-hunter2")
    _, facts = ask(service, header_env="SERVICE_TOKEN")
    assert all(sent["Authorization"] == "Bearer hunter2-hunter2" for _, sent in service.asked)
    service.fault = lambda _: (401, json.dumps(service.asked[-1][1]).encode())
    with pytest.raises(BackendError, match=r"401, .*…") as caught:
        ask(service, FILES[:1], header_env="SERVICE_TOKEN")
    backend = HTTPJSONBackend(service.url, PLSC, header_env="SERVICE_TOKEN")
    assert "hunter2" not in f"{caught.value!r} {facts} {asdict(backend)} {backend!r}"


def test_probabilities_are_compared_by_their_logarithm(service):
    rows = np.array([[0.5, 0.25, 0.25], [0.0, 0.125, 0.875]], np.float32)
    service.infer = lambda *_: rows.tolist()
    with pytest.raises(BackendError, match="set 'answers: probabilities'"):
        ask(service, FILES[:2], images_per_request=2)
    numbers, _ = ask(service, FILES[:2], images_per_request=2, answers="probabilities")
    assert np.allclose(np.exp(numbers), rows, atol=1e-7)


SHARES = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [0.7, 0.3]], np.float32)
ALIKE = np.array([[0.6, 0.4]], np.float32) + np.float32([[0], [1e-4], [2e-4], [3e-4]])
KINDS = {
    # name: answers of both requests, what is declared; the refusal, or none
    "probabilities": (SHARES, SHARES, "auto", "'answers: probabilities'$"),
    "probabilities called logits": (SHARES, SHARES, "logits", "'answers: probabilities'$"),
    "logits called probabilities": (SHARES, 3 * SHARES, "probabilities", "'answers: logits'$"),
    "logits of near-equal images": (ALIKE, ALIKE, "auto", "or 'answers: logits' if they are such"),
    "logits of near-equal images, said so": (ALIKE, ALIKE, "logits", ""),
    "logits of near-equal images after others": (3 * SHARES, ALIKE, "auto", ""),
}


@pytest.mark.parametrize("case", KINDS)
def test_few_answers_do_not_decide_what_they_are(case):
    *answers, declared, refusal = KINDS[case]
    reader = AnswerReader(declared)
    if refusal:
        with pytest.raises(BackendError, match=refusal):
            [reader.logits_of(each) for each in answers]
        return
    assert all((reader.logits_of(each) == each).all() for each in answers)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"request": "{}"}, "holds {images} once"),
        ({"request": '{"a": {images}, "b": {images}}'}, "holds {images} once"),
        ({"request": '{"a": {images}, "b": {image}}'}, "holds {images} once"),
        ({"request": '{"a": {image}}', "images_per_request": 2}, "one image: write {images}"),
        ({"request": '{"a": {images}'}, "no JSON document"),
        ({"request": '{"a": "{images} and"}', "url": "grpc://h"}, "begins with http://, https://"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(options, said):
    with pytest.raises(ConfigError, match=said):
        replace(HTTPJSONBackend("http://h", PLSC), **options)


def test_a_redirect_is_refused_as_it_would_carry_the_images_and_the_header_elsewhere(
    service, monkeypatch
):
    monkeypatch.setenv("SERVICE_TOKEN", "Bearer hunter2-hunter2")
    with faulty() as elsewhere:
        service.redirect = elsewhere.url
        with pytest.raises(
            BackendError, match="refused a request: 307, the server sends requests on to"
        ):
            ask(service, FILES[:1], header="X-Api-Key", header_env="SERVICE_TOKEN")
        assert not elsewhere.asked


@pytest.mark.parametrize("answer", ["rows", ""])
@pytest.mark.parametrize("token", ["Bearer hunter2-hunter2", "Bearer s3", 'Key "q\\'])
def test_an_answer_that_repeats_the_header_does_not_show_it(service, monkeypatch, answer, token):
    monkeypatch.setenv("SERVICE_TOKEN", token)
    service.infer = lambda *_: {"headers": service.asked[-1][1]}
    with pytest.raises(BackendError) as caught:
        ask(service, FILES[:1], answer=answer, header_env="SERVICE_TOKEN")
    assert token.split()[1] not in str(caught.value)
    assert json.dumps(token.split()[1])[1:-1] not in str(caught.value)


@pytest.mark.parametrize("rows", [[[None, 1.0]], [["1.5", "2"]], [[True, False]]])
def test_values_that_are_no_numbers_are_refused(service, rows):
    service.infer = lambda *_: rows
    with pytest.raises(BackendError, match="no rows of numbers"):
        ask(service, FILES[:1])


def test_rows_of_several_lengths_are_refused_across_requests_too(service):
    service.infer = lambda request, _: [
        list(range(2 + int(base64.b64decode(each)[0]))) for each in request["base64_string"]
    ]
    with pytest.raises(BackendError, match="rows of 2 and 3"):
        ask(service, FILES[:2])
