"""`alignkit.run` on a mapping, with the files and the record that the command would write."""

import shlex
from pathlib import Path

import pandas as pd
import pytest

import alignkit
from alignkit.cli import app
from alignkit.errors import AlignkitError, ConfigError
from tests.photos import encoded, photo

PATHS = {
    "training": {"preset": "opencv-train", "size": 32},
    "serving": {"preset": "pillow-train", "size": 32},
}


@pytest.fixture
def images(tmp_path):
    for label, name in (("a", "china"), ("b", "flower")):
        (tmp_path / "images" / label).mkdir(parents=True)
        for place in range(8):
            data = encoded(photo(name, 60 + place, 90), quality=90)
            (tmp_path / "images" / label / f"{place}.jpg").write_bytes(data)
    return tmp_path / "images"


def test_a_mapping_runs_as_the_file_that_is_written_for_it(images, tmp_path, capsys):
    mapping = {"name": "mine", "data": {"name": "images", "root": images}, "preprocess": PATHS}
    run = alignkit.run(
        mapping, reports=tmp_path / "reports", progress="none", overrides={"data.limit": 3}
    )
    assert run.verdict.state == "fail"
    assert run.record.data.eval == 3
    assert run.page.is_file()
    assert run.record.overrides == ("data.limit=3",)
    assert list(pd.read_parquet(run.folder / "cells.parquet")) == list(run.cells)
    assert "resize" in run._repr_html_()
    # the command in the record does it again
    with pytest.raises(SystemExit) as ended:
        app(shlex.split(run.record.command)[1:])
    assert "FAIL" in capsys.readouterr().out.upper()
    assert ended.value.code == 1
    (file,) = (tmp_path / "reports").glob("mine-*.yaml")
    assert str(file) in run.record.command


def test_the_engine_that_is_asked_for_is_the_one_that_must_answer(images, tmp_path, monkeypatch):
    """What its workers give is compared in tests/lots and tests/cli."""
    pytest.importorskip("distributed")
    monkeypatch.setattr("alignkit.lots.dask.ANSWER_SECONDS", 0.2)
    mapping = {"name": "mine", "data": {"name": "images", "root": images}, "preprocess": PATHS}
    nowhere = {"engine": "dask", "address": "tcp://127.0.0.1:9"}
    with pytest.raises(AlignkitError, match="no scheduler answers at tcp://127"):
        alignkit.run(mapping, reports=tmp_path, page=False, progress="none", **nowhere)


def test_mistakes_of_a_mapping_have_a_line(images, tmp_path):
    mapping = {"name": "mine", "dta": 1, "preprocess": PATHS}
    with pytest.raises(ConfigError, match=r"mine-\w+\.yaml:3:2: dta: unknown key; did you mean"):
        alignkit.run(mapping, reports=tmp_path)
    with pytest.raises(ConfigError, match="no such file"):
        alignkit.run(Path("nothing.yaml"), reports=tmp_path)


@pytest.mark.slow
def test_a_run_that_trains_has_cells_as_its_command_wrote_them(images, tmp_path):
    mapping = {
        "name": "mine",
        "data": {"name": "folder", "root": images},
        "preprocess": PATHS,
        "train": {"model": "small-cnn", "epochs": 1, "seeds": [0, 1]},
    }
    run = alignkit.run(mapping, reports=tmp_path / "reports", progress="none")
    assert len(run.cells) == 8
    assert len(run.matrix) == 4
    pd.testing.assert_frame_equal(pd.read_parquet(run.folder / "cells.parquet"), run.cells)
    same = alignkit.load_run(run.folder)
    assert same.record.model_dump_json() == run.record.model_dump_json()
    again = alignkit.run(mapping, reports=tmp_path / "reports", progress="none")
    assert again.record.model_dump_json() == run.record.model_dump_json()
