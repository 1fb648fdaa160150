"""Rules about some of the images are measured on these images alone."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest

from alignkit.experiment import load_experiment
from alignkit.experiment.rule_option import Rule
from alignkit.gate.gate_check import check
from alignkit.gate.gate_subgroup import members
from alignkit.preprocess.image_kinds import kinds_of_file
from alignkit.progress import NoProgress
from alignkit.samples import Samples
from alignkit.text.outcome import said
from alignkit.workspace import Context, Workspace
from tests.gate_case import PATHS, make_case
from tests.photos import make_jpegs

NEAREST = PATHS.replace(
    "opencv: {decode: opencv", "opencv: {decode: {name: simplejpeg, chroma: nearest}"
)


@pytest.fixture
def case(tmp_path):
    return make_case(tmp_path)


def checked(case, *rules, paths=NEAREST):
    experiment = load_experiment(case.write(*rules, paths=paths), [])
    return check(experiment, Context(Workspace(case.reports), NoProgress()), baselines=None).record


def test_seconds_and_start_are_those_of_this_gate_and_not_of_the_process(case):
    # this process has computed for longer than the gate takes
    began, clock = datetime.now(UTC), time.monotonic()
    record = checked(case, "{metric: decode.changed, fail: 0}")
    assert 0 < record.seconds <= time.monotonic() - clock + 0.1
    started = datetime.fromisoformat(record.started)
    assert began - timedelta(seconds=1) <= started <= datetime.now(UTC)


def states(record, metric):
    return [each.state for each in record.verdict.rules if each.metric == metric]


def test_only_the_images_of_the_group_are_judged(case):
    record = checked(
        case,
        "{metric: decode.changed, fail: 0, where: {subsampling: 4:4:4}}",
        "{metric: decode.changed, fail: 0, where: {subsampling: 4:2:0}}",
    )
    assert states(record, "decode.changed") == ["pass", "fail"]
    assert [group.where for group in record.groups] == [
        {"subsampling": "4:4:4"}, {"subsampling": "4:2:0"},
    ]  # fmt: skip


def test_its_numbers_are_those_of_a_gate_over_these_images_alone(case):
    rule = "{{metric: decode.mean_abs, fail: 9{}}}"
    (group,) = checked(case, rule.format(", where: {subsampling: 4:2:0}")).groups
    for file in case.images.iterdir():
        if kinds_of_file(file.read_bytes()).subsampling != "4:2:0":
            file.unlink()
    alone = checked(case, rule.format(""))
    assert group.images == alone.data.eval > 1
    assert group.pixels == alone.pixels


def test_a_group_without_images_compared_nothing(case):
    record = checked(case, "{metric: decode.changed, fail: 0, where: {subsampling: 4:1:1}}")
    assert record.verdict.exit_code == 5
    assert "no image is subsampling 4:1:1" in said(record.verdict.rules[0], "value")


@pytest.mark.parametrize(("where", "expected"), [
    ({"subsampling": "4:2:0"}, [0]),
    ({"subsampling": "4:4:4", "coding": "progressive"}, []),
    ({"format": "JPEG"}, [0, 1, 2]),
    ({"format": "JPEG", "subsampling": "grey"}, [2]),
])  # fmt: skip
def test_every_condition_must_hold(where, expected):
    jpegs = make_jpegs()
    encoded = [jpegs["420"], jpegs["444"], jpegs["grey"]]
    samples = Samples(("a", "b", "c"), (0, 1, 1), ("one", "two"), encoded.__getitem__, "")
    assert members(where, samples) == expected


def test_a_group_and_its_limits_name_the_rule():
    rule = Rule.model_validate({"metric": "churn", "fail": 0.1, "where": {"mode": "grey"}})
    assert rule.id == "churn mode=grey"


@pytest.mark.parametrize(("rule", "said"), [
    ("{metric: decode.changed, fail: 0, where: {subsamplin: grey}}", "subsamplin"),
    ("{metric: decode.changed, fail: 0, against: baseline, where: {mode: grey}}",
     "subgroups are compared with the reference"),
])  # fmt: skip
def test_conditions_that_cannot_be_are_refused(case, rule, said):
    with pytest.raises(Exception, match=said):
        load_experiment(case.write(rule), [])


@pytest.mark.slow
def test_a_models_subgroup_is_its_predictions_on_these_images(tmp_path):
    import pandas as pd

    file = tmp_path / "small.yaml"
    file.write_text(
        "# Is it so?\nname: small\ndata: {name: digits-on-photos, train: 200, eval: 60, seed: 0}\n"
        "preprocess:\n  opencv: {preset: opencv-train, size: 48}\n"
        "  area: {preset: opencv-train, size: 48, resize: {name: opencv, interpolation: area}}\n"
        "train: {epochs: 2, seeds: [0, 1]}\nevaluate: {resamples: 200}\n"
        "gate: {rules: [{metric: churn, fail: 0.5, where: {quality: 70 to 79}}]}\n"
    )
    experiment = load_experiment(file, [])
    done = check(experiment, Context(Workspace(tmp_path / "r"), NoProgress()), baselines=None)
    (group,) = done.record.groups
    (entry,) = [e for e in group.matrix if (e.trained_with, e.evaluated_with) == ("opencv", "area")]
    changed, samples = [], experiment.data.evaluation()
    chosen = [samples.ids[index] for index in members(group.where, samples)]
    for seed in (0, 1):
        sides = [
            pd.read_parquet(done.folder / cell.predictions.path)
            for name in ("opencv", "area")
            for cell in done.record.cells
            if (cell.trained_with, cell.evaluated_with, cell.seed) == ("opencv", name, seed)
        ]
        mine = sides[0][sides[0].id.isin(chosen)]
        changed.append((mine.predicted != sides[1].loc[mine.index].predicted).mean())
    assert entry.drift.churn.value == pytest.approx(sum(changed) / 2)
    assert group.images == len(mine)
    assert json.loads(group.model_dump_json())["where"] == {"quality": "70 to 79"}
