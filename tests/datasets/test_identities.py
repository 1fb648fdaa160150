from __future__ import annotations

import base64
import hashlib
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.model_selection import KFold

from alignkit.datasets import base64_shards
from alignkit.datasets.identities import Identities
from alignkit.datasets.identity_images import folds_in_order
from alignkit.errors import ChangedImage, ConfigError, DataError, UnreadableImage
from alignkit.testing import DatasetContract
from tests.contracts import broken
from tests.datasets import identity_case as case

WRITERS = {
    "folder": case.folder,
    "list": case.listed,
    "base64": case.shards,
}


@pytest.fixture(params=WRITERS)
def source(request, tmp_path):
    return WRITERS[request.param](tmp_path / "data")


def contents(samples):
    return Counter(samples.read(index) for index in range(len(samples)))


@pytest.mark.parametrize("form", [*WRITERS, "bin"])
def test_each_form_conforms(tmp_path, form):
    root = tmp_path / "set"
    root = case.verification(tmp_path / "lfw.bin") if form == "bin" else WRITERS[form](root)
    for options in ({}, {"eval_share": 1}):
        assert broken(DatasetContract, Identities(root=root, **options)) == {}


def test_every_form_gives_the_same_images_byte_for_byte(source):
    samples = Identities(root=source, eval_share=1).evaluation()
    assert contents(samples) == Counter(case.pictures().values())
    by_identity = Counter(samples.classes[label] for label in samples.labels)
    assert sorted(by_identity.values()) == sorted(case.PEOPLE.values())


def test_identities_are_divided_whole_and_another_seed_divides_otherwise(source):
    splits = set()
    for seed in range(6):
        data = Identities(root=source, eval_share=0.5, seed=seed)
        training, evaluation = data.training(), data.evaluation()
        assert not {*training.classes} & {*evaluation.classes}
        assert len(training.classes) == len(evaluation.classes) == 2
        assert contents(training) + contents(evaluation) == Counter(case.pictures().values())
        assert not list(data.notes())
        splits.add(evaluation.classes)
    assert len(splits) > 1


def test_train_and_eval_folders_and_two_sources_are_taken_as_they_are(tmp_path):
    case.folder(tmp_path / "both" / "train", {"ann": 2, "bob": 2})
    case.folder(tmp_path / "both" / "eval", {"cy": 2, "di": 2, "bob": 2})
    data = Identities(root=tmp_path / "both")
    assert data.training().classes == ("ann", "bob")
    assert data.evaluation().classes == ("bob", "cy", "di")
    assert data.class_names() == ("bob", "cy", "di")
    assert data.trained_names() == ("ann", "bob")
    shared, copies = data.notes()
    assert shared == "identities that are trained on and evaluated: 1, such as bob"
    assert copies.startswith("evaluation images that are training images too: 2, such as eval/bob/")
    lfw = case.verification(tmp_path / "lfw.bin")
    plsc = Identities(root=lfw, train_root=case.listed(tmp_path / "ms1m") / "label.txt")
    assert plsc.training().classes == ("0", "1", "2", "3")
    assert plsc.evaluation().truth == plsc.truth == "none"
    assert plsc.undivided().counts()[0] == 0


def test_the_source_is_never_changed(source):
    def state():
        return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
                for path in sorted(source.rglob("*"))}  # fmt: skip

    before = state()
    data = Identities(root=source)
    contents(data.training())
    contents(data.evaluation())
    assert state() == before


def test_numbers_as_labels_are_sorted_as_numbers_and_gaps_are_noted(tmp_path):
    case.folder(tmp_path / "images", {"a": 1, "b": 1, "c": 1})
    lines = [
        f"images/{each}/{each}_0001.jpg {label}"
        for each, label in zip("abc", (2, 10, 9), strict=True)
    ]
    (tmp_path / "label.txt").write_text("\n".join(lines))
    data = Identities(root=tmp_path, eval_share=1)
    assert data.evaluation().classes == ("2", "9", "10")
    assert list(data.notes()) == [
        f"{tmp_path / 'label.txt'}: 8 of the labels 0 to 10 have no image, the first 0"
    ]


def test_paths_of_a_list_may_hold_spaces_and_columns_may_be_in_the_other_order(tmp_path):
    case.folder(tmp_path / "my images", {"ann lee": 2, "bob": 1})
    names = [f"my images/{name}" for name in case.pictures({"ann lee": 2, "bob": 1})]
    (tmp_path / "a.txt").write_text("".join(f"{name}\t{name[10]}\n" for name in names))
    (tmp_path / "b.txt").write_text("".join(f"{name[10]} {name}\r\n" for name in names))
    first = Identities(root=tmp_path / "a.txt", eval_share=1).evaluation()
    data = Identities(root=tmp_path / "b.txt", columns=("label", "image"), eval_share=1)
    assert first.ids == data.evaluation().ids == tuple(names)
    assert first.classes == data.evaluation().classes == ("a", "b")


def test_shards_in_the_other_order_of_columns_and_alone_are_the_same_images(tmp_path):
    other = case.shards(tmp_path / "other", count=1, order=("label", "image"))
    with pytest.raises(DataError, match=r"line 1: its label has .*columns: \[label, image\]"):
        Identities(root=other, eval_share=1).evaluation()
    columns = ("label", "image")
    for root in (other, other / "dataset.part0"):
        samples = Identities(root=root, columns=columns, eval_share=1).evaluation()
        assert contents(samples) == Counter(case.pictures().values())
        assert samples.ids[1] == "dataset.part0:2"


def test_a_shard_is_neither_read_whole_nor_held(tmp_path):
    import tracemalloc

    line = base64.b64encode(np.random.default_rng(0).bytes(300_000)) + b"\t7\n"
    with (tmp_path / "part").open("wb") as file:
        for _ in range(100):
            file.write(line)
    base64_shards._known.clear()
    tracemalloc.start()
    samples = Identities(root=tmp_path / "part", eval_share=1).evaluation()
    assert len(samples.read(99)) == 300_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "part").stat().st_size > 40_000_000
    assert peak < 5_000_000


def test_the_fingerprint_changes_with_any_byte_label_and_pair(tmp_path):
    def key(**options):
        return Identities(root=root, eval_share=1, **options).fingerprint("eval")

    for writer in (case.listed, case.shards, case.folder):
        root = writer(tmp_path / writer.__name__)
        seen = {key()}
        for file in sorted(root.rglob("*")):
            if not file.is_file() or file.name == "file_list.txt":
                continue
            before = file.read_bytes()
            for changed in _changes(file.name, before):
                file.write_bytes(changed)
                found = key()
                assert found not in seen, (file, writer)
                seen.add(found)
            file.write_bytes(before)
            assert key() in seen
    lines = [f"{a},{b},{int(same)}" for a, b, same in case.pairs()]
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    first = key(pairs=tmp_path / "pairs.csv")
    assert first != key()
    lines[0] = lines[0][:-1] + "0"
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    assert key(pairs=tmp_path / "pairs.csv") != first


def _changes(name, data):
    """Yield the content of a file with another image or label."""
    if name == "label.txt":
        yield data.replace(b" 0\n", b" 9\n", 1)
    elif name.startswith("dataset"):
        yield data.replace(b"\tann", b"\tbob", 1)
        yield data[:20] + (b"A" if data[20:21] != b"A" else b"B") + data[21:]
    else:
        yield data[:-1] + b"!"


def test_a_limit_takes_whole_identities_or_whole_pairs(source, tmp_path):
    data = Identities(root=source, eval_share=1, limit=6)
    samples = data.evaluation()
    assert 2 <= len(samples) <= 6
    sizes = {case.PEOPLE[name] if name in case.PEOPLE else [*case.PEOPLE.values()][int(name)]: count
             for name, count in Counter(samples.classes[each] for each in samples.labels).items()}  # fmt: skip
    assert all(size == count for size, count in sizes.items())
    lfw = Identities(root=case.verification(tmp_path / "lfw.bin"), limit=5).evaluation()
    assert 2 <= len(lfw) <= 5
    assert len(lfw.pairs) >= 1
    used = {*lfw.pairs.first.tolist(), *lfw.pairs.second.tolist()}
    assert used == set(range(len(lfw)))


@pytest.mark.parametrize("pairs", [10, 13, 6000, 7])
def test_folds_are_those_of_scikit_learn(pairs):
    expected = np.empty(pairs, int)
    if pairs >= 10:
        for fold, (_, test) in enumerate(KFold(10).split(np.zeros(pairs))):
            expected[test] = fold
    else:
        expected = np.arange(pairs)
    assert [*folds_in_order(pairs)] == expected.tolist()


def test_pairs_of_lfw_are_read_with_their_folds(tmp_path):
    case.folder(tmp_path / "lfw")
    text = "2\t2\n" + "ann\t1\t2\nann\t1\t3\nann\t1\tbob\t2\nbob\t1\tcy\t4\ncy\t2\t3\ndi\t1\t2\ndi\t1\tann\t2\nbob\t2\tdi\t1\n"  # fmt: skip
    (tmp_path / "pairs.txt").write_text(text)
    data = Identities(root=tmp_path / "lfw", pairs=tmp_path / "pairs.txt", eval_share=1)
    samples = data.evaluation()
    pairs = samples.pairs
    assert pairs.same.tolist() == [True, True, False, False] * 2
    assert pairs.fold.tolist() == [0] * 4 + [1] * 4
    assert [samples.ids[pairs.first[3]], samples.ids[pairs.second[3]]] == [
        "bob/bob_0001.jpg",
        "cy/cy_0004.jpg",
    ]
    for first, second, same in zip(pairs.first, pairs.second, pairs.same, strict=True):
        assert (samples.labels[first] == samples.labels[second]) == same


@pytest.mark.parametrize("separator", [" ", "\t", ","])
def test_lines_of_pairs_are_read_in_three_forms(tmp_path, separator):
    case.folder(tmp_path / "lfw")
    rows = [separator.join((a, b, str(int(same)))) for a, b, same in case.pairs()]
    (tmp_path / "pairs").write_text("\n".join(rows))
    data = Identities(root=tmp_path / "lfw", pairs=tmp_path / "pairs", eval_share=1)
    samples = data.evaluation()
    found = zip(samples.pairs.first, samples.pairs.second, samples.pairs.same, strict=True)
    assert [(samples.ids[a], samples.ids[b], same) for a, b, same in found] == case.pairs()
    assert samples.pairs.fold.tolist() == [*folds_in_order(len(rows))]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "pairs is empty"),
        (
            "1 2\nann 1 2\nann 1 bob 2\n",
            "line 1: it promises 1 folds of 2 .* 4 lines, and 2 follow",
        ),
        ("1 1\nann 1\nann 1 bob 2\n", "line 2: expected 'name number number'"),
        ("1 1\nann 1 2\nann 1 bob\n", "line 3: expected 'name number name number'"),
        ("1 1\nann 1 9\nann 1 bob 2\n", "line 2: no image ann/ann_0009"),
        ("1 1\nann 1 x\nann 1 bob 2\n", "line 2: the number of an image is none"),
        ("1 1\nann 1 1\nann 1 bob 2\n", "line 2: the image is paired with itself"),
        ("99 1\n", "line 1: 99 folds; 10 at most"),
        ("9" * 5000 + "\n", "line 1: expected 'first second 1'"),
        ("1 1\nann 1 " + "2" * 5000 + "\nann 1 bob 2\n", "line 2: the number of an image is none"),
        ("ann/ann_0001.jpg,bob/bob_0001.jpg,0," + "1" * 5000, "line 1: fold '1{80}'; 0 to 9"),
        ("ann/ann_0001.jpg bob/bob_0001.jpg 2\n", "line 1: expected 'first second 1'"),
        ("ann/ann_0001.jpg,bob/bob_0001.jpg,0\nann/ann_0001.jpg\n", "line 2: expected"),
        ("ann/ann_0001.jpg,bob/bob_0001.jpg,0,10\n", "line 1: fold '10'; 0 to 9"),
        ("ann/x.jpg,bob/bob_0001.jpg,0\n", "line 1: no image ann/x.jpg"),
    ],
)
def test_a_wrong_file_of_pairs_is_named_with_its_line(tmp_path, text, message):
    case.folder(tmp_path / "lfw")
    (tmp_path / "pairs").write_text(text)
    data = Identities(root=tmp_path / "lfw", pairs=tmp_path / "pairs", eval_share=1)
    with pytest.raises(DataError, match=message):
        data.evaluation()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: b"", "label.txt lists no image"),
        (lambda text: text.replace(b" 0\n", b"\n", 1), "label.txt, line 1: .* is not 'path label'"),
        (lambda text: text[: text.index(b"\n", 60) + 12], "line 4: 'images/bob/' is not 'path"),
        (lambda text: text + b"images/gone.jpg 0\n", "line 12: images/gone.jpg is not in"),
        (lambda text: text + text, "line 12: images/ann/ann_0001.jpg is there twice, .*line 1;"),
        (lambda text: text.replace(b"ann", b"\xff", 1), "line 1: it is not UTF-8"),
        (lambda text: text.replace(b"bob/bob_0001", b"gone"), "line 4: images/gone.jpg is not in"),
        (lambda text: text + b"/nowhere/x.jpg 0\n", "line 12: /nowhere/x.jpg is not in"),
        (
            lambda text: text.replace(b" 0\n", b" " + b"9" * 5000 + b"\n", 1),
            "line 1: its label has more than 200",
        ),
    ],
)
def test_a_damaged_list_is_named_with_its_line(tmp_path, change, message):
    file = case.listed(tmp_path) / "label.txt"
    file.write_bytes(change(file.read_bytes()))
    with pytest.raises(DataError, match=message):
        Identities(root=tmp_path).evaluation()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: b"", "part0 is empty"),
        (lambda data: data[:-8], "part0, line 6: 1 columns apart by tabs.*cut off"),
        (lambda data: b"*" + data[1:], "part0, line 1: wrong Base64"),
        (lambda data: data[4:], None),
        (lambda data: data[3:], "part0, line 1: wrong Base64"),
        (lambda data: data.replace(b"\tann", b"\t\xff", 1), "line 1: its label is not UTF-8"),
        (lambda data: data.replace(b"\t", b" "), "line 1: 1 columns"),
        (lambda data: data.replace(b"\tann", b"\t \r", 1), "line 1: its label is blank"),
        (lambda data: data.replace(b"\tann", b"\t", 1), "line 1: its label is blank"),
        (
            lambda data: data.replace(b"\tann", b"\t" + b"9" * 5000, 1),
            "line 1: its label has 5,000",
        ),
        (lambda data: data.replace(b"\n", b"\tx\n", 1), "line 1: 3 columns"),
    ],
)
def test_a_damaged_shard_is_named_with_its_line(tmp_path, change, message):
    file = case.shards(tmp_path) / "dataset.part0"
    before = Identities(root=tmp_path).fingerprint("eval")
    file.write_bytes(change(file.read_bytes()))
    if message is None:  # whole Base64 of other bytes: an image that no decoder takes
        assert Identities(root=tmp_path, eval_share=1).fingerprint("eval") != before
        return
    with pytest.raises(DataError, match=message):
        Identities(root=tmp_path).evaluation()


def test_wrong_lists_of_shards_are_named_with_their_line(tmp_path):
    case.shards(tmp_path)
    listing = tmp_path / "file_list.txt"
    for text, message in (
        ("", "names no shard"),
        ("dataset.part0\ngone\n", "line 2: .*gone is not there"),
        ("dataset.part0\ndataset.part0\n", "line 2: dataset.part0 is there twice"),
    ):
        listing.write_text(text)
        with pytest.raises(DataError, match=message):
            Identities(root=tmp_path).evaluation()


def test_shards_that_lie_elsewhere_are_named_by_their_whole_path(tmp_path):
    case.shards(tmp_path / "far", count=1)
    (tmp_path / "near").mkdir()
    far = tmp_path / "far" / "dataset.part0"
    (tmp_path / "near" / "file_list.txt").write_text(f"{far}\n")
    samples = Identities(root=tmp_path / "near", eval_share=1).evaluation()
    assert samples.ids[0] == f"{far}:1"
    assert contents(samples) == Counter(case.pictures().values())


def test_a_file_that_changes_after_it_was_listed_is_noticed(tmp_path):
    shards = case.shards(tmp_path / "shards")
    samples = Identities(root=shards, eval_share=1).evaluation()
    (shards / "dataset.part0").write_bytes(b"other")
    with pytest.raises(ChangedImage):
        samples.read(0)
    folder = case.folder(tmp_path / "folder")
    samples = Identities(root=folder, eval_share=1).evaluation()
    samples.read(0)
    (folder / samples.ids[0]).write_bytes(b"other")
    with pytest.raises(UnreadableImage):
        samples.read(0)


def test_content_is_that_of_the_bytes(source):
    data = Identities(root=source, eval_share=1)
    part = data._parts()["eval"]
    expected = [hashlib.sha256(part.reads()(index)).hexdigest() for index in range(len(part))]
    assert [*part.contents()] == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"eval_share": 0}, "eval_share"),
        ({"limit": 1}, "limit"),
        ({"columns": ("image", "image")}, "columns"),
    ],
)
def test_wrong_options_are_refused(tmp_path, options, message):
    with pytest.raises(ConfigError, match=message):
        Identities(root=tmp_path, **options)


def test_what_is_absent_or_cannot_be_divided_is_explained(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Identities(root=tmp_path / "gone").evaluation()
    case.listed(tmp_path / "one", {"ann": 3})
    data = Identities(root=tmp_path / "one")
    with pytest.raises(DataError, match="one identity cannot be divided"):
        data.evaluation()
    assert len(replace(data, eval_share=1.0).evaluation()) == 3
