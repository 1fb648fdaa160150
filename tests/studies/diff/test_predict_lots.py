"""A model's predictions by lots: those of all images at once, on every engine."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

import alignkit.lots
from alignkit.attribute.mixture_records import TaskSession, mixture_records
from alignkit.compare.logit_sums import logit_distance
from alignkit.compare.margins import margin_drift, moved_most
from alignkit.compare.predictions import Predictions
from alignkit.errors import EngineMissing
from alignkit.experiment.yaml_argument import named_paths
from alignkit.isolation import Limits
from alignkit.lots import Shard, lot_of, lot_parts
from alignkit.lots.engines import EngineOption
from alignkit.lots.kept_lots import KeptLots
from alignkit.lots.local import LocalEngine
from alignkit.lots.remote import RemoteEngine
from alignkit.predict import kept_session
from alignkit.predict.given_model import given_model, given_task
from alignkit.preprocess.stage_mixtures import LeftOut
from alignkit.progress import NoProgress
from alignkit.samples import Samples
from alignkit.studies.diff import DiffRequest, diff, diff_shard, predict_lots
from alignkit.studies.diff.predict_lots import PredictedPair, PredictLots
from alignkit.workspace import Workspace
from tests.cli.test_match import linear_model
from tests.fatal_decoders import MARK, FatalDecoder
from tests.lots.test_lots import Threads, with_two_broken, without_times
from tests.photos import encoded, photo

SIZE = 32
NEAREST = "{name: nearest, preset: opencv-train, resize: {interpolation: nearest}}"
PATHS = named_paths(["pillow-train", NEAREST, "opencv-train"], size=SIZE)


def images(number=40) -> Samples:
    """Photographs and noise, and two files that are no images."""
    draw = np.random.default_rng(0)
    files = []
    for place in range(number):
        noise = draw.integers(0, 256, (70 + place, 90, 3), np.uint8)
        pixels = noise if place % 2 else photo(height=40 + place, width=99)
        files.append(encoded(pixels, quality=60 + place % 40))
    return with_two_broken(files)


SAMPLES = images()


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 16)
    monkeypatch.setattr(predict_lots, "PREDICTED_TOGETHER", 8)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    file = tmp_path_factory.mktemp("model") / "model.onnx"
    linear_model(file, SIZE)
    return file


@pytest.fixture
def opened(model):
    with kept_session.kept_session(given_model(str(model)), (SIZE, SIZE)) as both:
        yield both


@pytest.fixture
def lots(opened):
    paths = [each.preprocess for each in PATHS]
    return PredictLots.of(paths, opened[0], Limits(lossy=True))


def texts(work, engine, **options):
    return [work.text(part) for part in lot_parts(work, SAMPLES, engine, changed="fail", **options)]


def tallies(work, parts):
    joined = [PredictedPair() for _ in work.pairs]
    for part in parts:
        for tally, more in zip(joined, part.of_pair, strict=True):
            tally.join(more)
    return joined


def request(model, **options):
    given = given_model(str(model))
    return DiffRequest(PATHS, SAMPLES, "files", model=given, threads=2, **options)


def test_the_drift_is_that_of_all_logits_together(lots, opened):
    _, model = opened
    found = tallies(lots, lot_parts(lots, SAMPLES, LocalEngine(2), changed="fail"))
    for pair, tally in zip(lots.pairs, found, strict=True):
        made = [
            pair.mixtures.image(SAMPLES.read(place), pair.wanted) for place in range(len(SAMPLES))
        ]
        whole = [place for place, each in enumerate(made) if not isinstance(each, LeftOut)]
        session = TaskSession(model.session, model.decoder)
        logits = []
        for start in range(0, len(SAMPLES), 8):
            batch = [place for place in whole if start <= place < start + 8]
            mixed = [made[place] for place in batch]
            logits.append(mixture_records(session, SAMPLES.take(batch), mixed, pair.wanted))
        by_mixture = [np.concatenate(each) for each in zip(*logits, strict=True)]
        ids = tuple(SAMPLES.ids[place] for place in whole)
        before, after = (
            Predictions(ids, np.zeros(0, np.int64), by_mixture[side], (), model.outputs)
            for side in (0, -1)
        )
        drift = tally.drift(pair, model, SAMPLES, {})
        assert drift.n == len(ids) > 30
        assert drift.left_out == len(SAMPLES) - len(ids) == 2
        assert drift.left_out_reason.startswith("005.jpg: ")
        assert drift.flips == before.changed(after).sum()
        assert drift.margins == margin_drift([(before, after)])
        assert drift.moved == moved_most([(before, after)])
        turned = Counter(
            (before.said(at), after.said(at)) for at in np.flatnonzero(before.changed(after))
        )
        assert [((e.before, e.after), e.images) for e in drift.classes] == turned.most_common(20)
        expected = logit_distance(before.logits, after.logits)
        exact = ("compared", "max_abs", "inside", "same_top", "reason")
        for name in exact:
            assert getattr(drift.logits, name) == getattr(expected, name)
        # floats are added in another order, batch by batch
        assert drift.logits.mean_abs == pytest.approx(expected.mean_abs, rel=1e-12)
        assert drift.logits.cosine == pytest.approx(expected.cosine, rel=1e-12)
        for name in ("p50", "p99", "p99_9"):
            value, known = getattr(drift.logits, name), getattr(expected, name)
            assert known * (1 - 1e-6) <= value <= 1.008 * known
        alone = dict(zip(pair.factors_alone, by_mixture[1:-1], strict=False))
        assert [each.factor for each in drift.stages] == list(alone)
        for each in drift.stages:
            part = alone[each.factor]
            assert each.flips == (part.argmax(axis=1) != before.predicted).sum()
            assert each.mean_abs == pytest.approx(np.abs(part - before.logits).mean(), rel=1e-5)

    # the nearest pixel changes some
    assert found[0].drift(lots.pairs[0], model, SAMPLES, {}).flips > 0


def test_parts_do_not_depend_on_processes_or_engine(lots):
    expected = texts(lots, LocalEngine(2))
    assert len(expected) == 3
    assert texts(lots, LocalEngine(1)) == expected
    assert texts(lots, RemoteEngine(Threads(lose=1))) == expected
    assert [lots.text(lots.parsed(text)) for text in expected] == expected
    # class, margin and five logits on two paths, of each candidate, and sums
    assert max(map(len, expected)) < 40_000


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_engines_give_the_same_parts(lots, engine, tmp_path):
    pytest.importorskip({"dask": "distributed", "ray": "ray"}[engine])
    # the workers have the constants of the package
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predict_lots, "PREDICTED_TOGETHER", 32)
        expected = texts(lots, LocalEngine(2))
        try:
            with EngineOption(engine, workers=2).open() as opened:
                assert texts(lots, opened) == expected
        except EngineMissing as error:
            pytest.skip(str(error))


def test_a_session_is_opened_once_in_a_process(lots, monkeypatch, model):
    count = []

    def counted(*arguments):
        count.append(1)
        return open_given(*arguments)

    open_given = kept_session.open_given
    with monkeypatch.context() as patch:
        patch.setattr(kept_session, "open_given", counted)
        # as in a worker, which has no session yet
        patch.setattr(kept_session, "_KEPT", {})
        assert len(texts(lots, LocalEngine(2))) == 3
        assert len(count) == 1
        for _, stack in kept_session._KEPT.values():
            stack.close()


def test_a_worker_with_another_file_or_runtime_is_refused(lots, monkeypatch, model):
    facts = lots.given.facts
    for name, value in (
        ("runtime", ["onnxruntime 0.0"]),
        ("processor", "avx"),
        ("model", {**facts["model"], "file": "0" * 64}),
    ):
        given = replace(lots.given, facts={**facts, name: value})
        with monkeypatch.context() as patch:
            patch.setattr(kept_session, "_KEPT", {})
            with pytest.raises(EngineMissing, match=f"a worker has another {name}"):
                given.opened()


def test_an_image_that_kills_its_process_is_left_out_and_the_session_goes_on(opened):
    fatal = replace(PATHS[0].preprocess, name="fatal", decode=FatalDecoder("segfault"))
    paths = [PATHS[0].preprocess, fatal]
    work = PredictLots.of(paths, opened[0], Limits(lossy=True))
    files = [SAMPLES.read(place) for place in range(16)]
    killing = [*files[:3], files[3] + MARK, *files[4:]]
    samples = replace(
        SAMPLES, ids=SAMPLES.ids[:16], read=killing.__getitem__, fingerprint="killing"
    )
    (part,) = lot_parts(work, samples, LocalEngine(2), changed="fail")
    (tally,) = part.of_pair
    # another of the sixteen is cut
    assert tally.left_out == 2
    assert "003.jpg: " in tally.reason
    assert len(tally.parts[0].before) == 14


def test_a_diff_reads_what_shards_predicted(tmp_path, model, monkeypatch):
    whole = diff(request(model), NoProgress())
    assert whole.pairs[0].predictions.n > 30
    store = KeptLots(Workspace(tmp_path))
    for index in (2, 1):
        diff_shard(request(model, store=store), Shard(index, 2), NoProgress())

    def refused(*_):
        raise AssertionError("an image was predicted again")

    monkeypatch.setattr(predict_lots, "predicted_batch", refused)
    assert without_times(diff(request(model, store=store), NoProgress())) == without_times(whole)


def other_facts(lots, **facts):
    return replace(lots, given=replace(lots.given, facts={**lots.given.facts, **facts}))


def with_session(lots, text, task=None):
    with kept_session.kept_session(given_model(text, task), (SIZE, SIZE)) as (given, _):
        return replace(lots, given=given)


def with_other_weights(lots, model, tmp_path):
    # a version of the model that no runtime reads
    (tmp_path / "other.onnx").write_bytes(model.read_bytes() + b"\x28\x07")
    return with_session(lots, str(tmp_path / "other.onnx"))


CHANGES = {
    "size": lambda lots: other_facts(lots, size=[33, 33]),
    "precision": lambda lots: other_facts(
        lots, runtime=[*lots.given.facts["runtime"][:1], "fp16", *lots.given.facts["runtime"][2:]]
    ),
    "limits": lambda lots: replace(lots, limits=Limits(seconds=9, lossy=True)),
    "paths": lambda lots: PredictLots.of(lots.paths[:2], lots.given, lots.limits),
}
ATTRIBUTES = {
    "threads": ("alignkit.predict.kept_session.available_threads", lambda: 77),
    "processor": ("alignkit.plan.work.vector_extensions", lambda: "avx"),
    "runtime": ("alignkit.backends.onnxruntime.ONNXRuntimeBackend.version", lambda _: "0.0"),
    "batch": ("alignkit.studies.diff.predict_lots.PREDICTED_TOGETHER", 4),
}


def test_a_part_is_stored_under_everything_that_it_depends_on(tmp_path, lots, model, monkeypatch):
    lot = lot_of(SAMPLES, 0, "fail")
    store = KeptLots(Workspace(tmp_path))
    store.keep(lots, lot, SAMPLES.fingerprint, texts(lots, LocalEngine(2))[0])

    def found(work, data=SAMPLES.fingerprint):
        return store.find(work, lot, data) is not None

    assert found(with_session(lots, str(model)))
    assert not found(lots, "other data")
    for changed in CHANGES.values():
        assert not found(changed(lots))
    assert not found(with_session(lots, str(model), given_task("multi-label")))
    assert not found(with_other_weights(lots, model, tmp_path))
    for name, value in ATTRIBUTES.values():
        with monkeypatch.context() as patch:
            patch.setattr(name, value)
            assert not found(with_session(lots, str(model)))
