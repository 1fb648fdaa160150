from __future__ import annotations

from dataclasses import replace

import pytest
from sklearn.preprocessing import MultiLabelBinarizer

from alignkit.datasets.label_table import LabelTable
from alignkit.errors import ConfigError, DataError
from tests.datasets.annotated_case import jpeg, write_images

LISTED = "image,labels\na.jpg,dog;cat\nb.jpg,\nc.jpg,cat\nd.jpg,bird ; cat\n"
A_LINE_EACH = "image,label\na.jpg,dog\nc.jpg,cat\nb.jpg,\na.jpg,cat\nd.jpg,cat\nd.jpg,bird\n"
COLUMNS = "image,bird,cat,dog\na.jpg,0,1,1\nb.jpg,,0,0.0\nc.jpg,0,1.0,0\nd.jpg,1,1,\n"
FORMS = {"listed": LISTED, "a line each": A_LINE_EACH, "columns": COLUMNS}


@pytest.fixture
def data(tmp_path):
    write_images(tmp_path / "images")
    file = tmp_path / "labels.csv"
    file.write_text(LISTED)
    return LabelTable(root=tmp_path / "images", annotations=file, eval_share=1)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_labels(data, form):
    data.annotations.write_text(FORMS[form])
    samples = data.evaluation()
    assert samples.ids == ("a.jpg", "b.jpg", "c.jpg", "d.jpg")
    assert samples.classes == data.class_names() == ("bird", "cat", "dog")
    assert [each.labels for each in samples.annotations] == [(1, 2), (), (1,), (0, 1)]
    assert samples.truth == data.truth == "labels"
    assert [*data.notes()] == [f"{data.annotations}: images without labels: 1"]


def test_labels_are_those_of_scikit_learn(data):
    rows = [line.split(",") for line in LISTED.splitlines()[1:]]
    found = [[each.strip() for each in text.split(";") if each] for _, text in rows]
    binarizer = MultiLabelBinarizer()
    expected = binarizer.fit_transform(found)
    samples = data.evaluation()
    assert samples.classes == tuple(binarizer.classes_)
    ours = [[int(k in each.labels) for k in range(3)] for each in samples.annotations]
    assert ours == expected.tolist()


def test_pandas_writes_a_file_that_is_read(data):
    import pandas as pd

    frame = pd.DataFrame(
        {"image": ["a.jpg", "b.jpg"], "a, b": [True, False], 'say "x"': [True, True]}
    )
    frame.astype({"a, b": int, 'say "x"': int}).to_csv(data.annotations, index=False)
    samples = data.evaluation()
    assert samples.classes == ("a, b", 'say "x"')
    assert [each.labels for each in samples.annotations] == [(0, 1), (1,)]


def test_labels_may_be_apart_by_spaces_and_names_without_suffix(data):
    data.annotations.write_text("image_name,tags\na,clear  primary\nb,primary\n")
    spaced = replace(data, separator=" ", suffix=".jpg").evaluation()
    assert spaced.ids == ("a.jpg", "b.jpg")
    assert [each.labels for each in spaced.annotations] == [(0, 1), (1,)]


@pytest.mark.parametrize("text", [LISTED.replace("dog;cat", "cat"), LISTED + "a.jpg,bird\n"])
def test_every_change_of_a_label_changes_the_fingerprint(data, text):
    before = data.fingerprint("eval")
    assert before == data.evaluation().fingerprint
    data.annotations.write_text(text)
    assert data.fingerprint("eval") != before


def test_the_order_of_lines_does_not_count_and_the_images_do(data):
    before = data.fingerprint("eval")
    data.annotations.write_text(A_LINE_EACH)
    assert data.fingerprint("eval") == before
    (data.root / "a.jpg").write_bytes(jpeg((3, 3)))
    assert data.fingerprint("eval") != before


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: it names no columns"),
        ("image\na.jpg\n", "line 1: it names no columns"),
        ("a.jpg,cat\nb.jpg,dog\n", "line 1: it names no columns"),
        ("image,labels\na.jpg,cat,dog\n", "line 2: 3 fields, expected an image and 1 more"),
        ("image,labels\n\n,cat\n", "line 3: 2 fields, expected an image"),
        ("image,cat,dog\na.jpg,1\n", "line 2: 2 fields, expected an image and 2 more"),
        ("image,cat,dog\na.jpg,1,yes\n", "line 2: 'yes' is no mark of a label, 1 or 0"),
        ("image,cat,dog\na.jpg,1,nan\n", "line 2: 'nan' is no mark"),
        ("image,cat,cat\na.jpg,1,0\n", "line 1: two columns have one name"),
        ("image,cat,dog\na.jpg,1,0\n./a.jpg,0,0\n", r"line 3: a\.jpg is there twice"),
        ('image,labels\na.jpg,"cat\n', "line 2: unexpected end of data"),
        ("image,labels\nnone.jpg,cat\n", r"1 are not in .*images, the first none\.jpg"),
    ],
)
def test_a_wrong_line_is_named(data, text, message):
    data.annotations.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        data.evaluation()
    assert "labels.csv" in str(caught.value)


def test_a_file_that_is_no_text_or_not_there_is_named(data):
    data.annotations.write_bytes(b"image,labels\na.jpg,\xff\n")
    with pytest.raises(DataError, match=r"labels\.csv is not UTF-8 text"):
        data.evaluation()
    data.annotations.unlink()
    with pytest.raises(DataError, match="cannot read"):
        data.evaluation()


def test_declared_classes_keep_their_order_and_others_are_refused(data):
    chosen = replace(data, classes=("dog", "cat", "bird", "fish"))
    assert chosen.evaluation().annotations[0].labels == (0, 1)
    with pytest.raises(DataError, match=r"d\.jpg has 'bird', which is none of 'classes'"):
        replace(data, classes=("dog", "cat")).evaluation()


def test_two_files_are_the_two_splits_with_the_labels_of_both(data, tmp_path):
    train = tmp_path / "train.csv"
    train.write_text("image,labels\na.jpg,ape\n")
    data.annotations.write_text("image,labels\nb.jpg,cat\n")
    both = replace(data, train_annotations=train, eval_share=0.25)
    assert both.training().ids == ("a.jpg",)
    assert both.evaluation().ids == ("b.jpg",)
    assert both.training().classes == both.evaluation().classes == ("ape", "cat")


SINGLE = "image,defect\na.jpg,0\nb.jpg,1\nc.jpg,1.0\nd.jpg,\n"


def test_one_column_of_marks_is_one_class_with_its_name(data):
    data.annotations.write_text(SINGLE)
    samples = data.evaluation()
    assert samples.classes == data.class_names() == ("defect",)
    assert [each.labels for each in samples.annotations] == [(), (0,), (0,), ()]
    with pytest.raises(DataError, match="has 'defect', which is none of 'classes'"):
        replace(data, classes=("scratch",)).evaluation()


@pytest.mark.parametrize("name", ["label", "labels", "Class"])
def test_a_column_of_marks_that_is_named_no_class_is_asked_about(data, name):
    data.annotations.write_text(SINGLE.replace("defect", name))
    with pytest.raises(DataError, match=rf"line 1: the column '{name}' holds 0 and 1 alone"):
        data.class_names()
    assert replace(data, classes=("defect",)).evaluation().annotations[1].labels == (0,)
    two = replace(data, classes=("0", "1", "1.0")).evaluation()
    assert [each.labels for each in two.annotations] == [(0,), (1,), (2,), ()]


@pytest.mark.parametrize(
    "rows",
    [
        "a.jpg,0\nb.jpg,1\nc.jpg,2\n",
        "a.jpg,0\na.jpg,1\nb.jpg,1\n",
        "a.jpg,0;1\nb.jpg,1\n",
        "a.jpg,\nb.jpg,\n",
    ],
)
def test_lists_of_digits_are_no_marks(data, rows):
    data.annotations.write_text("image,digits\n" + rows)
    assert "digits" not in data.evaluation().classes


def test_an_empty_separator_is_refused(data):
    with pytest.raises(ConfigError, match="separator"):
        replace(data, separator="")
