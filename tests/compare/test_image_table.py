import numpy as np
import pytest

from alignkit.compare.image_table import read_image_table, write_image_table
from alignkit.compare.pixel_diff import ImageRow
from alignkit.errors import DataError
from alignkit.preprocess import STAGES

ROWS = (
    ImageRow("a.jpg", "ok", "ok", (1.0,) * 7, tuple(map(float, range(7))), 0.5),
    ImageRow("b.jpg", "ok", "failed", (None,) * 7, (None,) * 7, None),
    ImageRow("c.jpg", "failed", "failed", (None,) * 7, (None,) * 7, None),
)


def test_rows_come_back(tmp_path):
    write_image_table(ROWS, tmp_path / "t.parquet")
    table = read_image_table(tmp_path / "t.parquet")
    assert table.ids == ("a.jpg", "b.jpg", "c.jpg")
    assert [table.mean_abs[stage][0] for stage in STAGES] == list(range(7))
    assert table.max_abs["decode"][0] == 1.0
    assert table.ssim[0] == 0.5


def test_what_was_not_compared_is_null_and_never_zero(tmp_path):
    from pyarrow import parquet

    write_image_table(ROWS, tmp_path / "t.parquet")
    stored = parquet.read_table(tmp_path / "t.parquet")
    assert stored["mean_resize"].null_count == 2
    assert np.isnan(read_image_table(tmp_path / "t.parquet").mean_abs["resize"][1:]).all()


def test_another_file_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_text("no")
    with pytest.raises(DataError, match=r"t\.parquet"):
        read_image_table(tmp_path / "t.parquet")
