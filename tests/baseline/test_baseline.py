"""The baseline file: found by environment, read back, refused when it is not whole."""

import json
import os

import pytest

from alignkit.baseline import (
    Baseline,
    BaselineHead,
    MetricLine,
    StageLine,
    baseline_file,
    environment_fingerprint,
    find_baseline,
    read_baseline,
    write_baseline,
)
from alignkit.errors import BaselineError

HERE = {"system": "Linux", "machine": "x86_64", "gpu": "not used"}


def line(image: str = "a.jpg", stage: str = "decode", sha256: str = "0" * 64) -> StageLine:
    return StageLine(
        path="serving", image=image, stage=stage, sha256=sha256, dtype="uint8", shape=(2, 2, 3),
        mean=(1.0, 2.0, 3.5), std=0.5, least=0.0, greatest=9.0,
    )  # fmt: skip


def baseline(*lines: StageLine, environment: dict[str, str] = HERE) -> Baseline:
    head = BaselineHead(alignkit="0.1.0", name="small", environment=environment, versions={}, paths={},
                data="d", lines=0)  # fmt: skip
    metric = MetricLine(trained_with="a", evaluated_with="b", backend="torch", precision="fp32",
                        metrics={"top1": 0.5, "recall.macro": None})  # fmt: skip
    return Baseline(head, {each.key: each for each in lines}, {metric.place: metric})


@pytest.fixture
def written(tmp_path):
    return write_baseline(tmp_path, baseline(line(), line("b.jpg")))


def test_it_reads_back_as_it_was_written(tmp_path):
    original = baseline(line("b.jpg"), line(), line(stage="resize"))
    path = write_baseline(tmp_path, original)
    read = read_baseline(path)
    assert read.lines == original.lines
    assert read.metrics == original.metrics
    assert read.head.lines == 4
    assert write_baseline(tmp_path, read).read_bytes() == path.read_bytes()


def test_one_line_an_image_and_stage_in_a_fixed_order(written):
    _, *rest = written.read_text().splitlines()
    assert [json.loads(text).get("image") for text in rest] == ["a.jpg", "b.jpg", None]


def test_library_versions_are_not_part_of_the_fingerprint():
    assert set(HERE) == {"system", "machine", "gpu"}
    assert environment_fingerprint(HERE) != environment_fingerprint({**HERE, "gpu": "H100"})


def test_no_baseline_at_all_is_said_with_the_next_step(tmp_path):
    with pytest.raises(BaselineError, match="alignkit baseline record"):
        find_baseline(tmp_path, HERE)


def test_another_environment_is_named_with_the_fields_that_differ(tmp_path):
    write_baseline(tmp_path, baseline(environment={**HERE, "machine": "aarch64", "gpu": "Orin"}))
    write_baseline(tmp_path, baseline(environment={**HERE, "gpu": "H100"}))
    with pytest.raises(BaselineError) as caught:
        find_baseline(tmp_path, HERE)
    assert caught.value.exit_code == 6
    nearest = baseline_file(tmp_path, {**HERE, "gpu": "H100"}).name
    assert nearest in str(caught.value)
    assert "gpu: H100 there, not used here" in str(caught.value)
    assert "machine" not in str(caught.value)


def test_a_cut_file_is_damaged(written):
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(lines[:-1]))
    with pytest.raises(BaselineError, match="holds 2 lines and its head says 3"):
        read_baseline(written)


def test_a_file_cut_anywhere_is_refused_and_left_as_it_is(written):
    whole = written.read_bytes()
    for size in range(len(whole) - 1):  # the last byte is the line end, which says nothing
        written.write_bytes(whole[:size])
        with pytest.raises(BaselineError, match="damaged"):
            read_baseline(written)
        assert written.read_bytes() == whole[:size]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"sha256": "0', '"sha256": "X', "line 2 is no baseline line"),
        ('"image": "b.jpg"', '"image": "a.jpg"', "line 3 repeats"),
        ('"stage": "decode"', '"stage": "dekode"', "line 2 is no baseline line"),
        ('"mean": [1.0', '"mean": [NaN', "line 2 is no baseline line"),
        ('"format": 1', '"format": "x"', "its head"),
    ],
)
def test_a_damaged_file_is_refused_with_the_line(written, old, new, said):
    text = written.read_text()
    assert old in text
    written.write_text(text.replace(old, new, 1))
    with pytest.raises(BaselineError, match=said):
        read_baseline(written)


def test_a_merge_conflict_is_refused(written):
    first, *rest = written.read_text().splitlines(keepends=True)
    written.write_text(first + "<<<<<<< ours\n" + "".join(rest))
    with pytest.raises(BaselineError, match="damaged"):
        read_baseline(written)


def test_a_newer_format_asks_for_an_update(written):
    written.write_text(written.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(BaselineError, match="update alignkit"):
        read_baseline(written)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]\n", b"{}\n"])
def test_what_is_no_baseline_is_refused(written, content):
    written.write_bytes(content)
    with pytest.raises(BaselineError):
        read_baseline(written)


@pytest.mark.parametrize("environment", [HERE, {**HERE, "gpu": "H100"}])
def test_a_fifo_in_place_of_a_baseline_is_refused(tmp_path, environment):
    os.mkfifo(baseline_file(tmp_path, environment))
    with pytest.raises(BaselineError, match="not a regular file: a FIFO"):
        find_baseline(tmp_path, HERE)
