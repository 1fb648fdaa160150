from __future__ import annotations

from dataclasses import replace

import pytest

from alignkit.datasets.voc import Voc, parsed_xml
from alignkit.errors import DataError
from tests.datasets.annotated_case import SIZES, jpeg, voc, voc_xml

OBJECTS = {
    "a": [("dog", 1, 1, 40, 30), ("cat", 5, 6, 20, 25, "difficult")],
    "b": [("cat", 3, 4, 5, 6)],
    "c": [],
}


@pytest.fixture
def data(tmp_path):
    return Voc(root=voc(tmp_path, OBJECTS), eval_share=1)


def test_torchvision_reads_the_same_objects(tmp_path):
    from torchvision.datasets import VOCDetection

    folder = tmp_path / "VOCdevkit" / "VOC2012"
    data = Voc(root=voc(folder, OBJECTS, val=["a", "b"]), eval_share=1)
    samples = data.evaluation()
    reference = VOCDetection(tmp_path, year="2012", image_set="val")
    assert len(reference) == len(samples) == 2
    for index, (image, content) in enumerate(reference):
        size = content["annotation"]["size"]
        assert image.size == (int(size["width"]), int(size["height"]))
        boxes = samples.annotations[index]
        for place, each in enumerate(content["annotation"]["object"]):
            box = {key: float(value) for key, value in each["bndbox"].items()}
            # counted from 1, and with the last pixel
            expected = [box["xmin"] - 1, box["ymin"] - 1, box["xmax"], box["ymax"]]
            assert boxes.corners[place].tolist() == expected
            assert samples.classes[boxes.classes[place]] == each["name"]
            assert boxes.crowd[place] == (each["difficult"] == "1")


def test_a_box_of_the_whole_image_fills_it_and_counting_from_0_leaves_corners_alone(data):
    assert data.evaluation().annotations[0].corners[0].tolist() == [0, 0, 40, 30]
    zero = replace(data, first_pixel=0)
    assert zero.evaluation().annotations[0].corners[0].tolist() == [1, 1, 40, 30]


def test_images_without_an_xml_file_or_without_objects_have_none_and_are_counted(data):
    samples = data.evaluation()
    assert samples.classes == data.class_names() == ("cat", "dog")
    assert [len(each) for each in samples.annotations] == [2, 1, 0, 0]
    assert [*data.notes()] == [
        f"{data.root}: images without an XML file, taken as without objects: 1",
        f"{data.root}: images without objects: 2, the first in JPEGImages/c.jpg",
    ]


def test_lists_name_the_sets(tmp_path):
    data = Voc(root=voc(tmp_path, OBJECTS, train=["b", "c 1"], val=["a -1"], test=["d"]))
    assert data.training().ids == ("JPEGImages/b.jpg", "JPEGImages/c.jpg")
    assert data.evaluation().ids == ("JPEGImages/a.jpg",)
    assert data.training().classes == data.evaluation().classes == ("cat", "dog")
    assert replace(data, eval_set="test").evaluation().ids == ("JPEGImages/d.jpg",)
    with pytest.raises(DataError, match=r"no held\.txt"):
        replace(data, eval_set="held").evaluation()


@pytest.mark.parametrize("old_new", [("<xmin>5", "<xmin>6"), (">cat<", ">dog<"), (">1<", ">0<")])
def test_every_change_of_an_object_changes_the_fingerprint(data, old_new):
    before = data.fingerprint("eval")
    assert before == data.evaluation().fingerprint
    file = data.root / "Annotations/a.xml"
    file.write_text(file.read_text().replace("\n", "").replace(*old_new))
    assert data.fingerprint("eval") != before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (voc_xml(SIZES["a"], [("dog", "nan", 1, 2, 3)]), r"object 1 \(dog\): nan, 1, 2, 3 are no"),
        (
            voc_xml(SIZES["a"], [("dog", 1, 1, 2, 3), ("cat", "", 1, 2, 3)]),
            r"object 2 \(cat\) needs",
        ),
        (voc_xml(SIZES["a"], [("", 1, 1, 2, 3)]), "object 1 has no name"),
        (voc_xml((80, 60), []), r"80x60, and JPEGImages/a\.jpg is 40x30"),
        ("<annotation><object>", "no element found: line 1"),
        ("", "no element found"),
        ("<annotation><size><width>x</width></size></annotation>", "invalid literal"),
    ],
)
def test_a_wrong_file_is_named(data, content, message):
    (data.root / "Annotations/a.xml").write_text(content)
    with pytest.raises(DataError, match=message) as caught:
        data.evaluation()
    assert "Annotations/a.xml" in str(caught.value)


def test_an_object_of_no_declared_class_is_named(data):
    chosen = replace(data, classes=("dog", "bird"))
    with pytest.raises(DataError, match=r"a\.xml: 'cat' is none of 'classes'"):
        chosen.evaluation()


def test_declared_classes_keep_their_order(data):
    samples = replace(data, classes=("dog", "bird", "cat")).evaluation()
    assert samples.annotations[0].classes.tolist() == [0, 2]


def test_xml_without_an_image_and_images_of_one_stem_are_refused(data):
    (data.root / "Annotations/e.xml").write_text(voc_xml((1, 1), []))
    with pytest.raises(DataError, match=r"1 images that .*Annotations names are not in .* e"):
        data.evaluation()
    (data.root / "JPEGImages/a.png").write_bytes(jpeg((4, 4)))
    with pytest.raises(DataError, match=r"JPEGImages/a\.jpg and JPEGImages/a\.png"):
        data.evaluation()


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_entities_are_refused_before_they_are_expanded(data, encoding):
    entities = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    text = f'<?xml version="1.0"?><!DOCTYPE a [<!ENTITY e0 "x">{entities}]><a>&e11;</a>'
    (data.root / "Annotations/a.xml").write_bytes(text.encode(encoding))
    with pytest.raises(DataError, match="declares a document type"):
        data.evaluation()


def test_a_file_of_another_place_is_not_included(tmp_path):
    (tmp_path / "secret").write_text("secret")
    text = f'<!DOCTYPE a [<!ENTITY e SYSTEM "file://{tmp_path}/secret">]><a>&e;</a>'
    with pytest.raises(ValueError, match="document type"):
        parsed_xml(text.encode())


def test_boxes_are_of_the_image_as_a_viewer_shows_it(data):
    (data.root / "JPEGImages/a.jpg").write_bytes(jpeg(SIZES["a"], orientation=8))
    with pytest.raises(DataError, match=r"is of an image of 40x30, and .* is 30x40 as a viewer"):
        data.evaluation()
