"""Files that are opened only if they are regular, and names that every output can show."""

import os
import socket

import pytest

from alignkit.datasets.regular_file import escaped_name, read_text
from alignkit.stored_file import open_regular


def fifo(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


def terminal(path):
    path.symlink_to("/dev/tty")


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


@pytest.mark.parametrize(
    ("make", "kind"),
    [(fifo, "a FIFO"), (device, "a device"), (terminal, "a device"), (unix_socket, "a socket"),
     (os.mkdir, "a folder")],
)  # fmt: skip
def test_only_a_regular_file_is_opened(tmp_path, make, kind):
    make(tmp_path / "x")
    with pytest.raises(OSError, match=f"not a regular file: {kind}"):
        open_regular(tmp_path / "x")


def test_a_link_to_a_regular_file_is_opened(tmp_path):
    (tmp_path / "x").write_bytes(b"content")
    (tmp_path / "link").symlink_to("x")
    with open_regular(tmp_path / "link") as file:
        assert file.read() == b"content"


def test_text_has_no_byte_order_mark_and_a_limit(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"\xef\xbb\xbftext")
    assert read_text(tmp_path / "x") == "text"
    monkeypatch.setenv("ALIGNKIT_TEXT_BYTES", "6")
    with pytest.raises(OSError, match="more than 6 bytes"):
        read_text(tmp_path / "x")


NAMES = [
    b"plain name.jpg", "caf\u00e9 \u732b.jpg".encode(), b"caf\xe9.jpg", b"caf\\xe9.jpg", b"a\nb", b"a\\nb",
    b"a\\x0ab", b"a\tb", b"\x1b[31m", "\u0085".encode(), b"\x85", "\u202egpj.exe".encode(), b"\\u202egpj.exe",
    b"a|b", b"\"'<&", "\ufffe".encode(), "\U0001f98a".encode(),
]  # fmt: skip


def test_an_escaped_name_is_unambiguous_utf_8_on_one_line():
    shown = [escaped_name(os.fsdecode(name)) for name in NAMES]
    assert len(set(shown)) == len(NAMES)
    for name in shown:
        assert name.encode().decode() == name
        assert len(name.splitlines()) == 1
        assert not any(ord(character) < 0x20 for character in name)


def test_a_plain_name_stays_as_it_is():
    for name in ("train/a/0 (1).jpg", "caf\u00e9|\"x'<&\u732b\U0001f98a.png"):
        assert escaped_name(name) == name
    assert escaped_name(os.fsdecode(b"caf\xe9\n\\.jpg")) == r"caf\xe9\x0a\\.jpg"
