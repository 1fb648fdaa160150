"""Advice is found on training images, becomes a path of the run, and is held to its promise."""

import shutil

import numpy as np
import pytest
import yaml

from alignkit.compare.predictions import Predictions
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.outcome import Measured, Skipped
from alignkit.plan import make_plan
from alignkit.predict import Answer
from alignkit.predict.predict_cells import Predicted
from alignkit.progress import NoProgress
from alignkit.record import BatchCheck, Estimate, MitigationFacts, RunRecord
from alignkit.runner import run_experiment
from alignkit.runner.advise import _half_level, advise, advised_plan
from alignkit.runner.mitigation import Outcomes, _change_of_churn, churn_falls, promise_kept
from alignkit.text.names import Names
from alignkit.workspace import Context, Workspace

SMALL = """
name: small
data: {{name: digits-on-photos, train: 60, eval: 40, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
train: {{model: small-cnn, epochs: 2, seeds: [0, 1], batch_size: 20}}
evaluate: {{backends: [torch], resamples: 200}}
gate: {{rules: [{{metric: churn, fail: 0.5}}]}}
report: {{changed: 0, worst: 0, random: 0}}
advise: {advise}
"""
AREA = "{served_by: [pillow], decoders: [opencv], resizers: [opencv], images: 20}"
SERVING = "{change: serving, decoders: [opencv], resizers: [opencv], images: 20}"


def written(folder, advise):
    file = folder / "small.yaml"
    file.write_text(SMALL.format(advise=advise))
    return file


def run(folder, advise):
    experiment = load_experiment(written(folder, advise))
    return run_experiment(experiment, Context(Workspace(folder / "reports"), NoProgress()))


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return run(tmp_path_factory.mktemp("training"), AREA)


@pytest.fixture
def begun(trained, tmp_path):
    """A folder whose reports hold the models of the experiment, trained, and nothing else."""
    for made in ("prepared", "trainings"):
        kept = trained[1].parents[1] / ".cache" / made
        shutil.copytree(kept, tmp_path / "reports" / ".cache" / made)
    return tmp_path


def predicted(run, trained_with, evaluated_with):
    """What each seed's model predicted, read from the run's files."""
    record, folder = run
    cells = [each for each in record.cells
             if (each.trained_with, each.evaluated_with) == (trained_with, evaluated_with)]  # fmt: skip
    files = [Predictions.from_parquet(folder / each.predictions.path) for each in cells]
    assert len(files) == 2
    return [each.predicted for each in files]


def churn(left, right):
    return sum((a != b).mean() for a, b in zip(left, right, strict=True)) / len(left)


def test_the_nearest_of_what_may_be_chosen_is_advised_and_trained(trained):
    record, _ = trained
    (advice,) = record.advice
    assert (advice.served, advice.advised) == ("pillow", "advised-pillow")
    assert advice.label == "opencv ▸ opencv interpolation=area"
    assert advice.images + advice.unseen_images == 20
    assert 0 < advice.distance.low <= advice.distance.value < 3
    assert {training.preprocess for training in record.trainings} >= {"advised-pillow"}
    assert yaml.safe_load(advice.yaml)["advised-pillow"]["resize"]["interpolation"] == "area"


def test_before_expected_and_confirmed_are_what_the_stored_predictions_say(trained):
    (advice,) = trained[0].advice
    rows = {each.metric: each for each in advice.drift}
    opencv = {path: predicted(trained, "opencv", path)
              for path in ("opencv", "pillow", "advised-pillow")}  # fmt: skip
    advised = {path: predicted(trained, "advised-pillow", path)
               for path in ("advised-pillow", "pillow")}  # fmt: skip
    assert rows["churn"].before.value == pytest.approx(churn(opencv["opencv"], opencv["pillow"]))
    expected = churn(opencv["advised-pillow"], opencv["pillow"])
    assert rows["churn"].expected.value == pytest.approx(expected)
    confirmed = churn(advised["advised-pillow"], advised["pillow"])
    assert rows["churn"].confirmed.value == pytest.approx(confirmed)
    assert set(rows) == {"churn", "top1", "recall.macro", "precision.macro"}


@pytest.mark.parametrize(
    ("confirmed", "kept"),
    [((0.05, 0.02, 0.08), True), ((0.2, 0.15, 0.25), False), ((0.2, 0.05, 0.4), None)],
)
def test_a_promise_is_kept_only_where_the_interval_says_so(confirmed, kept):
    def estimate(value, low, high):
        return Estimate(value=value, low=low, high=high)

    churn = MitigationFacts(
        metric="churn",
        before=estimate(0.3, 0.2, 0.4),
        expected=estimate(0.1, 0.05, 0.15),
        confirmed=estimate(*confirmed),
    )
    assert promise_kept(churn) is kept


def test_the_verdict_is_about_the_paths_of_the_experiment_alone(trained):
    record, _ = trained
    judged = {(rule.trained_with, rule.evaluated_with) for rule in record.verdict.rules}
    assert judged == {("opencv", "pillow"), ("pillow", "opencv")}
    assert len(record.flipped) == 1
    assert {each.candidate for each in record.attributions} == {"pillow"}


def test_an_advised_run_is_not_done_twice(trained, tmp_path):
    record, folder = trained
    experiment = load_experiment(written(folder.parents[2], AREA))
    again = run_experiment(experiment, Context(Workspace(folder.parents[1]), NoProgress()))
    assert again == (record, folder)


def test_advised_serving_trains_nothing_more_and_expects_what_attribution_leaves(begun):
    record, _ = run(begun, SERVING)
    (advice,) = record.advice
    assert {training.preprocess for training in record.trainings} == {"opencv", "pillow"}
    assert advice.label == "opencv ▸ opencv"  # the reference itself is among what may be chosen
    row = advice.drift[0]
    assert row.confirmed.value == 0.0
    assert row.expected.value == pytest.approx(0.0, abs=1e-12)
    assert advice.kept
    assert "served with opencv ▸ opencv instead" in advice.sentence


OLD_NVJPEG = "{preset: torchpipe-gpu-surrogate, size: 32, decode: nvjpeg-model}"
"""Cuts colours off, as nvJPEG up to 12.8 did."""


def test_a_path_that_truncates_colours_is_served_half_a_level_brighter_too(begun):
    file = written(begun, SERVING)
    pillow = "pillow: {preset: pillow-train, size: 32}"
    gpu = f"gpu: {OLD_NVJPEG}"
    file.write_text(file.read_text().replace(pillow, gpu))
    ran = run_experiment(load_experiment(file), Context(Workspace(begun / "reports"), NoProgress()))
    searched, half = ran[0].advice
    assert (searched.advised, half.advised) == ("advised-gpu", "advised-gpu-half-level")
    served = load_experiment(file).paths[1]
    mean = yaml.safe_load(half.yaml)[half.advised]["normalise"]["mean"]
    assert np.allclose(np.subtract(served.normalise.mean, mean) * 255, 0.5)
    paths = {each.name: each for each in ran[0].paths}
    # the same stack, which half a level more does not change
    assert paths[half.advised].surrogate_of == paths["gpu"].surrogate_of == "torchpipe-gpu"
    assert paths["gpu"].replaced == ("decode",)
    assert paths[half.advised].replaced == ("decode", "normalise")
    assert "trained with opencv and served with gpu (surrogate) change" in half.sentence
    assert f"({half.advised} (surrogate))" in half.sentence
    opencv, before, after = (
        predicted(ran, "opencv", path) for path in ("opencv", "gpu", half.advised)
    )
    (row,) = [each for each in half.drift if each.metric == "churn"]
    assert row.before.value == pytest.approx(churn(opencv, before))
    assert row.confirmed.value == pytest.approx(churn(opencv, after))
    assert row.expected.value is None
    assert row.expected.reason == "no search, so nothing is promised"
    assert "served with half a level added before normalisation" in half.sentence
    # the reference is among the configurations of the search, and no other advice is given of it
    assert searched.label == "opencv ▸ opencv"


def plan_with(folder, paths):
    file = written(folder, SERVING)
    file.write_text(file.read_text().replace("pillow: {preset: pillow-train, size: 32}", paths))
    return make_plan(load_experiment(file))


def test_no_two_advices_share_a_name(tmp_path):
    surrogate = OLD_NVJPEG
    plan = plan_with(
        tmp_path, f"gpu: {surrogate}\n  gpu-half-level: {surrogate[:-1]}, same: true}}"
    )
    found = advise(plan, Context(Workspace(tmp_path), NoProgress()))
    names = [each.advised for each in found]
    assert names == ["advised-gpu", "advised-gpu-half-level", "advised-gpu-half-level-half-level"]
    assert found[1].tried
    assert {"gpu", *names} <= {each.name for each in advised_plan(plan, found).experiment.paths}


def test_without_a_seed_that_ran_on_every_path_the_change_is_unknown(tmp_path):
    plan = plan_with(tmp_path, "gpu: {preset: torchpipe-gpu-surrogate, size: 32}")
    advice = _half_level(plan.experiment.paths[1])
    plan = advised_plan(plan, [advice])
    ids, labels = ("a", "b"), np.zeros(2, np.int64)
    made = Predictions(ids, labels, np.eye(2, dtype=np.float32), ("x", "y"))
    answer = Measured(Answer(made, {}, "", BatchCheck()))
    ran = {"opencv": (0, 1), "gpu": (0,), advice.advised: (1,)}
    predicted = [
        Predicted(
            each, answer if each.training.seed in ran[each.preprocess.name] else Skipped("no")
        )
        for each in plan.evaluations
        if each.training.row.is_only("opencv")
    ]
    change = _change_of_churn(advice, Outcomes(plan, predicted, (), (), Names(())), 200)
    assert (change.value, change.reason) == (None, "no seed ran on all three")


@pytest.mark.parametrize(
    ("low", "high", "kept"), [(-0.02, -0.01, True), (0.01, 0.02, False), (-0.01, 0.01, None)]
)
def test_half_a_level_is_kept_only_where_churn_surely_falls(low, high, kept):
    assert churn_falls(Estimate(value=(low + high) / 2, low=low, high=high)) is kept


def test_a_search_without_a_result_leaves_the_rest_of_the_run_whole(begun, monkeypatch):
    from alignkit import search
    from alignkit.errors import NothingCompared

    def refuse(*_, **__):
        raise NothingCompared("no configuration prepares every image")

    monkeypatch.setattr(search, "match", refuse)
    record, _ = run(begun, AREA)
    (advice,) = record.advice
    assert advice.reason == "no configuration prepares every image"
    assert advice.drift == ()
    assert {path.name for path in record.paths} == {"opencv", "pillow"}
    assert isinstance(record, RunRecord)


def test_what_is_nearest_already_is_not_advised_again(begun):
    file = written(begun, AREA)
    text = file.read_text().replace("{preset: pillow-train, size: 32}",
                                    "{decode: pillow, resize: {name: opencv, size: 32}}")  # fmt: skip
    file.write_text(text)
    record, _ = run_experiment(
        load_experiment(file), Context(Workspace(begun / "reports"), NoProgress())
    )
    assert (
        record.advice[0].reason == "the models are already trained with the nearest configuration"
    )


def test_the_advice_asked_for_decides_the_run_s_folder(tmp_path):
    keys = set()
    for advice in (AREA, SERVING, "null"):
        keys.add(make_plan(load_experiment(written(tmp_path, advice))).key)
    assert len(keys) == 3


@pytest.mark.parametrize(
    ("advise", "message"),
    [
        ("{served_by: [pilow]}", "'pilow' is no path; did you mean 'pillow'?"),
        ("{served_by: [opencv]}", "'opencv' is the reference"),
        ("{resizers: [opencvv]}", "no resizer 'opencvv'; did you mean 'opencv'?"),
        ("{change: nothing}", "'training' or 'serving'"),
    ],
)
def test_a_mistake_is_shown_where_it_stands(tmp_path, advise, message):
    with pytest.raises(ConfigError, match="advise") as told:
        load_experiment(written(tmp_path, advise))
    assert message in str(told.value)


def test_models_of_one_s_own_cannot_be_trained_again(tmp_path):
    file = written(tmp_path, AREA)
    head = file.read_text()
    start, end = head.index("\ntrain: ") + 1, head.index("evaluate: ")
    models = "models: [{name: mine, onnx: mine.onnx, preprocess: opencv}]\n"
    file.write_text(head[:start] + models + head[end:])
    with pytest.raises(ConfigError, match="change: serving"):
        load_experiment(file)
