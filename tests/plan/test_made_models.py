"""`made_by`: a run makes the model once, with the script beside the file; nothing else calls it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from alignkit.errors import TrainingError
from alignkit.experiment import Mistakes, load_experiment
from alignkit.gate import run_or_check
from alignkit.plan.made_models import with_made_models, with_stored_models
from alignkit.plan.plan_keys import keyed_plan
from alignkit.progress import NoProgress, PlainProgress
from alignkit.stored_file import file_sha256
from alignkit.workspace import Context, Workspace
from tests.squares_case import write_detector, write_images

EXPERIMENT = """
name: squares
task: detection
data: {name: yolo, root: squares, classes: [dark, bright], eval_share: 1}
preprocess:
  opencv: {preset: ultralytics-letterbox, size: 96}
  pillow: {preset: ultralytics-letterbox, size: 96, decode: pillow}
models: [{name: patches, made_by: make.py --deep 2, preprocess: opencv}]
evaluate: {resamples: 200}
report: {worst: 1}
"""
SCRIPT = """
import shutil
import sys
from pathlib import Path

with Path(__file__).with_name("calls").open("a") as calls:
    print(*sys.argv[1:-1], file=calls)
print("made")
shutil.copy(Path(__file__).with_name("given.onnx"), sys.argv[-1])
"""


@pytest.fixture
def case(tmp_path, monkeypatch):
    """A folder with images, a file and its script; alignkit is started in another folder."""
    write_images(tmp_path / "squares")
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "squares.yaml").write_text(EXPERIMENT)
    (tmp_path / "files" / "make.py").write_text(SCRIPT)
    write_detector(tmp_path / "files" / "given.onnx")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def context(progress=None):
    return Context(Workspace(Path("reports")), progress or NoProgress())


def loaded(*overrides, quick=False):
    return load_experiment(Path("files/squares.yaml"), overrides, quick=quick)


def calls():
    file = Path("files/calls")
    return file.read_text().splitlines() if file.exists() else []


def test_a_run_makes_it_once_and_measures_what_the_same_file_gives(case, capsys):
    made, _ = run_or_check(loaded(), context(PlainProgress(sys.stderr)))
    assert calls() == ["--deep 2"]
    told = capsys.readouterr()
    assert told.out == ""  # the script's own words
    assert told.err.count("model patches: made with make.py --deep 2, once") == 1
    run_or_check(loaded(), context())
    assert calls() == ["--deep 2"]
    write_detector(case / "patches.onnx")
    given, _ = run_or_check(
        loaded("models=[{name: patches, onnx: patches.onnx, preprocess: opencv}]"), context()
    )
    assert [each.drift for each in made.matrix] == [each.drift for each in given.matrix]
    assert made.matrix


def test_check_and_plan_say_it_and_make_nothing(case):
    (training,) = keyed_plan(loaded(), Workspace(Path("reports"))).trainings
    assert (
        training.given.described()
        == "a run first makes it with make.py --deep 2, unless it is stored"
    )
    assert calls() == []
    assert not Path("reports/.cache").exists()


def test_a_plan_knows_the_file_once_it_is_made(case):
    option = with_made_models(loaded(), context()).content.models[0]
    assert with_stored_models(loaded(), context().workspace).content.models[0] == option
    write_detector(case / "same.onnx")
    assert file_sha256(option.file) == file_sha256(case / "same.onnx")
    (training,) = keyed_plan(loaded(), context().workspace).trainings
    assert training.parts["file"] == file_sha256(option.file)


@pytest.mark.parametrize(
    ("change", "made"),
    [
        (lambda: None, 1),
        (lambda: Path("files/make.py").write_text(SCRIPT + "# other\n"), 2),
        (lambda: Path("files/squares.yaml").write_text(EXPERIMENT.replace("p 2", "p 3")), 2),
        (lambda: Path("files/squares.yaml").write_text(EXPERIMENT.replace("patches", "p")), 1),
        (lambda: next(Path("reports").rglob("model.onnx")).write_bytes(b"damaged"), 2),
    ],
)
def test_another_script_or_argument_or_a_damaged_file_makes_it_again(case, change, made):
    with_made_models(loaded(), context())
    change()
    with_made_models(loaded(), context())
    assert len(calls()) == made


def test_quick_tells_the_script(case):
    experiment = loaded(quick=True)
    assert "models.0.made_by: make.py --deep 2 → make.py --deep 2 --quick" in experiment.quick
    with_made_models(experiment, context())
    assert calls() == ["--deep 2 --quick"]


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("raise SystemExit('no such part')", "make.py --deep 2 ended with 1"),
        ("import no_such_library", "No module named 'no_such_library'"),
        ("print('done')", "make.py --deep 2 wrote no file"),
    ],
)
def test_a_script_that_fails_is_told_with_its_last_words_and_stores_nothing(case, script, said):
    Path("files/make.py").write_text(script)
    with pytest.raises(TrainingError) as caught:
        run_or_check(loaded(), context())
    assert said in str(caught.value)
    assert "python files/make.py --deep 2 patches.onnx" in str(caught.value)
    assert not [*Path("reports").rglob("model.onnx")]


def test_a_missing_script_is_a_mistake_at_its_place(case):
    Path("files/make.py").unlink()
    for begin in (with_made_models, lambda found, _: keyed_plan(found, context().workspace)):
        with pytest.raises(Mistakes, match=r"squares.yaml:8:\d+: models.0.made_by: no script"):
            begin(loaded(), context())


@pytest.mark.parametrize(
    "entry", ["made_by: ' '", "made_by: a.py, onnx: a.onnx", "made_by: a.py, weights: a.pt", "x: 1"]
)
def test_an_entry_names_one_way_to_its_model(case, entry):
    with pytest.raises(Mistakes, match=r"models\.0"):
        loaded(f"models=[{{name: patches, preprocess: opencv, {entry}}}]")
