"""The notebooks of the docs run from their first cell to their last, on images they make."""

import ast
import json
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

NOTEBOOKS = sorted(Path(__file__).parents[2].glob("docs/notebooks/*.ipynb"))


def test_there_are_three_and_none_holds_outputs():
    assert len(NOTEBOOKS) == 3
    for file in NOTEBOOKS:
        cells = json.loads(file.read_text())["cells"]
        # an output would be of one machine, and of yesterday
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


def result_of(cell: str, names: dict[str, object]) -> object:
    """Run a cell; return the value of its last line, which a notebook shows."""
    *lines, last = ast.parse(cell).body
    shown = isinstance(last, ast.Expr)
    exec(compile(ast.Module([*lines, *([] if shown else [last])], []), "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if shown else None


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_every_cell_runs_and_what_it_shows_is_html(file, tmp_path, monkeypatch, capsys):
    """In this process: a kernel's would import torch and start for longer than all cells take."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    cells = [each for each in json.loads(file.read_text())["cells"] if each["cell_type"] == "code"]
    results = [result_of("".join(each["source"]), names) for each in cells]
    html = [each._repr_html_() for each in results if hasattr(each, "_repr_html_")]
    assert html
    assert all(html)
    assert capsys.readouterr().err == ""  # results go to the notebook alone


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed")
@pytest.mark.filterwarnings("ignore")  # of Jupyter's libraries
def test_every_notebook_runs_in_a_kernel(tmp_path):
    """In one kernel, whose names are removed before each, as most of the time goes to its start."""
    import nbformat
    from nbclient import NotebookClient

    notebook, ends = nbformat.v4.new_notebook(), []
    for file in NOTEBOOKS:
        notebook.cells.append(nbformat.v4.new_code_cell("%reset -f"))
        notebook.cells += nbformat.read(file, as_version=4).cells
        ends.append(len(notebook.cells))
    resources = {"metadata": {"path": str(tmp_path)}}
    patience = {"timeout": 600, "startup_timeout": 300}
    NotebookClient(notebook, **patience, resources=resources).execute()
    for begin, end in pairwise([0, *ends]):
        shown = [each for cell in notebook.cells[begin:end] for each in cell.get("outputs", ())]
        assert any("text/html" in each.get("data", {}) for each in shown)
        # results go to the notebook alone
        assert not [each for each in shown if each.get("name") == "stderr"]
