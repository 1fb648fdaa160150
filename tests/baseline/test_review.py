"""Walking pending changes: keys, groups, and what is printed without a terminal."""

from pathlib import Path

import pytest

from alignkit.baseline import Baseline
from alignkit.baseline.approval import changes, metric_changes
from alignkit.baseline.pending import grouped
from alignkit.baseline.review import KEYS, commands, headline, image_table, model_lines, walk
from alignkit.record import PathFacts
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


def press(groups, keys, **more):
    said = []
    left = iter(keys)
    actions = {"cause": lambda group: f"cause of {group.stage}", "show_report": lambda: None}
    decided = walk(groups, names=NAMES, key=lambda: next(left), say=said.append, **(actions | more))
    return decided, "\n".join(said)


def test_changes_that_begin_at_one_stage_are_one_group(groups):
    assert [headline(group, NAMES) for group in groups] == [
        "serving decode: 2 images changed",
        "serving resize: 1 image changed",
    ]
    assert len(groups[0].lines) == 4


def test_a_surrogate_is_called_so_in_every_line(groups):
    facts = PathFacts(name="serving", stages=(), surrogate_of="torchpipe-gpu")
    assert headline(groups[0], Names([facts])) == "serving (surrogate) decode: 2 images changed"


def test_each_key_decides_one_group(groups):
    decided, _ = press(groups, "ar")
    assert (decided.accept, decided.reject, decided.skip) == ([groups[0]], [groups[1]], [])


def test_capitals_decide_all_that_are_left(groups):
    assert press(groups, "A")[0].accept == groups
    decided, said = press(groups, "sR")
    assert (decided.skip, decided.reject) == ([groups[0]], [groups[1]])
    assert "reject all 1" in said


def test_quitting_leaves_the_rest_undecided(groups):
    decided, _ = press(groups, "aq")
    assert (decided.accept, decided.skip) == ([groups[0]], [groups[1]])


def test_info_images_report_and_unknown_keys_decide_nothing(groups):
    opened = []
    decided, said = press(groups, "ido?S", show_report=lambda: opened.append(1))
    assert decided.skip == groups
    assert "cause of decode" in said
    assert "image  old           new" in said
    assert opened == [1]
    assert said.count(KEYS) == 2


def test_the_table_shows_old_new_and_the_shift_of_the_mean(groups):
    (row,) = image_table(groups[1]).splitlines()[1:]
    assert row.split() == ["c", "0" * 12, "1" * 12, "0,", "0,", "0"]


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
