"""The notebooks of the docs run from their first cell to their last, on images they make."""

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


@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed")
@pytest.mark.filterwarnings("ignore")  # of Jupyter's libraries
def test_every_notebook_runs(tmp_path):
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
