import json

import numpy as np
import pytest

from alignkit.compare.image_table import read_image_table
from alignkit.compare.predictions import Predictions
from alignkit.errors import RecordError
from alignkit.record.document import read_record
from alignkit.report import render
from alignkit.report.viewer_data import ImageOrder, viewer_script
from tests.packed import unpack
from tests.report.run_folder import write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run's folder and the data that its page loads."""
    folder = tmp_path_factory.mktemp("run")
    write_run(folder)
    render(folder)
    text = (folder / "data" / "run.js").read_text()
    return folder, json.loads(text.removeprefix("self.alignkitRun=").rstrip(";\n"))


def test_predictions_are_those_of_the_files(run):
    folder, data = run
    record = read_record(folder)
    cells = [cell for cell in record.cells[::17] if cell.predictions]
    assert cells
    for cell in cells:
        stored = Predictions.from_parquet(folder / cell.predictions.path)
        assert data["ids"] == list(stored.ids)
        assert np.array_equal(unpack(data["predictions"][cell.key]), stored.predicted)
        assert np.array_equal(unpack(data["labels"]), stored.labels)


def test_flips_of_a_comparison_are_the_record_s(run):
    folder, data = run
    record = read_record(folder)
    labels = unpack(data["labels"])
    assert data["comparisons"]
    for comparison in data["comparisons"][::5]:
        lost = gained = 0
        for before, after in comparison["seeds"]:
            was, now = (unpack(data["predictions"][key]) for key in (before, after))
            lost += int(((was == labels) & (now != labels)).sum())
            gained += int(((was != labels) & (now == labels)).sum())
        drift = record.matrix[comparison["entry"]].drift
        assert (lost, gained) == (drift.right_to_wrong, drift.wrong_to_right)


@pytest.mark.parametrize(("classes", "silent", "missing"), [(3, 254, 255), (300, 65534, 65535)])
def test_an_answer_that_is_no_class_is_not_an_image_that_is_missing(classes, silent, missing):
    logits = np.zeros((2, classes), np.float32)
    logits[0, classes - 1], logits[1, 0] = 1, np.nan
    names = tuple(map(str, range(classes)))
    found = Predictions(("a", "b"), np.zeros(2, np.int64), logits, names)
    places = {name: index for index, name in enumerate(names)}
    order = ImageOrder(("a", "b", "c"), {"a": 0, "b": 1, "c": 2}, places)
    assert order.predicted(found).tolist() == [classes - 1, silent, missing]


def test_models_with_other_outputs_share_the_names_of_the_page():
    order = ImageOrder(("a",), {"a": 0}, {"cat": 0, "dog": 1, "emu": 2, "fox": 3})
    for outside, shown in ((("emu", "fox"), 3), (("fox", "emu"), 2), (("fox",), 3)):
        logits = np.eye(2 + len(outside), dtype=np.float32)[-1:]
        found = Predictions(("a",), np.zeros(1, np.int64), logits, ("cat", "dog"), outside)
        assert order.predicted(found).tolist() == [shown]


def test_distances_of_images_are_those_of_the_table(run):
    folder, data = run
    record = read_record(folder)
    assert record.images
    for each in record.images:
        table = read_image_table(folder / each.table.path)
        packed = data["pixels"][f"{each.reference}>{each.candidate}"]
        assert np.array_equal(unpack(packed["mean"]), table.mean_abs["colour"])
        assert [stage["stage"] for stage in packed["stages"]] == list(table.max_abs)


def test_stored_pixels_are_named_with_their_script(run):
    folder, data = run
    assert len(data["stored"]) == 12
    for each in data["stored"]:
        text = (folder / each["script"]).read_text()
        assert text.startswith(f'(self.alignkitPixels??={{}})["{each["script"]}"]=')


def test_page_loads_the_data_and_has_a_place_for_the_list(run):
    page = (run[0] / "index.html").read_text()
    assert '<script src="data/run.js" defer></script>' in page
    assert 'id="image-list"' in page
    assert "<noscript>" in page


def test_a_record_without_files_needs_no_viewer(record, tmp_path):
    assert viewer_script(record, tmp_path) == ""


def test_a_missing_file_is_named(run, tmp_path):
    record = read_record(run[0])
    with pytest.raises(RecordError, match="copy the whole folder"):
        viewer_script(record, tmp_path)
