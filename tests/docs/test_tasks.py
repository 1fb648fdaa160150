"""The recipes of docs/tasks.md load, and their ONNX files have a runtime."""

import re
from pathlib import Path

import pytest
import yaml

from alignkit.experiment import load_experiment
from alignkit.tasks import TASKS
from tests.datasets.annotated_case import coco, write_images, yolo

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "tasks.md").read_text()
BLOCKS = {
    yaml.safe_load(block)["name"]: block
    for block in re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
}


@pytest.mark.parametrize("name", BLOCKS)
def test_every_recipe_loads_and_its_models_can_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yolo(tmp_path, {"a": ["0 0.5 0.5 0.2 0.2"]})
    coco(tmp_path / "val2017", {"a": [(2, 1, 1, 5, 5)]})
    (tmp_path / "val2017/instances.json").rename("instances_val2017.json")
    write_images(tmp_path / "photos")
    script = next(each for each in re.findall(r"^```python\n(.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)
                  if "def error" in each)  # fmt: skip
    Path("angle.py").write_text(script)
    Path("recipe.yaml").write_text(BLOCKS[name])
    experiment = load_experiment(Path("recipe.yaml"))
    given = experiment.models
    for backend in (each.backend for each in experiment.content.evaluate.backends):
        assert not [e for e in given if e.unsuitable("", needs_onnx=backend.needs_onnx)]


def test_every_task_is_named():
    assert [name for name in TASKS if f"| `{name}`" not in TEXT] == []
