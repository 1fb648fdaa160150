"""The rows a run's record gets."""

from contextlib import contextmanager
from dataclasses import replace

import pytest

from alignkit.attribute import attribute
from alignkit.attribute.attribute_paths import attribute_runs, attribute_stored
from alignkit.backends import QUANTISED_GRAPH
from alignkit.backends.kserve import KServeBackend
from alignkit.backends.onnxruntime import ONNXRuntimeBackend
from alignkit.backends.simulated import SimulatedBackend
from alignkit.backends.torch import TorchBackend
from alignkit.plan.planned_attribution import PlannedAttribution
from alignkit.plan.work import Runtime
from alignkit.workspace import Workspace
from tests.attribute.test_attribute import ONE_RUNTIME, Projection
from tests.stacks import REFERENCE, changed, turned_photos

TORCH = Runtime("torch", TorchBackend(), "fp32", "torch 2")
ORT = Runtime("onnxruntime", ONNXRuntimeBackend(), "fp32", "onnxruntime 1")
HALF = replace(ORT, precision="fp16")
LIVE = Runtime("kserve", KServeBackend("http://x", "m", sends="tensors"), "served", "client 2")


def model(seed: int = 0) -> dict:
    return {
        TORCH: Projection(seed=seed),
        ORT: Projection(seed=seed),
        HALF: Projection(seed=seed + 9),
    }


def factors_of(rows, runtime, metric="churn"):
    (row,) = [
        each
        for each in rows
        if (each.backend, each.precision, each.metric) == (runtime.name, runtime.precision, metric)
    ]
    return {share.factor: share.effect.value for share in row.shares}


def test_each_runtime_is_a_factor_named_by_what_it_changes():
    rows = attribute_runs(
        REFERENCE, changed("decode", "resize"), turned_photos(), [model()], resamples=200
    )
    assert set(factors_of(rows, TORCH)) == {"decode", "resize"}
    assert set(factors_of(rows, ORT)) == {"decode", "resize", "backend"}
    assert set(factors_of(rows, HALF)) == {"decode", "resize", "backend+precision"}
    assert factors_of(rows, ORT)["backend"] == 0.0
    assert factors_of(rows, HALF, "logits")["backend+precision"] != 0.0
    assert [row.metric for row in rows if not row.backend] == ["pixels", "pixels.decode"]


def test_rows_equal_those_of_each_runtime_by_itself():
    samples, candidate = turned_photos(), changed("decode", "resize")
    rows = attribute_runs(REFERENCE, candidate, samples, [model(), model(1)], resamples=200)
    one = [{frozenset(): Projection(seed=seed)} for seed in (0, 1)]
    alone = attribute(REFERENCE, candidate, samples, one, resamples=200)
    runtime = {"backend": "torch", "precision": "fp32"}
    mine = {row.metric: row for row in rows if row.backend == "torch"}
    assert mine.keys() == alone.keys() - {"pixels"}
    for metric, row in mine.items():
        assert row == alone[metric].model_copy(update=runtime)


class Quantised(Projection):
    """A projection that names the int8 graph it executes."""

    def effective(self):
        return {QUANTISED_GRAPH: "the graph"}


def test_int8_is_divided_at_the_runtime_that_executes_its_graph_unfused():
    unfused = Runtime("simulated", SimulatedBackend(), "int8", "onnxruntime 1")
    fused = replace(ORT, precision="int8")
    sessions = {TORCH: Projection(), unfused: Quantised(seed=9), fused: Quantised(seed=4)}
    paths = REFERENCE, changed("decode", "resize")
    rows = attribute_runs(*paths, turned_photos(), [sessions], resamples=200)
    own, exact = factors_of(rows, fused, "logits"), factors_of(rows, unfused, "logits")
    assert {*own} == {"decode", "resize", "quantisation", "kernel"}
    assert own["quantisation"] == exact["backend+precision"]

    # without the unfused graph both are one factor, and the shares of the stages are the same
    del sessions[unfused]
    rows = attribute_runs(*paths, turned_photos(), [sessions], resamples=200)
    whole = factors_of(rows, fused, "logits")
    assert own["quantisation"] + own["kernel"] == pytest.approx(whole.pop("backend+precision"))
    assert whole == {stage: own[stage] for stage in ("decode", "resize")}


def test_int8_is_not_divided_at_another_graph():
    unfused = Runtime("simulated", SimulatedBackend(), "int8", "onnxruntime 1")
    fused = replace(ORT, precision="int8")
    other = Quantised(seed=4)
    other.effective = lambda: {QUANTISED_GRAPH: "another graph"}
    sessions = {TORCH: Projection(), unfused: Quantised(seed=9), fused: other}
    paths = REFERENCE, changed("decode", "resize")
    rows = attribute_runs(*paths, turned_photos(), [sessions], resamples=200)
    assert "kernel" not in factors_of(rows, fused, "logits")


@pytest.mark.parametrize("reference", ["fused", "unfused"])
def test_an_int8_reference_runtime_is_no_factor_to_divide(reference):
    unfused = Runtime("simulated", SimulatedBackend(), "int8", "onnxruntime 1")
    fused = replace(ORT, precision="int8")
    ordered = (fused, unfused) if reference == "fused" else (unfused, fused)
    sessions = {runtime: Quantised(seed=seed) for seed, runtime in enumerate(ordered)}
    paths = REFERENCE, changed("decode", "resize")
    rows = attribute_runs(*paths, turned_photos(), [sessions], resamples=200)
    assert set(factors_of(rows, ordered[0])) == {"decode", "resize"}
    assert set(factors_of(rows, ordered[1])) == {"decode", "resize", "backend"}


def test_equal_paths_leave_only_the_runtime_to_blame():
    other = replace(REFERENCE, name="other")
    rows = attribute_runs(REFERENCE, other, turned_photos(), [model()], resamples=200)
    assert {(row.backend, row.precision) for row in rows} == {
        ("onnxruntime", "fp32"), ("onnxruntime", "fp16"),
    }  # fmt: skip
    assert set(factors_of(rows, ORT)) == {"backend"}


def test_equal_paths_in_one_runtime_say_that_nothing_differs():
    other = replace(REFERENCE, name="other")
    rows = attribute_runs(REFERENCE, other, turned_photos(), [{TORCH: Projection()}])
    assert {row.reason for row in rows} == {"the paths do not differ in any stage"}


def test_stored_rows_are_not_computed_again(tmp_path):
    opened = []

    @contextmanager
    def sessions():
        opened.append(1)
        yield [{TORCH: ONE_RUNTIME[frozenset()]}]

    def rows(key: str):
        samples = turned_photos()
        planned = PlannedAttribution(
            REFERENCE, changed("resize"), samples.fingerprint, (key,), (TORCH,), 200
        )
        return attribute_stored(planned, samples, sessions, Workspace(tmp_path))

    assert rows("a") == rows("a")
    assert len(opened) == 1
    rows("b")
    assert len(opened) == 2


def test_a_live_runtime_is_asked_every_time_and_nothing_of_it_is_stored(tmp_path):
    opened, samples = [], turned_photos()
    planned = PlannedAttribution(
        REFERENCE, changed("resize"), samples.fingerprint, ("a",), (TORCH, LIVE), 200
    )

    @contextmanager
    def sessions():
        opened.append(1)
        yield [{TORCH: Projection(), LIVE: Projection(seed=len(opened))}]

    def rows():
        return attribute_stored(planned, samples, sessions, Workspace(tmp_path))

    assert rows() != rows()
    assert len(opened) == 2
    assert not list(tmp_path.rglob("key.json"))
    with Workspace(tmp_path).store("comparisons", planned.parts, "an old one") as old:
        (old / "attributions.json").write_text("[]")
    assert rows()


@pytest.mark.parametrize("models", [[], [{TORCH: Projection()}]])
def test_pixels_are_attributed_with_and_without_a_model(models):
    rows = attribute_runs(REFERENCE, changed("resize"), turned_photos(), models, resamples=200)
    assert rows[0].metric == "pixels"
    assert rows[0].shares[0].factor == "resize"
