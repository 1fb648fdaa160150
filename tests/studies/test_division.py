"""A division is the data set's own, written whole into a new folder or not at all."""

import shutil
from pathlib import Path

import pytest

from alignkit.datasets.folder import Folder
from alignkit.errors import ConfigError, DataError, WorkspaceError
from alignkit.studies.data import write_division


@pytest.fixture
def root(tmp_path):
    folder = tmp_path / "photos"
    for name, count in (("a", 20), ("b", 8), ("c", 3)):
        (folder / name / "more").mkdir(parents=True)
        for index in range(count):
            below = name if index else f"{name}/more"
            (folder / below / f"{index}.jpg").write_bytes(f"{name}{index}".encode())
    return folder


def files(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def test_every_class_gives_its_share_and_nothing_is_lost_or_changed(root, tmp_path):
    before = files(root)
    made = write_division(root, tmp_path / "new", share=0.25, seed=0)
    assert made == {"train": {"a": 15, "b": 6, "c": 2}, "eval": {"a": 5, "b": 2, "c": 1}}
    written = files(tmp_path / "new")
    assert {name.split("/", 1)[1]: data for name, data in written.items()} == before
    assert len(written) == len(before)
    assert files(root) == before


def test_it_is_the_division_an_experiment_over_the_same_folder_makes(root, tmp_path):
    write_division(root, tmp_path / "new", share=0.4, seed=7)
    there, here = Folder(tmp_path / "new"), Folder(root, eval_share=0.4, seed=7)
    assert [each.partition("/")[2] for each in there.training().ids] == [*here.training().ids]
    assert [each.partition("/")[2] for each in there.evaluation().ids] == [*here.evaluation().ids]
    write_division(root, tmp_path / "other", share=0.4, seed=8)
    assert files(tmp_path / "other") != files(tmp_path / "new")


@pytest.mark.parametrize(("out", "share"), [("photos/new", 0.25), ("photos", 0.25), ("new", 1.0)])
def test_a_place_or_share_that_cannot_be_is_refused(root, tmp_path, out, share):
    with pytest.raises(ConfigError):
        write_division(root, tmp_path / out, share=share, seed=0)


def test_what_is_divided_already_is_refused(root, tmp_path):
    write_division(root, tmp_path / "new", share=0.25, seed=0)
    with pytest.raises(DataError, match="divided already"):
        write_division(tmp_path / "new", tmp_path / "again", share=0.25, seed=0)


def test_a_link_that_leads_nowhere_is_named_before_anything_is_written(root, tmp_path):
    (root / "a" / "gone.jpg").symlink_to(root / "nowhere.jpg")
    with pytest.raises(DataError, match=r"cannot read .*a/gone.jpg: a link to .*; remove it"):
        write_division(root, tmp_path / "new", share=0.25, seed=0)
    assert not [*tmp_path.glob("*new*")]


def test_a_failure_half_way_leaves_nothing_behind(root, tmp_path, monkeypatch):
    done = []

    def copied(source, target):
        done.append(target)
        if len(done) == 5:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copy2", copied)
    with pytest.raises(WorkspaceError, match="No space left"):
        write_division(root, tmp_path / "new", share=0.25, seed=0)
    assert not [*tmp_path.glob("*new*")]
