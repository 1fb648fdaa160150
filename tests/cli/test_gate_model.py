"""`alignkit gate` on an experiment that trains: model rules, indecision, metrics against a baseline."""

import json
import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from alignkit.baseline import MetricLine
from alignkit.baseline.approval import without_predictions
from alignkit.baseline.baseline_from_run import pack, unpack
from tests.sealed import rewrite

EXPERIMENT = """\
# Is it so?
name: small
data: {name: digits-on-photos, train: 300, eval: 60, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {epochs: 4, seeds: [0]}
evaluate: {resamples: 200}
gate:
  rules:
    - {metric: churn, fail: 0.9}
    - {metric: recall.macro, margin: 0.01}
    - {metric: resize.mean_abs, fail: 100}
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    """Shared by the tests, so that the models are trained once."""
    return tmp_path_factory.mktemp("reports")


@pytest.fixture
def gate(alignkit, reports, tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(EXPERIMENT)

    def call(*changes, verb=("gate",), more=()):
        sets = [word for change in changes for word in ("--set", change)]
        quiet = ("-q", "--no-html") if verb == ("gate",) else ()
        return alignkit(*verb, file, "--reports", reports, *quiet, *sets, *more)

    return call


@pytest.fixture
def between(gate, tmp_path):
    """A margin that lies inside the measured interval."""
    gate(more=("--out", f"json={tmp_path / 'r.json'}"))
    entries = json.loads((tmp_path / "r.json").read_text())["matrix"]
    (found,) = [each for each in entries if each["drift"] and each["evaluated_with"] == "pillow"]
    recall = found["drift"]["metrics"]["recall.macro"]
    furthest = max(abs(recall["low"]), abs(recall["high"]))
    margin = (abs(recall["value"]) + furthest) / 2
    return f"gate.rules=[{{metric: recall.macro, margin: {margin}, path: pillow}}]"


def test_too_few_images_are_inconclusive_with_the_number_that_would_do(gate, between):
    told = gate(between)
    assert told.code == 0, told
    assert told.out.startswith("small: INCONCLUSIVE")
    assert "images to decide" in told.out
    assert "controls hold" in told.out


def test_indecision_fails_with_7_where_the_file_says_so(gate, between):
    assert gate(between, "gate.on_inconclusive=fail").code == 7
    assert gate(between, "gate.on_inconclusive=fail", more=("--exit-zero",)).code == 0


def test_a_model_rule_fails_with_1_and_names_effect_and_cause(gate):
    told = gate("gate.rules.0={metric: logits.max_abs, fail: 0.000001}")
    assert told.code == 1
    assert re.search("^  fail +logits.max_abs", told.out, re.MULTILINE)


def test_fail_fast_trains_nothing_where_pixels_drift_already(gate, reports):
    known = set(reports.glob(".cache/trainings/*"))
    strict = "gate.rules=[{preset: strict}, {metric: churn, fail: 0.5}]"
    told = gate(strict, "train.epochs=7", more=("--fail-fast",))
    assert told.code == 1
    assert "not looked at: 1\N{NO-BREAK SPACE}other rule." in told.out
    assert set(reports.glob(".cache/trainings/*")) == known


def test_a_class_that_is_not_there_is_a_mistake(gate):
    told = gate("gate.rules.0={metric: 'recall[eleven]', fail: 0.1}")
    assert told.code == 2
    assert "there is no class 'eleven'" in told.out


def test_metrics_are_held_against_the_baseline(gate, tmp_path):
    rules = "gate.rules=[{metric: top1, fail: 0.05, against: baseline}]"
    assert gate(rules).code == 6
    assert gate(verb=("baseline", "record")).code == 0
    assert gate(rules).code == 0
    (path,) = (tmp_path / "alignkit.baseline" / "small").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "metrics" in line and line["evaluated_with"] == "pillow":
            line["predictions"] = {
                seed: all_wrong(old) for seed, old in line["predictions"].items()
            }
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    told = gate(rules)
    assert told.code == 6
    assert "no approval covers 2 of" in told.out
    approve_all(path, lines)
    told = gate(rules)
    assert told.code == 1
    assert "baseline" in told.out
    assert gate(rules.replace("0.05", "0.05, path: opencv")).code == 0
    churn = "gate.rules=[{metric: churn, fail: 0.05, against: baseline}]"
    told = gate(churn)
    assert told.code == 1
    assert "alignkit baseline review" in told.out
    assert gate(churn.replace("0.05", "0.05, path: opencv")).code == 0

    review = gate(verb=("baseline", "review"))
    assert re.search("^# trained with .*, served with pillow in torch fp32: predictions changed; top1 ",
                     review.out, re.MULTILINE)  # fmt: skip
    assert "baseline approve" in review.out
    assert "--models --reason" in review.out
    approve = ("baseline", "approve")
    refused = gate(verb=approve, more=("--models", "--stage", "resize", "--reason", "no"))
    assert refused.code == 2
    done = gate(verb=approve, more=("--models", "--reason", "a better model"))
    assert done.code == 0, done
    assert "approved 0 lines and 2 entries of models" in done.out
    assert gate(churn).code == 0


def approve_all(path, lines):
    """As if these predictions had been recorded."""
    (approval,) = (path.parent / "approvals").glob("*.json")
    stored = json.loads(approval.read_text())
    kept = [MetricLine.model_validate(line) for line in lines if "metrics" in line]
    now = {line.place.json_key: without_predictions(line).model_dump() for line in kept}
    for change in stored["metrics"]:
        change["new"] = now[MetricLine.model_validate(change["new"]).place.json_key]
    approval.write_text(json.dumps(stored))


def all_wrong(packed):
    before = unpack(packed)
    return pack(replace(before, logits=np.eye(10, dtype=np.float32)[(before.labels + 1) % 10]))


def test_another_run_takes_the_place_of_the_baseline(gate, reports, tmp_path):
    rules = "gate.rules=[{metric: churn, fail: 0.0, against: baseline}, "
    rules += "{metric: recall.macro, margin: 0.5, against: baseline}]"
    before, known = tmp_path / "before", set(reports.glob("small/*/record.json"))
    assert gate(rules, verb=("run",), more=("--no-open", "-q")).code == 0
    (record,) = set(reports.glob("small/*/record.json")) - known
    shutil.copytree(record.parent, before)
    for own in (record.parent, before):
        told = gate(rules, more=("--against", own))
        assert (told.code, "is this very run" in told.out) == (6, True)
    # the same commit, run at another time
    rewrite(before / "record.json", lambda stored: stored.update(started="2026-01-01T00:00:00Z"))
    told = gate(rules, more=("--against", before))
    assert told.code == 0, told
    assert told.out.startswith("small: PASS")

    # a bytewise other model: trained for one epoch less
    told = gate(rules, "train.epochs=3", more=("--against", before))
    assert told.code == 1
    assert told.out.count("churn: fail above 0 %, against the baseline") == 4
