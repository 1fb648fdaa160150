"""The commands a report offers, pasted: the run, one cell, one image."""

import json
import re
import shlex
from html import unescape

import pytest

from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.record.document import read_record
from alignkit.report import render
from alignkit.runner import run_experiment
from alignkit.text.part_commands import cell_command, cell_option, image_command
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo

EXPERIMENT = """\
# Is it so?
name: small
data: {{name: folder, root: {root}}}
preprocess:
  opencv: {{preset: opencv-train, size: 32}}
  pillow: {{preset: pillow-train, size: 32}}
train: {{epochs: 9, seeds: [0], batch_size: 8}}
evaluate: {{backends: [{{name: torch, precision: [fp32, bf16]}}], resamples: 200}}
report: {{worst: 2}}
"""
CLASSES = ("it's a cat", "dog")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """(record, folder of the run) of images whose names need quoting; one is in both splits."""
    home = tmp_path_factory.mktemp("home")
    for split, first in (("train", 0), ("eval", 7)):
        for name in CLASSES:
            (home / "data" / split / name).mkdir(parents=True)
            for seed in range(first, first + 8):
                data = encoded(photo(width=44 + seed, height=40 + CLASSES.index(name)))
                (home / "data" / split / name / f"{seed}.jpg").write_bytes(data)
    file = home / "small.yaml"
    file.write_text(EXPERIMENT.format(root=home / "data"))
    experiment = load_experiment(file, ["train.epochs=1"])
    record, folder = run_experiment(experiment, Context(Workspace(home / "reports"), NoProgress()))
    render(folder)
    return record, folder


def words(line):
    """What a shell hands to alignkit."""
    name, *arguments = shlex.split(line)
    assert name == "alignkit"
    return arguments


def test_the_run_s_own_command_finds_everything_done(alignkit, run):
    record, folder = run
    assert record.command.endswith(f" --reports {folder.parents[1]}")
    told = alignkit(*words(record.command), "--no-open")
    assert "everything is cached" in told.err


def test_a_cell_alone_has_the_numbers_it_had_in_the_run(alignkit, run, tmp_path):
    record, whole = run
    entry = next(
        each
        for each in record.matrix
        if (each.trained_with, each.evaluated_with, each.precision) == ("opencv", "pillow", "bf16")
    )
    line = cell_command(record.command, entry)
    alignkit(*words(line), "--reports", tmp_path, "--no-open", "--quiet")
    (folder,) = (tmp_path / "small").iterdir()
    alone = read_record(folder)
    assert [cell_option(cell) for cell in alone.cells] == [
        "--cell opencv/opencv/torch/fp32",
        "--cell opencv/pillow/torch/bf16",
    ]
    (found,) = (each for each in alone.matrix if not each.aligned)
    assert found.drift.metrics == entry.drift.metrics
    assert found.drift.logits == entry.drift.logits
    mine, theirs = ({*words(each)} for each in (alone.command, line))
    assert mine ^ theirs == {str(tmp_path), str(whole.parents[1])}


def test_an_image_alone_has_the_differences_it_had_in_the_run(alignkit, run, tmp_path):
    record, folder = run
    page = (folder / "index.html").read_text()
    lines = [unescape(each) for each in re.findall(r"<code>(alignkit diff .*?)</code>", page)]
    # the last line of the page takes any image's name
    lines = [each for each in lines if not each.endswith(" IMAGE")]
    assert len(lines) == len(record.shown) > 2
    for line, image in list(zip(lines, record.shown, strict=True))[:2]:
        out = tmp_path / "diff.json"
        told = alignkit(*words(line), "--out", f"json={out}", "--quiet")
        assert told.code == 0
        (pair,) = json.loads(out.read_text())["pairs"]
        assert pair["compared"] == 1
        stages = {each["stage"]: each for each in pair["stages"] if each["mode"] == "cumulative"}
        assert stages["colour"]["max_abs"] == pytest.approx(image.max_abs)
        assert stages["colour"]["mean_abs"] == pytest.approx(image.mean_abs)


def test_what_the_data_set_noticed_is_on_the_page(run):
    record, folder = run
    assert len(record.data.notes) == 1
    assert record.data.notes[0].startswith("evaluation images that are training images too: 2, ")
    assert unescape((folder / "index.html").read_text()).count(record.data.notes[0]) == 1


def test_an_unknown_cell_or_image_is_refused_with_the_nearest(alignkit, run, tmp_path):
    record, _ = run
    told = alignkit(
        *words(record.command), "--cell", "opencv/pilow/torch/bf16", "--reports", tmp_path
    )
    assert told.code == 2
    assert "did you mean 'opencv/pillow/torch/bf16'?" in told.err
    told = alignkit(*words(image_command(record.command, "opencv", "pillow", "eval/dog/99.jpg")))
    assert told.code == 2
    assert "none of the 16 images; did you mean 'eval/dog/9.jpg'?" in told.err
    assert "--config" in alignkit("diff", ".", "--set", "train.epochs=1").err


def test_a_command_that_wrote_files_is_repeated_without_them():
    line = "alignkit diff 'a b' --preprocess x --preprocess y --out html=page --out=json=z"
    assert image_command(line, "x", "y", "it's.jpg") == (
        "alignkit diff 'a b' --preprocess x --preprocess y --only 'it'\"'\"'s.jpg'"
    )
    assert image_command("alignkit baseline record f", "x", "y", "i") == ""
