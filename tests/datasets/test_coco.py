from __future__ import annotations

import contextlib
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from alignkit.datasets.coco import Coco, turned
from alignkit.datasets.read_boxes import ShownSize
from alignkit.decoders.exif import turn
from alignkit.errors import ConfigError, DataError, NothingCompared
from tests.datasets.annotated_case import SIZES, coco, jpeg

BOXES = {
    "a": [(5, 1.5, 2, 10.25, 20), (2, 0, 0, 40, 30)],
    "b": [(2, 3, 4, 5, 6, "crowd")],
    "d": [(5, 10, 10, 1, 1)],
}


@pytest.fixture
def data(tmp_path):
    return Coco(root=tmp_path, annotations=coco(tmp_path, BOXES), eval_share=1)


def corners(samples):
    return {
        name: each.corners.tolist()
        for name, each in zip(samples.ids, samples.annotations, strict=True)
    }


def test_pycocotools_loads_the_same_boxes(data):
    from pycocotools.coco import COCO

    with contextlib.redirect_stdout(io.StringIO()):
        reference = COCO(str(data.annotations))
    samples = data.evaluation()
    categories = reference.loadCats(sorted(reference.getCatIds()))
    assert samples.classes == tuple(each["name"] for each in categories) == ("cat", "dog")
    for image in reference.loadImgs(reference.getImgIds()):
        theirs = reference.loadAnns(reference.getAnnIds(image["id"]))
        ours = samples.annotations[samples.ids.index(image["file_name"])]
        widths = np.concatenate([ours.corners[:, :2], ours.corners[:, 2:] - ours.corners[:, :2]], 1)
        assert widths.tolist() == [each["bbox"] for each in theirs]
        names = [reference.cats[each["category_id"]]["name"] for each in theirs]
        assert [samples.classes[each] for each in ours.classes] == names
        assert ours.crowd.tolist() == [bool(each["iscrowd"]) for each in theirs]


def test_an_image_without_annotations_has_no_objects_and_is_counted(data):
    samples = data.evaluation()
    assert samples.ids == ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
    assert len(samples.annotations[2]) == 0
    assert samples.truth == data.truth == "boxes"
    assert [*data.notes()] == [f"{data.annotations}: images without objects: 1, the first in c.jpg"]


def test_boxes_that_leave_the_image_are_clipped_and_those_of_no_area_dropped_and_counted(tmp_path):
    boxes = {
        "a": [(2, -5, 10, 20, 30), (2, 30, 0, 10.01, 5), (2, 1, 1, 0, 5), (2, 5, 5, -3, 2)],
        "b": [(5, 40, 0, 10, 10), (5, 1e308, 0, 1e308, 10)],
    }
    data = Coco(root=tmp_path, annotations=coco(tmp_path, boxes), eval_share=1)
    assert corners(data.evaluation())["a.jpg"] == [[0, 10, 15, 30], [30, 0, 40, 5]]
    notes = " ".join(data.notes())
    assert "boxes that reach outside their image, clipped: 1, the first in a.jpg" in notes
    assert "boxes of no area or outside their image, dropped: 4, the first in a.jpg" in notes


def spoil(file, change):
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "change",
    [
        lambda each: each["annotations"][0]["bbox"].__setitem__(0, 1.5000001),
        lambda each: each["annotations"][0].update(category_id=2),
        lambda each: each["annotations"][0].update(iscrowd=1),
        lambda each: each["annotations"].pop(),
        lambda each: each["categories"][0].update(name="wolf"),
    ],
)
def test_every_change_of_an_annotation_changes_the_fingerprint(data, change):
    before = data.fingerprint("eval")
    assert before == data.evaluation().fingerprint
    spoil(data.annotations, change)
    assert data.fingerprint("eval") != before


def test_the_fingerprint_is_of_the_boxes_and_images_and_not_of_the_text(data, tmp_path):
    before = data.fingerprint("eval")
    data.annotations.write_text(json.dumps(json.loads(data.annotations.read_text()), indent=3))
    assert data.fingerprint("eval") == before
    (tmp_path / "c.jpg").write_bytes(jpeg(SIZES["c"], (1, 2, 3)))
    assert data.fingerprint("eval") != before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda each: each["annotations"][1].update(category_id=99), r"annotations\.1: no category"),
        (lambda each: each["annotations"][1].update(image_id=99), r"annotations\.1: no image .* 99"),
        (lambda each: each["annotations"][2].update(bbox=[1, 2, float("nan"), 3]), r"annotations\.2\.bbox\.2: .*finite"),
        (lambda each: each["annotations"][2].update(bbox=[1, 2, 3]), r"annotations\.2\.bbox"),
        (lambda each: each["annotations"][0].pop("bbox"), r"annotations\.0\.bbox: Field required"),
        (lambda each: each.pop("categories"), "categories: Field required"),
        (lambda each: each["categories"].append({"id": 9, "name": "cat"}), "category name 'cat' is there twice"),
        (lambda each: each["images"].append(each["images"][0]), "image id 3 is there twice"),
        (lambda each: each["images"].append({**each["images"][0], "id": 50, "file_name": "./a.jpg"}), r"file_names 'a\.jpg' and '\./a\.jpg' are one image"),
        (lambda each: each["images"][0].update(file_name="none.jpg"), "1 are not in .*none.jpg"),
        (lambda each: each["images"][0].update(width=80, height=60), "80x60.*40x30; its boxes are of another image"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_named_with_its_file(data, change, message):
    spoil(data.annotations, change)
    with pytest.raises(DataError, match=message) as caught:
        data.evaluation()
    assert str(data.annotations) in str(caught.value)


@pytest.mark.parametrize("content", [b'{"images": [', b"[" * 100_000, b"", b"\xff\xfe", b"[]"])
def test_a_broken_file_is_named(data, content):
    data.annotations.write_bytes(content)
    with pytest.raises(DataError, match="is no COCO file of boxes"):
        data.evaluation()


def test_a_missing_file_and_an_empty_one_are_named(data):
    spoil(data.annotations, lambda each: each.update(images=[], annotations=[]))
    with pytest.raises(NothingCompared, match="no images in"):
        data.evaluation()
    data.annotations.unlink()
    with pytest.raises(DataError, match="No such file"):
        data.evaluation()


def test_one_file_is_divided_by_a_seed_and_the_parts_are_disjoint(data):
    divided = replace(data, eval_share=0.5)
    train, evaluation = divided.training(), divided.evaluation()
    assert divided.counts() == (2, 2)
    assert sorted(train.ids + evaluation.ids) == [f"{each}.jpg" for each in "abcd"]
    assert divided.evaluation().ids == evaluation.ids
    assert divided.undivided().counts() == (0, 4)
    assert "0.5 of" in divided.choice()
    assert replace(data, limit=3).counts() == (0, 3)


def test_a_pair_of_files_with_folders_of_their_own_is_read(tmp_path):
    held = coco(tmp_path / "val", {"a": BOXES["a"]})
    trained = coco(tmp_path / "train", {"b": BOXES["b"]})
    data = Coco(root=tmp_path, annotations=held, train_annotations=trained,
                eval_dir="val", train_dir="train")  # fmt: skip
    assert data.training().ids[0] == "train/a.jpg"
    assert data.evaluation().ids[0] == "val/a.jpg"
    assert any("evaluation images that are training images too: 4" in each for each in data.notes())
    trained.unlink()
    assert data.undivided().counts() == (0, 4)


def test_images_in_both_files_are_refused_unless_nothing_is_trained(data):
    both = replace(data, train_annotations=data.annotations, eval_share=0.25)
    with pytest.raises(DataError, match=r"4 images are in .*'eval_share: 1'"):
        both.evaluation()
    assert both.undivided().counts() == (0, 4)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_of_pixels_that_were_not_turned_follow_the_turn(tmp_path, orientation):
    width, height, box = 40, 30, (3, 5, 11, 25)
    stored = np.zeros((height, width, 3), np.uint8)
    stored[box[1] : box[3], box[0] : box[2]] = 1
    rows, columns = np.nonzero(turn(stored, orientation)[..., 0])
    found = turned(np.array([box], float), ShownSize(width, height, orientation))
    assert found.tolist() == [[columns.min(), rows.min(), columns.max() + 1, rows.max() + 1]]


def test_a_file_made_of_pixels_that_were_not_turned_is_recognised_and_can_be_declared(tmp_path):
    sizes = {"a": (40, 30)}
    file = coco(tmp_path, {"a": [(2, 0, 0, 10, 5)]}, sizes)
    (tmp_path / "a.jpg").write_bytes(jpeg(sizes["a"], orientation=6))
    data = Coco(root=tmp_path, annotations=file, eval_share=1)
    with pytest.raises(
        DataError, match="40x30, and as a viewer shows it, it is 30x40; write 'oriented: false'"
    ):
        data.evaluation()
    # turned clockwise: the upper left corner is the upper right one
    assert corners(replace(data, oriented=False).evaluation()) == {"a.jpg": [[25, 0, 30, 10]]}
    spoil(file, lambda each: each["images"][0].update(width=30, height=40))
    assert corners(data.evaluation()) == {"a.jpg": [[0, 0, 10, 5]]}
    with pytest.raises(DataError, match="write 'oriented: true'"):
        replace(data, oriented=False).evaluation()


def test_an_image_that_cannot_be_read_keeps_its_boxes(data, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"no image")
    assert len(data.evaluation().annotations[0]) == 2


@pytest.mark.parametrize("options", [{"eval_share": 0}, {"eval_share": 1.1}, {"limit": 0}])
def test_options_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        Coco(root=tmp_path, annotations=tmp_path / "x.json", **options)


def test_samples_can_be_taken(data):
    part = data.evaluation().take([3, 0])
    assert part.ids == ("d.jpg", "a.jpg")
    assert [len(each) for each in part.annotations] == [1, 2]
    assert Image.open(io.BytesIO(part.read(0))).size == SIZES["d"]
