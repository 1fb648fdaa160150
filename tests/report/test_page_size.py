"""A page of many images does not grow with their number."""

import pytest

from alignkit.report import distribution_view, render, viewer_data
from tests.report.run_folder import write_long_run
from tests.report.said_run import with_labels


def sizes(folder, images, task):
    """Bytes of every file that a page consists of."""
    folder.mkdir()
    record = write_long_run(folder, images=images)
    if task == "labels":
        with_labels(record, folder)
    before = {file for file in folder.rglob("*") if file.is_file()}
    render(folder)
    made = {file for file in folder.rglob("*") if file.is_file()} - before
    return {f"{file.relative_to(folder)}": file.stat().st_size for file in sorted(made)}


@pytest.mark.parametrize("task", ["classes", "labels"])
def test_no_file_of_a_page_grows_with_the_images_beyond_those_it_lists(tmp_path, monkeypatch, task):
    monkeypatch.setattr(viewer_data, "LISTED", 100)
    monkeypatch.setattr(distribution_view, "MOST", 50)
    few, many = sizes(tmp_path / "few", 400, task), sizes(tmp_path / "many", 4000, task)
    assert {"index.html", "data/run.js"} <= few.keys() == many.keys()
    for name, size in many.items():
        # longer numbers, and other images that change more often
        assert size < 1.03 * few[name] + 2000, name
