"""Sealed files: any change of a byte is found. Written files: nothing special is replaced."""

import json
import os
import subprocess
import sys
import threading

import pytest

from alignkit.errors import ConfigError, WorkspaceError
from alignkit.stored_file import (
    DamagedError,
    NoSealError,
    output_paths,
    read_sealed,
    sealed,
    unsealed,
    write_atomically,
    write_output,
)


@pytest.mark.parametrize("text", ["{}", '{"a": 1}', '{\n "a": 1}\n', '{"a": 1}\n{"b": 2}\n'])
def test_a_sealed_text_is_the_text_again_without_its_seal(tmp_path, text):
    if text == "{}":
        with pytest.raises(ValueError, match="empty"):
            sealed(text)
        return
    stored = sealed(text).encode()
    first, *rest = text.splitlines() if text.count("{") == 2 else [text]
    bare = unsealed(stored).decode()
    assert json.loads(bare.splitlines()[0] if rest else bare) == json.loads(first)
    with pytest.raises(NoSealError):
        unsealed(text.encode())


def test_every_changed_byte_is_found():
    stored = sealed('{"state": "fail", "exit_code": 1}\n').encode()
    for place in range(len(stored)):
        for bit in range(8):
            changed = bytearray(stored)
            changed[place] ^= 1 << bit
            with pytest.raises(DamagedError):
                unsealed(bytes(changed))
    for length in range(len(stored)):
        with pytest.raises(DamagedError):
            unsealed(stored[:length])


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_a_regular_file_is_read_or_replaced(tmp_path, make):
    make(tmp_path / "x")
    with pytest.raises(DamagedError, match="not a regular file"):
        read_sealed(tmp_path / "x")
    with pytest.raises(WorkspaceError, match="not a regular file"):
        write_atomically(tmp_path / "x", "new")
    assert [each.name for each in tmp_path.iterdir()] == ["x"]
    assert not (tmp_path / "x").is_file()


def test_an_output_goes_through_a_link_to_its_target(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/target").write_text("old")
    (tmp_path / "link").symlink_to("folder/target")
    (tmp_path / "dangling").symlink_to("folder/later")
    write_output(tmp_path / "link", "new")
    write_output(tmp_path / "dangling", "later")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "folder/target").read_text() == "new"
    assert (tmp_path / "folder/later").read_text() == "later"
    assert len(list((tmp_path / "folder").iterdir())) == 2


def test_an_output_is_written_into_a_fifo(tmp_path):
    os.mkfifo(tmp_path / "x")
    writer = threading.Thread(target=write_output, args=(tmp_path / "x", "a" * 100_000))
    writer.start()
    assert (tmp_path / "x").read_text() == "a" * 100_000
    writer.join()
    assert (tmp_path / "x").is_fifo()


@pytest.mark.parametrize("piped", [True, False])
def test_an_output_to_standard_output_follows_what_was_printed(tmp_path, piped):
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = (
        "from alignkit.stored_file import write_output; from pathlib import Path\n"
        f"print('a'); write_output(Path({str(tmp_path / 'link')!r}), 'b\\n'); print('c')"
    )
    with (tmp_path / "out").open("wb") as out:
        where = subprocess.PIPE if piped else out
        done = subprocess.run([sys.executable, "-c", code], stdout=where, check=True)
    told = done.stdout if piped else (tmp_path / "out").read_bytes()
    assert told == b"a\nb\nc\n"
    assert (tmp_path / "link").is_symlink()


def test_an_output_does_not_replace_a_folder(tmp_path):
    with pytest.raises(WorkspaceError, match=r"directory.*; name another file"):
        write_output(tmp_path, "x")


def test_a_kind_that_is_written_once_has_one_path_and_a_folder_is_not_printed():
    kinds = ("json", "html")
    twice = ["json=a", "json=b", "html=c"]
    assert len(output_paths(twice, kinds, folders=("html",), once=("html",))) == 3
    with pytest.raises(ConfigError, match="--out json=b: json is written once"):
        output_paths(twice, kinds, once=("json",))
    assert output_paths(["json=-"], kinds, folders=("html",))
    with pytest.raises(ConfigError, match="--out html=-: html is a folder"):
        output_paths(["html=-"], kinds, folders=("html",))
