"""Pages of detection, segmentation and an own score speak of their own metrics and draw answers."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.record import Estimate, PictureMap
from alignkit.record.document import read_record, write_record
from alignkit.record.picture_facts import picture_map, write_pair
from alignkit.report.drawn_view import drawing
from alignkit.report.matrix_section import entries_in_short
from alignkit.report.matrix_view import matrix_cell, panels
from alignkit.report.notebook import run_html
from alignkit.report.table import Notes
from alignkit.report.terminal_view import summary
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.task_facts import MetricFacts
from alignkit.text.names import Names
from alignkit.text.numbers import MINUS
from alignkit.text.run_columns import cell_table
from alignkit.text.task_words import TaskWords, capital, in_sentence
from tests.report import task_records
from tests.report.embedding_records import EMBEDDING

CLASS_WORDS = re.compile(r"top-1|McNemar|right → wrong|logit|flip|margin of", re.IGNORECASE)


@pytest.fixture(scope="module", params=["detection", "segmentation", "score"])
def run(request, tmp_path_factory):
    """The record of a task, and the folder of its report."""
    folder = tmp_path_factory.mktemp(request.param)
    record = getattr(task_records, request.param)(folder)
    write_record(record, folder)
    write_report(folder, ReportOptions())
    return record, folder


def visible(folder):
    """The page's text without its YAML."""
    page = (folder / "index.html").read_text()
    return re.sub(r"<pre.*?</pre>|<style.*?</style>", "", page, flags=re.DOTALL)


def test_a_page_of_another_task_has_no_word_of_classes(run):
    record, folder = run
    text = visible(folder) + (folder / "summary.md").read_text() + summary(record, folder)
    text = re.sub(r'class="flip|flip%3A', "", text + run_html(record))
    assert CLASS_WORDS.findall(text) == []


def test_each_metric_with_a_matrix_has_one_and_each_measure_a_column(run):
    record, folder = run
    page = visible(folder)
    for metric in record.task.matrices:
        assert TaskWords(record.task).phrase(metric) in page
    for measure in record.task.measures:
        assert f">{measure.label}</th>" in page
    assert len(re.findall(r'<div class="panel ', page)) == len(
        re.findall(r'type="radio" name="metric"', page)
    )


def test_a_notebook_shows_the_differences_of_the_answers(run):
    record, _ = run
    found = run_html(record)
    assert all(f">{measure.label}<" in found for measure in record.task.measures)


def test_a_record_of_another_task_is_read_as_it_was_written(run):
    record, folder = run
    assert read_record(folder) == record


def test_further_metrics_of_a_class_stand_beside_recall_and_precision(tmp_path):
    record = task_records.segmentation(tmp_path)
    write_record(record, tmp_path)
    write_report(tmp_path, ReportOptions())
    assert ">Δ IoU, pp</th>" in (tmp_path / "index.html").read_text()


def test_changes_of_a_value_have_no_points(tmp_path):
    record = task_records.score(tmp_path)
    table = entries_in_short(record, Names(record.paths))
    changes = [row.cells[4].text for row in table.rows if "[" in row.cells[4].text]
    assert changes
    assert not any("pp" in each or "%" in each for each in changes)


def test_less_error_is_better():
    words = TaskWords(task_records.SCORE)
    assert words.goodness("score.error", -0.1) > 0 > words.goodness("score.error", 0.1)
    assert words.goodness("churn", 0.1) < 0


def test_labels_keep_their_capitals():
    assert [in_sentence(each) for each in ("Macro recall", "mAP50", "IoU of boxes")] == [
        "macro recall",
        "mAP50",
        "IoU of boxes",
    ]
    assert [capital(each) for each in ("macro recall", "mAP50")] == ["Macro recall", "mAP50"]


def test_boxes_are_drawn_where_the_letterbox_has_them(tmp_path):
    image = next(each for each in task_records.detection(tmp_path).shown if each.maps)
    on_a = drawing(image).overlays[0]
    first = re.search(r'<g class="of-a.*?(<rect[^>]*>)', on_a)[1]
    # a quarter of the image's size, six pixels down
    assert first == '<rect x="10.5" y="13.75" width="17.5" height="17">'
    assert drawing(image).words == (
        "3\N{NO-BREAK SPACE}boxes in A, 3 in B: 1 lost, 1 won, 1 of another class, "
        "2 shifted by up to 3.5 px"
    )


def test_a_box_alone_is_lost_in_the_reference_and_won_in_the_candidate(tmp_path):
    box = {"boxes": [{"corners": [0, 0, 4, 4], "class": "cat", "score": 0.5, "kind": "alone"}]}
    pair = write_pair(tmp_path, 0, box, box)
    assert [pair.before.boxes[0].kind, pair.after.boxes[0].kind] == ["lost", "won"]


def test_a_drawn_mask_keeps_its_classes_and_shows_where_two_differ(tmp_path):
    a = np.array([[0, 1], [2, 255]], np.uint8)
    b = np.array([[0, 1], [1, 255]], np.uint8)
    names = ["sky", "road", "car"]
    sides = [{"mask": task_records.png(each), "classes": names} for each in (a, b)]
    pair = write_pair(tmp_path, 0, *sides)
    stored = [
        np.array(Image.open(tmp_path / each.path))
        for each in (pair.before.mask, pair.after.mask, pair.differing)
    ]
    assert [each.tolist() for each in stored] == [a.tolist(), b.tolist(), [[0, 0], [1, 0]]]
    assert (pair.share, pair.before.classes, pair.after.classes) == (
        0.25,
        ("sky", "road", "car"),
        ("sky", "road", ""),
    )


def test_the_map_of_a_turned_image_turns_its_points():
    # 90 degrees clockwise and half the size: (x, y) → (50 - y / 2, x / 2)
    def to_input(corners):
        x, y = corners[:, [0, 2]], corners[:, [1, 3]]
        return np.stack([50 - y[:, 0] / 2, x[:, 0] / 2, 50 - y[:, 1] / 2, x[:, 1] / 2], axis=1)

    found = picture_map(200, 100, to_input)
    assert found == PictureMap(width=200, height=100, xx=0, xy=-0.5, x0=50, yx=0.5, yy=0, y0=0)


def test_a_single_file_holds_its_masks(tmp_path):
    record = task_records.segmentation(tmp_path)
    write_record(record, tmp_path)
    page = write_report(tmp_path, ReportOptions(single_file=True), tmp_path / "one.html").page
    text = page.read_text()
    assert '<image class="of-differing" href="data:image/png;base64,' in text
    assert 'href="img/' not in text


def test_cells_of_another_task_have_columns_of_its_metrics_and_measures(tmp_path):
    record = task_records.detection(tmp_path)
    table = cell_table(record.cells, record.task)
    assert {"map50", "map50_change_low", "boxes_lost", "box_shift_high"} <= {*table.column_names}
    assert not {"top1", "logit_mean_abs"} & {*table.column_names}
    cell = next(each for each in record.cells if each.drift)
    row = table.to_pylist()[record.cells.index(cell)]
    assert row["map50_change"] == cell.drift.metrics["map50"].value
    assert row["boxes_lost"] == cell.drift.measures["boxes.lost"].value


def of_measure(metric, unit, better, *ends, churn=0.05):
    """The cell of a matrix of one measure, and what the baseline of its row shows."""
    measure = MetricFacts(
        name=metric, label="Likeness", unit=unit, better=better, meaning="of both"
    )
    task = replace(task_records.SEGMENTATION, measures=(measure,), matrices=(metric, "churn"))
    record = task_records.segmentation()
    own = next(each for each in record.matrix if each.aligned)
    entry = next(each for each in record.matrix if each.drift)
    drift = replace(
        entry.drift, measures={metric: Estimate(*ends)}, churn=Estimate(churn, churn, churn)
    )
    cells = [
        matrix_cell(each, (metric,), (), {}, Notes(), TaskWords(task)).measures[0]
        for each in (entry.model_copy(update={"drift": drift}), own)
    ]
    return cells[0], cells[1].text, panels(TaskWords(task), labelled=True)[0]


def test_a_matrix_of_a_measure_has_its_unit_and_no_value_of_the_baseline():
    cell, own, panel = of_measure("cosine", "value", "more", 0.9731, 0.971, 0.9752)
    assert (cell.text, cell.interval, cell.sign, own) == ("0.973", "[0.971, 0.975]", "", "")
    # 2.7 % from equal answers: worse, and clear of them
    assert (cell.tone, cell.clear) == ("n3", True)
    caption = "Likeness, against the baseline of the row: of both."
    assert panel.caption == caption


def test_a_measure_that_equal_answers_may_have_is_not_clear():
    cell, *_ = of_measure("cosine", "value", "more", 0.9999, 0.999, 1.0)
    assert (cell.tone, cell.clear) == ("z", False)


def test_a_measure_that_is_a_change_has_a_sign_and_points():
    cell, own, panel = of_measure("recall@1.kept", "points", "more", -0.031, -0.045, -0.018)
    assert cell.text == f"{MINUS}3.10"
    assert cell.interval == f"[{MINUS}4.50, {MINUS}1.80]"
    assert (cell.sign, cell.tone, cell.clear, own) == ("▼", "n4", True, "")
    caption = "Likeness, in pp, against the baseline of the row: of both."
    assert panel.caption == caption


def test_a_share_for_the_worse_is_coloured_as_churn_is():
    cell, *_ = of_measure("boxes.lost", "share", "less", 0.031, 0.024, 0.04)
    assert (cell.text, cell.sign, cell.tone, cell.clear) == (
        "3.10\N{NO-BREAK SPACE}%",
        "",
        "n4",
        True,
    )


def test_a_change_without_churn_is_not_called_unchanged():
    moved, *_ = of_measure("recall@1.kept", "points", "more", -0.01, -0.02, 0.0, churn=0.0)
    still, *_ = of_measure("recall@1.kept", "points", "more", 0.0, -0.02, 0.02, churn=0.0)
    assert (moved.sign, still.sign) == ("○", "=")


def test_measures_are_written_in_their_units():
    words = TaskWords(EMBEDDING)
    change = Estimate(-0.031, -0.045, -0.018)
    assert words.estimated("recall@1.kept", change) == f"{MINUS}3.10 pp [{MINUS}4.50, {MINUS}1.80]"
    assert words.estimated("cosine", Estimate(0.9731, 0.971, 0.975)) == "0.973 [0.971, 0.975]"
    assert words.value("recall@1.kept", -0.031) == f"{MINUS}3.10 pp"
    assert words.cell_metrics == ("recall@1", "verification.accuracy")
    assert [words.best(each) for each in ("cosine", "recall@1.kept", "neighbour_churn", "churn")] == [
        1.0, 0.0, 0.0, 0.0,
    ]  # fmt: skip
