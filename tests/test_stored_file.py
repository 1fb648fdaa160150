"""Sealed files: any change of a byte is found."""

import json

import pytest

from alignkit.stored_file import DamagedError, NoSealError, sealed, unsealed


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
