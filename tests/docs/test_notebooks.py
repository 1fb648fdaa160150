"""The notebooks of the docs run from their first cell to their last, on images they make."""

import json
from importlib.util import find_spec
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
@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda each: each.stem)
def test_a_notebook_runs(file, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(file, as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    patience = {"timeout": 600, "startup_timeout": 300}
    NotebookClient(notebook, **patience, resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("text/html" in output.get("data", {}) for output in shown)
    # results go to the notebook alone
    assert not [each for each in shown if each.get("name") == "stderr"]
