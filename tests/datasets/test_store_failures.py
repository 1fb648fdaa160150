"""Stores that fail: one line with the next step, in a stated time, and never a secret."""

import os
import pickle
import subprocess
import sys
import time
from pathlib import Path
from typing import ClassVar

import pytest

from alignkit.datasets import listed_once, url_store
from alignkit.datasets.folder import Folder
from alignkit.datasets.unlabelled_images import Images
from alignkit.errors import ConfigError, DataError
from tests.datasets.source_case import (
    requests_of,
    served,
    write_folder,
    write_parquet,
    write_tar,
)
from tests.photos import encoded, photo

SECRET = "sesame-open-sesame"
IMAGES = {
    f"{'ab'[i % 2]}/{i:03d}.jpg": encoded(photo(height=40, width=48 + i), quality=80)
    for i in range(20)
}
PATHS = ("--preprocess", "opencv-train", "--preprocess", "pillow-train", "--size", "32")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", os.fspath(tmp_path / "cache"))
    monkeypatch.setattr(url_store, "FIRST_WAIT", 0.001)
    return write_folder(tmp_path / "photos", IMAGES)


def needed(kind):
    package = {"s3": "s3fs", "http": "aiohttp", "webhdfs": "requests"}[kind]
    pytest.importorskip(package, reason=f"{package} is not installed: pip install {package}")


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
def test_a_listing_that_fails_once_is_made_again(folder, kind):
    needed(kind)
    with served(folder, kind, "list-503-once") as url:
        assert Images(Path(url)).evaluation().ids == Images(folder).evaluation().ids


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
@pytest.mark.parametrize("fault", ["list-503", "list-denied", "list-hangs"])
def test_a_listing_that_fails_is_one_line_in_a_stated_time(folder, kind, fault, monkeypatch):
    needed(kind)
    monkeypatch.setenv("ALIGNKIT_READ_SECONDS", "1")
    with served(folder, kind, fault) as url:
        began = time.monotonic()  # a server takes its time to start on a busy machine
        with pytest.raises(DataError) as caught:
            Images(Path(url)).evaluation()
    assert time.monotonic() - began < 20
    assert str(caught.value).startswith(f"cannot list {url}: ")
    assert "check the endpoint and the credentials in the environment" in str(caught.value)


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
def test_a_part_of_a_listing_that_fails_is_no_smaller_set(folder, kind):
    needed(kind)
    with served(folder, kind, "a-503") as url, pytest.raises(DataError, match="cannot list"):
        Images(Path(url)).evaluation()


@pytest.mark.parametrize("kind", ["http", "webhdfs"])
def test_a_store_that_answers_nothing_ends_the_command(folder, kind, monkeypatch):
    needed(kind)
    monkeypatch.setenv("ALIGNKIT_READ_SECONDS", "0.5")
    with (
        served(folder, kind, "read-hangs") as url,
        pytest.raises(DataError, match=r"does not answer any more .*see whether it is up"),
    ):
        Images(Path(url)).evaluation()


def test_a_command_lists_once_and_hashes_each_image_once(folder, tmp_path):
    needed("http")
    log = tmp_path / "requests"
    with served(folder, "http", log=log) as url, listed_once():
        for data in (Folder(Path(url)), Folder(Path(url)).undivided(), Folder(Path(url), limit=8)):
            data.counts(), data.class_names(), [*data.notes()]
            data.fingerprint("eval"), data.evaluation(), data.choice()
        data.training()
    assert [len(requests_of(log, f"GET {each} *$")) for each in ("/", "/a/", "/b/")] == [1, 1, 1]
    # a plain web server gives neither an ETag nor a time, by which a hash could be kept
    assert len(requests_of(log, "jpg")) == 20


def test_shards_of_a_pattern_are_looked_up_by_one_listing(folder, tmp_path):
    needed("webhdfs")
    tars = tmp_path / "tars"
    tars.mkdir()
    for number in range(4):
        write_tar(tars / f"s-{number}.tar", dict([*IMAGES.items()][number::4]))
    log = tmp_path / "requests"
    with served(tars, "webhdfs", log=log) as url:
        samples = Images(Path(f"{url}/s-*.tar")).evaluation()
        assert [*map(samples.read, range(20))] == [IMAGES[each] for each in samples.ids]
    assert len(requests_of(log, "LISTSTATUS")) == 1


def command(endpoint, place, *words, secret=SECRET, seconds=10, **more):
    known = {
        "AWS_ACCESS_KEY_ID": "AKIDNOSUCHKEY" * bool(secret),
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL_S3": endpoint,
        "AWS_EC2_METADATA_DISABLED": "true",
        "ALIGNKIT_READ_SECONDS": f"{seconds}",
        "ALIGNKIT_CACHE_DIR": os.fspath(place / "cache"),
        **more,
    }
    environment = {name: value for name, value in {**os.environ, **known}.items() if value}
    done = subprocess.run(
        [sys.executable, "-m", "alignkit", *map(str, words)], cwd=place, env=environment,
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    written = [each for each in place.rglob("*") if each.is_file()]
    assert not [each for each in written if SECRET.encode() in each.read_bytes()]
    assert SECRET not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "root", "secret", "said"),
    [
        ("denied", "s3://photos", SECRET, "cannot list s3://photos: PermissionError"),
        ("none", "s3://nowhere", SECRET, "s3://nowhere is not there, or holds nothing"),
        ("none", "s3://photos", "", "cannot list s3://photos: NoCredentialsError"),
        ("list-503", "s3://photos", SECRET, "cannot list s3://photos: "),
        ("list-hangs", "s3://photos", SECRET, "cannot list s3://photos: "),
        ("read-hangs", "s3://photos", SECRET, "s3://photos does not answer any more"),
    ],
)
def test_a_command_on_s3_that_fails_says_one_line(folder, tmp_path, fault, root, secret, said):
    needed("s3")
    seconds = 2 if fault.endswith("hangs") else 10
    with served(folder, "s3", fault) as endpoint:
        done = command(endpoint, tmp_path, "diff", root, *PATHS, secret=secret, seconds=seconds)
        file = tmp_path / "gate.yaml"
        file.write_text(
            f"name: gate\ndata: {{name: images, root: '{root}'}}\npreprocess:\n"
            "  a: {preset: opencv-train, size: 32}\n  b: {preset: pillow-train, size: 32}\n"
            "gate: {rules: [{metric: resize.mean_abs, fail: 9}]}\n"
        )
        gated = command(endpoint, tmp_path, "gate", file, secret=secret, seconds=seconds)
    assert (done.returncode, gated.returncode) == (2, 2), done.stderr + gated.stderr
    assert done.stderr.startswith(said)
    assert len(done.stderr.strip().splitlines()) == 1
    assert said in gated.stdout + gated.stderr


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["none", "503-once", "503"])
def test_a_tenth_of_the_reads_that_fails_is_read_again_or_counted(folder, tmp_path, fault):
    needed("s3")
    log = tmp_path / "requests"
    with served(folder, "s3", fault, log=log) as endpoint:
        done = command(endpoint, tmp_path, "diff", "s3://photos", *PATHS)
    assert done.returncode == 0, done.stderr
    assert len(requests_of(log, "list-type")) == 1
    rows = [line.split() for line in done.stdout.splitlines() if line.startswith("opencv-train  ")]
    ok, corrupt, failed = rows[0][1:4]
    assert (ok, corrupt, failed) == (("18", "0", "2") if fault == "503" else ("20", "0", "0"))
    if fault == "none":
        assert len(requests_of(log, "000.jpg")) <= 3
    if fault == "503":
        assert len(requests_of(log, "003.jpg")) == 5
        failed = [line for line in done.stdout.splitlines() if line.startswith("failed: ")]
        assert [line.split(":")[1] for line in failed] == [" b/003.jpg", " b/013.jpg"]
        assert all(line.endswith("tried 5 times") for line in failed)


def test_options_of_a_url_reach_its_file_system(folder):
    import fsspec

    class Renamed(fsspec.get_filesystem_class("memory")):
        protocol = "renamed"
        store: ClassVar = {}
        given: ClassVar = []

        def __init__(self, **options):
            self.given.append(options.pop("anon", None))
            super().__init__(**options)

    fsspec.register_implementation("renamed", Renamed, clobber=True)
    for name, data in IMAGES.items():
        Renamed(anon=True).pipe(f"renamed://set/{name}", data)
    Renamed.given.clear()
    samples = Images(Path("renamed://set"), storage={"anon": True}).evaluation()
    again = pickle.loads(pickle.dumps(samples))
    assert again.read(0) == IMAGES["a/000.jpg"]
    assert again.fingerprint == Images(folder).evaluation().fingerprint
    assert {*Renamed.given} == {True}


@pytest.mark.parametrize(
    ("root", "storage", "said"),
    [
        ("s3://box/set", {"secret": SECRET}, "storage: secret would reach records"),
        ("s3://box/set", {"client_kwargs": {"aws_session_token": SECRET}}, "aws_session_token"),
        ("s3://box/set", {"endpoint_url": f"https://me:{SECRET}@host"}, "a URL holds a password"),
        ("set", {"anon": True}, "options of a URL, and root is a path"),
    ],
)
def test_options_with_a_secret_or_of_a_path_are_refused(root, storage, said):
    for make in (Images, Folder):
        with pytest.raises(ConfigError, match=said) as caught:
            make(Path(root), storage=storage)
        assert SECRET not in str(caught.value)


@pytest.mark.slow
def test_a_gate_takes_the_endpoint_from_its_file(folder, tmp_path):
    needed("s3")
    file = tmp_path / "gate.yaml"
    with served(folder, "s3") as endpoint:
        file.write_text(
            "name: gate\ndata:\n  name: images\n  root: s3://photos\n"
            f"  storage: {{endpoint_url: '{endpoint}', anon: true, client_kwargs: {{region_name: x}}}}\n"
            "preprocess:\n  a: {preset: opencv-train, size: 32}\n  b: {preset: pillow-train, size: 32}\n"
            "gate: {rules: [{metric: resize.mean_abs, fail: 99}]}\n"
        )
        done = command("", tmp_path, "gate", file, secret="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "images     20" in done.stdout


def test_a_parquet_file_is_opened_once_to_be_read(folder, tmp_path):
    needed("webhdfs")
    (tmp_path / "rows").mkdir()
    write_parquet(tmp_path / "rows" / "p.parquet", IMAGES, group=5)
    log = tmp_path / "requests"
    with served(tmp_path / "rows", "webhdfs", log=log) as url:
        samples = Images(Path(f"{url}/p.parquet")).evaluation()
        assert [*map(samples.read, range(20))] == [IMAGES[each] for each in samples.ids]
    opened = [
        int(each.partition("offset=")[2].partition("&")[0]) for each in requests_of(log, "OPEN")
    ]
    size = (tmp_path / "rows" / "p.parquet").stat().st_size
    # its last bytes are the directory: once to find the rows, and once to read them
    assert len([each for each in opened if each >= size - 8]) <= 2, opened
