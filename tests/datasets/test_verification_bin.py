"""`.bin` files give what `pickle` would, whoever wrote them; hostile ones are refused and never run."""

from __future__ import annotations

import builtins
import io
import os
import pickle
import pickletools
import struct
import tracemalloc

import numpy as np
import pytest

from alignkit.datasets import verification_bin
from alignkit.datasets.identities import Identities
from alignkit.datasets.verification_bin import read_bin
from alignkit.errors import ChangedImage, DataError
from tests.datasets import identity_case as case


def python2(value):
    """Pickle bytes and truth values as Python 2 did, protocol 2 and `str` for bytes."""
    images, same = value
    out = b"\x80\x02]q\x00("
    for data in images:
        out += b"T" + struct.pack("<i", len(data)) + data
    out += b"e]q\x01("
    out += b"".join(b"\x88" if each else b"\x89" for each in same)
    return out + b"e\x86q\x02."


def python2_text(value):
    """Pickle them as protocol 0 of Python 2 did: literals in lines."""
    images, same = value
    out = b"((lp0\n"
    for at, data in enumerate(images):
        literal = repr(data)[1:].encode()
        out += b"S" + literal + b"\np%d\na" % (at + 1)
    out += b"(lp9999\n" + b"".join(b"I0%d\na" % each for each in same)
    return out + b"tp9998\n."


def arrays(value, protocol=4):
    images, same = value
    return pickle.dumps(
        ([np.frombuffer(each, np.uint8) for each in images], np.array(same)), protocol
    )


def scalars(value):
    images, same = value
    return pickle.dumps([images, [np.bool_(each) for each in same]])


def _pure(value):
    out = io.BytesIO()
    pickle._Pickler(out, 3).dump(value)
    return out.getvalue()


FORMS = {
    **{f"protocol {each}": lambda value, each=each: pickle.dumps(value, each) for each in range(2, 6)},
    "python 2": python2,
    "python 2, protocol 0": python2_text,
    **{f"arrays, protocol {each}": lambda value, each=each: arrays(value, each) for each in range(2, 6)},
    "numpy scalars": scalars,
    "pure python": _pure,
    "optimised": lambda value: pickletools.optimize(pickle.dumps(value)),
    "integers": lambda value: pickle.dumps((value[0], [int(each) for each in value[1]])),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_images_and_pairs_are_those_that_pickle_reads(tmp_path, form):
    file = case.verification(tmp_path / "lfw.bin", FORMS[form])
    images, same = pickle.loads(file.read_bytes(), encoding="bytes")
    found = read_bin(file)
    assert len(found) == len({bytes(each) for each in images}) == sum(case.PEOPLE.values())
    for at, pair in enumerate(found.pairs):
        assert found.reads()(pair.first) == bytes(images[2 * at])
        assert found.reads()(pair.second) == bytes(images[2 * at + 1])
        assert pair.same == bool(same[at])


@pytest.mark.parametrize("count", [1, 500, 501])
def test_sets_of_every_size_are_read_as_they_were_written(tmp_path, count):
    rng = np.random.default_rng(count)
    images = [rng.bytes(int(rng.choice([0, 1, 255, 256, 300]))) for _ in range(2 * count)]
    same = [bool(each) for each in rng.integers(0, 2, count)]
    (tmp_path / "x.bin").write_bytes(pickle.dumps((images, same)))
    found = read_bin(tmp_path / "x.bin")
    assert [(found.reads()(each.first), found.reads()(each.second)) for each in found.pairs] == [
        *zip(images[::2], images[1::2], strict=True)
    ]


def test_bytes_that_are_named_many_times_are_hashed_once(tmp_path, monkeypatch):
    hashed = []
    digest = verification_bin._digest
    monkeypatch.setattr(
        verification_bin, "_digest", lambda *given: hashed.append(1) or digest(*given)
    )
    images = [bytes(1_000_000), b"other"] * 10_000
    (tmp_path / "x.bin").write_bytes(pickle.dumps((images, [True] * 10_000)))
    assert len(read_bin(tmp_path / "x.bin")) == 2
    assert len(hashed) == 2


def test_a_pair_of_one_image_with_itself_keeps_both_and_is_noted(tmp_path):
    file = tmp_path / "x.bin"
    file.write_bytes(pickle.dumps(([b"a", b"a", b"a", b"b"], [True, False])))
    found = read_bin(file)
    assert len(found) == 3
    assert [found.reads()(each.first) + found.reads()(each.second) for each in found.pairs] == [
        b"aa",
        b"ab",
    ]
    assert any("1 pairs are of one image with itself" in each for each in found.notes)


class Calls:
    """An object whose pickle calls a function when it is read."""

    def __init__(self, function, *arguments):
        self.parts = function, arguments

    def __reduce__(self):
        return self.parts


def hostile(canary):
    """Yield pickles that do something when they are unpickled."""
    command = f"touch {canary}"
    code = f"open({str(canary)!r}, 'w').close()"
    for name, protocol in (("0", 0), ("2", 2), ("4", 4)):
        yield f"os.system {name}", pickle.dumps(Calls(os.system, command), protocol)
        yield f"eval {name}", pickle.dumps(([Calls(builtins.eval, code)], [True]), protocol)
        yield f"exec {name}", pickle.dumps(([b"a", b"b"], [Calls(builtins.exec, code)]), protocol)
    yield "inst", b"(S'" + command.encode() + b"'\nios\nsystem\n."
    yield "obj", b"(cos\nsystem\nS'" + command.encode() + b"'\no."
    yield "newobj", b"\x80\x02cos\nsystem\n(S'" + command.encode() + b"'\nt\x81."
    yield "stack global", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c" + bytes([len(command)]) \
        + command.encode() + b"\x85R."  # fmt: skip
    yield "persistent id", b"Px\n."
    yield "extension", b"\x80\x02\x82\x01."
    yield "build", b"\x80\x02cnumpy\nndarray\n}(X\x01\x00\x00\x00aK\x01ub."
    yield "codecs", b"\x80\x02c_codecs\nencode\nX\x04\x00\x00\x00abcdX\x06\x00\x00\x00base64\x86R."
    yield "array of objects", pickle.dumps((np.array([Calls(os.system, command)], object), [True]))
    yield "frombuffer of others", b"\x80\x04cnumpy._core.numeric\n_frombuffer\ncos\nsystem\n\x85R."


@pytest.mark.parametrize("name", [name for name, _ in hostile("x")])
def test_hostile_pickles_are_refused_and_never_run(tmp_path, name):
    canary = tmp_path / "canary"
    file = tmp_path / "x.bin"
    file.write_bytes(dict(hostile(canary))[name])
    with pytest.raises(DataError, match=r"x\.bin is no verification set: .*nothing in it was run"):
        Identities(root=file).evaluation()
    assert not canary.exists()


def test_the_canaries_are_no_dummies(tmp_path):
    canary = tmp_path / "canary"
    ran = 0
    for name, data in hostile(canary):
        if name.startswith(("os.system", "eval", "exec", "inst", "obj", "stack")):
            pickle.loads(data)
            assert canary.exists(), name
            canary.unlink()
            ran += 1
    assert ran == 12


def bombs():
    """Yield pickles that would take memory or time."""
    yield "a claim of 2 GiB", b"\x80\x04](B\xff\xff\xff\x7fabc"
    yield "a claim of 8 EiB", b"\x80\x04](\x8e" + b"\xff" * 7 + b"\x7fabc"
    nested = b"\x80\x02]q\x00" + b"".join(
        b"](" + b"h" + bytes([at]) * 1 + (b"h" + bytes([at])) * 9 + b"eq" + bytes([at + 1])
        for at in range(30)
    )
    yield "lists of lists of lists", nested + b"]\x86."
    yield "deep lists", b"\x80\x02" + b"]" * 300_000 + b"a" * 299_999 + b"."
    yield "deep tuples", b"\x80\x02N" + b"\x85" * 300_000 + b"."
    yield "many marks", b"(" * 300_000 + b"."
    yield "a list of itself", b"\x80\x02]q\x00h\x00a]\x86."
    yield "a great number", b"L" + b"9" * 100_000 + b"\n."
    yield "no value", b"\x80\x02a."
    yield "a memo of one value", b"\x80\x04N" + b"\x94" * 1_000_000 + b"."
    yield "many lists", b"\x80\x04" + b"]" * 1_000_000 + b"."
    yield "a line without an end", b"S'" + b"a" * 50_000_000
    yield "a great array", pickle.dumps(([b"a", b"b"], np.ones(10_000_000, np.bool_)))
    yield "an unknown memo", b"\x80\x02h\x07."
    yield "an endless line", b"c" + b"a" * 100_000


@pytest.mark.parametrize("name", [name for name, _ in bombs()])
def test_bombs_are_refused_in_little_memory(tmp_path, name):
    file = tmp_path / "x.bin"
    data = dict(bombs())[name]
    file.write_bytes(data)
    tracemalloc.start()
    with pytest.raises(DataError, match="is no verification set"):
        read_bin(file)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20_000_000 + 3 * len(data) * (not name.startswith("a line"))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([b"a"], "no pair of a list"),
        (([b"a", b"b"], [True, False]), "2 images need half as many pairs, and it has 2"),
        (([], []), "it has no images"),
        (([b"a", 5], [True]), "image 1 is no bytes"),
        (([b"a", "text"], [True]), "image 1 is no bytes"),
        (([b"a", np.zeros(3, np.float32)], [True]), "image 1 is no bytes"),
        (([b"a", b"b"], [2]), "pair 0 is neither true nor false"),
        (([b"a", b"b"], [None]), "pair 0 is neither true nor false"),
        (({}, []), "instruction b'}' makes no list"),
    ],
)
def test_other_pickles_are_refused_with_their_fault(tmp_path, value, message):
    file = tmp_path / "x.bin"
    file.write_bytes(pickle.dumps(value))
    with pytest.raises(DataError, match=message):
        read_bin(file)


@pytest.mark.parametrize(
    "form", ["protocol 2", "protocol 4", "python 2, protocol 0", "numpy scalars"]
)
def test_a_file_cut_off_anywhere_is_refused(tmp_path, form):
    file = case.verification(tmp_path / "lfw.bin", FORMS[form])
    data = file.read_bytes()
    rng = np.random.default_rng(0)
    for end in [0, 1, 2, len(data) - 1, *rng.integers(0, len(data), 60)]:
        file.write_bytes(data[:end])
        with pytest.raises(DataError, match=r"lfw\.bin is (empty|no verification set)"):
            read_bin(file)


def test_flipped_bits_are_refused_or_change_the_content(tmp_path):
    file = case.verification(tmp_path / "lfw.bin")
    data, before = file.read_bytes(), Identities(root=file).fingerprint("eval")
    rng = np.random.default_rng(1)
    refused = 0
    for at in rng.integers(0, len(data), 150):
        file.write_bytes(data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :])
        try:
            found = read_bin(file)
        except DataError:
            refused += 1
            continue
        # the number of the protocol and the lengths of frames decide nothing
        same = Identities(root=file).fingerprint("eval") == before
        assert not same or at < 11 or data[at - 8 : at + 8].count(b"\x95"), (at, found)
    assert refused


def test_a_file_that_changes_after_it_was_read_is_noticed(tmp_path):
    file = case.verification(tmp_path / "lfw.bin")
    found = read_bin(file)
    file.write_bytes(file.read_bytes() + b"x")
    with pytest.raises(ChangedImage):
        found.reads()(0)
