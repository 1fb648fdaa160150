"""Whole commands on the same 720 photographs in every place: the records are equal."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from tests.datasets.source_case import (
    moto_server,
    served,
    write_folder,
    write_parquet,
    write_tar,
)
from tests.photos import encoded, photo

pytestmark = pytest.mark.slow
SECRET = "sesame-open-sesame"
GATE = """
name: gate
data: {{name: {data}, root: "{root}"}}
preprocess:
  training: {{preset: opencv-train, size: 32}}
  serving: {{preset: pillow-train, size: 32}}
gate: {{rules: [{{metric: resize.mean_abs, fail: 0.5}}]}}
"""
PLACES = {"command", "seconds", "started", "sha256", "yaml"}
"""Keys of a record that name the place, the command or the time."""


@pytest.fixture(scope="module")
def images():
    """720 photographs of 12 classes, one of which is cut off."""
    whole = photo(height=80, width=96)
    draw = np.random.default_rng(0)
    made = {}
    for number in range(720):
        row, column = draw.integers(0, 32), draw.integers(0, 32)
        name = f"class-{number % 12:02d}/{number:03d}.jpg"
        made[name] = encoded(whole[row : row + 48, column : column + 64], quality=80)
    made["class-00/000.jpg"] = made["class-00/000.jpg"][:300]
    return made


@pytest.fixture(scope="module")
def store(images, tmp_path_factory):
    """The folder, and a real S3 server with the same images and with shards."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install s3fs")
    pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")
    import s3fs

    place = tmp_path_factory.mktemp("store")
    folder, shards = write_folder(place / "photos", images), place / "shards"
    shards.mkdir()
    whole = [*images.items()]
    for number in range(4):
        write_tar(shards / f"s-{number:03d}.tar", dict(whole[number::4]))
    (place / "rows").mkdir()
    labels = {name: name.partition("/")[0] for name in images}
    write_parquet(place / "rows" / "photos.parquet", images, labels, group=100)
    with moto_server(place / "server.log") as address:
        client = s3fs.S3FileSystem(key="AKIDNOSUCHKEY", secret=SECRET, endpoint_url=address)
        client.mkdir("bucket")
        for each in ("photos", "shards", "rows"):
            client.put(os.fspath(place / each), f"bucket/{each}", recursive=True)
        with served(folder, "webhdfs") as hdfs, served(folder, "http") as web:
            yield place, address, hdfs, web


def command(place, address, *words, secret=SECRET):
    """Run alignkit in an environment whose credentials are not the process's own."""
    known = {
        "AWS_ACCESS_KEY_ID": "AKIDNOSUCHKEY",
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": address,
        "AWS_EC2_METADATA_DISABLED": "true",
        "ALIGNKIT_CACHE_DIR": os.fspath(place / "cache"),
    }
    return subprocess.run(
        [sys.executable, "-m", "alignkit", *words], cwd=place, env={**os.environ, **known},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip


def rest(record, *roots):
    """The text of a record without the names of places, the command and times."""
    kept = {name: value for name, value in record.items() if name not in PLACES}
    if "source" in kept["data"]:
        assert any(kept["data"]["source"].startswith(root) for root in roots)
        kept["data"] = {**kept["data"], "source": ""}
    else:
        assert kept["data"]["options"]["root"] in roots
        kept["data"] = {**kept["data"], "options": {**kept["data"]["options"], "root": ""}}
    return json.dumps(kept)


def diffed(store, root, *more):
    place, address, *_ = store
    out = place / "diff.json"
    out.unlink(missing_ok=True)
    paths = ("--preprocess", "opencv-train", "--preprocess", "pillow-train", "--size", "32")
    done = command(place, address, "diff", root, *paths, "--out", f"json={out}", *more)
    assert done.returncode == 0, done.stderr
    record = json.loads(out.read_text())
    assert record["data"]["images"] == 720
    assert SECRET not in done.stdout + done.stderr
    return rest(record, root)


def gated(store, root, data="images"):
    place, address, *_ = store
    file = place / "gate.yaml"
    file.write_text(GATE.format(data=data, root=root))
    # the record holds commands with this name
    reports = place / "reports"
    shutil.rmtree(reports, ignore_errors=True)
    done = command(place, address, "gate", str(file), "--reports", str(reports))
    # one of 720 photographs is cut off, and the resizers differ
    assert done.returncode == 1, done.stderr
    (record,) = reports.glob("gate/*/record.json")
    return rest(json.loads(record.read_text()), root)


@pytest.fixture(scope="module")
def expected(store):
    root = os.fspath(store[0] / "photos")
    return {"diff": diffed(store, root), "gate": gated(store, root)}


@pytest.mark.parametrize(
    "root",
    [
        "s3://bucket/photos",
        "s3://bucket/shards/s-{000..003}.tar",
        "s3://bucket/rows/photos.parquet",
        "shards/s-*.tar",
        "rows/photos.parquet",
        "webhdfs",
        "http",
    ],
)
def test_diff_and_gate_equal_those_of_the_folder(store, expected, root):
    place, _, hdfs, web = store
    root = {"webhdfs": hdfs, "http": web}.get(root, root)
    if root.endswith(("*.tar", "photos.parquet")) and "://" not in root:
        root = os.fspath(place / root)
    assert diffed(store, root) == expected["diff"]
    assert gated(store, root) == expected["gate"]


def test_workers_of_dask_read_s3_themselves(store, expected):
    pytest.importorskip("distributed")
    assert (
        diffed(store, "s3://bucket/photos", "--engine", "dask", "--workers", "2")
        == (expected["diff"])
    )


def test_no_file_of_a_command_holds_the_secret(store, expected):
    place = store[0]
    gated(store, "s3://bucket/photos")
    files = [each for each in place.rglob("*") if each.is_file()]
    assert any(each.name == "record.json" for each in files)
    assert not [each for each in files if SECRET.encode() in each.read_bytes()]
