"""Every module can be the first that is imported: no circle hides behind another's order."""

import ast
import graphlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sources import parsed

ROOT = Path(__file__).parents[1] / "alignkit"


def first_imports(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """What a module imports as it is imported; not what functions and type checkers do."""
    for each in body:
        if isinstance(each, ast.Import | ast.ImportFrom):
            yield each
        elif not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            if isinstance(each, ast.If) and "TYPE_CHECKING" in ast.unparse(each.test):
                continue
            inner = (getattr(each, part, []) for part in ("body", "orelse", "finalbody"))
            handled = (handler.body for handler in getattr(each, "handlers", []))
            for part in (*inner, *handled):
                yield from first_imports(part)


def ancestors(name: str) -> set[str]:
    """``a.b.c`` → ``a``, ``a.b``: packages that run before it."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts))}


def graph_of(root: Path) -> dict[str, set[str]]:
    """Module → the modules that are run by importing it, before it goes on."""
    files = {
        ".".join(file.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__"): file
        for file in root.rglob("*.py")
    }  # fmt: skip
    graph = {}
    for name, file in files.items():
        named = set()
        for line in first_imports(parsed(file.read_text()).body):
            module = getattr(line, "module", None)
            for alias in line.names:
                inner = f"{module}.{alias.name}" if module else alias.name
                named.add(inner if inner in files else module)
        # its own packages run already, unless it asks for something of theirs
        around = {each for other in named & files.keys() for each in ancestors(other)}
        graph[name] = (named | (around - ancestors(name))) & files.keys() - {name}
    return graph


def test_no_module_waits_for_itself():
    graph = graph_of(ROOT)
    assert len(graph) > 200
    graphlib.TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(
    "later", ["import case.one", "from case import one", "from case.one import x"]
)
def test_a_circle_is_found(tmp_path, later):
    package = tmp_path / "case"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "one.py").write_text("from case import two\nx = 1\n")
    (package / "two.py").write_text(f"def f():\n    {later}\n")
    graphlib.TopologicalSorter(graph_of(package)).prepare()
    (package / "two.py").write_text(f"{later}\n")
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(graph_of(package)).prepare()
