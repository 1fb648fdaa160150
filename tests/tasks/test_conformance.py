"""Every task keeps the contract of `alignkit.tasks`."""

import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

from alignkit.studies.conformance import conformance, made, task_checks
from alignkit.tasks import TASKS
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers

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
    found = conformance("task", name, OPTIONS.get(name, {}))
    assert [each for each in found.results if each.state != "passed"] == []
    assert found.exit_code == 0


def test_no_task_imports_a_heavy_library_with_its_module():
    modules = ", ".join(each.target.partition(":")[0] for each in TASKS.own.values())
    heavy = "{'numpy', 'torch', 'torchvision', 'cv2', 'pyarrow', 'sklearn', 'scipy'}"
    code = f"import sys, {modules}; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def failures(task) -> dict[str, str]:
    results = [made(each) for each in task_checks.checks(task)]
    return {each.name: each.finding for each in results if each.state == "failed"}


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
    assert "gives one record an image, whatever the batch" in failures(Skips())
    found = failures(Blind())
    assert found == {
        "finds every change beside other answers":
            "changed() marks no image although all outputs are others"
    }  # fmt: skip
