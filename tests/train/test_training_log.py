"""What a training logged reaches the run's folder, for people and for TensorBoard."""

import csv
import hashlib
import json

import pytest

from alignkit.record import Epoch
from alignkit.train import read_log
from alignkit.train.training_log import growing_log, write_logs
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


@pytest.fixture
def scalars(tmp_path):
    """Reads what TensorBoard shows of a tag."""
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    def read(tag):
        folder = tmp_path / "run" / "tensorboard" / "aligned-seed0"
        return EventAccumulator(str(folder)).Reload().Scalars(tag)

    return read


def test_tensorboard_reads_every_epoch_of_a_stored_training_once(tmp_path, scalars):
    epochs, _ = written(tmp_path)
    written(tmp_path)
    assert [each.step for each in scalars("loss")] == [1, 2, 3]
    assert [each.value for each in scalars("loss")] == pytest.approx(
        [epoch.loss for epoch in epochs]
    )
    for tag in ("accuracy", "learning_rate", "images_per_second"):
        assert len(scalars(tag)) == 3


def rows(folder):
    with (folder / "run" / "trainings" / "aligned-seed0-log.csv").open() as file:
        return [int(row["epoch"]) for row in csv.DictReader(file)]


def train_watched(folder, seen):
    case = digits_case()
    with growing_log(case.training, folder / "run") as log:

        def told(epoch):
            log(epoch)
            seen(epoch.epoch)

        return case, case.train(folder / "reports", progress=told)


def test_every_epoch_can_be_read_as_soon_as_it_is_over(tmp_path, scalars):
    def seen(epoch):
        assert rows(tmp_path) == [*range(1, epoch + 1)]
        assert [each.step for each in scalars("accuracy")] == [*range(1, epoch + 1)]

    train_watched(tmp_path, seen)


def test_a_resumed_training_writes_no_step_twice(tmp_path, scalars):
    class KilledError(Exception):
        pass

    def kill(epoch):
        if epoch == 2:
            raise KilledError

    with pytest.raises(KilledError):
        train_watched(tmp_path, kill)
    case, checkpoint = train_watched(tmp_path, lambda epoch: None)
    epochs = [Epoch(**line) for line in read_log(checkpoint)["epochs"]]
    write_logs(checkpoint, case.training, epochs, tmp_path / "run")
    assert rows(tmp_path) == [1, 2, 3]
    assert [each.step for each in scalars("loss")] == [1, 2, 3]
