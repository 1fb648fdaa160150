"""Approvals: kept with who and why, never lost, never in CI."""

import multiprocessing
import os

import pytest

from alignkit.baseline import Baseline, find_baseline
from alignkit.baseline.approval import approve, changes, metric_changes, read_approvals
from alignkit.errors import BaselineError, ConfigError
from tests.baseline.test_baseline import HERE, baseline, line

OLD, NEW = "0" * 64, "1" * 64


@pytest.fixture
def folder(tmp_path):
    """A baseline of two images."""
    first = baseline(line("a.jpg"), line("b.jpg"))
    approve(tmp_path, first, changes(None, first), reason="recorded")
    return tmp_path


def test_an_approval_keeps_who_commit_reason_old_and_new(folder):
    now = baseline(line("a.jpg", sha256=NEW), line("b.jpg"))
    approve(folder, now, changes(find_baseline(folder, HERE), now), reason=" upgrade ")
    _, approval = sorted(read_approvals(folder), key=lambda each: len(each.lines), reverse=True)
    assert approval.reason == "upgrade"
    assert approval.who
    (changed,) = approval.lines
    assert changed.old is not None
    assert (changed.image, changed.old.sha256, changed.new.sha256) == ("a.jpg", OLD, NEW)


def test_images_of_a_partial_run_are_all_it_touches(folder):
    now = baseline(line("b.jpg", sha256=NEW))
    approve(folder, now, changes(find_baseline(folder, HERE), now), reason="partial")
    kept = find_baseline(folder, HERE)
    assert {key[1]: each.sha256 for key, each in kept.lines.items()} == {"a.jpg": OLD, "b.jpg": NEW}


def test_nothing_is_written_in_ci(folder, monkeypatch):
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    now = baseline(line("a.jpg", sha256=NEW))
    found = changes(find_baseline(folder, HERE), now)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(ConfigError, match="refused in CI"):
        approve(folder, now, found, reason="no")
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_a_variable_that_says_no_is_no_ci(folder, monkeypatch, value):
    monkeypatch.setenv("CI", value)
    now = baseline(line("c.jpg"))
    approve(folder, now, changes(find_baseline(folder, HERE), now), reason="yes")
    assert "yes" in {each.reason for each in read_approvals(folder)}


def test_an_approval_without_a_reason_is_refused(folder):
    now = baseline(line("c.jpg"))
    with pytest.raises(ConfigError, match="needs a reason"):
        approve(folder, now, changes(None, now), reason="  ")


def test_a_line_that_another_approval_changed_meanwhile_is_not_overwritten(folder):
    seen = find_baseline(folder, HERE)
    mine, theirs = baseline(line("a.jpg", sha256=NEW)), baseline(line("a.jpg", sha256="2" * 64))
    late = changes(seen, mine)
    approve(folder, theirs, changes(seen, theirs), reason="theirs")
    with pytest.raises(BaselineError, match="meanwhile"):
        approve(folder, mine, late, reason="mine")
    assert find_baseline(folder, HERE).lines["serving", "a.jpg", "decode"].sha256 == "2" * 64
    assert [each.reason for each in read_approvals(folder)].count("mine") == 0


def test_metrics_that_another_approval_changed_meanwhile_are_not_overwritten(folder):
    seen = find_baseline(folder, HERE)
    mine, theirs = measured(seen, 0.25), measured(seen, 0.75)
    late = metric_changes(seen, mine)
    approve(folder, theirs, (), metric_changes(seen, theirs), reason="theirs")
    with pytest.raises(BaselineError, match="metrics of a b torch fp32 were changed by another"):
        approve(folder, mine, (), late, reason="mine")
    (kept,) = find_baseline(folder, HERE).metrics.values()
    assert kept.metrics["top1"] == 0.75


def measured(before, top1):
    (line,) = baseline().metrics.values()
    line = line.model_copy(update={"metrics": {"top1": top1}})
    return Baseline(before.head, dict(before.lines), {line.place: line})


def _approve_one(folder, number):
    now = baseline(line(f"new-{number}.jpg"))
    approve(folder, now, changes(None, now), reason=f"job {number}")


def test_two_processes_that_approve_at_once_lose_nothing(folder):
    context = multiprocessing.get_context("spawn")
    jobs = [context.Process(target=_approve_one, args=(folder, number)) for number in range(2)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(60)
    assert [job.exitcode for job in jobs] == [0, 0]
    images = {key[1] for key in find_baseline(folder, HERE).lines}
    assert images == {"a.jpg", "b.jpg", "new-0.jpg", "new-1.jpg"}
    assert len(read_approvals(folder)) == 3


def test_a_damaged_approval_is_named(folder):
    (file,) = (folder / "approvals").iterdir()
    file.write_text("{}")
    with pytest.raises(BaselineError, match="damaged"):
        read_approvals(folder)


def test_an_approval_that_is_no_file_is_named(folder):
    os.mkfifo(folder / "approvals/x.json")
    with pytest.raises(
        BaselineError, match=r"x\.json cannot be read \(not a regular file: a FIFO\)"
    ):
        read_approvals(folder)
