"""Sealed documents: a changed one is refused, and the seal can be checked by other means."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from alignkit.errors import DamagedRecord, RecordError
from alignkit.record import RunRecord
from alignkit.record.document import read_record, write_record
from alignkit.stored_file import sealed
from tests.run_pair import quickstart
from tests.sealed import rewrite


@pytest.fixture
def path(tmp_path):
    return write_record(quickstart(), tmp_path)


def test_a_record_is_read_back_as_it_was_written(path):
    assert read_record(path.parent) == quickstart() == read_record(path)


def test_the_seal_is_the_hash_of_the_file_with_zeros_for_the_seal(path):
    text = path.read_text()
    seal = json.loads(text)["sha256"]
    assert next(iter(json.loads(text))) == "sha256"
    assert hashlib.sha256(text.replace(seal, "0" * 64, 1).encode()).hexdigest() == seal


def test_the_command_of_the_docs_checks_a_seal(path):
    page = Path(__file__).parents[2] / "docs" / "report.md"
    command = re.search(r"^    (sed .*)$", page.read_text(), re.MULTILINE)[1]
    done = subprocess.run(
        ["bash", "-c", command], cwd=path.parent, capture_output=True, text=True, check=True
    )
    assert done.stdout.split()[0] == json.loads(path.read_text())["sha256"]


def test_a_changed_digit_is_reported_with_the_file_and_the_next_step(path):
    text = path.read_text()
    path.write_text(re.sub(r'("exit_code": ?)\d', r"\g<1>7", text))
    assert path.read_text() != text
    with pytest.raises(DamagedRecord, match="is not as alignkit wrote it; run the experiment") as e:
        read_record(path.parent)
    assert str(path) in str(e.value)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\xff", "{}", '{"format": 1}'])
def test_a_document_without_a_seal_is_refused(path, text):
    path.write_text(text, encoding="latin-1")
    with pytest.raises(DamagedRecord, match="has no seal: it is damaged, or an older alignkit"):
        read_record(path.parent)


def test_a_record_of_an_older_alignkit_is_not_trusted(path):
    path.write_text(quickstart().model_dump_json(indent=1))
    with pytest.raises(DamagedRecord, match=r"has no seal.*run the experiment again"):
        read_record(path.parent)


@pytest.mark.parametrize("seal", [sealed, str])
def test_a_newer_format_is_named_as_such(path, seal):
    path.write_text(seal('{"format": 99, "more": {}}'))
    with pytest.raises(RecordError, match="has format 99, this alignkit reads up to 3; update"):
        read_record(path.parent)


def test_an_older_format_is_refused_with_the_command_that_makes_it_again(path):
    rewrite(path, lambda stored: stored.update(format=1, command="alignkit run mine.yaml"))
    with pytest.raises(DamagedRecord, match=r"has format 1, .* again: alignkit run mine.y"):
        read_record(path.parent)


@pytest.mark.parametrize(
    "change",
    [
        lambda stored: stored.pop("name"),
        lambda stored: stored.update(more=1),
        lambda stored: stored.update(seconds=float("nan")),
        lambda stored: stored.update(seconds=float("inf")),
        lambda stored: stored.update(cells={}),
        lambda stored: stored["cells"][0].update(n=-1),
    ],
)
def test_a_sealed_record_of_other_fields_is_refused_in_one_line(path, change):
    rewrite(path, change)
    with pytest.raises(DamagedRecord, match="is damaged") as e:
        read_record(path.parent)
    assert "\n" not in str(e.value)


@pytest.mark.parametrize("deep", ["[" * 100_000, '{"a":' * 100_000])
def test_deep_nesting_is_an_error_and_no_crash(path, deep):
    path.write_text(sealed('{"format": 1, "name": ' + deep))
    with pytest.raises(DamagedRecord, match="is damaged"):
        read_record(path.parent)
    path.write_text(deep)
    with pytest.raises(DamagedRecord, match="has no seal"):
        read_record(path.parent)


def test_anything_but_a_file_is_refused_at_once(path):
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DamagedRecord, match="it is not a regular file"):
        read_record(path.parent)
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(DamagedRecord, match="it is not a regular file"):
        read_record(path.parent)


def test_a_file_greater_than_any_record_is_refused_before_it_is_read(path):
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    with pytest.raises(DamagedRecord, match="more than 536,870,912 bytes"):
        read_record(path.parent)


def test_a_missing_record_says_what_to_give(tmp_path):
    with pytest.raises(RecordError, match="give the folder of a finished run"):
        read_record(tmp_path)


def test_the_seal_is_no_field_of_the_record():
    assert "sha256" not in RunRecord.model_fields
