"""`task:` of an experiment file: read, checked against the data, and part of keys."""

import pytest

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan

YAML = """
name: small
data: {{name: {data}, train: 40, eval: 20}}
preprocess:
  a: {{decode: pillow, resize: {{name: pillow, size: 32}}}}
  b: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
{rest}
"""


def experiment(tmp_path, rest="", data="digits-on-photos"):
    file = tmp_path / "task.yaml"
    file.write_text(YAML.format(data=data, rest=rest))
    return load_experiment(file)


def test_the_default_task_written_out_changes_no_key(tmp_path):
    first = make_plan(experiment(tmp_path))
    again = make_plan(experiment(tmp_path, "task: classification"))
    assert [each.key for each in first.evaluations] == [each.key for each in again.evaluations]
    assert first.key == again.key


def test_the_reading_of_the_outputs_is_part_of_the_keys_of_cells_alone(tmp_path):
    first = make_plan(experiment(tmp_path))
    again = make_plan(experiment(tmp_path, "task: {name: classification, scores: as-is}"))
    assert {each.key for each in first.evaluations}.isdisjoint(
        each.key for each in again.evaluations
    )
    assert [each.key for each in first.trainings] == [each.key for each in again.trainings]


def test_options_of_another_task_are_part_of_the_keys_of_its_cells(tmp_path):
    def keys(task):
        rest = f"task: {task}\nmodels: [{{name: m, onnx: m.onnx, preprocess: a}}]"
        found = experiment(tmp_path, rest, "objects-on-photos")
        return found.content.task

    assert keys("detection") == keys("{name: detection}")
    assert keys("{name: detection, score: 0.4}") != keys("detection")


@pytest.mark.parametrize(
    ("data", "rest", "message"),
    [
        ("objects-on-photos", "", r"task: classifiers need .* has boxes; write 'task: detection'"),
        ("digits-on-photos", "task: detection", r"task: .*detection needs|task: .*box"),
        ("digits-on-photos", "task: detektion", r"did you mean 'detection'"),
        (
            "objects-on-photos",
            "task: detection\ntrain: {epochs: 1}",
            r"train: trains classifiers, .* has boxes; give models that are trained as 'models:'",
        ),
        (
            "objects-on-photos",
            "task: detection\nadvise: {}",
            r"advise: advise is for data with one class an image, and this data has boxes",
        ),
        (
            "digits-on-photos",
            "task: {name: detection, scor: 1}",
            r"detection has no such option; did you mean 'score",
        ),
    ],
)
def test_a_task_that_does_not_fit_is_refused_with_the_next_step(tmp_path, data, rest, message):
    with pytest.raises(ConfigError, match=message):
        experiment(tmp_path, rest, data)


ONNX = "{name: m, onnx: m.onnx, preprocess: a}"
TORCH = "{name: n, torchscript: n.pt, preprocess: a}"


@pytest.mark.parametrize(
    ("models", "evaluate", "backend"),
    [
        (ONNX, "", "onnxruntime"),
        (ONNX, "evaluate: {resamples: 500}", "onnxruntime"),
        (ONNX, "evaluate: {backends: [openvino]}", "openvino"),
        (f"{ONNX}, {TORCH}", "", "torch"),
        ("{name: m, onnx: m.onnx, torchscript: n.pt, preprocess: a}", "", "torch"),
    ],
)
def test_onnx_files_alone_run_in_onnxruntime_by_default(tmp_path, models, evaluate, backend):
    found = experiment(tmp_path, f"models: [{models}]\n{evaluate}").content.evaluate
    assert [each.name for each in found.backends] == [backend]
