"""A division is the data set's own, written whole into a new folder or not at all."""

import errno
from pathlib import Path

import pytest

from alignkit.datasets.folder import Folder
from alignkit.errors import ConfigError, DataError, WorkspaceError
from alignkit.studies import data
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
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def divide(root, name="new", **options):
    options = {"share": 0.25, "seed": 0, "by": "copy", **options}
    return write_division(root, root.parent / name, **options)


def test_every_class_gives_its_share_and_nothing_is_lost_or_changed(root):
    before = files(root)
    made = divide(root)
    assert made["train"] == {"a": 15, "b": 6, "c": 2}
    assert made["eval"] == {"a": 5, "b": 2, "c": 1}
    written = files(Path(made["folder"]))
    assert {name.split("/", 1)[1]: data for name, data in written.items()} == before
    assert len(written) == len(before)
    assert files(root) == before


def test_it_is_the_division_an_experiment_over_the_same_folder_makes(root):
    made = divide(root, share=0.4, seed=7)
    there, here = Folder(Path(made["folder"])), Folder(root, eval_share=0.4, seed=7)
    assert [name.removeprefix("train/") for name in there.training().ids] == list(
        here.training().ids
    )
    assert [name.removeprefix("eval/") for name in there.evaluation().ids] == list(
        here.evaluation().ids
    )


def test_the_seed_decides_alone(root):
    assert files(Path(divide(root, "one")["folder"])) == files(Path(divide(root, "two")["folder"]))
    assert files(Path(divide(root, "three", seed=1)["folder"])) != files(
        root.parent.joinpath("one")
    )


@pytest.mark.parametrize("by", ["hardlink", "symlink"])
def test_links_take_no_room_and_lead_to_the_originals(root, by):
    made = divide(root, by=by)
    for path in Path(made["folder"]).rglob("*.jpg"):
        original = root / Path(*path.relative_to(Path(made["folder"])).parts[1:])
        assert path.samefile(original)
        assert path.is_symlink() == (by == "symlink")


def test_an_existing_folder_is_refused_even_if_it_is_empty(root):
    (root.parent / "new").mkdir()
    with pytest.raises(ConfigError, match="exists, and nothing is overwritten"):
        divide(root)


def test_a_folder_inside_the_first_is_refused(root):
    with pytest.raises(ConfigError, match="where it would be a class"):
        write_division(root, root / "new", share=0.25, seed=0, by="copy")


def test_what_is_divided_already_is_refused(root):
    made = divide(root)
    with pytest.raises(DataError, match=r"divided already, into train/ and eval/"):
        divide(Path(made["folder"]), "again")


def test_content_in_both_splits_and_images_of_no_class_are_noted(root):
    (root / "stray.jpg").write_bytes(b"stray")
    for index in range(3):
        (root / "c" / f"same{index}.jpg").write_bytes(b"the same")
    shared, stray = divide(root, share=0.5)["notes"]
    assert shared.startswith("evaluation images that are training images too: ")
    assert stray == "images in photos that lie in no class folder, and are not used: 1"


@pytest.mark.parametrize("by", ["copy", "hardlink", "symlink"])
def test_a_link_that_leads_nowhere_is_named_before_anything_is_written(root, by):
    (root / "a" / "gone.jpg").symlink_to(root / "nowhere.jpg")
    with pytest.raises(DataError, match=r"cannot read .*a/gone.jpg: a link to .*; remove it"):
        divide(root, by=by)
    assert not [*root.parent.glob("*new*")]


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1])
def test_an_impossible_share_is_refused(root, share):
    with pytest.raises(ConfigError, match=r"--eval .*between 0 and 1"):
        divide(root, share=share)


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "No space left"), (errno.EXDEV, "use --by copy")]
)
def test_a_failure_half_way_leaves_nothing_behind(root, monkeypatch, number, advice):
    done = []

    def place(source, target):
        if len(done) == 5:
            raise OSError(number, "No space left" if number == errno.ENOSPC else "Cross-device")
        done.append(target)
        target.write_bytes(source.read_bytes())

    monkeypatch.setitem(data._PLACING, "copy", place)
    with pytest.raises(WorkspaceError, match=advice):
        divide(root)
    assert not [*root.parent.glob("*new*")]
