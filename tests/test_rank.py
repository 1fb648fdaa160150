"""Several processes under the real torchrun: the same images, the same cells, and a rank that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import DistributedSampler

from alignkit.compare.predictions import Predictions
from alignkit.errors import DataError, RankError
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.progress import NoProgress
from alignkit.rank import ALONE, Rank, this_rank
from alignkit.record.document import read_record
from alignkit.runner import run_experiment
from alignkit.runner.advise import advised_plan
from alignkit.train.training_images import PixelSource, TrainingImages, batch_bounds
from alignkit.workspace import Context, Workspace
from tests.runner.test_run import differences, settled
from tests.training_case import RECIPE, digits_case

TINY = """
name: tiny
data: {{name: digits-on-photos, train: 48, eval: 30, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  pillow: {{decode: pillow, resize: {{name: pillow, size: 32}}}}
train: {{model: small-cnn, epochs: {epochs}, seeds: [0], batch_size: 16, {more}augment: {{flip: 0.5, crop: 2}}}}
evaluate: {{backends: [torch], resamples: 200, batch_size: 7}}
attribute: {{images: none}}
gate: {{informational: true}}
report: {{changed: 0, worst: 0, random: 0}}
"""


PATHS = ("opencv", "pillow")
STATES = ".cache/unfinished/trainings-*/state.pt"


def write_tiny(folder: Path, epochs: int = 1, more: str = "") -> Path:
    file = folder / "tiny.yaml"
    file.write_text(TINY.format(epochs=epochs, more=more))
    return file


def torchrun(file: Path, reports: Path) -> list[str]:
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    run = ["-m", "alignkit", "run", str(file), "--reports", str(reports)]
    return [*line, *run, "--no-open", "--progress", "plain"]


def finished(file: Path, reports: Path) -> tuple[subprocess.CompletedProcess, Path]:
    done = subprocess.run(
        torchrun(file, reports), check=False, capture_output=True, text=True, timeout=900
    )
    # torchrun's own code: a model of so few images may answer one class for all, which ends with 5
    assert done.returncode in (0, 1), done.stderr
    (record,) = reports.glob("tiny/*/record.json")
    return done, record.parent


def logs(reports: Path) -> list[dict]:
    return [json.loads(file.read_text()) for file in reports.glob(".cache/trainings/*/log.json")]


def test_two_processes_train_and_write_once_and_predict_what_one_process_does(tmp_path):
    done, folder = finished(write_tiny(tmp_path), tmp_path / "reports")
    assert done.stdout.count("report  ") == 1
    assert done.stderr.count("prepare opencv train: 48 of 48") == 1
    record = read_record(folder)
    assert {cell.state for cell in record.cells} == {"measured"}
    # one epoch teaches nothing, and the record says so
    failed = {control.name for control in record.controls if not control.passed}
    assert failed <= {"the reference models learned"}
    assert [log["ranks"] for log in logs(tmp_path / "reports")] == [2, 2]
    assert [training.ranks for training in record.trainings] == [2, 2]
    (weights,) = (
        file.with_name("weights.pt")
        for file in (tmp_path / "reports").glob(".cache/trainings/*/key.json")
        if json.loads(file.read_text())["label"] == "train opencv seed 0"
    )
    single = run_alone(tmp_path, weights)
    for path in PATHS:
        one, other = (
            predicted(folder, "opencv", path),
            predicted(single, "opencv (model mine)", path),
        )
        assert one.ids == other.ids
        assert len(set(one.ids)) == 30
        assert np.array_equal(one.logits, other.logits)


def predicted(folder: Path, row: str, path: str) -> Predictions:
    (cell,) = (
        each for each in read_record(folder).cells
        if (each.trained_with, each.evaluated_with) == (row, path)
    )  # fmt: skip
    return Predictions.from_parquet(folder / cell.predictions.path)


def run_alone(folder: Path, weights: Path) -> Path:
    """What one process predicts with these weights."""
    lines = TINY.format(epochs=1, more="").replace("name: tiny", "name: alone").splitlines()
    mine = f"models: [{{name: mine, weights: {weights}, model: small-cnn, preprocess: opencv}}]"
    file = folder / "alone.yaml"
    file.write_text("\n".join(mine if line.startswith("train:") else line for line in lines))
    experiment = load_experiment(file)
    return run_experiment(experiment, Context(Workspace(folder / "alone"), NoProgress()))[1]


def images(count: int = 47) -> TrainingImages:
    case = digits_case(count=count)
    source = PixelSource(
        case.prepared.pixels, case.prepared.rows, case.training.preprocess.normalise
    )
    return TrainingImages((source,), case.samples.labels, case.samples.ids)


@pytest.mark.parametrize("world", [1, 2, 3])
def test_an_image_looks_the_same_whichever_rank_sees_it_and_is_seen_once(world):
    data, cpu = images(), torch.device("cpu")
    bounds = batch_bounds(len(data), 16, least=2 * world)

    def epoch(share: slice) -> list[tuple[torch.Tensor, torch.Tensor]]:
        given = data.epoch(seed=1, epoch=3, recipe=RECIPE, device=cpu, bounds=bounds, share=share)
        return list(given)

    whole = epoch(slice(None))
    shares = [epoch(Rank(number, world, number).share) for number in range(world)]
    for step, (batch, labels) in enumerate(whole):
        joined, known = torch.empty_like(batch), torch.empty_like(labels)
        for number, share in enumerate(shares):
            joined[number::world], known[number::world] = share[step]
        assert torch.equal(joined, batch)
        assert torch.equal(known, labels)


def test_ranks_share_an_epoch_as_distributed_sampler_deals_it():
    order = np.arange(48)
    bounds = batch_bounds(48, 16, least=4)
    for number in (0, 1):
        sampler = DistributedSampler(order, num_replicas=2, rank=number, shuffle=False)
        share = Rank(number, 2, number).share
        dealt = [place for start, stop in bounds for place in order[start:stop][share]]
        assert dealt == list(sampler)


def test_no_rank_is_left_with_fewer_than_two_images():
    for count in range(8, 60):
        for start, stop in batch_bounds(count, 8, least=6):
            assert all(len(range(start, stop)[Rank(n, 3, n).share]) >= 2 for n in range(3))


def test_a_process_alone_is_rank_0_of_1(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert this_rank() == ALONE
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert this_rank() == Rank(3, 8, 1)


def test_an_advised_path_is_trained_by_as_many_ranks_as_the_path_it_is_matched_with(tmp_path):
    plan = make_plan(load_experiment(write_tiny(tmp_path), []), ranks=2)
    path = "nearer: {decode: opencv, resize: {name: opencv, size: 32, interpolation: area}}"
    whole = advised_plan(plan, [SimpleNamespace(advised="nearer", yaml=path, change="training")])
    assert [each.parts["ranks"] for each in whole.trainings] == [2, 2, 2]


def test_what_one_rank_cannot_explain_ends_the_group():
    with pytest.raises(RankError, match=r"rank 1 of 2 cannot go on.*the same command continues"), \
            Rank(1, 2, 1).raise_rank_errors():  # fmt: skip
        raise RuntimeError("Connection closed by peer")
    with pytest.raises(RuntimeError, match="closed"), ALONE.raise_rank_errors():
        raise RuntimeError("closed")


class Follower(Rank):
    """The second of two ranks; rank 0 calls it for one piece of work, then stops it."""

    def __init__(self, work) -> None:
        super().__init__(1, 2, 1)
        object.__setattr__(self, "called", [(work, {}), None])

    def broadcast(self, value):
        return self.called.pop(0)

    def gather(self, value):
        return [None, value]


def test_what_fails_on_a_follower_alone_is_raised_and_what_all_share_is_left_to_rank_0():
    def fail(*_: object) -> None:
        raise DataError("only here")

    with pytest.raises(DataError, match="only here"):
        Follower(fail).serve_calls()
    together = Follower(lambda rank: rank.run_on_all(fail))
    together.serve_calls()
    assert together.called == []


def pid_of_rank(number: int, parent: int) -> int:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "status").read_text()
            environment = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"PPid:\t{parent}\n" in status and f"RANK={number}".encode() in environment:
            return int(folder.name)
    raise AssertionError(f"no rank {number}")


def held_in_training(parent: int, reports: Path) -> list[int]:
    """Stop both ranks in a training with a finished epoch; without one, none is stopped."""
    if not list(reports.glob(STATES)):
        return []
    ranks = [pid_of_rank(number, parent) for number in (0, 1)]
    for each in ranks:
        os.kill(each, signal.SIGSTOP)
    # on a busy machine the training may have ended since
    if list(reports.glob(STATES)):
        return ranks
    for each in ranks:
        os.kill(each, signal.SIGCONT)
    return []


@pytest.mark.slow
def test_an_ending_rank_shows_its_error_though_torchrun_stops_it_meanwhile(tmp_path):
    """torchrun sends SIGTERM as soon as it sees that another rank ended, maybe while this ends."""
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, signal, sys\n"
        "from alignkit.errors import RankError\n"
        "from alignkit.rank import this_rank\n"
        "rank = this_rank()\n"
        "try:\n"
        "    with rank.joined():\n"
        "        if rank.number:\n"
        "            os._exit(9)\n"
        "        rank.broadcast(None)\n"
        "        rank.gather(None)\n"
        "except RankError as error:\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "    print(error, file=sys.stderr)\n"
    )
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*line, str(script)], check=False, capture_output=True, text=True, timeout=600
    )
    assert "rank 0 of 2" in done.stderr
    assert "the same command continues" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("attempt", range(4))
def test_no_thread_of_the_group_outlives_it_and_both_ranks_end_with_0(attempt):
    """A thread of gloo that drops a tensor while Python ends aborts the process, now and then."""
    code = (
        "import atexit\n"
        "from pathlib import Path\n"
        "from alignkit.rank import this_rank\n"
        "from tests.train.sharded_ranks import stepped\n"
        "def threads():\n"
        "    names = Path('/proc/self/task').glob('*/comm')\n"
        "    return sum('gloo' in each.read_text() for each in names)\n"
        "rank = this_rank()\n"
        "atexit.register(lambda: print(f'{bool(inside)} then {threads()};', flush=True))\n"
        "with rank.joined():\n"
        "    state = stepped(rank)\n"  # DDP outlives the group
        "    inside = threads()\n"
        "del state\n"
    )
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*line, "--no-python", sys.executable, "-c", code],
        check=False, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    # torchrun's own code: a model of so few images may answer one class for all, which ends with 5
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.count("True then 0;") == 2, done.stdout


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Path:
    """The folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("straight")
    return finished(write_tiny(folder, epochs=6), folder / "reports")[1]


@pytest.mark.slow
@pytest.mark.parametrize("killed", [0, 1])
def test_a_killed_rank_is_told_and_the_same_command_ends_with_the_same_record(
    tmp_path, straight, killed
):
    file, reports = write_tiny(tmp_path, epochs=6), tmp_path / "killed"
    process = subprocess.Popen(
        torchrun(file, reports), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 300
    while not (held := held_in_training(process.pid, reports)):
        assert process.poll() is None, "the run ended before it could be disturbed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(held.pop(killed), signal.SIGKILL)
    os.kill(*held, signal.SIGCONT)
    _, told = process.communicate(timeout=600)
    assert process.returncode != 0
    assert f"rank {1 - killed} of 2" in told
    assert "the same command continues" in told
    assert list(reports.glob(STATES))
    _, resumed = finished(file, reports)
    assert any(log["resumed_after"] for log in logs(reports))
    ended, wanted = settled(read_record(resumed)), settled(read_record(straight))
    assert differences(ended, wanted) == []


@pytest.mark.slow
def test_a_nan_loss_on_ranks_is_a_failed_cell_and_the_group_goes_on(tmp_path):
    more = "optimiser: sgd, learning_rate: 1.0e+30, "
    done = subprocess.run(
        torchrun(write_tiny(tmp_path, more=more), tmp_path / "reports"),
        check=False, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    (record,) = (tmp_path / "reports").glob("tiny/*/record.json")
    reasons = {training.reason for training in read_record(record.parent).trainings}
    assert all("the loss became" in reason for reason in reasons)
    assert "exitcode  : 3" in done.stderr
