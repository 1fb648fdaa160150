"""The words of `alignkit bench`; tests/studies/bench has the measurement."""

import pytest

from alignkit import extras
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
    (("--out", "xml=x"), "no kind 'xml'"),
    (("--out", "html=-"), "html is a folder and cannot be printed"),
])  # fmt: skip
def test_a_wrong_word_is_refused_before_any_work(alignkit, file, tmp_path, words, said):
    told = alignkit("bench", file, *words, "--reports", tmp_path / "reports", "--quiet")
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "reports").exists()


SERVER = ("--scenario", "server", "--latency-bound", "50ms")


@pytest.mark.parametrize(("words", "said"), [
    (("--scenario", "server"), "--scenario server needs a bound, for example --latency-bound 50ms"),
    ((*SERVER[:3], "50"), "--latency-bound 50: give a duration, for example 50ms, 10s or 2min"),
    ((*SERVER[:3], "0ms"), "--latency-bound 0ms: give a duration"),
    ((*SERVER, "--target-qps", "0"), "--target-qps 0: give arrivals a second above 0"),
    ((*SERVER, "--target-qps", "nan"), "--target-qps nan: give arrivals a second above 0"),
    ((*SERVER, "--duration", "-1s"), "--duration -1s: give a duration"),
    ((*SERVER, "--batch", "4"), "--batch 4: a query of --scenario server is one image"),
    ((*SERVER, "--clients", "1,2"), "--clients and --rounds are options of the closed loop"),
    (("--target-qps", "50"), "--target-qps is an option of --scenario server"),
    (("--scenario", "offline", "--latency-bound", "5ms"),
     "--latency-bound is an option of --scenario server"),
    (("--scenario", "single-stream", "--workers", "2"),
     "--workers is an option of --scenario server or offline"),
    (("--duration", "5s"), "--duration is an option of --scenario server, offline or single-stream"),
])  # fmt: skip
def test_a_scenario_has_its_own_options(alignkit, file, tmp_path, words, said):
    told = alignkit("bench", file, *words, "--reports", tmp_path / "reports", "--quiet")
    assert told.code == 2
    assert said in " ".join(told.err.split())
    assert not (tmp_path / "reports").exists()


def test_loadgen_is_asked_for_before_any_work(alignkit, file, tmp_path, monkeypatch):
    real = extras._importable
    monkeypatch.setattr(extras, "_importable", lambda name: name != "mlperf_loadgen" and real(name))
    told = alignkit("bench", file, *SERVER, "--reports", tmp_path / "reports", "--quiet")
    assert (told.code, told.out) == (4, "")
    assert "mlperf_loadgen is not installed: pip install 'alignkit[mlperf]'" in told.err
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
])  # fmt: skip
def test_a_wrong_word_about_loaders_is_refused(alignkit, file, tmp_path, words, said):
    told = alignkit("bench-loaders", file, *words, "--reports", tmp_path / "reports", "--quiet")
    assert told.code == 2
    assert said in told.err
