"""Pending changes in groups, and the commands that approve them."""

from pathlib import Path

import pytest

from alignkit.baseline import Baseline
from alignkit.baseline.approval import changes, metric_changes
from alignkit.baseline.pending import commands, grouped, headline, model_lines
from alignkit.text.names import Names
from tests.baseline.test_baseline import baseline, line

NAMES = Names(())
OLD, NEW = "0" * 64, "1" * 64


@pytest.fixture
def groups():
    """``a`` and ``b`` change from decode on, ``c`` from resize on, ``d`` is new."""
    before = [line(i, s, OLD) for i in ("a", "b", "c") for s in ("decode", "resize")]
    after = [line(i, s, NEW) for i in ("a", "b") for s in ("decode", "resize")]
    after += [line("c", "decode", OLD), line("c", "resize", NEW)]
    return grouped(changes(baseline(*before), baseline(*after)))


def test_changes_that_begin_at_one_stage_are_one_group(groups):
    assert [headline(group, NAMES) for group in groups] == [
        "serving decode: 2 images changed",
        "serving resize: 1 image changed",
    ]
    assert len(groups[0].lines) == 4


def test_the_commands_approve_each_group(groups):
    assert list(commands(groups, Path("my gate.yaml"))) == [
        "alignkit baseline approve 'my gate.yaml' --path serving --stage decode --reason '…'",
        "alignkit baseline approve 'my gate.yaml' --path serving --stage resize --reason '…'",
    ]


def test_what_models_predict_is_told_with_the_command_that_approves_it():
    before = baseline()
    (line_,) = before.metrics.values()
    after = line_.model_copy(update={"metrics": {"top1": 0.4375, "recall.macro": None}})
    now = Baseline(before.head, metrics={after.place: after})
    assert list(model_lines(metric_changes(before, now), Path("gate.yaml"), NAMES)) == [
        (
            "# trained with a, served with b in torch fp32: predictions changed; "
            "top1 50.00 % → 43.75 %, recall.macro none → none"
        ),
        "alignkit baseline approve gate.yaml --models --reason '…'",
    ]
    assert list(model_lines(metric_changes(before, before), Path("gate.yaml"), NAMES)) == []
