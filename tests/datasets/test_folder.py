from __future__ import annotations

import hashlib
import io
import logging
import os
import shutil
import time
from pathlib import Path

import pytest
from PIL import Image

from alignkit.datasets import Dataset, listed_images
from alignkit.datasets.folder import Folder
from alignkit.errors import ConfigError, DataError, UnreadableImage


def jpeg(*seed: object) -> bytes:
    file = io.BytesIO()
    colour = tuple(hashlib.sha256(str(seed).encode()).digest()[:3])
    Image.new("RGB", (24, 16), colour).save(file, "JPEG")
    return file.getvalue() + str(seed).encode()


def fill(root: Path, *folders: str, count: int = 4) -> Path:
    for folder in folders:
        (root / folder).mkdir(parents=True)
        for index in range(count):
            (root / folder / f"{index}.jpg").write_bytes(jpeg(folder, index))
    return root


@pytest.fixture
def split(tmp_path):
    return fill(tmp_path / "data", "train/b", "train/a", "eval/a", "eval/b")


@pytest.fixture
def whole(tmp_path):
    return fill(tmp_path / "whole", "a", "b", "c", count=20)


def state_of(root: Path) -> dict[str, object]:
    return {
        str(path.relative_to(root)): (path.stat().st_mtime_ns, path.is_file() and path.read_bytes())
        for path in sorted(root.rglob("*"))
    }


def test_the_folders_say_class_and_split(split):
    samples = Folder(split).training()
    assert samples.classes == ("a", "b")
    assert samples.ids[0] == "train/a/0.jpg"
    assert samples.labels == (0, 0, 0, 0, 1, 1, 1, 1)
    assert samples.read(5) == (split / "train/b/1.jpg").read_bytes()
    assert Folder(split).evaluation().ids[-1] == "eval/b/3.jpg"
    assert Folder(split).counts() == (8, 8)


@pytest.mark.parametrize("name", ["eval", "val", "validation", "test"])
def test_usual_names_of_the_evaluation_folder_are_found(tmp_path, name):
    root = fill(tmp_path / "data", "train/a", "train/b", f"{name}/a", f"{name}/b")
    assert Folder(root).evaluation().ids[0] == f"{name}/a/0.jpg"


def test_folders_can_be_named(tmp_path):
    root = fill(tmp_path / "data", "fit/a", "fit/b", "held/a", "held/b", "val/a")
    data = Folder(root, train_dir="fit", eval_dir="held")
    assert data.evaluation().ids[0] == "held/a/0.jpg"


def test_all_usual_suffixes_are_images_and_nothing_else_is(tmp_path):
    root = fill(tmp_path / "data", "a", "b")
    for name in ["x.JPG", "x.jpeg", "x.png", "x.webp", "x.bmp", "x.tiff", "deep/x.gif"]:
        (root / "a" / name).parent.mkdir(exist_ok=True)
        (root / "a" / name).write_bytes(jpeg(name))
    for name in ["x.txt", "x", ".x.jpg", "x.jpg.part"]:
        (root / "a" / name).write_text("")
    assert sum(Folder(root).counts()) == 8 + 7


def test_one_root_is_divided_by_class_without_touching_a_file(whole):
    before = state_of(whole)
    data = Folder(whole, eval_share=0.25)
    train, evaluation = data.training(), data.evaluation()
    assert state_of(whole) == before
    assert not set(train.ids) & set(evaluation.ids)
    assert len(set(train.ids) | set(evaluation.ids)) == 60
    assert [train.labels.count(label) for label in range(3)] == [15, 15, 15]
    assert [evaluation.labels.count(label) for label in range(3)] == [5, 5, 5]


def test_the_division_follows_the_seed(whole):
    assert Folder(whole).training().ids == Folder(whole).training().ids
    assert Folder(whole, seed=1).training().ids != Folder(whole).training().ids


def test_an_added_image_moves_at_most_one_other(whole):
    before = set(Folder(whole).evaluation().ids)
    (whole / "a" / "new.jpg").write_bytes(jpeg("new"))
    assert len(before - set(Folder(whole).evaluation().ids)) <= 1


def test_a_class_of_two_is_in_both_splits(tmp_path):
    root = fill(tmp_path / "data", "a", "b", count=2)
    assert Folder(root, eval_share=0.01).counts() == (2, 2)
    assert Folder(root, eval_share=0.99).counts() == (2, 2)


def test_a_limit_is_spread_over_the_classes(tmp_path):
    root = fill(tmp_path / "data", "a", "b", count=40)
    fill(root, "few", count=4)
    labels = Folder(root, limit=21).training().labels
    assert [labels.count(label) for label in range(3)] == [9, 9, 3]
    assert Folder(root, limit=10_000).counts() == (63, 21)
    with pytest.raises(DataError, match="limit: 2 images cannot cover 3"):
        Folder(root, limit=2).training()


def fingerprints(data: Dataset) -> tuple[str, str]:
    return data.fingerprint("train"), data.fingerprint("eval")


def test_the_fingerprint_follows_contents_and_labels(split):
    before = fingerprints(Folder(split)), Folder(split).fingerprint("train")
    assert Folder(split).training().fingerprint == before[1]
    (split / "eval/a/0.jpg").write_bytes(jpeg("changed"))
    assert Folder(split).fingerprint("train") == before[1]
    changed = fingerprints(Folder(split))
    assert changed != before[0]
    (split / "train/a/0.jpg").rename(split / "train/b/9.jpg")
    assert fingerprints(Folder(split)) != changed


def test_the_fingerprint_does_not_depend_on_the_place(split, tmp_path):
    shutil.copytree(split, tmp_path / "copy")
    assert fingerprints(Folder(tmp_path / "copy")) == fingerprints(Folder(split))


def test_a_file_changed_behind_its_old_size_and_time_is_noticed(split, monkeypatch):
    monkeypatch.setattr(listed_images, "SETTLED_SECONDS", 0.0)
    first = fingerprints(Folder(split))
    file = split / "train/a/0.jpg"
    status, content = file.stat(), bytearray(file.read_bytes())
    content[-1] ^= 1
    time.sleep(0.02)
    file.write_bytes(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert file.stat().st_mtime_ns == status.st_mtime_ns
    assert fingerprints(Folder(split)) != first


class Clock:
    """A clock that stands still; it shows how long ago the last file was written."""

    def __init__(self, root: Path) -> None:
        self.written = max(path.stat().st_ctime_ns for path in root.rglob("*.jpg"))
        self.age = 0.0

    def time_ns(self) -> int:
        return self.written + int(self.age * 1e9)


@pytest.mark.parametrize(("age", "kept"), [(0.0, False), (1.9, False), (2.1, True)])
def test_hashes_of_files_just_changed_are_not_kept(split, cache, monkeypatch, age, kept):
    monkeypatch.setattr(listed_images, "time", clock := Clock(split))
    clock.age = age
    fingerprints(Folder(split))
    assert (cache / "hashes").exists() == kept


def test_the_time_that_hashing_takes_does_not_settle_a_file(split, cache, monkeypatch):
    monkeypatch.setattr(listed_images, "time", clock := Clock(split))
    digest = listed_images._digest

    def slow(*given):
        clock.age = 60.0
        return digest(*given)

    monkeypatch.setattr(listed_images, "_digest", slow)
    Folder(split).fingerprint("eval")
    assert clock.age == 60.0
    assert not (cache / "hashes").exists()


@pytest.mark.parametrize("damage", ["cut", "emptied", "changed", "another folder's"])
def test_damaged_hashes_are_made_again(split, cache, caplog, monkeypatch, tmp_path, damage):
    monkeypatch.setattr(listed_images, "SETTLED_SECONDS", 0.0)
    first = fingerprints(Folder(split))
    (kept,) = (cache / "hashes").iterdir()
    text = kept.read_text()
    if damage == "another folder's":
        moved = tmp_path / "moved"
        shutil.copytree(split, moved)
        fingerprints(Folder(moved))
        (theirs,) = {*(cache / "hashes").iterdir()} - {kept}
        kept.write_text(theirs.read_text())
    else:
        digest = text.partition('": [')[2].split(chr(34))[1]
        changed = text.replace(digest, digest[:-1] + ("0" if digest[-1] != "0" else "1"))
        kept.write_text({"cut": text[:100], "emptied": "", "changed": changed}[damage])
    assert kept.read_text() != text
    with caplog.at_level(logging.WARNING):
        assert fingerprints(Folder(split)) == first
    (message,) = caplog.messages
    assert message.startswith(f"{kept} is damaged (")


def test_a_cache_that_cannot_be_written_costs_time_only(split, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(listed_images, "SETTLED_SECONDS", 0.0)
    first = fingerprints(Folder(split))
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    with caplog.at_level(logging.WARNING):
        assert fingerprints(Folder(split)) == first
    assert "cannot be kept" in caplog.text


def test_content_in_both_splits_is_noted(split):
    assert list(Folder(split).notes()) == []
    shutil.copy(split / "train/a/2.jpg", split / "eval/b/copy.jpg")
    (note,) = Folder(split).notes()
    same = "eval/b/copy.jpg = train/a/2.jpg"
    assert note == f"evaluation images that are training images too: 1, {same}"
    for number in range(5):
        shutil.copy(split / "train/a/2.jpg", split / f"eval/b/copy{number}.jpg")
    (note,) = Folder(split).notes()
    assert note == f"evaluation images that are training images too: 6, such as {same}"


def test_images_outside_class_folders_are_noted(split):
    (split / "train" / "stray.jpg").write_bytes(jpeg("stray"))
    (note,) = Folder(split).notes()
    assert note == "images in train that lie in no class folder, and are not used: 1"


def test_what_is_wrong_with_the_folders_is_said(tmp_path):
    def refused(root, match, **options):
        with pytest.raises(DataError, match=match):
            Folder(root, **options).training()

    refused(tmp_path / "absent", "does not exist")
    (tmp_path / "file.jpg").write_bytes(jpeg())
    refused(tmp_path / "file.jpg", "is not a folder")
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "x.jpg").write_bytes(jpeg())
    refused(tmp_path / "bare", "no class folders")
    refused(fill(tmp_path / "one", "train/a", "eval/a"), "one class only, a")
    half = fill(tmp_path / "half", "train/a", "train/b")
    refused(half, "but no eval/, val/, validation/ or test/")
    refused(half, "but no held/", eval_dir="held")
    refused(fill(tmp_path / "evals", "val/a", "test/a"), "has no train/")
    refused(fill(tmp_path / "named", "a", "b"), "has no fit/", train_dir="fit")
    refused(fill(tmp_path / "single", "a", "b", count=1), "a, b: one image only")


def test_an_empty_class_is_named(split):
    (split / "eval" / "c").mkdir()
    (split / "eval" / "c" / "notes.txt").write_text("")
    with pytest.raises(DataError, match=r"no images in c of .*eval"):
        Folder(split).evaluation()


def test_a_class_in_one_split_only_is_named(split):
    fill(split, "train/c", "eval/d", "eval/e")
    with pytest.raises(DataError, match=r"c only in train/; d, e only in eval/"):
        Folder(split).counts()


def test_a_file_that_cannot_be_read_is_part_of_the_fingerprint(split):
    before = fingerprints(Folder(split))
    (split / "train/a/dangling.jpg").symlink_to(split / "nowhere")
    dangling = fingerprints(Folder(split))
    samples = Folder(split).training()
    with pytest.raises(UnreadableImage, match=r"dangling.jpg: a link to .*/nowhere, which is not"):
        samples.read(samples.ids.index("train/a/dangling.jpg"))
    (split / "nowhere").write_bytes(b"now it is there")
    assert len({before, dangling, fingerprints(Folder(split))}) == 3


def test_two_files_that_cannot_be_read_are_not_the_same_image(split):
    for name in ("train/a/x.jpg", "eval/a/x.jpg"):
        os.mkfifo(split / name)
    assert not list(Folder(split).notes())


def test_links_are_followed_and_circles_are_not(tmp_path, split):
    fill(tmp_path / "elsewhere", "more", count=2)
    (split / "train/a/linked").symlink_to(tmp_path / "elsewhere" / "more")
    (split / "train/a/circle").symlink_to(split / "train/a")
    assert Folder(split).counts() == (10, 8)


def test_an_image_whose_name_is_not_utf8_is_one_that_cannot_be_read(split):
    try:
        Path(os.fsdecode(os.fsencode(split / "train/a") + b"/\xff.jpg")).write_bytes(jpeg())
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    samples = Folder(split).training()
    assert "train/a/\\xff.jpg" in samples.ids
    with pytest.raises(UnreadableImage, match="its name is not UTF-8; rename it"):
        samples.read(samples.ids.index("train/a/\\xff.jpg"))


def test_hostile_files_are_images_like_others(split):
    (split / "train/a/truncated.jpg").write_bytes(jpeg()[:100])
    (split / "train/a/text.jpg").write_text("not an image")
    (split / "train/a/empty.jpg").touch()
    assert Folder(split).counts() == (11, 8)
    assert len(Folder(split).fingerprint("train")) == 64


@pytest.mark.parametrize("options", [{"eval_share": 0.0}, {"eval_share": 1.0}, {"limit": 0}])
def test_options_out_of_range_are_refused(tmp_path, options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        Folder(tmp_path, **options)


def test_a_real_data_set_is_read_as_it_lies(shared_data, monkeypatch):
    data = Folder(shared_data / "flowers12")
    assert data.counts() == (720, 240)
    assert len(data.training().classes) == 12
    assert list(data.notes()) == []
    first = fingerprints(data)
    monkeypatch.setattr(listed_images, "open_regular", lambda path, _: pytest.fail(f"read {path}"))
    assert fingerprints(data) == first


@pytest.mark.parametrize("name", ["eval", "val"])
def test_an_undivided_folder_needs_no_training_half(tmp_path, name):
    root = fill(tmp_path / "data", f"{name}/a", f"{name}/b")
    with pytest.raises(DataError, match="no train/; name the training folder"):
        Folder(root).counts()
    data = Folder(root).undivided()
    assert data.counts() == (0, 8)
    assert data.evaluation().ids[0] == f"{name}/a/0.jpg"
    assert data.evaluation().classes == data.class_names() == ("a", "b")
    assert len(data.training()) == 0
    assert data.training().fingerprint == data.fingerprint("train")
    assert data.choice() == f"all of {root}/{name}, as nothing is trained"


def test_an_undivided_flat_root_gives_every_image(whole):
    (whole / "b" / "19.jpg").unlink()  # 19 of b: no share of it is taken
    data = Folder(whole).undivided()
    assert data.counts() == (0, 59)
    assert {*data.evaluation().ids} == {
        str(path.relative_to(whole)) for path in whole.rglob("*.jpg")
    }
    assert Folder(whole).counts() == (44, 15)
    assert Folder(whole).choice() == "0.25 of each class, drawn by seed 0"
    assert Folder(whole, limit=6).undivided().counts() == (0, 6)


def test_one_image_of_a_class_is_enough_where_nothing_is_divided(tmp_path):
    root = fill(tmp_path / "data", "a", "b", count=1)
    with pytest.raises(DataError, match="one image only"):
        Folder(root).counts()
    assert Folder(root).undivided().counts() == (0, 2)


def test_an_undivided_folder_leaves_the_training_folder_alone(split):
    before = fingerprints(Folder(split).undivided())
    assert Folder(split).undivided().counts() == (0, 8)
    fill(split, "train/c")  # a class that is not evaluated, which a training would refuse
    assert fingerprints(Folder(split).undivided()) == before
    with pytest.raises(DataError, match="different classes: c only in train/"):
        Folder(split).counts()


def test_class_names_are_known_without_listing_an_image(split, tmp_path, monkeypatch):
    def refuse(folder):
        raise AssertionError(folder)

    monkeypatch.setattr("alignkit.datasets.labelled.image_files", refuse)
    assert Folder(split).class_names() == ("a", "b")
    assert Folder(tmp_path / "elsewhere").class_names() == ()
