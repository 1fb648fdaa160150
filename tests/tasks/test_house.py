"""Nothing outside the room of tasks asks which task it has: the source's syntax trees show it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import alignkit
from alignkit.tasks import TASKS

ROOT = Path(alignkit.__file__).parent
OUTSIDE = [
    each
    for each in sorted(ROOT.rglob("*.py"))
    if ROOT / "tasks" not in each.parents and each != ROOT / "task_facts.py"
]
ANSWERS = {
    "Predictions", "DetectionAnswers", "SegmentationAnswers", "MultiLabelAnswers", "ScoreAnswers",
}  # fmt: skip
KINDS = {plugin.target.partition(":")[2] for plugin in TASKS.own.values()} | ANSWERS
MODULES = {plugin.target.partition(":")[0] for plugin in TASKS.own.values()}


def faults(tree: ast.AST) -> Iterator[str]:
    """Say each place that asks for a task, in words."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare | ast.match_case):
            if names := sorted(strings(node) & {*TASKS.own}):
                yield f"line {line(node)}: compares with {', '.join(names)}"
        elif isinstance(node, ast.Call) and called(node) in ("isinstance", "issubclass"):
            if names := sorted(mentioned(node) & KINDS):
                yield f"line {node.lineno}: asks for {', '.join(names)}"
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            yield f"line {node.lineno}: imports {node.module}"


def strings(node: ast.AST) -> set[str]:
    return {
        each.value
        for each in ast.walk(node.pattern if isinstance(node, ast.match_case) else node)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def line(node: ast.AST) -> int:
    return (node.pattern if isinstance(node, ast.match_case) else node).lineno


def called(node: ast.Call) -> str:
    return node.func.id if isinstance(node.func, ast.Name) else ""


def mentioned(node: ast.AST) -> set[str]:
    names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    return names | {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}


def test_no_room_asks_which_task_it_has():
    found = {
        str(file.relative_to(ROOT)): said
        for file in OUTSIDE
        if (said := [*faults(ast.parse(file.read_text()))])
    }
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "if task == 'detection': pass",
        "found = record.task.name in ('segmentation', 'score')",
        "isinstance(answers, Predictions)",
        "isinstance(task, (int, tasks.Detection))",
        "match name:\n case 'multi-label': pass",
        "from alignkit.tasks.score import Score",
    ],
)
def test_each_way_to_ask_is_found(source):
    assert [*faults(ast.parse(source))]
