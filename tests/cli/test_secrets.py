"""What an option of a store holds is written only if its name is on the list of harmless ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from alignkit.backends.http_json import HTTPJSONBackend
from alignkit.backends.kserve import KServeBackend
from alignkit.datasets import url_store
from alignkit.datasets.folder import Folder
from alignkit.datasets.unlabelled_images import Images
from alignkit.errors import ConfigError, UnreadableImage, without_secrets
from tests.test_limits import HTML, PNG, links, serving

config = pytest.importorskip("fsspec").config
SECRET = "s3cretpw-open-sesame"


REFUSED = {
    # headers as aiohttp takes them: each of them may be one that lets a request in
    "Authorization": {"headers": {"Authorization": f"Bearer {SECRET}"}},
    "Cookie": {"headers": {"Cookie": SECRET}},
    "x-…": {"client_kwargs": {"X-Api-Key": SECRET}},
    "headers of a session": {"client_kwargs": {"headers": SECRET}},
    # s3fs, adlfs, gcsfs, ftp, sftp, smb, dropbox, databricks and webdav name theirs so
    "s3 secret": {"secret": SECRET},
    "s3 key": {"key": SECRET},
    "s3 token": {"client_kwargs": {"aws_session_token": SECRET}},
    "azure sas": {"sas_token": SECRET},
    "azure connection": {"connection_string": f"AccountKey={SECRET}"},
    "gs": {"token": SECRET},
    "ftp": {"password": SECRET},
    "short": {"pwd": SECRET},
    "pair": {"auth": SECRET},
    "passphrase": {"passphrase": SECRET},
    "pin": {"pin": SECRET},
    "webhdfs": {"kerb_kwargs": {"principal": SECRET}},
    "other spelling": {"PassWd": SECRET},
    "a name that is one": {SECRET.upper(): "x"},
    "a name that nobody knows": {"whatever": SECRET},
    "a proxy": {"client_kwargs": {"proxy": f"http://me:{SECRET}@proxy"}},
    "a URL": {"endpoint_url": f"https://me:{SECRET}@box"},
    "a signature": {"endpoint_url": f"https://box/?X-Amz-Signature={SECRET}"},
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("make", [Images, Folder])
def test_an_option_that_may_be_a_secret_is_refused_without_its_value(case, make):
    with pytest.raises(ConfigError, match=r"^storage: .* name it in the environment") as caught:
        make(Path("s3://box/set"), storage=REFUSED[case])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "storage",
    [
        {"anon": True, "endpoint_url": "https://box.example.org", "requester_pays": True},
        {"client_kwargs": {"region_name": "eu-central-1", "verify": False}},
        {"config_kwargs": {"connect_timeout": 3, "signature_version": "s3v4"}},
        {"project": "p", "account_name": "a", "host": "h", "port": 9870, "user": "hdfs"},
        {"client_kwargs": {"trust_env": True}, "simple_links": True},
    ],
)
def test_harmless_options_stay(storage):
    assert Images(Path("s3://box/set"), storage=storage).storage == storage


FILE = """name: g
data:
  name: images
  root: {root}
{storage}
preprocess:
  a: {{decode: pillow, resize: {{name: pillow, size: 8}}}}
  b: {{decode: opencv, resize: {{name: opencv, size: 8}}}}
gate: {{rules: [{{metric: resize.mean_abs, fail: 250}}]}}
"""
WRITTEN = {
    "in a flow": f'  storage: {{headers: {{Authorization: "Bearer {SECRET}"}}}}',
    "in a block": f"  storage:\n    headers:\n      Cookie: {SECRET}",
    "of a wrong form": f"  storage:\n    headers:\n      x-a: {{b: {{c: {SECRET}}}}}",
    "that is no YAML": f'  storage: {{headers: {{Authorization: "{SECRET}}}}}',
    "beside a mistake": f"  storage: {{anon: maybe, pwd: {SECRET}}}",
}
OUTS = [f"--out={kind}={kind}.out" for kind in ("json", "junit", "github", "md", "text")]


def leaking(folder):
    files = [each for each in folder.rglob("*") if each.is_file() and each.suffix != ".yaml"]
    return [each for each in files if SECRET.encode() in each.read_bytes()]


@pytest.fixture
def gate(alignkit, tmp_path, monkeypatch):
    """Run a gate of this file, in its folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "cache"))

    def run(root, storage="", *words):
        (tmp_path / "g.yaml").write_text(FILE.format(root=root, storage=storage))
        told = alignkit("gate", "g.yaml", *OUTS, "--reports", "r", *words)
        assert SECRET not in told.out + told.err
        assert (tmp_path / "github.out").exists()
        assert not leaking(tmp_path)
        return told

    return run


@pytest.mark.parametrize("case", WRITTEN)
def test_no_output_of_a_gate_that_refuses_a_file_holds_it(case, gate):
    assert gate("http://127.0.0.1:9/set", WRITTEN[case]).code == 2


OVERRIDES = [
    f"data.storage.headers.X-Api={SECRET}",
    f"data.storage.pwd={SECRET} words",
    f"data.access_key={SECRET}",
    f"data.aws_access_key_id={SECRET}",
    f"data.sas={SECRET}",
    f"data.passphrase={SECRET}",
    f"data.headers.Any={SECRET}",
    f"data={{name: images, root: a, private-key: {SECRET}}}",
    f"preprocess.a.decode={{name: pillow, bearer: {SECRET}}}",
    f"data.root=s3://me:{SECRET}@box/set",
]


@pytest.mark.parametrize("override", OVERRIDES)
def test_no_output_of_a_gate_holds_an_override_that_it_refuses(override, gate):
    assert gate("http://127.0.0.1:9/set", "", "--set", override).code == 2


def answer(it, path):
    """Serve two images to who sends the header, and its value to everybody else."""
    if it.headers.get("X-Api") != SECRET:
        it.send_response(500, f"wrong: {SECRET}")
        it.send_header("Content-Length", "0")
        it.end_headers()
    elif path.endswith(".png"):
        it.whole(PNG)
    else:
        it.whole(links("a.png", "b.png"), **HTML)


def test_what_the_environment_holds_is_sent_and_not_written(gate, monkeypatch, tmp_path):
    pytest.importorskip("aiohttp")
    # as FSSPEC_HTTP_HEADERS='{"X-Api": …}' gives it, which fsspec reads when it is imported
    environment = {"FSSPEC_HTTP_HEADERS": json.dumps({"X-Api": SECRET})}
    read = {}
    config.set_conf_env(read, environment)
    monkeypatch.setitem(config.conf, "http", read["http"])
    with serving(answer) as url:
        told = gate(f"{url}/set")
    assert "images     2" in told.out
    assert (tmp_path / "r").is_dir()


def test_a_message_of_a_server_that_repeats_a_secret_is_shown_without_it(monkeypatch):
    monkeypatch.setitem(
        config.conf,
        "http",
        {"headers": {"X-Api": f"Token {SECRET}"}, "block_size": "harmless"},
    )
    for variable in ("DB_PWD", "PGPASSWORD", "PROXY_AUTH", "SESSION_COOKIE"):
        monkeypatch.setenv(variable, f"{SECRET}-{variable}")
    monkeypatch.setenv("OLDPWD", "folder-of-before")
    said = f"no {SECRET}, {SECRET}-DB_PWD, {SECRET}-PROXY_AUTH; harmless folder-of-before"
    assert url_store._told(ValueError(said)) == (
        "ValueError: no …, …, …; harmless folder-of-before"
    )


@pytest.mark.parametrize(
    ("headers", "goes"),
    [
        ({}, True),
        ({"User-Agent": "me"}, True),
        # aiohttp itself leaves these out where it is sent on to another host
        ({"Authorization": SECRET}, True),
        ({"Cookie": SECRET}, True),
        ({"X-Api": SECRET}, False),
    ],
)
def test_headers_do_not_go_to_another_host(headers, goes, monkeypatch, tmp_path):
    pytest.importorskip("aiohttp")
    monkeypatch.setenv("ALIGNKIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setitem(config.conf, "http", {"headers": headers})
    seen = []

    def other(it, _path):
        seen.append(dict(it.headers))
        it.whole(PNG)

    with serving(other) as elsewhere:

        def sent_on(it, path):
            if path.endswith(".png"):
                it.send_response(302)
                it.send_header("Location", f"{elsewhere}/x.png")
                it.send_header("Content-Length", "0")
                it.end_headers()
            else:
                it.whole(links("a.png"), **HTML)

        with serving(sent_on) as url:
            samples = Images(Path(f"{url}/set")).evaluation()
            if goes:
                assert samples.read(0) == PNG
            else:
                with pytest.raises(
                    UnreadableImage, match="to another host, and your own headers are not"
                ):
                    samples.read(0)
    assert bool(seen) == goes
    assert SECRET not in str(seen)


@pytest.mark.parametrize(
    "request_",
    [
        f'{{"api_key": "{SECRET}", "images": {{images}}}}',
        f'{{"auth": {{"token": "{SECRET}"}}, "images": {{images}}}}',
        f'{{"parts": [{{"password": "{SECRET}"}}], "images": {{images}}}}',
        f'{{"Authorization": "{SECRET}", "images": {{images}}}}',
        f'{{"x-session-cookie": "{SECRET}", "images": {{images}}}}',
    ],
)
def test_a_request_of_an_endpoint_holds_no_secret(request_):
    with pytest.raises(ConfigError, match=r"may be a secret.*header_env") as caught:
        HTTPJSONBackend("http://h", request_)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "request_",
    ['{"key": ["image"], "value": {images}}', '{"key": "image", "value": {images}}',
     '{"max_tokens": 5, "instances": {images}}'],
)  # fmt: skip
def test_a_request_of_paddle_serving_or_with_numbers_stays(request_):
    assert HTTPJSONBackend("http://h", request_).request == request_


@pytest.mark.parametrize(
    "header", [f"Authorization: Bearer {SECRET}", f"Bearer {SECRET}", "", "a\nb"]
)
@pytest.mark.parametrize("kind", ["http-json", "kserve"])
def test_the_name_of_a_header_is_not_its_value(header, kind):
    make = KServeBackend if kind == "kserve" else HTTPJSONBackend
    with pytest.raises(ConfigError, match="'header' is the name of a header") as caught:
        make("http://h", "{images}", header=header)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"  Authorization: Bearer {SECRET}", "  Authorization: …"),
        (f"storage: {{pwd: {SECRET}}}", "storage: …"),
        (f'  "x-api": "{SECRET}"', '  "x-api": …'),
        (f"data.storage.headers.a={SECRET} b", "data.storage.headers.a=…"),
        (f"  db_password = {SECRET}", "  db_password = …"),
        (f"access_key: {SECRET}", "access_key: …"),
        (f"data.aws_access_key_id={SECRET}", "data.aws_access_key_id=…"),
        (f"{{sas: {SECRET}, size: 8}}", "{sas: …"),
        (f"size: 8, 'auth': '{SECRET}'", "size: 8, 'auth': …"),
        (f"data.headers.Any={SECRET}", "data.headers.Any=…"),
        (f"passphrase : {SECRET}", "passphrase : …"),
        (f"-   private-key: {SECRET}", "-   private-key: …"),
        ("root: https://box/a, half: up", "root: https://box/a, half: up"),
        ("max-pixels: 8, author: x", "max-pixels: 8, author: x"),
        (f"root: s3://me:{SECRET}@box/a", "root: s3://…@box/a"),
        ("  resize: {name: pillow, size: 8}", "  resize: {name: pillow, size: 8}"),
        ("  tokens_of_prose: ", "  tokens_of_prose: "),
        ("name: a-cookie-jar", "name: a-cookie-jar"),
    ],
)
def test_a_line_is_shown_without_what_follows_the_name_of_a_secret(line, shown):
    assert without_secrets(line) == shown
