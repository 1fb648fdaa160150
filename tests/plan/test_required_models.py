"""Models that cannot run are refused before any image is read."""

import pytest
import torch

from alignkit.datasets import folder
from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.plan.plan_keys import narrow_to_cells
from alignkit.plan.required_models import require_own_models
from tests.photos import encoded, photo

YAML = """\
name: small
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 16}}}}
  pillow: {{decode: pillow, resize: {{name: pillow, size: 16}}}}
{models}
evaluate: {{backends: [torch]}}
"""


@pytest.fixture
def root(tmp_path):
    for name in ("train/a", "train/b", "eval/a", "eval/b"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "0.jpg").write_bytes(encoded(photo("flower", 60, 80)))
    return tmp_path


def loaded(root, models):
    (root / "x.yaml").write_text(YAML.format(root=root, models=models))
    return load_experiment(root / "x.yaml")


def test_a_model_that_does_not_fit_is_refused_before_images_are_hashed(root, monkeypatch):
    monkeypatch.setattr(folder, "list_files", lambda *_: pytest.fail("files were hashed"))
    with pytest.raises(ConfigError, match=r"train.model: small-cnn takes inputs of 32x32 or more"):
        make_plan(loaded(root, "train: {model: small-cnn}"))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_code_of_models_outside_a_narrowed_plan_is_not_run(root):
    for name, outputs in (("fits", 2), ("wider", 3)):
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 16 * 16, outputs))
        torch.jit.trace(network, torch.zeros(1, 3, 16, 16)).save(root / f"{name}.pt")
    given = [
        f"{{name: {name}, torchscript: {root / name}.pt, preprocess: opencv, classes: [a, b]}}"
        for name in ("fits", "wider")
    ]
    plan = make_plan(loaded(root, f"models: [{', '.join(given)}]"))
    with pytest.raises(ConfigError, match=r"models: wider: .* 3 outputs, and 'classes' names 2"):
        require_own_models(plan)
    require_own_models(narrow_to_cells(plan, ["opencv (model fits)/pillow/torch/fp32"]))
