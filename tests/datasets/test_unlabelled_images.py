from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from alignkit.datasets.unlabelled_images import Images, images_from
from alignkit.errors import ConfigError, DataError, NothingCompared, UnreadableImage


@pytest.fixture
def pictures(tmp_path):
    root = tmp_path / "pictures"
    for place, name in enumerate(
        ["b.jpg", "a.PNG", "deep/er/c.webp", ".hidden.jpg", "deep/.d/e.jpg"]
    ):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (9, 9), (place, 0, 0)).save(root / name)
    (root / "notes.txt").write_text("no image")
    return root


def test_a_folder_gives_every_image_below_it_in_sorted_order(pictures):
    samples = Images(pictures).evaluation()
    assert samples.ids == ("a.PNG", "b.jpg", "deep/er/c.webp")
    assert samples.labels == ()
    assert samples.read(1) == (pictures / "b.jpg").read_bytes()
    assert Images(pictures).counts() == (0, 3)


def test_named_files_are_taken_once_each_whatever_their_suffix(pictures):
    files = (
        pictures / "notes.txt",
        pictures / "deep" / "er",
        pictures / "b.jpg",
        pictures / "b.jpg",
    )
    assert Images(files).evaluation().ids == ("b.jpg", "deep/er/c.webp", "notes.txt")
    assert Images(pictures / "b.jpg").evaluation().ids == ("b.jpg",)


def test_relative_and_absolute_names_of_a_file_are_one_image(pictures, monkeypatch):
    monkeypatch.chdir(pictures)
    assert Images((Path("b.jpg"), pictures / "b.jpg")).counts() == (0, 1)


def test_the_fingerprint_follows_contents_and_names_not_the_place(pictures, tmp_path):
    before = Images(pictures).fingerprint("eval")
    moved = pictures.rename(tmp_path / "moved")
    assert Images(moved).fingerprint("eval") == before == Images(moved).evaluation().fingerprint
    (moved / "b.jpg").rename(moved / "bb.jpg")
    assert Images(moved).fingerprint("eval") != before


def test_a_limit_takes_the_same_images_each_time(pictures):
    chosen = Images(pictures, limit=2).evaluation().ids
    assert len(chosen) == 2
    assert Images(pictures, limit=2).evaluation().ids == chosen
    assert Images(pictures, limit=5).counts() == (0, 3)
    seeds = {Images(pictures, limit=1, seed=seed).evaluation().ids for seed in range(20)}
    assert len(seeds) == 3


def test_nothing_to_take_is_explained(tmp_path):
    with pytest.raises(DataError, match="does not exist"):
        Images(tmp_path / "absent").evaluation()
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingCompared, match="no images in"):
        Images(tmp_path / "empty").evaluation()
    with pytest.raises(NothingCompared, match="no images in"):
        Images((tmp_path / "empty", tmp_path / "empty")).evaluation()
    with pytest.raises(ConfigError, match="name a folder"):
        Images(())
    with pytest.raises(ConfigError, match="limit"):
        Images(tmp_path, limit=0)


def test_unlabelled_images_train_nothing(pictures):
    with pytest.raises(DataError, match="no labels"):
        Images(pictures).training()
    with pytest.raises(DataError, match="no labels"):
        Images(pictures).fingerprint("train")


def test_encoded_images_files_and_folders_may_be_mixed_and_files_keep_their_names(pictures):
    encoded = (pictures / "a.PNG").read_bytes()
    samples = images_from([pictures / "b.jpg", encoded, str(pictures / "deep"), pictures / "b.jpg"])
    assert samples.ids == ("b.jpg", "image 1", "deep/er/c.webp")
    files = [pictures / "b.jpg", pictures / "a.PNG", pictures / "deep/er/c.webp"]
    assert [samples.read(index) for index in range(3)] == [each.read_bytes() for each in files]
    fingerprints = {samples.fingerprint}
    (pictures / "b.jpg").write_bytes(b"changed")
    with pytest.raises(UnreadableImage, match="changed after it was listed"):
        samples.read(0)
    fingerprints.add(images_from([pictures / "b.jpg", encoded, pictures / "deep"]).fingerprint)
    fingerprints.add(images_from([pictures / "b.jpg", b"other", pictures / "deep"]).fingerprint)
    assert len(fingerprints) == 3
    with pytest.raises(DataError, match="does not exist; name a folder or an image"):
        images_from([encoded, pictures / "absent.jpg"])
