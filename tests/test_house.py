"""The house has floors: few things at eye level, no circle of folders, every name once."""

import ast
import collections
import graphlib
import io
import tokenize
from functools import cache
from pathlib import Path

import pytest

from tests import sources

ROOT = Path(__file__).parents[1] / "alignkit"
FAMILIES = ("decoders", "resizers", "backends", "datasets")
"""Plugins of one family share names on purpose."""
SHARED: set[str] = set()
"""Public names that two modules may define."""
BUDGET = {
    "api": (720, 5), "attribute": (1974, 7), "backends": (4661, 26), "baseline": (2032, 9),
    "cli": (3474, 18), "compare": (6125, 28), "controls": (542, 2), "datasets": (6956, 34),
    "decoders": (2313, 16), "engines": (349, 2), "experiment": (3929, 15), "findings": (1000, 6),
    "gate": (2898, 17), "ground": (3498, 21), "isolation": (1030, 5), "judge": (1864, 7),
    "loader": (706, 3), "lots": (1188, 7), "models": (3119, 13), "plan": (1576, 8),
    "predict": (1695, 9), "prepare": (772, 4), "preprocess": (2525, 13), "record": (3670, 14),
    "report": (8379, 38), "resizers": (493, 8), "runner": (1699, 9), "search": (5003, 27),
    "serve": (1276, 9), "studies": (7720, 34), "tasks": (8415, 42), "testing": (711, 4),
    "text": (2848, 16), "train": (2025, 10),
}  # fmt: skip
"""Room → most lines and modules of it: a change lowers them, and never raises one without its reason
here. ``ground``: the files outside the rooms. The goal of the whole is 58,000 lines in 340 modules.

Raised on 2026-11-28: ``studies`` took tolerance's modules from ``findings``; ``cli``, ``plan`` and
``report`` the models that scripts make and the page of several runs; ``compare``, ``decoders``,
``judge``, ``search`` and others, each by less than 100 lines, what ends wrong answers: copies told by
pixels, limits held against planted faults, one reading of a model's outputs in all cells.
The same day: ``models`` took its options and ``preprocess`` their limits from ``experiment``,
``record`` the tallies of ``studies``, and ``ground`` gained files that are not synced.
The same day: ``text`` took from ``judge`` the words of verdicts, which the record stores as data, and
``report`` those of 28 templates (1,772 lines, now 480); ``controls``, ``gate`` and others what ends
eight more wrong answers."""
COMMENTED = 2.0
"""Least share of lines with a comment, in percent; the goal is 4."""


def folders() -> list[Path]:
    """The rooms: folders of the package that hold modules."""
    return sorted(each for each in ROOT.iterdir() if (each / "__init__.py").exists())


def modules() -> list[Path]:
    return [each for each in ROOT.rglob("*.py") if "node_modules" not in each.parts]


@cache
def parsed(module: Path) -> ast.Module:
    return sources.parsed(module.read_text())


def rooms_imported(folder: Path) -> set[str]:
    """The other rooms that any import of a room names, late and typing-only ones included."""
    named = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alignkit."):
                named.add(node.module.split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.module == "alignkit":
                named |= {alias.name for alias in node.names}
    return named & {each.name for each in folders()} - {folder.name}


def test_the_root_holds_few_files_and_rooms():
    # annotations.py is the ground of samples.py: labels that are more than a class, for every room;
    # task_facts.py is that of rules and records, which share its words
    # limits.py is that of all that reads what others made
    # removed.py is read by commands and files alike
    assert len(list(ROOT.glob("*.py"))) <= 21
    assert 20 <= len(folders()) <= 33


def test_no_folder_waits_for_itself():
    graph = {folder.name: rooms_imported(folder) for folder in folders()}
    order = list(graphlib.TopologicalSorter(graph).static_order())
    print("from the ground to the roof:", " ▸ ".join(order))
    assert set(order) == {each.name for each in folders()}


@pytest.mark.parametrize("folder", folders(), ids=lambda each: each.name)
def test_a_room_says_in_one_sentence_what_it_is_for(folder):
    text = ast.get_docstring(parsed(folder / "__init__.py"))
    assert text
    first = text.split("\n\n")[0]
    assert len(first.splitlines()) <= 2
    assert first.endswith(".")


@pytest.mark.parametrize("folder", folders(), ids=lambda each: each.name)
def test_a_room_is_small_enough_to_know(folder):
    assert len(list(folder.glob("*.py"))) <= 40


@pytest.mark.parametrize("room", sorted({*BUDGET, "ground", *(each.name for each in folders())}))
def test_a_room_keeps_its_budget(room):
    files = [each for each in modules() if _room(each) == room]
    lines = sum(len(each.read_text().splitlines()) for each in files)
    assert lines <= BUDGET[room][0]
    assert len(files) <= BUDGET[room][1]
    # what a change saved is taken out of the budget with it
    assert lines > 0.98 * BUDGET[room][0] - 20, f"lower the budget of {room} to {lines}"


def _room(module: Path) -> str:
    first, *below = module.relative_to(ROOT).parts
    return first if below else "ground"


def test_comments_say_why():
    texts = [each.read_text() for each in modules()]
    lines = sum(len(each.splitlines()) for each in texts)
    tokens = (tokenize.generate_tokens(io.StringIO(each).readline) for each in texts)
    comments = sum(each.type == tokenize.COMMENT for text in tokens for each in text)
    assert 100 * comments / lines >= COMMENTED


def test_files_stay_small():
    long = [each for each in modules() if len(each.read_text().splitlines()) > 400]
    assert not long


def test_only_an_experiment_and_a_plan_are_read_as_the_file_says_them():
    """Every stage is given values: whoever reads ``.content`` would reach back into the YAML."""
    read = [
        f"{module.relative_to(ROOT)}:{node.lineno}"
        for module in modules()
        if module.relative_to(ROOT).parts[0] not in ("experiment", "plan")
        for node in ast.walk(parsed(module))
        if isinstance(node, ast.Attribute)
        and node.attr == "content"
        # the body of an HTTP answer
        and ast.unparse(node) not in ("response.content", "self.content")
    ]
    assert read == []


def public_names(module: Path) -> set[str]:
    """Classes, constants and type aliases that a module defines at its top."""
    names = set()
    for node in parsed(module).body:
        if isinstance(node, ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {each.id for each in node.targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {each for each in names if each[0].isupper()}


def test_no_public_class_or_constant_is_defined_twice():
    defined = collections.defaultdict(list)
    for module in modules():
        place = module.relative_to(ROOT)
        family = place.parts[0] if place.parts[0] in FAMILIES else str(place)
        for name in public_names(module):
            defined[name].append(family)
    twice = {name: places for name, places in defined.items() if len(set(places)) > 1}
    assert len(SHARED) <= 5
    assert set(twice) <= SHARED, twice
