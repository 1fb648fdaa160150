"""Every task keeps the contract of `alignkit.tasks`."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.experiment.option import plugin_from
from alignkit.tasks import TASKS
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers
from alignkit.testing import TaskContract
from tests.contracts import broken

OPTIONS = {"score": {"score": "own_rating.py:rate", "names": ["first", "mean"]}}
"""Options that a task cannot do without."""
RATE = """
def rate(outputs, sample):
    given = outputs["output"].ravel()
    return {"first": given[0], "mean": given.mean()}
"""


@pytest.fixture(autouse=True)
def _code(tmp_path, monkeypatch):
    (tmp_path / "own_rating.py").write_text(RATE)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", TASKS)
def test_keeps_the_contract(name):
    task = plugin_from(TASKS, {"name": name, **OPTIONS.get(name, {})})
    assert broken(TaskContract, task, skips=True) == {}


def test_no_task_imports_a_heavy_library_with_its_module():
    modules = ", ".join(each.target.partition(":")[0] for each in TASKS.own.values())
    heavy = "{'numpy', 'torch', 'torchvision', 'cv2', 'pyarrow', 'sklearn', 'scipy'}"
    code = f"import sys, {modules}; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@dataclass(frozen=True)
class Skips(MultiLabel):
    """Loses an image of a batch."""

    def decode(self, outputs, places, classes):
        return super().decode(outputs, places, classes)[:1] * len(places)


class Forgets(MultiLabelAnswers):
    """Marks no change."""

    def changed(self, other):
        return np.zeros(len(self), bool)


@dataclass(frozen=True)
class Blind(MultiLabel):
    def answers(self, ids, records, samples, classes):
        found = super().answers(ids, records, samples, classes)
        object.__setattr__(found, "__class__", Forgets)  # it is frozen
        return found


def test_a_task_that_breaks_a_rule_fails_its_check():
    assert "test_gives_one_record_an_image_whatever_the_batch" in broken(TaskContract, Skips())
    ((name, finding),) = broken(TaskContract, Blind()).items()
    assert name == "test_finds_every_change_beside_other_answers"
    assert "changed() marks no image although all outputs are others" in finding
