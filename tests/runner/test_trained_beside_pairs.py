"""Training identities beside a file of pairs, as PLSC has MS1M's list and ``lfw.bin``."""

import pickle
from base64 import b64encode
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from alignkit.cli import app
from alignkit.datasets import identities
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo

EXPERIMENT = """
name: faces
task: {{name: embedding, far: [0.1]}}
data: {{name: identities, {data}}}
preprocess:
  opencv: {{preset: opencv-train, size: 32}}
  pillow: {{preset: plsc, size: 32}}
train: {{model: small-cnn, embedding: 8, loss: arcface, epochs: 1, batch_size: 8, seeds: [0]}}
evaluate: {{backends: [torch], batch_size: 8, resamples: 200}}
attribute: {{images: none}}
"""
LISTED = "root: lfw.bin, train_root: ms1m"


@pytest.fixture
def faces(tmp_path, monkeypatch):
    """Four identities, three cuts of a photograph each, in a list; ten pairs of others."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ms1m" / "images").mkdir(parents=True)
    draws, lines = np.random.default_rng(0), []

    def cut(identity):
        top, left = 10 * identity + draws.integers(0, 6), 14 * identity + draws.integers(0, 6)
        image = photo("china" if identity % 2 else "flower", 160, 200)
        return encoded(np.ascontiguousarray(image[top : top + 60, left : left + 64]))

    for identity in range(4):
        for number in range(3):
            name = f"images/{identity}-{number}.jpg"
            (tmp_path / "ms1m" / name).write_bytes(cut(identity))
            lines.append(f"{name} {identity}\n")
    (tmp_path / "ms1m" / "label.txt").write_text("".join(lines))
    same = [at % 2 == 0 for at in range(20)]
    images = [cut(4 + (at + (not known)) % 4) if second else cut(4 + at % 4)
              for at, known in enumerate(same) for second in (False, True)]  # fmt: skip
    (tmp_path / "lfw.bin").write_bytes(pickle.dumps((images, same)))
    return tmp_path


def written(data=LISTED):
    Path("faces.yaml").write_text(EXPERIMENT.format(data=data))
    return Path("faces.yaml")


def said(*arguments, code=0):
    result = CliRunner().invoke(app, [*map(str, arguments)])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.mark.slow
def test_a_model_is_trained_on_a_list_and_verified_on_a_file_of_pairs(faces):
    file = written()
    answer = said("check", file)
    assert "is right: 2 trainings, 4 cells" in answer
    # a file of pairs names nobody
    assert "not known here whether identities of evaluation are trained on too: lfw.bin" in answer
    assert "train opencv seed 0 to run" in said("plan", file)
    record, _ = run_or_check(
        load_experiment(file), Context(Workspace(Path("reports")), NoProgress())
    )
    assert {each.trained_with for each in record.cells} == {"opencv", "pillow"}
    assert all(each.predictions for each in record.cells)
    for entry in record.matrix:
        assert entry.metrics["verification.accuracy"] is not None
        assert 0 <= entry.metrics["verification.accuracy"] <= 1


def test_a_file_of_pairs_alone_trains_nothing(faces):
    assert "this data has none" in said("check", written("root: lfw.bin"), code=2)
    assert "this data has none" in said("check", written("root: ms1m, train_root: lfw.bin"), code=2)


@pytest.mark.parametrize(
    ("data", "warned"),
    [
        ("root: ms1m, train_root: ms1m", "4 of 4 identities of evaluation, such as 0, are trained"),
        ("root: ms1m", None),
        ("root: other.txt, train_root: ms1m", "1 of 2 identities of evaluation, such as 3, are"),
        ("root: shard.part, train_root: ms1m", "1 of 2 identities of evaluation, such as 3, are"),
        ("root: shard.part, train_root: unlike.txt", None),
        ("root: lfw.bin, train_root: ms1m", "trained on too: lfw.bin has pairs of images and"),
    ],
)
def test_check_warns_of_identities_that_are_trained_on_and_evaluated(faces, data, warned):
    Path("other.txt").write_text("ms1m/images/0-0.jpg 3\nms1m/images/0-1.jpg 7\n")
    Path("unlike.txt").write_text("ms1m/images/1-0.jpg 4\nms1m/images/1-1.jpg 5\n")
    image = b64encode(Path("ms1m/images/0-0.jpg").read_bytes()).decode()
    Path("shard.part").write_text(f"{image}\t3\n{image}\t7\n")
    answer = said("check", written(data))
    assert ("warning: " in answer) == bool(warned)
    assert (warned or "") in answer


def test_check_warns_of_data_whose_classes_are_the_same_in_both_splits(faces):
    file = written()
    text = file.read_text().replace("name: identities, " + LISTED, "name: digits-on-photos")
    file.write_text(text)
    assert "10 of 10 identities of evaluation, such as 0, are trained on too" in said("check", file)
    # a classifier is evaluated on the classes that it knows
    classes = text.replace("task: {name: embedding, far: [0.1]}\n", "")
    file.write_text(classes.replace("embedding: 8, loss: arcface, ", ""))
    assert "warning" not in said("check", file)


def test_shards_that_check_does_not_read_are_named(faces, monkeypatch):
    image = b64encode(Path("ms1m/images/0-0.jpg").read_bytes()).decode()
    Path("shard.part").write_text(f"{image}\t3\n{image}\t7\n")
    monkeypatch.setattr(identities, "_NAMED_AT_ONCE", 100)
    answer = said("check", written("root: shard.part, train_root: ms1m"))
    assert "trained on too: shard.part has 0.0 GB of shards, which a run alone reads" in answer
