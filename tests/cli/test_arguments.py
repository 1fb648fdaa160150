"""A group's default command is taken when the first word is no other command of it."""

import pytest

from alignkit.cli.arguments import listed


def test_a_file_is_the_default_command(alignkit, tmp_path):
    told = alignkit("gate", tmp_path / "none.yaml")
    assert (told.code, "no such file" in told.out) == (2, True)


def test_its_help_is_the_default_commands_and_names_the_others(alignkit):
    told = alignkit("gate", "--help")
    assert told.code == 0
    assert "--changed-only" in told.out
    assert "\n  thresholds  " in told.out[told.out.index("Commands:") :]
    assert "default  " not in told.out[told.out.index("Commands:") :]


@pytest.mark.parametrize(("words", "right"), [
    (("thresholds", "a.yaml"), "gate thresholds"),
    (("record", "a.yaml"), "baseline record"),
    (("gate", "threshold", "a.yaml"), "thresholds"),
])  # fmt: skip
def test_a_command_at_another_place_is_named(alignkit, words, right):
    told = alignkit(*words)
    assert told.code == 2
    assert f"Did you mean '{right}'?" in told.err


def test_a_file_named_as_a_command_is_offered(alignkit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "thresholds").write_text("name: mine\n")
    told = alignkit("gate", "thresholds")
    assert told.code == 2
    assert "Did you mean the file './thresholds'?" in told.err
    assert "is a command" not in alignkit("gate", "./thresholds").err


def test_more_names_than_the_name_of_a_file_may_have_are_told_apart():
    names = [f"path-{number}" for number in range(1000)]
    assert listed([",".join(names)]) == names


@pytest.mark.parametrize(("words", "said"), [
    (("calibrate", "--out", "json=a", "--out", "json=b"), "json is written once"),
    (("calibrate", "--out", "residuals=-"), "residuals is a folder"),
    (("compare-runs", "a", "b", "--out", "html=x", "--out", "html=y"), "html is written once"),
    (("match", "--images", ".", "--target", "http://localhost:1/v2/models/m", "--out", "tensors=a", "--out",
      "tensors=b"), "tensors is written once"),
    (("report", "a", "--out", "html=-"), "html is a folder"),
    (("diff", ".", "-p", "a,b", "--out", "html=-"), "html is a folder"),
])  # fmt: skip
def test_a_path_that_could_not_be_written_is_refused(alignkit, words, said):
    told = alignkit(*words)
    assert (told.code, said in told.err) == (2, True)
