"""``published:`` of an experiment file."""

import pytest

from alignkit.errors import ConfigError
from alignkit.experiment import load_experiment
from tests.runner.test_run import write_small

ROW = "training: a, inference: b, trained_with: opencv, evaluated_with: other"
TABLE = "published: {{source: them, label: theirs, rows: [{{{row}}}]}}\n"


def load(folder, row):
    file = write_small(folder)
    file.write_text(file.read_text() + TABLE.format(row=row))
    return load_experiment(file, ())


def test_a_row_names_the_aligned_cell_unless_it_says_otherwise(tmp_path):
    (row,) = load(tmp_path, f"{ROW}, metrics: {{top1: 0.9}}").content.published.rows
    assert (row.fraction, row.backend, row.precision) == (1.0, None, None)


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (ROW.replace("other", "othr") + ", metrics: {top1: 0.9}", "did you mean 'other'"),
        (f"{ROW}, backend: torhc, metrics: {{top1: 0.9}}", "did you mean 'torch'"),
        (f"{ROW}, metrics: {{top1: 94.76}}", "less than or equal to 1"),
        (f"{ROW}, metrics: {{recal.macro: 0.9}}", "recall.macro"),
        (f"{ROW}, metrics: {{}}", "metrics"),
    ],
)
def test_a_row_that_could_never_be_measured_is_refused_where_it_stands(tmp_path, row, told):
    with pytest.raises(ConfigError, match=r"small\.yaml:11:") as caught:
        load(tmp_path, row)
    assert told in str(caught.value)


def test_images_without_labels_have_nothing_to_stand_beside_it(tmp_path):
    (tmp_path / "images").mkdir()
    file = write_small(tmp_path)
    text = file.read_text().replace("{name: digits-on-photos, train: 60, eval: 40, seed: 0}",
                                    "{name: images, root: images}")  # fmt: skip
    row = f"{ROW}, metrics: {{top1: 0.9}}"
    file.write_text(text + TABLE.format(row=row))
    with pytest.raises(ConfigError, match="published: needs a model"):
        load_experiment(file, ())
