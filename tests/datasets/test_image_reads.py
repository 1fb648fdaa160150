"""Reads of images as values: sent to another process, they give the same bytes."""

import base64
import pickle
import subprocess
import sys

import pytest

from alignkit.datasets.base64_shards import read_shards
from alignkit.datasets.folder import Folder
from alignkit.datasets.identities import Identities
from alignkit.datasets.unlabelled_images import images_from
from alignkit.errors import ChangedImage, UnreadableImage
from alignkit.samples import HeldImages

IMAGES = [b"image %d" % index * (index + 1) for index in range(8)]
ELSEWHERE = """
import pickle, sys
reads, count = pickle.load(sys.stdin.buffer)
pickle.dump([reads(index) for index in range(count)], sys.stdout.buffer)
"""


def in_another_process(reads, count, folder):
    given = pickle.dumps((reads, count))
    command = [sys.executable, "-c", ELSEWHERE]
    ended = subprocess.run(command, input=given, capture_output=True, check=True, cwd=folder)
    return pickle.loads(ended.stdout)


@pytest.fixture
def folder(tmp_path):
    for index, data in enumerate(IMAGES):
        file = tmp_path / "set" / "ab"[index % 2] / f"{index}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return tmp_path / "set"


def write_shards(folder, images, size):
    """Write two shards, the first of so many images."""
    lines = [f"{base64.b64encode(data).decode()}\t{label}\n" for data, label in images]
    (folder / "one").write_text("".join(lines[:size]))
    (folder / "two").write_text("".join(lines[size:]))
    (folder / "file_list.txt").write_text("one\ntwo\n")


def sources(folder):
    shards, lfw = folder.parent / "shards", folder.parent / "lfw.bin"
    shards.mkdir()
    write_shards(shards, [(data, str(index % 3)) for index, data in enumerate(IMAGES)], 3)
    lfw.write_bytes(pickle.dumps((IMAGES, [True, False] * 2)))
    yield images_from(folder)
    yield images_from([IMAGES[0], folder / "a", IMAGES[1], folder / "b" / "3.jpg"])
    yield Folder(folder).undivided().evaluation()
    yield Identities(root=folder, eval_share=1).evaluation()
    yield Identities(root=shards, eval_share=1).evaluation()
    yield Identities(root=shards, eval_share=0.3, seed=3).training()
    yield Identities(root=lfw, eval_share=1).evaluation()


def test_reads_give_the_same_bytes_in_another_process_and_working_folder(
    folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for samples in [*sources(folder), images_from("set")]:
        chosen = [len(samples) - 1, 0, len(samples) // 2]
        part = samples.take(chosen)
        expected = [samples.read(index) for index in chosen]
        assert len(samples) > 3
        assert {*expected} <= {*IMAGES}
        assert in_another_process(part.read, len(part), elsewhere) == expected
        again = part.take([2, 0])
        assert [again.read(index) for index in range(2)] == [expected[2], expected[0]]


def test_a_part_holds_the_places_of_its_images_alone(folder, tmp_path):
    many = tmp_path / "many"
    many.mkdir()
    for index in range(600):
        (many / f"a-rather-long-name-{index}.jpg").write_bytes(b"%d" % index)
    shard = tmp_path / "shard"
    shard.mkdir()
    write_shards(shard, [(b"%d" % index, "0") for index in range(600)], 300)
    mixed = images_from([many, *IMAGES])
    for reads in (images_from(many).read, read_shards(shard).reads(), mixed.read):
        few = reads.only(range(3))
        assert len(pickle.dumps(few)) < len(pickle.dumps(reads)) / 20
        assert [few(index) for index in range(3)] == [reads(index) for index in range(3)]


def test_errors_are_those_of_the_whole(folder):
    (folder / "a" / "0.jpg").unlink()
    (folder / "a" / "0.jpg").symlink_to("nowhere")
    samples = images_from(folder)
    (folder / "a" / "2.jpg").write_bytes(b"other")
    part = pickle.loads(pickle.dumps(samples.read.only([1, 0])))
    with pytest.raises(ChangedImage, match="changed after it was listed") as caught:
        part(0)
    sent = pickle.loads(pickle.dumps(caught.value))
    assert (type(sent), str(sent), sent.reason) == (
        ChangedImage,
        str(caught.value),
        caught.value.reason,
    )
    with pytest.raises(UnreadableImage, match="a link to nowhere, which is not there"):
        part(1)


def test_held_images_are_a_value():
    held = HeldImages((b"a", b"b", b"c"))
    assert pickle.loads(pickle.dumps(held)).only([2, 0]) == HeldImages((b"c", b"a"))
