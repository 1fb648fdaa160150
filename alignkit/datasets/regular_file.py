"""Text files of a user, and the names of files as every output can show them."""

from __future__ import annotations

import re
from pathlib import Path

from alignkit.limits import TEXT_BYTES, InputLimit
from alignkit.stored_file import read_regular

UNPRINTABLE = (
    "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff"
)
"""Class of a regular expression: control characters, marks that turn the direction of text, those
that XML forbids, and bytes that are not UTF-8."""
_IN_NAMES = re.compile(rf"[{UNPRINTABLE}\\]")


def read_text(path: Path, most: InputLimit = TEXT_BYTES) -> str:
    """Return the text of a UTF-8 file, with or without a byte order mark.

    Raise `OSError` if it cannot be read, is not regular or is beyond the limit ``most``, and
    `UnicodeDecodeError`.
    """
    return read_regular(path, most).decode("utf-8-sig")


def is_utf8(name: str) -> bool:
    """Tell whether a file name, as the system gives it, is UTF-8."""
    # os.fsdecode writes the byte 0xNN that is not as the lone surrogate U+DCNN
    return not any("\udc80" <= character <= "\udcff" for character in name)


def escaped_name(name: str) -> str:
    r"""Write a file name so that every output can show it, and no two names look the same.

    ``\xNN`` is a byte that is not UTF-8, or an ASCII control character; ``\uNNNN`` another
    character that would not be seen, or would change how the text around it is shown; ``\\`` a
    backslash. Other names stay as they are.

    >>> print(escaped_name("a\nb"), escaped_name("caf\udce9.jpg"), escaped_name("\u202egpj.exe"))
    a\x0ab caf\xe9.jpg \u202egpj.exe
    """
    return _IN_NAMES.sub(written_out, name)


def written_out(found: re.Match[str]) -> str:
    """Write the one character that was found as `escaped_name` does."""
    code = ord(found.group())
    if found.group() == "\\":
        return "\\\\"
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}"
