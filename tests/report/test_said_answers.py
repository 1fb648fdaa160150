"""The list's data of answers that are no classes."""

import json

import numpy as np
import pytest

from alignkit.compare.answers import aligned
from alignkit.report import render
from alignkit.report.viewer_data import CHANGE_KINDS, turned
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers
from tests.packed import unpack
from tests.report.said_run import write_said_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder, the record and the data that its page loads."""
    folder = tmp_path_factory.mktemp("run")
    record = write_said_run(folder)
    render(folder)
    text = (folder / "data" / "run.js").read_text()
    return folder, record, json.loads(text.removeprefix("self.alignkitRun=").rstrip(";\n"))


def answers(folder, record, key):
    (cell,) = (each for each in record.cells if each.key == key)
    return MultiLabelAnswers.from_parquet(folder / cell.predictions.path)


@pytest.mark.slow
def test_each_answer_and_truth_is_in_the_words_of_its_task(run):
    folder, record, data = run
    words = unpack(data["words"]).tobytes().decode().split("\n")
    for key in list(data["predictions"])[::17]:
        stored = answers(folder, record, key)
        codes = unpack(data["predictions"][key])
        assert data["ids"] == list(stored.ids)
        assert [words[code] for code in codes] == [stored.said(i) for i in range(len(stored))]
        truth = [words[code] for code in unpack(data["labels"])]
        assert truth == [stored.truth_said(i) for i in range(len(stored))]


@pytest.mark.slow
def test_changes_of_a_comparison_agree_with_the_jaccard_index(run):
    folder, record, data = run
    comparison = data["comparisons"][8]
    before, after = comparison["seeds"][0]
    one, two = aligned(*(answers(folder, record, key) for key in (before, after)))

    def jaccard(each, index):
        given, true = set(np.flatnonzero(each.given[index])), set(np.flatnonzero(each.truth[index]))
        return len(given & true) / len(given | true)

    for index, kind in enumerate(unpack(comparison["turned"][0])):
        gain = jaccard(two, index) - jaccard(one, index)
        words = "worse" if gain < 0 else "better" if gain > 0 else "neither"
        changed = not np.array_equal(one.given[index], two.given[index])
        assert CHANGE_KINDS[kind] == (words if changed else "")


def test_without_the_truth_a_change_is_neither_worse_nor_better():
    one, two = (
        MultiLabelAnswers(
            ("a", "b"), np.zeros((2, 0), bool), np.array(scores, np.float32),
            (), ("cat", "dog"), (0.5, 0.5), "as-is",
        )
        for scores in ([[0.9, 0.1], [0.9, 0.1]], [[0.9, 0.9], [0.9, 0.2]])
    )  # fmt: skip
    assert [CHANGE_KINDS[kind] for kind in turned(one, two)] == ["changed", ""]


@pytest.mark.slow
def test_columns_of_class_scores_are_left_out(run):
    data = run[2]
    assert data["heads"]["margin"] == ""
    assert data["certainty"] == data["margins"] == {}
