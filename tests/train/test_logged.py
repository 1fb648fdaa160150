"""What a training logged reaches the run's folder, for people and for TensorBoard."""

import csv
import hashlib
import json

import pytest

from alignkit.record import Epoch
from alignkit.train import read_log
from alignkit.train.logged import write_logs
from tests.training_case import digits_case


def written(folder):
    case = digits_case()
    checkpoint = case.train(folder / "reports")
    epochs = [Epoch(**line) for line in read_log(checkpoint)["epochs"]]
    return epochs, write_logs(checkpoint, case.training, epochs, folder / "run")


def test_the_logs_lie_beside_the_record_under_the_rows_name(tmp_path):
    epochs, files = written(tmp_path)
    assert [each.path for each in files] == [
        "trainings/aligned-seed0-log.csv", "trainings/aligned-seed0-classification.json"
    ]  # fmt: skip
    for each in files:
        data = (tmp_path / "run" / each.path).read_bytes()
        assert hashlib.sha256(data).hexdigest() == each.sha256
    with (tmp_path / "run" / files[0].path).open() as file:
        assert [float(row["loss"]) for row in csv.DictReader(file)] == [e.loss for e in epochs]
    assert len(json.loads((tmp_path / "run" / files[1].path).read_text())) == len(epochs)


def test_tensorboard_reads_every_epoch_once(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    epochs, _ = written(tmp_path)
    written(tmp_path)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard" / "aligned-seed0")).Reload()
    assert [each.step for each in events.Scalars("loss")] == [1, 2, 3]
    assert [each.value for each in events.Scalars("loss")] == pytest.approx(
        [epoch.loss for epoch in epochs]
    )
    assert {*events.Tags()["scalars"]} == {
        "loss", "accuracy", "learning_rate", "images_per_second"
    }  # fmt: skip
