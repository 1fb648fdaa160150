"""Image files that cannot be read, or change: each is one image with its reason."""

from __future__ import annotations

import os

import pytest
from PIL import Image

from alignkit.datasets.unlabelled_images import Images
from alignkit.errors import ChangedImage, DataError, UnreadableImage


@pytest.fixture
def folder(tmp_path):
    root = tmp_path / "pictures"
    root.mkdir()
    for name in ("a.png", "b.png"):
        Image.new("RGB", (9, 9), (len(name), 0, 0)).save(root / name)
    return root


def test_a_folder_with_the_name_of_an_image_is_one_unless_it_holds_images(folder):
    (folder / "empty.jpg").mkdir()
    (folder / "full.jpg").mkdir()
    (folder / "a.png").rename(folder / "full.jpg" / "a.png")
    samples = Images(folder).evaluation()
    assert samples.ids == ("b.png", "empty.jpg", "full.jpg/a.png")
    with pytest.raises(UnreadableImage, match="not a regular file: a folder"):
        samples.read(1)


def test_a_pipe_that_is_named_is_refused_before_anything_is_read(folder):
    os.mkfifo(folder / "x.jpg")
    with pytest.raises(DataError, match=r"x\.jpg is not a regular file: a FIFO; name a folder"):
        Images(folder / "x.jpg").evaluation()


def test_a_file_beyond_the_limit_is_not_read(folder, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_IMAGE_BYTES", f"{1 << 20}")
    with (folder / "x.jpg").open("wb") as file:
        file.truncate(1 << 40)  # a terabyte without a block on the disk
    samples = Images(folder).evaluation()
    with pytest.raises(
        UnreadableImage, match="too large: 1,099,511,627,776 bytes, more than 1,048,576"
    ):
        samples.read(2)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_one_image(folder):
    (folder / "a.png").chmod(0)
    with pytest.raises(UnreadableImage, match="Permission denied"):
        Images(folder).evaluation().read(0)


def test_a_special_file_without_size_is_an_empty_image(folder):
    (folder / "x.jpg").symlink_to("/proc/self/status")
    assert Images(folder).evaluation().read(2) == b""


@pytest.mark.parametrize("change", ["removed", "shortened", "replaced by a pipe", "rewritten"])
def test_a_file_that_changes_after_it_was_listed_is_not_the_image(folder, change):
    samples, file = Images(folder).evaluation(), folder / "a.png"
    content = file.read_bytes()
    file.unlink()
    if change == "shortened":
        file.write_bytes(content[:-9])
    elif change == "rewritten":
        file.write_bytes(content[:-1] + b"!")
    elif change == "replaced by a pipe":
        os.mkfifo(file)
    with pytest.raises(ChangedImage, match="changed after it was listed"):
        samples.read(0)


def test_a_file_that_grows_beyond_the_limit_is_not_read(folder, monkeypatch):
    samples = Images(folder).evaluation()
    monkeypatch.setenv("ALIGNKIT_IMAGE_BYTES", f"{1 << 20}")
    with (folder / "a.png").open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(ChangedImage, match="more than 1,048,576 bytes"):
        samples.read(0)


def test_a_file_with_another_mode_and_time_is_the_same_image(folder):
    samples, content = Images(folder).evaluation(), (folder / "a.png").read_bytes()
    (folder / "a.png").chmod(0o600)
    os.utime(folder / "a.png", (1, 1))
    assert samples.read(0) == content


def test_a_choice_among_names_that_are_not_utf_8_is_made(folder):
    try:
        (folder / "a.png").rename(folder / os.fsdecode(b"caf\xe9.png"))
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert len(Images(folder, limit=1).evaluation()) == 1
    assert Images(folder).evaluation().ids == ("b.png", r"caf\xe9.png")
