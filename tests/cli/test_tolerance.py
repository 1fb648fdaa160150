"""`alignkit tolerance` of a run of a linear model, whose outputs are known between two paths."""

import json
import shutil

import numpy as np
import pytest
from scipy.stats import binom

from alignkit.compare.predictions import Predictions
from alignkit.record.document import read_record
from alignkit.record.tolerance_facts import ToleranceDocument
from tests.cli.test_given_models import folder, write_graph  # noqa: F401 - a fixture

YAML = """
name: mine
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
  tensor: {{decode: opencv, resize: {{name: torch, align_corners: true, size: 16}}}}
  other: {{decode: pillow, resize: {{name: torch, align_corners: true, size: 16}}}}
models: [{{name: mine, onnx: {onnx}, preprocess: opencv, classes: {classes}}}]
evaluate: {{backends: [{{name: onnxruntime, precision: [fp32, fp16]}}], resamples: 200}}
attribute: {{images: 2}}
report: {{changed: 0, worst: 1, random: 0}}
gate: {{informational: true}}
"""


@pytest.fixture
def run(alignkit, folder):  # noqa: F811
    file = folder / "mine.yaml"
    classes = folder / "outputs.txt"
    file.write_text(YAML.format(root=folder / "data", onnx=folder / "ten.onnx", classes=classes))
    told = alignkit("run", file, "--reports", folder / "reports", "--progress", "none")
    assert told.code == 0, told.err
    (found,) = (folder / "reports" / "mine").iterdir()
    return found


def predictions_of(run, path, precision):
    cells = read_record(run).cells
    (cell,) = (e for e in cells if (e.evaluated_with, e.precision) == (path, precision))
    return Predictions.from_parquet(run / cell.predictions.path)


def test_a_linear_model_bears_what_its_stored_logits_say(alignkit, run, tmp_path, monkeypatch):
    outs = ("--out", f"json={tmp_path / 't.json'}", "--out", f"html={tmp_path / 'page'}")
    told = alignkit("tolerance", run, "--budget", "5%", *outs, "-q")
    assert told.code == 0, told.err
    found = ToleranceDocument.model_validate_json((tmp_path / "t.json").read_text())
    # again in plain NumPy: half the distance of the two greatest logits, image by image
    logits = predictions_of(run, "opencv", "fp32").logits.astype(np.float64)
    first, second = np.sort(logits, axis=1)[:, :-3:-1].T
    most = max(k for k in range(80) if binom.cdf(k, 80, 0.05) <= 0.05)
    limit = np.sort((first - second) / 2)[most]
    (row,) = found.logits
    assert row.seeds[0].limit.value == limit
    assert 0.99 * limit < row.atol < limit
    assert f"--atol {row.atol:g} --rtol 0\n" in told.out
    # the other cells
    served = predictions_of(run, "tensor", "fp32").logits.astype(np.float64)
    moved = np.abs(served - logits).max(axis=1)
    cell = next(e for e in row.cells if (e.evaluated_with, e.precision) == ("tensor", "fp32"))
    assert cell.max_abs == moved.max()
    assert cell.beyond == (moved > row.atol).sum()
    assert cell.changed == (served.argmax(axis=1) != logits.argmax(axis=1)).sum()
    assert cell.changed <= cell.could_change == (moved >= (first - second) / 2).sum()
    # the network, which is linear, was run between the paths and beyond
    pair = found.pixels[0]
    (curve,) = pair.seeds
    assert curve.source == "line, checked"
    assert [each.factor for each in curve.checks] == [0.25, 0.5, 2.0]
    for each in curve.checks:
        line = logits + each.factor * (served - logits)
        assert each.predicted == (line.argmax(axis=1) != logits.argmax(axis=1)).sum()
        assert each.only_predicted + each.only_measured == 0
    assert found.checked_on == found.cpu != ""
    assert "line, checked" in told.out
    page = (tmp_path / "page" / "index.html").read_text()
    assert f"--atol {row.atol:g} --rtol 0" in page
    written = ToleranceDocument.model_validate_json((tmp_path / "page/tolerance.json").read_text())
    assert written == found


def too_few_say_how_many_are_needed(alignkit, run):
    told = alignkit("tolerance", run, "--no-check")
    assert told.code == 0
    words = "inconclusive: a budget of 0.5 % needs 598\xa0images, and 80\xa0images were compared"
    assert f"No atol: {words}" in told.out
    assert "none shown" in told.out
    assert "--atol" not in told.out


def test_what_changed_since_the_run_or_is_gone_is_named(alignkit, run, folder):  # noqa: F811
    too_few_say_how_many_are_needed(alignkit, run)
    # a given model is no stored work: its file is read again
    patterns = np.random.default_rng(5).normal(size=(10, 3, 16, 16)).astype(np.float32)
    write_graph(folder / "ten.onnx", patterns)
    told = alignkit("tolerance", run, "--budget", "5%", "-q")
    assert told.code == 0, told.err
    assert "the model, loaded again, answers otherwise than in the run" in told.out
    assert "line, not checked" in told.out
    # the work folder
    shutil.rmtree(run.parent.parent / ".cache")
    told = alignkit("tolerance", run, "--budget", "5%", "-q")
    assert (told.code, told.out) == (2, "")
    assert "does not hold 'prepare eval on opencv' and 2 more; run 'alignkit run " in told.err
    assert told.err.rstrip().endswith("again, or add --no-check")
    assert not (run.parent.parent / ".cache" / "prepared").exists()
    unchecked = alignkit("tolerance", run, "--budget", "5%", "--no-check", "--json", "-q")
    assert unchecked.code == 0
    document = json.loads(unchecked.out)
    assert {c["source"] for p in document["pixels"] for c in p["seeds"]} == {"line, not checked"}
    assert document["checked_on"] == ""
    # the logits, without which nothing is left
    for file in run.rglob("*.parquet"):
        file.unlink()
    told = alignkit("tolerance", run, "--no-check")
    assert (told.code, "is missing, which record.json names" in told.err) == (2, True)


@pytest.mark.parametrize("budget", ["0", "100%", "-1%", "nan", "half", ""])
def test_a_budget_that_is_no_share_is_refused_first(alignkit, tmp_path, budget):
    told = alignkit("tolerance", tmp_path, "--budget", budget)
    assert (told.code, "give a share of answers above 0 and below 100 %" in told.err) == (2, True)


def test_a_folder_without_a_run_is_refused(alignkit, tmp_path):
    told = alignkit("tolerance", tmp_path)
    assert (told.code, "no record.json" in told.err) == (2, True)
