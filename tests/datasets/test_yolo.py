from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alignkit.datasets.yolo import Yolo
from alignkit.errors import DataError
from tests.datasets.annotated_case import SIZES, jpeg, write_images, yolo

LINES = {
    "a": ["1 0.5 0.5 0.5 0.5", "0 0.25 0.25 0.1 0.2"],
    "b": ["0 0.5 0.5 1 1"],
    "c": [],
}


@pytest.fixture
def data(tmp_path):
    return Yolo(root=yolo(tmp_path / "set", LINES), eval_share=1)


def boxes(samples, index=0):
    return samples.annotations[index].corners.tolist()


def test_shares_are_of_the_sides(data):
    samples = data.evaluation()
    assert samples.ids[0] == "images/val/a.jpg"
    assert samples.classes == data.class_names() == ("cat", "dog")
    assert samples.annotations[0].classes.tolist() == [1, 0]
    np.testing.assert_allclose(boxes(samples), [[10, 7.5, 30, 22.5], [8, 4.5, 12, 10.5]])
    assert boxes(samples, 1) == [[0, 0, 30, 50]]


def test_shares_are_of_the_image_as_a_viewer_shows_it(data):
    (data.root / "images/val/b.jpg").write_bytes(jpeg(SIZES["b"], orientation=6))
    assert boxes(data.evaluation(), 1) == [[0, 0, 50, 30]]


def test_images_without_a_text_file_and_boxes_there_twice_are_counted(data):
    (data.root / "labels/val/b.txt").write_text("0 0.5 0.5 1 1\n0 0.5 0.5 1.0 1\n")
    (data.root / "labels/val/e.txt").write_text("0 0.5 0.5 1 1\n")
    where = data.root / "images/val"
    assert [*data.notes()] == [
        f"{where}: images without a text file, taken as without objects: 1",
        f"{where}: boxes that are there twice, dropped: 1",
        f"{where}: text files without an image: 1",
        f"{where}: images without objects: 2, the first in images/val/c.jpg",
    ]
    assert len(data.evaluation().annotations[1]) == 1


def test_of_a_polygon_the_surrounding_box_is_taken(data):
    (data.root / "labels/val/a.txt").write_text("1 0.1 0.2 0.5 0.1 0.3 0.9\n")
    np.testing.assert_allclose(boxes(data.evaluation()), [[4, 3, 20, 27]])


def test_keypoints_behind_a_box_are_left_out(data):
    file = data.root / "data.yaml"
    file.write_text(file.read_text() + "kpt_shape: [2, 3]\n")
    (data.root / "labels/val/a.txt").write_text("1 0.5 0.5 1 1 0.2 0.2 2 0.3 0.3 1\n")
    assert boxes(data.evaluation()) == [[0, 0, 40, 30]]


def test_a_box_that_leaves_the_image_is_clipped_and_counted(data):
    (data.root / "labels/val/a.txt").write_text("1 0.9 0.5 0.4 1\n0 1.4 0.5 0.4 1\n0 .5 .5 0 1\n")
    np.testing.assert_allclose(boxes(data.evaluation()), [[28, 0, 40, 30]])
    notes = " ".join(data.notes())
    assert "clipped: 1, the first in images/val/a.jpg" in notes
    assert "dropped: 2, the first in images/val/a.jpg" in notes


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 0.5 nan 0.1 0.1", "are no coordinates"),
        ("1 0.5 inf 0.1 0.1", "are no coordinates"),
        ("dog 0.5 0.5 0.1 0.1", "are no numbers"),
        ("1 0.5 0.5 0.1", "3 numbers after the class"),
        ("1 0.5 0.5 0.1 0.1 0.9", "5 numbers after the class"),
        ("1", "0 numbers after the class"),
        ("-1 0.5 0.5 0.1 0.1", "the class '-1' is no number from 0"),
        ("1.5 0.5 0.5 0.1 0.1", "the class '1.5' is no number from 0"),
        ("1 320 200 50 60", "these are pixels"),
    ],
)
def test_a_wrong_line_is_named(data, line, message):
    (data.root / "labels/val/a.txt").write_text(f"0 0.5 0.5 1 1\n\n{line}\n")
    with pytest.raises(DataError, match=f"labels/val/a.txt, line 3: .*{message}"):
        data.evaluation()


def test_a_class_without_a_name_and_a_file_that_is_no_text_are_named(data):
    (data.root / "labels/val/a.txt").write_text("7 0.5 0.5 1 1\n")
    with pytest.raises(DataError, match=r"a\.txt: class 7, and there are 2, from 0"):
        data.evaluation()
    (data.root / "labels/val/a.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"a\.txt is not UTF-8 text"):
        data.evaluation()


def test_boxes_of_an_image_of_unknown_size_are_refused(data):
    (data.root / "images/val/a.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"a\.jpg: its header does not tell its size"):
        data.evaluation()


@pytest.mark.parametrize(
    "old_new", [("0.25 0.25", "0.25 0.26"), ("1 0.5", "0 0.5"), ("0 0.2", " ")]
)
def test_every_change_of_a_box_changes_the_fingerprint(data, old_new):
    before = data.fingerprint("eval")
    assert before == data.evaluation().fingerprint
    file = data.root / "labels/val/a.txt"
    text = "1 0.5 0.5 0.5 0.5\n" if old_new[1] == " " else file.read_text().replace(*old_new)
    file.write_text(text)
    assert data.fingerprint("eval") != before


def test_the_names_may_be_a_mapping_and_the_folder_may_be_named(data, tmp_path):
    file = tmp_path / "elsewhere.yaml"
    text = "val: images/val\ntest:\nnames:\n  0: no\n  1: 007\n"
    file.write_text(f"path: {data.root}\n{text}nc: 2\n")
    assert Yolo(root=file, eval_share=1).evaluation().classes == ("no", "007")
    file.write_text(f"path: set\n{text}")  # beside the file
    assert Yolo(root=file, eval_share=1).evaluation().ids == data.evaluation().ids


def test_a_list_names_images(data):
    (data.root / "some.txt").write_text(f"./images/val/b.jpg\n\n{data.root}/images/val/d.jpg\n")
    (data.root / "data.yaml").write_text("val: [some.txt, some.txt]\nnames: [cat, dog]\n")
    samples = data.evaluation()
    assert samples.ids == ("images/val/b.jpg", "images/val/d.jpg")
    assert boxes(samples) == [[0, 0, 30, 50]]
    (data.root / "some.txt").write_text("./images/val/b.jpg\nimages/none.jpg\n")
    with pytest.raises(DataError, match=r"some\.txt, line 2: 'images/none\.jpg' is no image"):
        data.evaluation()


def test_folders_beside_a_file_that_names_them_one_higher_are_found(data):
    (data.root / "data.yaml").write_text("val: ../images/val\nnames: [cat, dog]\n")
    assert data.evaluation().ids[0] == "images/val/a.jpg"


def test_training_images_are_those_of_the_yaml(data):
    write_images(data.root / "images/train", {"x": (8, 8)})
    with (data.root / "data.yaml").open("a") as file:
        file.write("train: images/train\n")
    whole = replace(data, eval_share=0.25)
    assert whole.counts() == (1, 4)
    assert whole.training().classes == whole.evaluation().classes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("val: images/val\nnames: [cat, cat]", "a name is there twice"),
        ("val: images/val\nnames: {0: cat, 2: dog}", "names are not a list, or a mapping from 0"),
        ("val: images/val\nnames: cat", "names are not a list"),
        ("val: images/val", "names are not a list"),
        ("val: images/val\nnames: [a]\nnc: 3", "nc is 3, and there are 1 names"),
        ("val: {a: b}\nnames: [a]", "val is .* expected a folder"),
        ("val: none\nnames: [cat, dog]", "none is no folder of images and no .txt list"),
        ("path: /none\nval: images/val\nnames: [a]", "the folder '/none' of 'path' is neither"),
        ("train: images/val\nnames: [cat, dog]", r"no set 'val'.*\(train\)"),
        ("names: [", "is no YAML: .*line 1"),
        ("[" * 100_000, "is no YAML"),
        ("cat", "it has no keys"),
    ],
)
def test_a_wrong_yaml_is_named(data, content, message):
    (data.root / "data.yaml").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        data.evaluation()
    assert str(data.root) in str(caught.value)


def test_a_folder_without_a_yaml_needs_names(data):
    (data.root / "data.yaml").unlink()
    with pytest.raises(DataError, match="name 'classes'"):
        data.evaluation()
    named = replace(data, classes=("cat", "dog")).evaluation()
    (data.root / "classes.txt").write_text("cat\ndog\n")
    samples = data.evaluation()
    assert samples.ids == named.ids
    assert samples.classes == named.classes == ("cat", "dog")
    assert samples.fingerprint == named.fingerprint


def test_text_files_may_lie_beside_the_images(tmp_path):
    write_images(tmp_path, {"a": (40, 30)})
    (tmp_path / "a.txt").write_text("0 0.5 0.5 1 1\n")
    data = Yolo(root=tmp_path, classes=("cat",), eval_share=1)
    assert boxes(data.evaluation()) == [[0, 0, 40, 30]]
    assert data.evaluation().ids == ("a.jpg",)


def test_a_root_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Yolo(root=tmp_path / "none").evaluation()
    assert Yolo(root=tmp_path / "none").class_names() == ()


def test_a_relative_root_finds_the_same_boxes(data, monkeypatch):
    expected = [boxes(data.evaluation(), index) for index in range(3)]
    monkeypatch.chdir(data.root)
    found = replace(data, root=Path()).evaluation()
    assert [boxes(found, index) for index in range(3)] == expected
    assert any(expected)
