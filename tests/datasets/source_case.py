"""The same images as a folder, tar shards, Parquet, and behind real servers in processes."""

import contextlib
import io
import os
import re
import subprocess
import sys
import tarfile
import time
from pathlib import Path

SERVER = '''
import json, os, sys, urllib.parse
from http.server import ThreadingHTTPServer, SimpleHTTPRequestHandler
import time
root, kind, fault, log = sys.argv[1:5]
seen = {}

class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # headers and body are two packets
    def __init__(self, *args): super().__init__(*args, directory=root)
    def log_message(self, *args): pass
    def answer(self, status, body, length=None, kind="application/json"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        if length not in (None, len(body)): self.close_connection = True
    def faulty(self, path):
        """Fail: 503 for a tenth of the names, once or always; a cut or slow body for one."""
        number = seen[path] = seen.get(path, 0) + 1
        tenth = path.endswith("3.jpg")
        if fault == "503-once" and tenth and number == 1 or fault == "503" and tenth:
            self.answer(503, b"busy")
        elif fault == "cut" and tenth:
            self.answer(200, b"half", length=4000, kind="image/jpeg")
        elif fault == "slow" and tenth:
            time.sleep(5)
            self.answer(200, b"late")
        else:
            return False
        return True
    def do_GET(self):
        if log:
            with open(log, "a") as file: print("GET", self.path, file=file)
        url = urllib.parse.urlparse(self.path)
        path = urllib.parse.unquote(url.path)
        read = os.path.splitext(path)[1] in (".jpg", ".tar") and "LISTSTATUS" not in url.query
        asked = "read" if read else "list"
        seen[asked] = seen.get(asked, 0) + 1
        if fault in ("denied", f"{asked}-denied"):
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>", kind="text/xml")
        if path.rstrip("/").endswith("/a") and fault == "a-503":
            return self.answer(503, b"busy")
        if fault == f"{asked}-503" or fault == f"{asked}-503-once" and seen[asked] == 1:
            return self.answer(503, b"<Error><Code>SlowDown</Code></Error>", kind="text/xml")
        if fault == f"{asked}-hangs":
            return time.sleep(60)
        if kind == "s3":
            return self.s3(path, urllib.parse.parse_qs(url.query))
        if kind == "http":
            if path.endswith(".jpg") and self.faulty(path): return
            return super().do_GET()
        query = {k.lower(): v[0] for k, v in urllib.parse.parse_qs(url.query).items()}
        name = path.removeprefix("/webhdfs/v1").lstrip("/")
        file = os.path.join(root, name)
        op = query["op"].upper()
        if not os.path.exists(file):
            text = {"exception": "FileNotFoundException", "message": "File does not exist: /" + name,
                    "javaClassName": "java.io.FileNotFoundException"}
            return self.answer(404, json.dumps({"RemoteException": text}).encode())
        def status(path, suffix):
            known = os.stat(path)
            return {"pathSuffix": suffix, "type": "DIRECTORY" if os.path.isdir(path) else "FILE",
                    "length": 0 if os.path.isdir(path) else known.st_size,
                    "modificationTime": int(known.st_mtime * 1000), "owner": "o", "group": "g",
                    "permission": "644", "blockSize": 1 << 27, "replication": 1, "accessTime": 0}
        if op == "LISTSTATUS":
            entries = [status(file, "")] if os.path.isfile(file) else [
                status(os.path.join(file, each), each) for each in sorted(os.listdir(file))]
            return self.answer(200, json.dumps({"FileStatuses": {"FileStatus": entries}}).encode())
        if op == "GETFILESTATUS":
            return self.answer(200, json.dumps({"FileStatus": status(file, "")}).encode())
        if op == "OPEN":
            if file.endswith(".jpg") and self.faulty(file): return
            data = open(file, "rb").read()[int(query.get("offset", 0)):]
            if "length" in query: data = data[:int(query["length"])]
            return self.answer(200, data, kind="application/octet-stream")
        self.answer(400, b"{}")
    def s3(self, path, query):
        """Answer for a bucket called photos as S3 does, without looking at signatures."""
        bucket, _, name = path.lstrip("/").partition("/")
        if bucket != "photos":
            return self.answer(404, b"<Error><Code>NoSuchBucket</Code></Error>", kind="text/xml")
        file = os.path.join(root, name)
        if name and os.path.isfile(file):
            if self.faulty(path): return
            data = open(file, "rb").read()
            first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
            part = data[int(first):int(last or len(data)) + 1]
            return self.answer(206, part, kind="image/jpeg")
        if "list-type" not in query:
            return self.answer(404, b"<Error><Code>NoSuchKey</Code></Error>", kind="text/xml")
        rows = []
        for folder, _, names in os.walk(root):
            for each in names:
                place = os.path.join(folder, each)
                key = os.path.relpath(place, root)
                if key.startswith(query.get("prefix", [""])[0]):
                    rows.append(f"<Contents><Key>{key}</Key><Size>{os.path.getsize(place)}</Size>"
                                f"<ETag>{os.stat(place).st_mtime_ns}</ETag></Contents>")
        text = "<ListBucketResult><IsTruncated>false</IsTruncated>" + "".join(rows)
        self.answer(200, (text + "</ListBucketResult>").encode(), kind="text/xml")

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
'''


@contextlib.contextmanager
def served(folder: Path, kind="http", fault="none", log: Path | str = ""):
    """Serve a folder by another process, which notes its requests in ``log``; give its URL.

    That of ``s3`` is an endpoint, whose bucket is ``s3://photos``.
    """
    command = [sys.executable, "-c", SERVER, os.fspath(folder), kind, fault, os.fspath(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline())
            yield f"{'http' if kind == 's3' else kind}://127.0.0.1:{port}"
        finally:
            server.kill()


@contextlib.contextmanager
def moto_server(log: Path):
    """Run moto's S3 as a process of its own; give its address.

    It writes a line for each request into ``log``: a pipe that nobody reads fills after some 700
    requests, and the server stops.
    """
    code = "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"
    with (
        log.open("w") as file,
        subprocess.Popen([sys.executable, "-c", code], stderr=file, stdout=file) as server,
    ):
        try:
            end = time.monotonic() + 60
            while not (found := re.search(r"Running on (http://[0-9.:]+)", log.read_text())):
                assert time.monotonic() < end, log.read_text()
                assert server.poll() is None, log.read_text()
                time.sleep(0.1)
            yield found[1]
        finally:
            server.kill()


def requests_of(log: Path, pattern: str) -> list[str]:
    """The requests in a log of a server that match a pattern."""
    found = re.findall(r"(?:GET|HEAD) \S+", log.read_text())
    return [each for each in found if re.search(pattern, each)]


def write_tar(file: Path, images: dict[str, bytes], labels=None, links=(), extra=()):
    with tarfile.open(file, "w") as archive:
        for name, data in images.items():
            add(archive, name, data)
            if labels:
                add(archive, name.rpartition(".")[0] + ".cls", str(labels[name]).encode())
        for name, target in links:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
        for name, data in extra:
            add(archive, name, data)
    return file


def add(archive, name, data):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def write_parquet(file: Path, images: dict[str, bytes | None], labels=None, names=(), group=7):
    import json

    import pyarrow as pa
    import pyarrow.parquet as pq

    struct = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    rows = [
        None if data is None else {"bytes": data, "path": name} for name, data in images.items()
    ]
    columns = {"image": pa.array(rows, struct)}
    if labels:
        columns["label"] = pa.array([labels[name] for name in images])
    table = pa.table(columns)
    if names:
        features = {
            "label": {"names": list(names), "_type": "ClassLabel"},
            "image": {"_type": "Image"},
        }
        table = table.replace_schema_metadata(
            {"huggingface": json.dumps({"info": {"features": features}})}
        )
    if file.suffix == ".arrow":  # as Dataset.save_to_disk writes
        with pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table, max_chunksize=group)
        return file
    pq.write_table(table, file, row_group_size=group)
    return file


def write_folder(folder: Path, images: dict[str, bytes]):
    for name, data in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder
