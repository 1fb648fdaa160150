"""A seal: the SHA-256 of a stored document, inside the document, so that it moves with the file.

The first field of the document is ``"sha256"``: 64 hex digits, the SHA-256 of the file's bytes with
these 64 digits written as zeros. A seal finds damage and edits. It is no signature: whoever changes
a file on purpose can seal it again.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from alignkit.errors import DamagedRecord

# of a document in one line, in many, or of several documents, a line each
_SEAL = re.compile(rb'\{\s*"sha256":\s*"([0-9a-f]{64})",\s*')
_BLANK = b"0" * 64
GREATEST = 1 << 29
"""Bytes of a document; the record of a thousand cells has about a tenth."""


class NoSeal(ValueError):  # noqa: N818 - a reader catches it
    """A document does not begin with a seal."""


def sealed(text: str) -> str:
    """Seal a JSON object's text, or that of JSON lines of which the first is an object."""
    opening = re.match(r"\{(\s*)", text)
    if opening is None or text[opening.end()] == "}":
        raise ValueError("only an object with a field is sealed, not an empty one or a list")
    space = opening[1]
    head = f'{{{space}"sha256": "'.encode()
    rest = f'",{space or " "}{text[opening.end() :]}'.encode()
    digest = hashlib.sha256(head + _BLANK + rest).hexdigest()
    return (head + digest.encode() + rest).decode()


def unsealed(path: Path, data: bytes, again: str) -> bytes:
    """Return a document's bytes without its seal.

    Raises `NoSeal` if it has none, and `DamagedRecord` with the next step ``again`` if the bytes
    are not those that were sealed.
    """
    found = _SEAL.match(data)
    if found is None:
        raise NoSeal("it does not begin with a seal")
    digest = hashlib.sha256(data[: found.start(1)])
    digest.update(_BLANK)
    # a view: a copy of a record may have a hundred megabytes
    digest.update(memoryview(data)[found.end(1) :])
    if digest.hexdigest() != found[1].decode():
        raise DamagedRecord(f"{path} is not as alignkit wrote it", again)
    return b"{" + data[found.end() :]


def read_bytes(path: Path, again: str) -> bytes:
    """Read a document; raises `DamagedRecord` for anything but a regular file of its size."""
    # a pipe or a device would be read for ever
    if not path.is_file():
        raise DamagedRecord(f"{path} is not a file", again)
    if (size := path.stat().st_size) > GREATEST:
        raise DamagedRecord(f"{path} has {size} bytes, more than any document", again)
    return path.read_bytes()
