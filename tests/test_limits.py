"""What comes from elsewhere is bounded: listings, bodies, answers, archives, tables, pickles, JSON.

Each case is made here, and would take gigabytes, hours or a traceback without its limit; the limit
is set low by its variable.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import struct
import tarfile
import threading
import time
import zipfile
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alignkit.backends import EncodedFiles
from alignkit.backends.http_json import HTTPJSONBackend
from alignkit.backends.kserve import KServeBackend
from alignkit.datasets import url_store
from alignkit.datasets.folder import Folder
from alignkit.datasets.unlabelled_images import Images
from alignkit.datasets.yolo import read_yolo_yaml
from alignkit.errors import BackendError, ConfigError, DataError, UnreadableImage
from alignkit.limits import INPUT_LIMITS, InputLimit, OverLimit, parsed_json, read_member
from alignkit.models.checkpoint import Checkpoint
from alignkit.models.file_headers import read_weights_header
from alignkit.preprocess.normalise import Normalise
from alignkit.search.stored_tensors import stored_tensors

PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\2"
    b"\0\1H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82"
)
SECONDS = 8
"""A server gives up its endless answers after so many: nothing outlives the tests."""


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(url_store, "FIRST_WAIT", 0.001)


def test_the_docs_name_every_limit_with_its_default():
    page = (Path(__file__).parents[1] / "docs" / "limits.md").read_text()
    shown = re.findall(r"^\| `(\w+)` \| ([\d,]+) (\S+) \| (.*) \|$", page, re.MULTILINE)
    units = {"KiB": 10, "MiB": 20, "GiB": 30}
    found = [
        (name, int(number.replace(",", "")) << units.get(unit, 0), what)
        for name, number, unit, what in shown
    ]
    assert found == [(each.variable, each.default, each.what) for each in INPUT_LIMITS]


@pytest.mark.parametrize("text", ["", "many", "0", "-1", "nan", "1e400"])
def test_a_variable_without_a_number_is_refused(monkeypatch, text):
    monkeypatch.setenv("ALIGNKIT_SOME", text)
    with pytest.raises(ConfigError, match=r"ALIGNKIT_SOME: a number of bytes, e\.g\. 7"):
        InputLimit("SOME", 7, "bytes", "some")()


@pytest.mark.parametrize(
    ("amount", "most"), [(0, 7), (7, 7), (7.5, 7), (8, 7), (8, 8), (10**12, 10**12), (9, 0.5)]
)
def test_a_fault_is_said_of_what_is_beyond_the_limit_alone(monkeypatch, amount, most):
    monkeypatch.setenv("ALIGNKIT_SOME", str(most))
    limit = InputLimit("SOME", 7, "bytes", "some")
    said = f"more than {most:,} bytes; ALIGNKIT_SOME sets another limit"
    assert limit.fault(amount) == (said if amount > most else "")


@contextmanager
def serving(answer):
    """Serve ``answer(handler, path)`` on 127.0.0.1."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if "Content-Length" in self.headers:
                self.rfile.read(int(self.headers["Content-Length"]))
            self.close_connection = True
            with suppress(BrokenPipeError, ConnectionResetError):
                answer(self, urlsplit(self.path).path)

        do_HEAD = do_POST = do_GET  # noqa: N815 - as the library calls them

        def log_message(self, *_):
            pass

        def begin(self, **headers):
            self.send_response(200)
            for name, value in {"Connection": "close", **headers}.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()

        def whole(self, body, **headers):
            self.begin(Content_Length=len(body), **headers)
            if self.command != "HEAD":
                self.wfile.write(body)

        def endless(self, part, pause=0.0, **headers):
            self.begin(**headers)
            ends = time.monotonic() + SECONDS
            while self.command != "HEAD" and time.monotonic() < ends:
                self.wfile.write(part)
                time.sleep(pause)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def links(*names):
    return "".join(f'<a href="{each}">{each}</a>\n' for each in names).encode()


HTML = {"Content_Type": "text/html"}
ZEROS = gzip.compress(bytes(4_000_000))
LISTINGS = {
    # a page without an end
    "endless page": (lambda it, path: it.endless(links(*map(str, range(999))), **HTML),
                     "more than 50,000 bytes; ALIGNKIT_LISTING_BYTES"),
    # four megabytes of zeros in four kilobytes: the limit is that of what is unpacked
    "packed page": (lambda it, path: it.whole(ZEROS, Content_Encoding="gzip", **HTML),
                    "more than 50,000 bytes; ALIGNKIT_LISTING_BYTES"),
    # a byte at a time: no wait between two of them is long
    "dripping page": (lambda it, path: it.endless(b" ", 0.1, **HTML), "no answer within 0.5 seconds"),
    # a folder in each folder
    "deep folders": (lambda it, path: it.whole(links("d/"), **HTML),
                     "its folders have more than 4 levels; ALIGNKIT_LISTED_DEPTH"),
    # each folder has ten others
    "many folders": (lambda it, path: it.whole(links(*(f"{n}/" for n in range(10))), **HTML),
                     "more than 40 files; ALIGNKIT_LISTED_FILES"),
    "many files": (lambda it, path: it.whole(links(*(f"{n}.png" for n in range(41))), **HTML),
                   "more than 40 files; ALIGNKIT_LISTED_FILES"),
    # each page in time, and no end of them
    "slow folders": (lambda it, path: (time.sleep(0.3), it.whole(links("d/"), **HTML)),
                     "more than 1 seconds; ALIGNKIT_LISTING_SECONDS"),
}  # fmt: skip


@pytest.mark.parametrize("case", LISTINGS)
def test_a_listing_ends(case, monkeypatch):
    answer, said = LISTINGS[case]
    for name, value in {
        "READ_SECONDS": 0.5, "LISTING_BYTES": 50_000, "LISTED_FILES": 40,
        "LISTED_DEPTH": 4 if case == "deep folders" else 30,
        "LISTING_SECONDS": 1 if case == "slow folders" else 20,
    }.items():  # fmt: skip
        monkeypatch.setenv(f"ALIGNKIT_{name}", str(value))
    began = time.monotonic()
    with serving(answer) as url, pytest.raises(DataError, match=said) as caught:
        Images(Path(f"{url}/set")).evaluation()
    assert f"cannot list {url}/set" in str(caught.value)
    assert time.monotonic() - began < SECONDS / 2


BODIES = {
    "endless": (lambda it: it.endless(bytes(10_000)), "more than 50,000 bytes; ALIGNKIT_OBJECT_BYTES"),
    "packed": (lambda it: it.whole(ZEROS, Content_Encoding="gzip"),
               "more than 50,000 bytes; ALIGNKIT_OBJECT_BYTES"),
    # the length is a lie: the connection stays open
    "long by its header": (lambda it: it.endless(bytes(10_000), Content_Length=10**15),
                           "more than 50,000 bytes; ALIGNKIT_OBJECT_BYTES"),
    "chunked": (lambda it: it.endless(b"2710\r\n" + bytes(10_000) + b"\r\n",
                                      Transfer_Encoding="chunked"),
                "more than 50,000 bytes; ALIGNKIT_OBJECT_BYTES"),
    "dripping": (lambda it: it.endless(b"x", 0.1), "no answer within 0.5 seconds"),
}  # fmt: skip


@pytest.mark.parametrize("case", BODIES)
def test_an_image_of_a_url_ends_and_the_others_are_read(case, monkeypatch):
    send, said = BODIES[case]

    def answer(it, path):
        if path.endswith(".png"):
            it.whole(PNG) if path.endswith("a.png") else send(it)
        else:
            it.whole(links("a.png", "b.png"), **HTML)

    monkeypatch.setattr(url_store, "TRIES", 1)
    monkeypatch.setenv("ALIGNKIT_READ_SECONDS", "0.5" if case == "dripping" else "5")
    monkeypatch.setenv("ALIGNKIT_OBJECT_BYTES", "50000")
    with serving(answer) as url:
        samples = Images(Path(f"{url}/set")).evaluation()
        assert samples.read(0) == PNG
        with pytest.raises(UnreadableImage, match=said):
            samples.read(1)


def test_a_part_of_a_shard_is_given_up_behind_its_end(tmp_path, monkeypatch):
    """A server that answers a request for some bytes with all that it has, without an end."""
    shard = tar(tmp_path / "s.tar", ("a.png", PNG)).read_bytes()

    def answer(it, path):
        if it.command == "HEAD":
            it.begin(Content_Length=len(shard), Accept_Ranges="bytes")
        else:
            it.endless(shard)

    monkeypatch.setattr(url_store, "TRIES", 2)
    with serving(answer) as url, pytest.raises(DataError, match="more than the 10,240 bytes came"):
        Images(Path(f"{url}/s.tar")).evaluation()


ANSWERS = {
    "endless": (lambda it: it.endless(b"[1.0, "), "more than 5,000 bytes; ALIGNKIT_ANSWER_BYTES"),
    "chunked": (lambda it: it.endless(b"4\r\n[1.,\r\n", Transfer_Encoding="chunked"),
                "more than 5,000 bytes; ALIGNKIT_ANSWER_BYTES"),
    "long by its header": (lambda it: it.endless(b"[1.0, ", Content_Length=10**15),
                           "more than 5,000 bytes; ALIGNKIT_ANSWER_BYTES"),
    "packed": (lambda it: it.whole(ZEROS, Content_Encoding="gzip"),
               "more than 5,000 bytes; ALIGNKIT_ANSWER_BYTES|packed .gzip., which was not asked for"),
    "deep": (lambda it: it.whole(b"[" * 4900), "nested too deeply|not of the protocol"),
    "digits": (lambda it: it.whole(b"[[" + b"9" * 4400 + b"]]"),
               "a number of more than 4,300 digits|not of the protocol"),
    "dripping": (lambda it: it.endless(b" ", 0.05), "nothing came within 0.5 s"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ["http-json", "kserve"])
@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_of_an_endpoint_ends(case, kind, monkeypatch):
    pytest.importorskip("aiohttp")
    send, said = ANSWERS[case]

    def answer(it, path):
        tensors = {
            "inputs": [{"name": "image", "datatype": "BYTES", "shape": [-1]}],
            "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 3]}],
        }
        described = {"name": "m", "versions": ["1"], "extensions": [], "platform": "x", **tensors}
        send(it) if it.command == "POST" else it.whole(json.dumps(described).encode())

    monkeypatch.setenv("ALIGNKIT_ANSWER_BYTES", "5000")
    with serving(answer) as url:
        if kind == "kserve":
            pytest.importorskip("tritonclient.http.aio")
            backend = KServeBackend(url, "m", timeout=0.5 if case == "dripping" else 5, retries=0)
        else:
            backend = HTTPJSONBackend(
                url, '{"x": {images}}', timeout=0.5 if case == "dripping" else 5, retries=0
            )
        session = backend.open(Checkpoint("m", 3, 2, 2, Path("none"), "k"), None, "served")
        try:
            with pytest.raises(BackendError, match=said):
                session.predict(EncodedFiles([PNG], Normalise()))
        finally:
            session.close()


def tar(file, *members, form=tarfile.GNU_FORMAT):
    with tarfile.open(file, "w", format=form) as archive:
        for name, data in members:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return file


def header(name, kind=b"0", size=0, **fields):
    member = tarfile.TarInfo(name)
    member.type, member.size = kind, max(size, 0)
    made = bytearray(member.tobuf(tarfile.GNU_FORMAT)[:512])
    if size < 0:
        made[124:136] = size.to_bytes(12, "big", signed=True)
        made[148:156] = b" " * 8
        made[148:156] = b"%06o\0 " % sum(made)
    return bytes(made)


def hollow(file, head, size):
    """Write a file that claims gigabytes and takes a block of the disk."""
    with file.open("wb") as opened:
        opened.write(head)
        opened.truncate(size)
    return file


def table(file, **columns):
    metadata = columns.pop("metadata", None)
    made = pa.table({name: pa.array(values) for name, values in columns.items()})
    made = made.replace_schema_metadata(metadata) if metadata else made
    if file.suffix == ".parquet":
        pq.write_table(made, file, compression="zstd", write_statistics=False)
    else:
        packed = pa.ipc.IpcWriteOptions(compression="zstd")
        with pa.ipc.new_stream(file, made.schema, options=packed) as stream:
            stream.write_table(made)
    return file


ZERO = bytes(100_000)
IMAGE = ("a.png", PNG)
ARCHIVES = {
    # the name of a member is read before the member: three gigabytes of one (a sparse file)
    "tar, GNU name": (lambda d: hollow(d / "s.tar", header("././@LongLink", b"L", 3 << 30), 4 << 30),
                      "more than 1,048,576 bytes; ALIGNKIT_TAR_NAME_BYTES"),
    "tar, GNU link": (lambda d: hollow(d / "s.tar", header("././@LongLink", b"K", 3 << 30), 4 << 30),
                      "ALIGNKIT_TAR_NAME_BYTES"),
    "tar, PAX header": (lambda d: hollow(d / "s.tar", header("x", b"x", 3 << 30), 4 << 30),
                        "ALIGNKIT_TAR_NAME_BYTES"),
    "tar, sparse": (lambda d: hollow(d / "s.tar", header("a.png", b"S", 512), 4096),
                    "is a sparse file|is no tar archive"),
    # tarfile would go back, and meet the same member for ever
    "tar, negative": (lambda d: hollow(d / "s.tar", header("a.png", size=-512), 4096),
                      "has an invalid size|is no tar archive|cut off"),
    "tar, members": (lambda d: tar(d / "s.tar", *((f"{n}.txt", b"") for n in range(41))),
                     "more than 40 files; ALIGNKIT_LISTED_FILES"),
    # json.loads raises ValueError, and RecursionError, neither of them JSONDecodeError
    "label, digits": (lambda d: tar(d / "s.tar", IMAGE, ("a.json", b'{"label": ' + b"9" * 5000 + b"}")),
                      "a.json cannot be read as a label: it has a number of more than 4,300 digits"),
    "label, depth": (lambda d: tar(d / "s.tar", IMAGE, ("a.json", b"[" * 200_000)),
                     "a.json cannot be read as a label: it is nested too deeply"),
    "label, list": (lambda d: tar(d / "s.tar", IMAGE, ("a.json", b'{"label": [1]}')),
                    "its label is no text and no number"),
    "label, long": (lambda d: tar(d / "s.tar", IMAGE, ("a.cls", b"x" * 201)),
                    "more than 200 characters; ALIGNKIT_LABEL_CHARACTERS"),
    "label, bytes": (lambda d: tar(d / "s.tar", IMAGE, ("a.cls", b"x" * (2 << 20))),
                     "more than 1,048,576 bytes; ALIGNKIT_LABEL_BYTES"),
    "label, bytes that are no text": (lambda d: tar(d / "s.tar", IMAGE, ("a.json", b"\xff")),
                                      "cannot be read as a label"),
    # 40 rows name one value of 100 kB as a dictionary: a file of a kilobyte
    "parquet, labels": (lambda d: table(d / "p.parquet", image=[PNG] * 40, label=["x" * 100_000] * 40),
                        "p.parquet: row group 0 has more than 1,000,000 bytes; ALIGNKIT_ROW_GROUP_BYTES"),
    "parquet, paths": (lambda d: table(d / "p.parquet",
                                       image=[{"bytes": PNG, "path": "x" * 100_000}] * 40),
                       "ALIGNKIT_ROW_GROUP_BYTES"),
    "parquet, rows": (lambda d: table(d / "p.parquet", image=[PNG] * 41),
                      "more than 40 files; ALIGNKIT_LISTED_FILES"),
    "parquet, long label": (lambda d: table(d / "p.parquet", image=[PNG], label=["x" * 201]),
                            "ALIGNKIT_LABEL_CHARACTERS"),
    "arrow, packed": (lambda d: table(d / "p.arrow", image=[bytes(10_000_000)]), "packed batches"),
    "arrow, head": (lambda d: hollow(d / "p.arrow", struct.pack("<Ii", 0xFFFFFFFF, 2**31 - 1), 3 << 30),
                    "the head of a batch has 2,147,483,647 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("case", ARCHIVES)
def test_an_archive_or_table_is_read_within_limits(case, tmp_path, monkeypatch):
    make, said = ARCHIVES[case]
    monkeypatch.setenv("ALIGNKIT_ROW_GROUP_BYTES", "1000000")
    monkeypatch.setenv("ALIGNKIT_LISTED_FILES", "40")
    with pytest.raises(DataError, match=said):
        Folder(make(tmp_path)).undivided().evaluation()


@pytest.mark.parametrize(
    "values", [[ZERO] * 40, [bytes([n]) * 100_000 for n in range(40)]], ids=["one", "each its own"]
)
def test_a_row_group_that_unpacks_to_more_is_a_failed_image_with_the_reason(
    values, tmp_path, monkeypatch
):
    monkeypatch.setenv("ALIGNKIT_ROW_GROUP_BYTES", "1000000")
    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"image": values}), file, compression="zstd", row_group_size=20)
    monkeypatch.setenv("ALIGNKIT_ROW_GROUP_BYTES", "1000000")
    assert file.stat().st_size < 20_000
    with pytest.raises(UnreadableImage, match=r"1,000,000 bytes.*row_group_size"):
        Images(file).evaluation().read(0)
    monkeypatch.setenv("ALIGNKIT_ROW_GROUP_BYTES", "3000000")
    assert Images(file).evaluation().read(39) == values[39]


def test_metadata_of_a_table_that_is_no_json_names_no_classes(tmp_path):
    for text in (b"[" * 100_000, b'{"info": ' + b"9" * 5000 + b"}"):
        file = table(
            tmp_path / "p.parquet", image=[PNG] * 2, label=[7, 8], metadata={b"huggingface": text}
        )
        assert Folder(file).undivided().evaluation().classes == ("7", "8")


def weights(file, data, **how):
    with zipfile.ZipFile(file, "w", **how) as archive:
        archive.writestr("x/data.pkl", data)
    return file


def memo(index):
    return b"\x80\x02}" + pickle.LONG_BINPUT + struct.pack("<I", index) + b"."


# (h0, h0) of itself, sixty times over: the time to hash it doubles with each
DOUBLED = b"\x80\x02}(Nq\x000" + b"h\x00h\x00\x86q\x000" * 60 + b"h\x00Nu."
# one list of 200,000 values, copied by five bytes each time
COPIES = (b"\x80\x02ctorch\nSize\nq\x01]q\x02(" + b"N" * 200_000 + b"e0("
          + b"h\x01h\x02\x85R" * 1_000_000 + b"t.")  # fmt: skip
PICKLES = {
    "memo, archive": lambda d: weights(d / "x.pt", memo(300_000_000)),
    "memo, legacy": lambda d: hollow(d / "x.pt", memo(4_000_000_000), 9),
    "memo, as text": lambda d: weights(d / "x.pt", b"}p4000000000\n."),
    "bytes without any": lambda d: weights(d / "x.pt", b"\x80\x04\x8e" + struct.pack("<Q", 10**12)),
    "array without any": lambda d: weights(d / "x.pt", b"\x80\x05\x96" + struct.pack("<Q", 10**12)),
    "frame without any": lambda d: weights(d / "x.pt", b"\x80\x04\x95" + struct.pack("<Q", 10**12)),
    "key of tuples": lambda d: weights(d / "x.pt", DOUBLED),
    "copies": lambda d: weights(d / "x.pt", COPIES),
    "packed": lambda d: weights(d / "x.pt", b"\x80\x02}." + bytes(100 << 20),
                                compression=zipfile.ZIP_DEFLATED),
    "packed otherwise": lambda d: weights(d / "x.pt", b"\x80\x02}." + bytes(10 << 20),
                                          compression=zipfile.ZIP_BZIP2),
}  # fmt: skip


@pytest.mark.parametrize("case", PICKLES)
def test_a_pickle_makes_nothing_large_and_takes_no_time(case, tmp_path):
    import resource

    file, began = PICKLES[case](tmp_path), time.monotonic()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with suppress(DataError):
        assert not read_weights_header(file).tensors  # as it has none
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("legacy", [False, True])
def test_honest_weights_are_read_as_torch_reads_them(legacy, tmp_path):
    torch = pytest.importorskip("torch")
    state = {f"layer.{n}": torch.zeros(n + 1, 2) for n in range(300)}
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=not legacy)
    loaded = torch.load(tmp_path / "x.pt", weights_only=True)
    found = read_weights_header(tmp_path / "x.pt").tensors
    assert {name: each.shape for name, each in found.items()} == {
        name: tuple(each.shape) for name, each in loaded.items()
    }


def lying(file, data, size):
    """Write a member that claims to unpack to fewer bytes than it does."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", data)
    whole = file.read_bytes()
    file.write_bytes(whole.replace(struct.pack("<I", len(data)), struct.pack("<I", size)))
    return file


def test_a_member_is_unpacked_to_the_size_that_it_claims_at_most(tmp_path):
    few = InputLimit("FEW", 1000, "bytes", "a member")
    with (
        zipfile.ZipFile(lying(tmp_path / "a.zip", bytes(50 << 20), 100)) as archive,
        suppress(zipfile.BadZipFile),  # its sum is another
    ):
        assert len(read_member(archive, archive.getinfo("a"), few)) <= 100
    with (
        zipfile.ZipFile(lying(tmp_path / "b.zip", bytes(5000), 5000)) as archive,
        pytest.raises(OverLimit, match="'a' has more than 1,000 bytes; ALIGNKIT_FEW"),
    ):
        read_member(archive, archive.getinfo("a"), few)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_tensor_that_python_unpacks_without_a_limit_is_refused(method, tmp_path):
    made = io.BytesIO()
    np.save(made, np.zeros(100, np.float32))
    with zipfile.ZipFile(tmp_path / "t.npz", "w", method) as archive:
        archive.writestr("a.npy", made.getvalue())
    (tensor,) = stored_tensors(tmp_path).values()
    with pytest.raises(DataError, match="another method than deflate"):
        tensor.read()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 1_000_000, "nested too deeply"),
        ('{"a":' * 1_000_000, "nested too deeply"),
        ("9" * 4301, "a number of more than 4,300 digits"),
        ("-" + "9" * 100_000, "a number of more than 4,300 digits"),
        (b"\xff\xfe\xfd", "codec can't decode"),
        ("[1, 2", "delimiter"),
        ("", "Expecting value"),
    ],
)
def test_any_text_that_is_no_json_is_a_value_error(text, said):
    with pytest.raises(ValueError, match=said):
        parsed_json(text)


@pytest.mark.parametrize("key", ["path", "train", "val", "nc"])
def test_aliases_of_a_yaml_are_not_written_out(key, tmp_path):
    """A kilobyte whose lists hold each other, ten times each: 10**12 values in a message."""
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    file = tmp_path / "data.yaml"
    file.write_text("\n".join([*levels, "names: [a]", f"{key}: *a11"]))
    with pytest.raises(DataError, match=f"{key} is a list"):
        read_yolo_yaml(file)


def test_an_object_of_any_store_that_tells_no_size_is_bounded(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    from fsspec.implementations.memory import MemoryFileSystem

    class Unsized(MemoryFileSystem):
        protocol = "unsized"

        @classmethod
        def _strip_protocol(cls, path):
            return MemoryFileSystem._strip_protocol(path.replace("unsized://", "memory://"))

        def find(self, path, **more):
            found = super().find(path, **more)
            return {name: {**each, "size": None} for name, each in found.items()}

    fsspec.register_implementation("unsized", Unsized, clobber=True)
    memory = fsspec.filesystem("memory")
    memory.pipe("/limits/a.png", PNG)
    memory.pipe("/limits/b.png", bytes(60_000))
    monkeypatch.setenv("ALIGNKIT_OBJECT_BYTES", "50000")
    samples = Images(Path("unsized://limits")).evaluation()
    assert samples.read(0) == PNG
    with pytest.raises(UnreadableImage, match="more than 50,000 bytes; ALIGNKIT_OBJECT_BYTES"):
        samples.read(1)
