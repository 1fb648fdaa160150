"""Runs of embeddings: from YAML to cosines, verification and search, with and without identities."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.plan.plan_keys import keyed_plan
from alignkit.progress import NoProgress
from alignkit.record.document import artifact_file
from alignkit.tasks import stored_answers
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo
from tests.runner.test_dense_runs import write_graph

EXPERIMENT = """
name: embeddings
task: {{name: embedding, far: [0.1, 0.01]{options}}}
data: {data}
preprocess:
  opencv: {{preset: opencv-train, size: 32}}
  tensor: {{preset: opencv-train, size: 32, resize: {{name: pillow, filter: bicubic}}}}
models: [{{name: net, onnx: net.onnx, preprocess: opencv}}]
evaluate: {{backends: [onnxruntime], batch_size: 5, resamples: 200}}
attribute: {attribute}
gate: {{rules: [{{metric: churn, fail: 0.9}}]}}
"""
LABELLED = "{name: folder, root: photos, train_dir: eval}"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Photographs of eight identities: strips of two photographs, three shifts of each."""
    monkeypatch.chdir(tmp_path)
    draws = np.random.default_rng(0)
    for identity in range(8):
        place = tmp_path / "photos" / "eval" / f"id{identity}"
        place.mkdir(parents=True)
        image = photo("china" if identity % 2 else "flower", 160, 200)
        for number in range(3):
            top, left = 10 * identity + draws.integers(0, 6), 14 * identity + draws.integers(0, 6)
            cut = np.ascontiguousarray(image[top : top + 60, left : left + 64])
            (place / f"{number}.jpg").write_bytes(encoded(cut))
    kernel = draws.normal(size=(12, 3, 8, 8)).astype(np.float32)
    convolution = ("Conv", ["images", "kernel"], {"strides": [8, 8]})
    write_graph("net.onnx", [convolution, ("Flatten", ["Conv"], {})], [192], kernel=kernel)
    write_graph("map.onnx", [convolution], [12, 4, 4], kernel=kernel)
    return tmp_path


def written(data=LABELLED, attribute="{images: none}", options="", graph="net.onnx"):
    text = EXPERIMENT.format(data=data, attribute=attribute, options=options)
    Path("embeddings.yaml").write_text(text.replace("net.onnx", graph))
    return load_experiment(Path("embeddings.yaml"))


def measured(**given):
    record, folder = run_or_check(
        written(**given), Context(Workspace(Path("reports")), NoProgress())
    )
    answers = {
        cell.evaluated_with: stored_answers(record, artifact_file(folder, cell.predictions))
        for cell in record.cells
        if cell.predictions
    }
    return record, answers


def entry_of(record):
    return next(each for each in record.matrix if each.evaluated_with == "tensor")


def test_a_run_verifies_and_searches_and_says_which_stage_moves_the_embeddings(folder):
    record, answers = measured(attribute="{}")
    entry = entry_of(record)
    served, kept = answers["tensor"], answers["opencv"]
    unit = served.vectors / np.linalg.norm(served.vectors, axis=1, keepdims=True)
    first, second = np.triu_indices(24, 1)
    cosine = (unit @ unit.T)[first, second]
    far, tar, _ = roc_curve(
        served.identities[first] == served.identities[second], cosine, drop_intermediate=False
    )
    # in float32 two pairs may change places
    assert entry.metrics["tar@far=1e-1"] == pytest.approx(tar[far <= 0.1].max(), abs=1 / 24)
    own = kept.vectors / np.linalg.norm(kept.vectors, axis=1, keepdims=True)
    mean = (unit * own).sum(axis=1).mean()
    assert entry.drift.measures["cosine"].value == pytest.approx(mean, abs=1e-6)
    assert entry.drift.groups == 8
    assert [each.name for each in entry.drift.figures] == ["similarity", "roc"]
    assert entry.drift.tables[0].name == "thresholds"
    assert "recall@1" in entry.metrics
    found = {each.metric: each for each in record.attributions}
    assert {"cosine", "recall@1", "recall@1.kept", "churn", "far@far=1e-1.kept"} <= {*found}
    assert found["cosine"].total.value == pytest.approx(mean - 1, abs=1e-6)
    assert found["churn"].total.value == pytest.approx(entry.drift.churn.value)
    for each in found.values():
        if each.total.value:
            assert each.shares[0].factor == "resize", each.metric


def test_images_without_identities_have_cosines_and_neighbours_alone(folder):
    record, _ = measured(data="{name: images, root: photos}")
    drift = entry_of(record).drift
    assert drift.measures["cosine"].value is not None
    assert drift.churn.value is not None
    assert drift.groups == 23  # two of the strips are the same file
    assert record.data.copies == {"eval/id2/2.jpg": "eval/id2/0.jpg"}
    assert drift.metrics["eer"].reason == "the identities of the images are not known"
    assert drift.figures == ()


def test_options_and_images_change_the_keys_of_cells(folder):
    def keys(**given):
        plan = keyed_plan(written(**given), Workspace(Path("reports")))
        return {each.key for each in plan.evaluations}

    found = [
        keys(),
        keys(options=", k: 5"),
        keys(options=", different_pairs: 500"),
        keys(options=", queries: 10"),
        keys(data="{name: images, root: photos}"),
    ]
    (folder / "photos/eval/id0/0.jpg").write_bytes((folder / "photos/eval/id1/0.jpg").read_bytes())
    found.append(keys())
    assert len(set().union(*found)) == sum(map(len, found))
