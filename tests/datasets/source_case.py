"""The same images as a folder, tar shards, Parquet, and behind real servers in processes."""

import contextlib
import io
import os
import subprocess
import sys
import tarfile
import time
import urllib.request
from pathlib import Path

SERVER = '''
import json, os, sys, urllib.parse
from http.server import ThreadingHTTPServer, SimpleHTTPRequestHandler
import time
root, kind, fault = sys.argv[1:4]
seen = {}

class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
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
        url = urllib.parse.urlparse(self.path)
        path = urllib.parse.unquote(url.path)
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

server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
'''


@contextlib.contextmanager
def served(folder: Path, kind="http", fault="none"):
    """Serve a folder by another process; give the URL of its root."""
    command = [sys.executable, "-c", SERVER, os.fspath(folder), kind, fault]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            port = int(server.stdout.readline())
            yield f"{kind}://127.0.0.1:{port}"
        finally:
            server.kill()


@contextlib.contextmanager
def moto_server():
    """Run moto's S3 as a process of its own; give its address."""
    with subprocess.Popen(
        [sys.executable, "-c", "from moto.server import main; main(['-H', '127.0.0.1', '-p', '0'])"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            line = next(line for line in server.stderr if "Running on http" in line)
            yield line.split("Running on ")[1].split()[0].strip()
        finally:
            server.kill()


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
    pq.write_table(table, file, row_group_size=group)
    return file


def write_folder(folder: Path, images: dict[str, bytes]):
    for name, data in images.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def reachable(url: str, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=1).read()
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
