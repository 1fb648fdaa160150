"""The images that attributions may mix, decided before anything runs."""

import pytest

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.plan.planned_attribution import planned_attributions

YAML = """\
name: budget
data: {{name: digits-on-photos, train: 40, eval: 1000}}
preprocess:
  reference: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  served: {{decode: {decode}, resize: {{name: pillow, size: 32}}}}
train: {{model: small-cnn, epochs: 1, seeds: [0]}}
evaluate: {{backends: [torch, onnxruntime]}}
"""


def scopes(folder, *overrides, decode="nvjpeg-model"):
    file = folder / "budget.yaml"
    file.write_text(YAML.format(decode=decode))
    plan = make_plan(load_experiment(file, overrides))
    return plan, [each.scope for each in planned_attributions(plan)]


def test_mixtures_are_at_most_a_tenth_of_the_predictions_of_the_run(tmp_path):
    _, (scope,) = scopes(tmp_path)
    # two trainings of 40 images, forward and backward, and eight cells of 1,000; two mixtures in
    # each of two runtimes
    assert scope.images == int(0.1 * (8 * 1000 + 2 * 3 * 40) / (2 * 2)) == 206
    assert not scope.predictions_inside  # nothing of the budget is left


def test_no_drift_is_divided_if_no_image_is_to_be_mixed(tmp_path):
    assert scopes(tmp_path, "attribute.images=none")[1] == []
    with pytest.raises(ConfigError, match="images: none and seconds contradict each other"):
        scopes(tmp_path, "attribute.images=none", "attribute.seconds=60")


def test_decoders_that_differ_in_name_alone_cost_nothing(tmp_path):
    _, (scope,) = scopes(tmp_path, decode="pillow")
    assert scope.images is None


def test_what_the_stages_leave_of_the_budget_divides_decode(tmp_path):
    plan, (scope,) = scopes(tmp_path, "train.epochs=200")
    budget = 0.1 * (8 * 1000 + 200 * 2 * 3 * 40)
    assert scope.images is None
    # seven settings of three switches besides the reference's own
    assert scope.inside_decode == int((budget - 4 * 1000) / 7)
    assert scope.predictions_inside
    (planned,) = planned_attributions(plan)
    assert planned.predictions_inside_decode == 7


def test_decode_is_divided_on_three_hundred_images_at_most(tmp_path):
    _, (scope,) = scopes(tmp_path, "train.epochs=2000")
    assert (scope.images, scope.inside_decode, scope.predictions_inside) == (None, 300, True)


def test_no_fewer_than_a_hundred_images_are_mixed(tmp_path):
    _, (scope,) = scopes(tmp_path, "data.eval=300")
    assert scope.images == 100


@pytest.mark.parametrize(
    ("override", "field", "value"),
    [
        ("attribute.images=all", "images", None),
        ("attribute.images=7", "images", 7),
        ("attribute.images=5000", "images", None),
        ("attribute.seconds=60", "seconds", 60.0),
        ("attribute.runtimes=all", "every_runtime", True),
        ("attribute.decode=true", "inside_decode", None),
        ("attribute.decode=false", "predictions_inside", False),
    ],
)
def test_the_file_decides_it(tmp_path, override, field, value):
    plan, (scope,) = scopes(tmp_path, override)
    assert getattr(scope, field) == value
    assert plan.key != scopes(tmp_path)[0].key


def test_the_simulation_beside_the_worst_int8_is_within_the_budget(tmp_path):
    backends = "evaluate.backends=[torch, {name: onnxruntime, precision: int8}%s]"
    simulated = ", {name: simulated, precision: int8}"
    _, (two,) = scopes(tmp_path, backends % "")
    plan, (three,) = scopes(tmp_path, backends % simulated)
    assert any(each.runtime.simulation for each in plan.evaluations)
    assert two.images == int(0.1 * (8 * 1000 + 2 * 3 * 40) / (2 * 2))
    assert three.images == int(0.1 * (12 * 1000 + 2 * 3 * 40) / (2 * 3))


def test_the_images_are_counted_once(tmp_path, monkeypatch):
    plan, _ = scopes(tmp_path)
    kind, asked = type(plan.experiment.data), []
    count = kind.counts
    monkeypatch.setattr(kind, "counts", lambda data: asked.append(data) or count(data))
    planned_attributions(plan)
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("decode", "switches"),
    [
        ("opencv", 0),
        ("pillow", 0),
        ("{name: simplejpeg, chroma: nearest}", 1),
        ("{name: simplejpeg, chroma: nearest, dct: ifast}", 2),
        ("nvjpeg-model", 3),
    ],
)
def test_the_switches_that_differ_are_counted(tmp_path, decode, switches):
    plan, _ = scopes(tmp_path, decode=decode)
    (planned,) = planned_attributions(plan)
    assert planned.switches == switches
