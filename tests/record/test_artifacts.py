"""Files beside a record are read only from the run's folder, and only as they were written."""

import hashlib
import os

import pytest
from pydantic import BaseModel, ValidationError

from alignkit.errors import DamagedRecord
from alignkit.record import Artifact
from alignkit.record.document import artifact_file, artifacts_of, read_record, verify_artifacts
from tests.report.records import quickstart as quickstart_with_pictures
from tests.run_pair import quickstart, write_small_run

TEXT = b"pixels"
SHA256 = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def folder(tmp_path):
    inside = tmp_path / "run"
    (inside / "img").mkdir(parents=True)
    (inside / "img" / "a.png").write_bytes(TEXT)
    (tmp_path / "secret").write_bytes(TEXT)  # its hash is right, so that only its place is wrong
    return inside


def named(path):
    return Artifact(path=path, sha256=SHA256)


def test_a_file_as_it_was_written_is_found(folder):
    assert artifact_file(folder, named("img/a.png")) == folder / "img" / "a.png"


def test_a_folder_may_be_reached_by_a_link_and_a_file_by_one_inside(folder, tmp_path):
    (tmp_path / "latest").symlink_to(folder)
    (folder / "b.png").symlink_to("img/a.png")
    artifact_file(tmp_path / "latest", named("b.png"))


@pytest.mark.parametrize(
    "path",
    [
        "", ".", "..", "/etc/passwd", "../secret", "img/../../secret", "img//a.png", "img/", "./a",
        "C:\\a", "img\\a", "http:/host/x.png", "javascript:alert(1)", "data:text/javascript,1",
        'a" onload="x', "a<b", "a b", "a\nb", "a\x00b", "~/x", "a#b", "a?b", "a%2e", "a" * 5000,
    ],
)  # fmt: skip
def test_a_path_that_is_no_plain_name_is_refused(path):
    with pytest.raises(ValidationError, match="path"):
        named(path)


@pytest.mark.parametrize(
    "path", ["img/0af3.png", "predictions/a_b-c.d+e=f-seed0.parquet", ".x/..y"]
)
def test_plain_names_are_taken(path):
    named(path)


def link_out(folder):
    (folder / "img" / "a.png").unlink()
    (folder / "img" / "a.png").symlink_to(folder.parent / "secret")


def link_folder_out(folder):
    (folder / "img" / "a.png").unlink()
    (folder / "img").rmdir()
    (folder.parent / "a.png").write_bytes(TEXT)
    (folder / "img").symlink_to(folder.parent)


def link_in_circles(folder):
    (folder / "img" / "a.png").unlink()
    (folder / "img" / "a.png").symlink_to("a.png")


def pipe(folder):
    (folder / "img" / "a.png").unlink()
    os.mkfifo(folder / "img" / "a.png")


def device(folder):
    (folder / "img" / "a.png").unlink()
    (folder / "img" / "a.png").symlink_to("/dev/zero")


def changed(folder):
    (folder / "img" / "a.png").write_bytes(b"Pixels")


def empty(folder):
    (folder / "img" / "a.png").write_bytes(b"")


def gone(folder):
    (folder / "img" / "a.png").unlink()


def a_folder(folder):
    (folder / "img" / "a.png").unlink()
    (folder / "img" / "a.png").mkdir()


def huge(folder):
    os.truncate(folder / "img" / "a.png", 1 << 40)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (link_out, "leads out of the run's folder"),
        (link_folder_out, "leads out of the run's folder"),
        (device, "leads out of the run's folder"),
        (link_in_circles, "levels of symbolic links"),
        (pipe, "not a regular file: a FIFO"),
        (a_folder, "not a regular file: a folder"),
        (changed, "is not as alignkit wrote it"),
        (empty, "is not as alignkit wrote it"),
        (gone, "is missing, which record.json names; copy the whole folder"),
        (huge, "it has more than"),
    ],
)
def test_anything_else_is_refused_with_the_file(folder, damage, said):
    damage(folder)
    with pytest.raises(DamagedRecord, match=said) as e:
        artifact_file(folder, named("img/a.png"))
    assert str(folder / "img" / "a.png") in str(e.value)


def every_artifact(value):
    if isinstance(value, Artifact):
        yield value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from every_artifact(getattr(value, name))
    elif isinstance(value, tuple):
        for each in value:
            yield from every_artifact(each)


def test_every_file_that_a_record_names_is_verified(tmp_path):
    log = named("trainings/log.csv")
    (tmp_path / "trainings").mkdir()
    (tmp_path / log.path).write_bytes(TEXT)
    trained = quickstart().trainings[0].model_copy(update={"files": (log,)})
    pictures = quickstart_with_pictures(tmp_path).shown[:2]
    write_small_run(tmp_path, flipped=(), shown=pictures, trainings=(trained,))
    record = read_record(tmp_path)
    assert {*artifacts_of(record)} == {*every_artifact(record)}
    verify_artifacts(tmp_path, record)
    for each in {*artifacts_of(record)}:
        file = tmp_path / each.path
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        with pytest.raises(DamagedRecord, match=str(file)):
            verify_artifacts(tmp_path, record)
        file.write_bytes(content)
