"""Which options of a plan are timed, and the drift that a run knows of them."""

from dataclasses import replace

import pytest

from alignkit.errors import NothingCompared
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.serve.serving_options import chosen_evaluations
from alignkit.studies.bench.begun_bench import KnownDrift
from tests.cli.test_given_models import folder  # noqa: F401 - a fixture
from tests.report.records import quickstart

YAML = """
name: mine
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
  pillow: {{decode: pillow, resize: {{name: pillow, size: 16}}}}
models:
  - {{name: one, onnx: {onnx}, preprocess: opencv, classes: {classes}}}
  - {{name: other, onnx: {onnx}, preprocess: pillow, classes: {classes}}}
evaluate: {{backends: [{backends}]}}
"""
KSERVE = "{name: kserve, url: 'http://127.0.0.1:1', model: m, serves: other}"


@pytest.fixture
def chosen(folder):  # noqa: F811
    def choose(*backends):
        parts = {"root": folder / "data", "onnx": folder / "ten.onnx"}
        file = folder / "mine.yaml"
        classes = folder / "outputs.txt"
        file.write_text(YAML.format(**parts, classes=classes, backends=", ".join(backends)))
        return chosen_evaluations(make_plan(load_experiment(file)))

    return choose


def test_a_backend_that_cannot_run_the_format_is_chosen_to_be_skipped_with_its_reason(chosen):
    found = chosen("onnxruntime", "torch")
    by_model = {(e.training.given.name, e.preprocess.name, e.runtime.name): e for e in found}
    assert len(found) == len(by_model) == 8  # of both models, on both paths, in both backends
    assert all(("torch modules" in e.skipped) == (e.runtime.name == "torch") for e in found)
    assert [e.training.given.name for e in found if e.aligned] == ["one", "other"]
    assert found[0].aligned
    with pytest.raises(NothingCompared, match="no backend runs a model of the file: torch runs"):
        chosen("torch")


def test_an_endpoint_is_an_option_of_the_row_that_it_serves_alone(chosen):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    remote = [each for each in chosen("onnxruntime", KSERVE) if each.runtime.holds]
    assert remote
    assert {each.training.given.name for each in remote} == {"other"}
    assert not any(each.unsuited for each in remote)


def test_the_drift_counts_the_images_that_were_compared():
    record = quickstart()
    entry = next(each for each in record.matrix if each.drift is not None)
    images = entry.drift.n // len(entry.seeds)
    assert KnownDrift(record, "", "").of(entry.place)[0].images == images
    few = entry.model_copy(update={"drift": replace(entry.drift, asked=7 * len(entry.seeds))})
    asked = record.model_copy(update={"matrix": (few,)})
    assert KnownDrift(asked, "", "").of(entry.place)[0].images == 7
