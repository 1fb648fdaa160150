"""An image on which a decoder crashes or hangs is one failed image in every command."""

import json

import pytest

from alignkit.decoders import DECODERS
from alignkit.isolation import Limits
from alignkit.plugins import Plugin
from tests.cli.conftest import alignkit  # noqa: F401 - a fixture
from tests.fatal_decoders import MARK
from tests.photos import encoded, photo

PATHS = """
  plain: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  fatal: {{decode: {{name: fatal, how: {how}}}, resize: {{name: opencv, size: 32}}}}
"""
SEGFAULT = "crashed: SIGSEGV"
HANG = "timed out: no result after 4 s"
FATAL = [pytest.param("segfault", 0, SEGFAULT, id="segfault"),
         # every command waits as long; tests/isolation/test_isolation.py has the hang itself
         pytest.param("hang", 4, HANG, id="hang", marks=pytest.mark.slow)]  # fmt: skip
IMAGES = 6


@pytest.fixture
def folder(tmp_path):
    """Two classes of images; the last of the evaluation split is fatal."""
    for split, name in ((split, name) for split in ("train", "val") for name in ("dark", "light")):
        (tmp_path / "data" / split / name).mkdir(parents=True)
        for number in range(IMAGES // 2):
            # no two of one size, and so no two of the same pixels
            image = encoded(photo(height=24 + number + 3 * (name == "light"), width=32))
            last = (split, name, number) == ("val", "light", IMAGES // 2 - 1)
            file = tmp_path / "data" / split / name / f"{number}.jpg"
            file.write_bytes(image + MARK if last else image)
    return tmp_path


@pytest.fixture
def call(alignkit, folder, monkeypatch):  # noqa: F811
    monkeypatch.setitem(DECODERS, "fatal", Plugin("tests.fatal_decoders:FatalDecoder"))
    monkeypatch.chdir(folder)

    def call(seconds, *words):
        if seconds:
            monkeypatch.setattr("alignkit.preprocess.image_taps.LIMITS", Limits(seconds))
        told = alignkit(*words)
        assert "Traceback" not in told.err, told.err
        return told

    return call


def written(folder, how, *more, data="images, root: data/val"):
    file = folder / "file.yaml"
    lines = ("name: small", f"data: {{name: {data}}}", "preprocess:", PATHS.format(how=how), *more)
    file.write_text("\n".join(lines))
    return file


@pytest.mark.parametrize(("how", "seconds", "reason"), FATAL)
def test_diff(folder, call, how, seconds, reason):
    file = written(folder, how)
    limit = ("--timeout", seconds) if seconds else ()
    told = call(0, "diff", "--config", file, "--out", "json=diff.json", "-q", *limit)
    assert told.code == 0, told.err
    record = json.loads((folder / "diff.json").read_text())
    assert record["pairs"][0]["compared"] == IMAGES - 1
    assert reason in json.dumps(record)


@pytest.mark.parametrize(
    ("how", "seconds"),
    [pytest.param(*each.values[:2], id=each.id, marks=each.marks) for each in FATAL],
)
def test_gate(folder, call, how, seconds):
    file = written(folder, how, "gate: {rules: [{metric: decode.max_abs, fail: 1}]}")
    told = call(seconds, "gate", file, "-q", "--no-html", "--reports", "reports")
    (record,) = folder.glob("reports/*/*/record.json")
    (covered,) = json.loads(record.read_text())["coverage_diffs"]
    assert (covered["images"], covered["only_reference"]) == (IMAGES, 1), told.err
    assert covered["only_candidate"] == 0


@pytest.mark.parametrize(("how", "seconds", "reason"), FATAL)
def test_baseline_record(folder, call, how, seconds, reason):
    file = written(folder, how, "gate: {rules: [{preset: strict, against: baseline}]}")
    told = call(seconds, "baseline", "record", file)
    assert told.code == 0, told.err
    stored = [path for path in folder.rglob("*.jsonl") if "baseline" in str(path)]
    lines = [json.loads(line) for path in stored for line in path.read_text().splitlines()]
    decoded = [line for line in lines if line.get("stage") == "decode"]
    assert len(decoded) == 2 * IMAGES
    (failed,) = [line for line in decoded if line.get("outcome", "ok") == "failed"]
    assert (failed["path"], failed["reason"]) == ("fatal", reason)


@pytest.mark.parametrize(("how", "seconds", "reason"), FATAL)
def test_match(folder, call, how, seconds, reason):
    target = f"{written(folder, how)}:fatal"
    told = call(
        seconds, "match", "--images", "data/val", "--target", target, "-q", "--out", "json=match.json",
        "--decoders", "opencv", "--resizers", "opencv",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert told.out.count(f"light/2.jpg: failed: {reason}") == 1, told.out.splitlines()[1:4]


@pytest.mark.parametrize(("how", "seconds", "reason"), FATAL)
def test_run(folder, call, how, seconds, reason):
    more = (
        "train: {model: small-cnn, epochs: 1, seeds: [0], batch_size: 4}",
        "evaluate: {backends: [torch], resamples: 200}",
    )
    file = written(folder, how, *more, data="folder, root: data")
    told = call(seconds, "run", file, "--reports", "reports", "--no-open")
    # one of six images is lost, and a gate bears one of twenty
    assert told.code == 1, told.err + told.out
    (path,) = folder.glob("reports/*/*/record.json")
    record = json.loads(path.read_text())
    assert record["cells"], told.err
    covered = {(each["preprocess"], each["split"]): each for each in record["coverage"]}
    plain, fatal = covered["plain", "eval"], covered["fatal", "eval"]
    assert (plain["ok"], plain["failed"]) == (IMAGES, 0)
    assert (fatal["ok"], fatal["failed"]) == (IMAGES - 1, 1)
    assert reason in json.dumps(fatal["examples"])
