"""The words of `alignkit bench`; tests/studies/bench has the measurement."""

import pytest

from alignkit.cli.bench_command import timed_code
from alignkit.errors import ExitCode

PIXELS = """\
name: pixels
data: {name: images, root: photographs}
preprocess:
  a: {decode: pillow, resize: {name: pillow, size: 32}}
  b: {decode: opencv, resize: {name: opencv, size: 32}}
"""


@pytest.mark.parametrize(("words", "said"), [
    (("--clients", "1,none"), "--clients none: give whole numbers above 0, for example 1,5,10"),
    (("--clients", "0"), "--clients 0: give whole numbers above 0"),
    (("--clients", ","), "give whole numbers above 0"),
    (("--requests", "20"), "a round has 2, too few for 10 clients; give at least 120"),
    (("--cpus", "9999"), "--cpus 9999: this process may use"),
    (("--cell", "opencv/*/toch/*"), "--cell opencv/*/toch/*: no such cell"),
    (("--memory", "4GB"), "--images and --memory are of loaders; add --loaders"),
    (("--images", "4"), "--images and --memory are of loaders; add --loaders"),
    (("--out", "xml=x"), "no kind 'xml'"),
    (("--out", "html=-"), "html is a folder and cannot be printed"),
])  # fmt: skip
def test_a_wrong_word_is_refused_before_any_work(alignkit, file, tmp_path, words, said):
    told = alignkit("bench", file, *words, "--reports", tmp_path / "reports", "--quiet")
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "reports").exists()


def test_a_file_without_a_model_has_nothing_to_serve(alignkit, tmp_path):
    (tmp_path / "photographs").mkdir()
    from tests.photos import encoded, photo

    (tmp_path / "photographs" / "one.jpg").write_bytes(encoded(photo()))
    file = tmp_path / "pixels.yaml"
    file.write_text(PIXELS.replace("photographs", str(tmp_path / "photographs")))
    told = alignkit("bench", file, "--reports", tmp_path / "reports", "--quiet")
    assert (told.code, told.out) == (2, "")
    assert "the file serves no model" in told.err


@pytest.mark.parametrize(("states", "code"), [
    (("measured", "skipped"), ExitCode.PASS), (("skipped",), ExitCode.MISSING),
    (("measured", "failed"), ExitCode.CRASHED),
])  # fmt: skip
def test_the_exit_code_says_whether_options_were_timed(states, code):
    assert timed_code(states) == code


@pytest.mark.parametrize(("words", "said"), [
    (("--memory", "much"), "--memory much: give a size, for example 4GB"),
    (("--memory", "9000GB"), "are available; give less"),
    (("--cpus", "9999"), "--cpus 9999: this process may use"),
    (("--clients", "5"), "leave them out with --loaders"),
    (("--cell", "a/b/torch/fp32"), "leave them out with --loaders"),
])  # fmt: skip
def test_a_wrong_word_about_loaders_is_refused(alignkit, file, tmp_path, words, said):
    told = alignkit(
        "bench", file, "--loaders", *words, "--reports", tmp_path / "reports", "--quiet"
    )
    assert told.code == 2
    assert said in told.err
