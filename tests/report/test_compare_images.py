"""Which images the report of two runs shows, and what it says of cells without a comparison."""

from dataclasses import replace

from alignkit.record.study_documents import ImageChange
from alignkit.report.comparison.compare_images import Pictures, images_section
from alignkit.report.comparison.compare_page import names_of, remarks
from alignkit.report.comparison.compare_tables import changes_table
from alignkit.report.page import Details, Paragraph
from alignkit.studies.compare_runs import compare_runs
from alignkit.task_facts import MetricFacts
from alignkit.text.numbers import NBSP
from tests.run_pair import write_small_run


def small_comparison(folder, **later):
    before = write_small_run(folder / "a", flipped=range(10))
    after = write_small_run(folder / "b", **later)
    return compare_runs(before, after, force=False, command="alignkit compare-runs a b")


def served(made):
    return next(each for each in made.entries if not each.aligned)


def test_a_pair_is_shown_in_a_runtime_that_has_images(tmp_path):
    made = small_comparison(tmp_path, flipped=range(10))
    image = ImageChange(id="x", label="0", change="new", seeds=1, before="0", after="0 → 1")
    equal = served(made)
    other = equal.model_copy(update={"backend": "onnxruntime", "images": (image,)})
    made = made.model_copy(update={"entries": (equal, other)})
    section = images_section(made, names_of(made), Pictures([], tmp_path))
    assert [type(each) for each in section.parts] == [Paragraph, Details]


def test_cells_that_could_not_be_compared_are_said_and_nothing_else(tmp_path):
    made = small_comparison(tmp_path, flipped=range(10))
    lost = served(made).model_copy(update={"change": "not compared", "metrics": {}})
    words = remarks(made.model_copy(update={"entries": (lost,)}))
    assert f"Of 1{NBSP}cell: 1 not compared." in words
    assert not any("Largest" in each for each in words)


def test_a_task_whose_matrices_show_measures_is_compared_by_its_metrics(tmp_path):
    made = small_comparison(tmp_path, flipped=range(12))
    measures = (MetricFacts(name="cosine", label="Cosine"),)
    task = made.after.task
    task = replace(task, matrices=("recall.macro", "cosine", "churn"), measures=measures)
    made = made.model_copy(update={"after": made.after.model_copy(update={"task": task})})
    table = changes_table(made, names_of(made))
    assert [each.text for each in table.groups][1:] == ["Macro recall, drift", "Churn", "Flips"]
