"""A live display on a terminal, lines elsewhere, silence on request."""

import io
import re

import pytest

from alignkit.progress import (
    LiveProgress,
    NoProgress,
    PlainProgress,
    duration,
    progress_for,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_auto_is_live_on_a_terminal_and_plain_elsewhere():
    assert isinstance(progress_for("auto", Terminal()), LiveProgress)
    assert isinstance(progress_for("auto", io.StringIO()), PlainProgress)
    assert isinstance(progress_for("plain", Terminal()), PlainProgress)
    assert isinstance(progress_for("none", Terminal()), NoProgress)


def test_a_plain_stage_says_one_line_at_its_start_and_one_at_its_end():
    out = io.StringIO()
    with PlainProgress(out).stage("train", 100, "opencv seed 0") as stage:
        for _ in range(100):
            stage.advance()
    assert out.getvalue().splitlines() == [
        "train opencv seed 0: 0 of 100",
        "train opencv seed 0: 100 of 100 in 0.0 s",
    ]


def test_a_long_plain_stage_speaks_between_but_not_more_than_allowed():
    out = io.StringIO()
    with PlainProgress(out, quiet_seconds=0.0).stage("decode", 4) as stage:
        stage.note("sunflower")
        stage.advance(2)
        stage.advance()
    assert out.getvalue().splitlines()[1:3] == [
        "decode: 2 of 4, about 0.0 s left, sunflower",
        "decode: 3 of 4, about 0.0 s left, sunflower",
    ]


def test_a_plain_stage_that_breaks_says_how_far_it_came():
    def interrupted(progress: PlainProgress) -> None:
        with progress.stage("predict", 9) as stage:
            stage.advance(4)
            raise KeyboardInterrupt

    out = io.StringIO()
    with pytest.raises(KeyboardInterrupt):
        interrupted(PlainProgress(out))
    assert out.getvalue().splitlines()[-1] == "predict: stopped at 4 of 9"


def test_a_live_display_leaves_a_line_for_each_stage_that_ended(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    out = Terminal()
    progress = LiveProgress(out)
    with progress.stage("train", 3, "all [of] them") as outer:
        with progress.stage("epoch", 5) as inner:
            inner.advance(5)
            inner.note("nearly")
        outer.advance(3)
        progress.note("a [note]")
    # a busy machine may take longer
    assert re.search(r"✓ epoch: 5 of 5 in \d+\.\d s", out.getvalue())
    assert re.search(r"✓ train all \[of\] them: 3 of 3 in \d+\.\d s", out.getvalue())
    assert "a [note]" in out.getvalue()


def test_a_live_display_ends_with_the_error_that_broke_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    progress = LiveProgress(Terminal())
    with pytest.raises(ValueError, match="x"), progress.stage("train", 3):
        raise ValueError("x")
    with progress.stage("again", 1):
        pass


def test_no_progress_says_nothing(capsys):
    progress = NoProgress()
    progress.note("x")
    with progress.stage("a", 1, "b") as stage:
        stage.advance()
        stage.note("x")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (42, "42 s"), (59.6, "1 min 00 s"), (185, "3 min 05 s"), (7850, "2 h 10 min")],
)  # fmt: skip
def test_durations_read_as_people_say_them(seconds, words):
    assert duration(seconds) == words
