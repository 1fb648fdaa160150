"""A run's folder from somebody who means harm: sealed, so that the seal hides nothing of it."""

import hashlib
import json
import os
import re
import shutil

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.gate_case import make_case
from tests.report.records import quickstart as with_pictures
from tests.run_pair import write_small_run
from tests.sealed import rewrite

TEXT = "<script>alert(1)</script>\"'|`\x1b]0;x\x07\u202e[a](http://host/) @bob\n# no"
MESSAGE = [{"kind": "message", "values": {"text": TEXT}}]
PASSWD = "root:x:0:0"


@pytest.fixture(scope="session")
def whole(tmp_path_factory):
    """A small run with pictures, as it was written."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    pictures = with_pictures(folder).shown[:2]
    return write_small_run(folder, flipped=(1, 2), shown=pictures)


@pytest.fixture
def foreign(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


@pytest.fixture
def report(alignkit, foreign, tmp_path):
    """Render it in every form; none may succeed where one is refused."""

    def call():
        forms = {
            "here": (),
            "copy": ("--out", f"html={tmp_path / 'copy'}"),
            "mail": ("--single-file", "--out", f"html={tmp_path / 'mail.html'}"),
        }
        return {
            name: alignkit("report", foreign, "--no-open", *form) for name, form in forms.items()
        }

    return call


def name_instead(folder, path, content=None):
    """Let the first picture's record name another file, with the hash of what it holds."""
    if content is not None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    data = (folder / path).read_bytes() if (folder / path).is_file() else b""
    named = {"path": path, "sha256": hashlib.sha256(data).hexdigest()}
    rewrite(folder / "record.json", lambda stored: stored["shown"][0].update(a=named))


def refused(told, said):
    for form, each in told.items():
        assert each.code == 2, (form, each)
        assert re.search(said, each.err), (form, each.err)
        assert each.err.count("\n") == 1, each.err
        assert PASSWD not in each.err
        assert "Traceback" not in each.err


def test_the_folder_as_it_was_written_is_rendered(report, tmp_path):
    assert {name: each.code for name, each in report().items()} == dict.fromkeys(
        ("here", "copy", "mail"), 0
    )
    assert (tmp_path / "mail.html").read_text().count("data:image/png") >= 3


@pytest.mark.parametrize("path", ["/etc/passwd", "../../../../../../../../etc/passwd"])
def test_a_file_outside_the_folder_is_not_shown(foreign, report, path, tmp_path):
    name_instead(foreign, path)
    refused(report(), r"record\.json is damaged \(shown\.0\.a\.path")
    assert not (tmp_path / "mail.html").exists()


def test_a_link_out_of_the_folder_is_not_followed(foreign, report, tmp_path):
    (foreign / "img" / "x.png").symlink_to("/etc/passwd")
    name_instead(foreign, "img/x.png")
    refused(report(), r"x\.png leads out of the run's folder")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_read(foreign, report, make):
    make(foreign / "img" / "x.png")
    name_instead(foreign, "img/x.png")
    refused(report(), r"x\.png cannot be read \(not a regular file")


def test_other_content_than_the_record_says_is_not_shown(foreign, report):
    picture = min((foreign / "img").glob("*.png"))
    picture.write_bytes(picture.read_bytes() + b"\n")
    refused(report(), rf"{picture.name} is not as alignkit wrote it")


IHDR = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("img/x.svg", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("img/x.png", b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"),
        ("img/x.html", IHDR + b"\x00\x00\x00\x01\x00\x00\x00\x01<script>alert(1)</script>"),
        ("img/x.png", IHDR + b"\xff\xff\xff\xff\xff\xff\xff\xff"),  # 2⁶⁴ pixels
        ("img/x.png", b""),
        ("data/x.js", b"alert(1)"),
    ],
)
def test_what_is_no_picture_is_not_shown(foreign, report, path, content):
    name_instead(foreign, path, content)
    refused(report(), "is no picture of alignkit's")


SCRIPT = (
    '(self.alignkitPixels??={})["data/x.js"]={'
    '"a":{"width":1,"height":1,"dtype":"uint8","data":"eA=="},'
    '"b":{"width":1,"height":1,"dtype":"uint8","data":"eA=="}};\n'
)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda text: text, 0),
        (lambda text: text + "alert(1)", 2),
        (lambda text: "alert(1);" + text, 2),
        (lambda text: text.replace('"eA=="', "alert(1)", 1), 2),
        (lambda text: text.replace("eA==", '"+alert(1)+"', 1), 2),
        (lambda text: text.replace("eA==", "\\u0022", 1), 2),
        (lambda text: text.replace('"width":1', '"width":alert(1)'), 2),
        (lambda text: text.replace('["data/x.js"]', "[alert(1)]"), 2),
        (lambda text: text.replace("x.js", "y.js"), 2),
    ],
)
def test_a_script_of_pixels_holds_arrays_and_runs_nothing_else(
    foreign, alignkit, tmp_path, change, code
):
    content = change(SCRIPT).encode()
    (foreign / "data" / "x.js").write_bytes(content)
    named = {"path": "data/x.js", "sha256": hashlib.sha256(content).hexdigest()}
    rewrite(foreign / "record.json", lambda stored: stored["shown"][0].update(pixels=named))
    told = alignkit("report", foreign, "--no-open", "--out", f"html={tmp_path / 'copy'}")
    assert told.code == code, told
    assert (tmp_path / "copy" / "data" / "x.js").exists() is (code == 0)


def test_nothing_is_written_through_a_link_out_of_the_folder(foreign, alignkit, tmp_path):
    (tmp_path / "mine").mkdir()
    (foreign / "assets").symlink_to(tmp_path / "mine")
    told = alignkit("report", foreign, "--no-open")
    assert (told.code, "leads out of" in told.err) == (3, True)
    assert list((tmp_path / "mine").iterdir()) == []
    assert alignkit("report", foreign, "--no-open", "--out", f"html={tmp_path / 'copy'}").code == 0


def everywhere(stored):
    """Put the text wherever a record holds free text."""
    kept = {"path", "sha256", "command", "stage", "mode", "state", "backend", "precision", "key",
            "started", "metric", "outcome", "first", "largest", "split", "dimension", "failing",
            "trained_with", "evaluated_with", "reference", "candidate", "preprocess", "change",
            "advised", "served", "trained", "level", "plane", "resolution", "unit", "method", "why", "better",
            "rated_unit", "scores", "kind", "worse", "direction"}  # fmt: skip
    if isinstance(stored, dict):
        for name, value in stored.items():
            if isinstance(value, str) and name not in kept:
                stored[name] = TEXT
            else:
                everywhere(value)
    elif isinstance(stored, list):
        for value in stored:
            everywhere(value)


def test_text_of_a_record_is_shown_as_text(foreign, alignkit, report, tmp_path):
    def change(stored):
        task = stored["task"]["name"]  # the plugin that reads its answers
        everywhere(stored)
        stored["task"]["name"] = task
        stored["data"]["classes"] = [f"{TEXT} {index}" for index in range(10)]

    rewrite(foreign / "record.json", change)
    told = report()
    assert {each.code for each in told.values()} == {0}, told
    for page in (tmp_path / "copy" / "index.html", tmp_path / "mail.html"):
        text = page.read_text()
        assert "&lt;script&gt;alert(1)" in text
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert r"\x07\u202e" in text
    script = (tmp_path / "copy" / "data" / "run.js").read_text()
    assert "\u202e" not in script
    summary = (tmp_path / "copy" / "summary.md").read_text()
    assert "\\<script\\>" in summary
    # inside a fence all is text
    shown = re.sub(r"^(`{3,}).*?^\1$", "", summary, flags=re.MULTILINE | re.DOTALL)
    assert not re.search(r"<script>|\]\(http|@bob|^# no", shown, re.MULTILINE)


def test_a_command_that_would_do_more_is_refused(foreign, report):
    def change(stored):
        stored["command"] = "alignkit run x.yaml; rm -rf ~"

    rewrite(foreign / "record.json", change)
    refused(report(), "not one command of alignkit")


def huge_rows(path):
    ids = pa.array(["a"]).dictionary_encode()
    rows = pa.DictionaryArray.from_arrays(pa.array(np.zeros(7 * 10**6, np.int8)), ids.dictionary)
    columns = {
        "id": rows,
        **{f"logit_{i}": pa.array(np.zeros(7 * 10**6, np.float32)) for i in range(9)},
    }
    table = pa.table(columns).replace_schema_metadata({b"classes": b'["a"]'})
    parquet.write_table(table, path, compression="zstd")


def columns(**named):
    def write(path):
        made = {"id": ["a", "b"], "label": [0, 1], "logit_0": [0.5, 1.0], "logit_1": [1.0, 0.0]}
        metadata = named.pop("metadata", b'["x", "y"]')
        kept = {name: each for name, each in (made | named).items() if each is not None}
        parquet.write_table(pa.table(kept).replace_schema_metadata({b"classes": metadata}), path)

    return write


@pytest.mark.parametrize(
    "write",
    [
        huge_rows,
        columns(label=["x", "y"]),
        columns(label=[0, 7]),
        columns(label=[None, 1]),
        columns(logit_1=["x", "y"]),
        columns(logit_1=None),
        columns(id=["a", None]),
        columns(id=["a", "a"]),
        columns(id=[1, 2]),
        columns(metadata=b'["x"'),
        columns(metadata=b"[" * 100_000),
        columns(metadata=b"[1, 2]"),
        columns(metadata=json.dumps([str(index) for index in range(10**5)]).encode()),
        lambda path: path.write_bytes(b"PAR1" + b"\xff" * 100 + b"PAR1"),
    ],
)
def test_predictions_that_contradict_themselves_are_an_error(foreign, alignkit, whole, write):
    path = foreign / "predictions" / "0.parquet"
    write(path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    rewrite(
        foreign / "record.json",
        lambda stored: stored["cells"][0]["predictions"].update(sha256=sha256),
    )
    for words in (("report", foreign), ("compare-runs", whole, foreign)):
        told = alignkit(*words, "--no-open")
        assert told.code == 2, (words, told)
        assert "0.parquet" in told.err, told
        assert "Traceback" not in told.err


@pytest.mark.parametrize("value", [1e308, -1e308, 1e999, float("nan")])
def test_a_number_that_no_sum_can_hold_is_refused(foreign, report, value):
    def change(stored):
        cell = next(each for each in stored["cells"] if each["drift"])
        cell["drift"]["churn"]["value"] = value

    rewrite(foreign / "record.json", change)
    refused(report(), r"is damaged \(cells\.\d+\.drift\.churn\.value")


@pytest.mark.parametrize("value", [-1, 2**60, 10**400])
def test_a_count_that_is_none_is_refused(foreign, report, value):
    rewrite(foreign / "record.json", lambda stored: stored["cells"][1].update(n=value))
    refused(report(), r"is damaged \((cells\.1\.n)?")


def test_compare_shows_text_and_writes_only_beside_the_later_run(
    foreign, whole, alignkit, tmp_path
):
    rewrite(
        foreign / "record.json",
        lambda stored: (stored.update(name=TEXT), stored["verdict"].update(sentence=MESSAGE)),
    )
    told = alignkit("compare-runs", whole, foreign, "--no-open", "--out", f"html={tmp_path / 'c'}")
    assert told.code == 0
    assert "\x1b" not in told.out
    assert "<script>alert" not in (tmp_path / "c" / "index.html").read_text()
    name_instead(foreign, "/etc/passwd")
    assert alignkit("compare-runs", whole, foreign, "--no-open").code == 2


AGAINST = "{preset: strict, against: baseline}"


def test_a_gate_takes_nothing_damaged_from_another_run(alignkit, tmp_path):
    case = make_case(tmp_path)
    file = case.write(AGAINST)
    run = ("run", file, "--reports", tmp_path / "main", "--no-open", "-q")
    assert alignkit(*run).code == 0
    (path,) = (tmp_path / "main").glob("small/*/record.json")
    folder = path.parent

    def gate():
        told = alignkit("gate", file, "--reports", case.reports, "-q", "--against", folder)
        assert "Traceback" not in told.out + told.err
        return told.code, told.out

    assert gate()[0] == 0
    stages, text = folder / "stages.jsonl", path.read_text()
    kept = stages.read_text()
    stages.write_text(kept.replace("0", "1", 1))
    code, out = gate()
    assert (code, "stages.jsonl is not as alignkit wrote it" in out) == (6, True)
    stages.unlink()
    stages.symlink_to("/etc/passwd")
    code, out = gate()
    assert (code, "leads out of the run's folder" in out) == (6, True)
    stages.unlink()
    stages.write_text("[" * 100_000)
    sha256 = hashlib.sha256(stages.read_bytes()).hexdigest()
    rewrite(path, lambda stored: stored["stages"].update(sha256=sha256))
    code, out = gate()
    assert (code, "is damaged" in out) == (6, True)
    path.write_text(text.replace('"format": 3', '"format": 4', 1))
    code, out = gate()
    assert (code, "record.json is damaged: it is not as alignkit wrote it" in out) == (6, True)
    stages.write_text(kept)
    path.write_text(text)
    assert gate()[0] == 0
