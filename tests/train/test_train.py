import errno
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from alignkit.errors import MissingDependency, TrainingError, WorkspaceError
from alignkit.experiment.train_option import Augment, Recipe
from alignkit.models.architectures import build_model
from alignkit.preprocess.normalise import Normalise
from alignkit.rank import ALONE
from alignkit.record import Epoch
from alignkit.torch_settings import gpu_present
from alignkit.train import read_log
from alignkit.train.training_images import (
    PixelSource,
    TrainingImages,
    batch_bounds,
    tensor_normaliser,
)
from alignkit.train.training_state import read_state, state_of
from alignkit.train.training_step import learning_rate
from alignkit.workspace import Workspace
from tests.training_case import RECIPE, SIDE, digits_case

KILLED = """
import os, signal, sys
import torch
from pathlib import Path
from tests.training_case import digits_case
torch.set_num_threads(1)
def kill_after_two(epoch):
    if epoch.epoch == 2:
        os.kill(os.getpid(), signal.SIGKILL)
digits_case().train(Path(sys.argv[1]), progress=kill_after_two)
"""


def weights_of(checkpoint):
    return torch.load(checkpoint.weights, weights_only=True)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_training_twice_gives_the_same_bits(tmp_path):
    one = digits_case().train(tmp_path / "one")
    torch.manual_seed(123)  # what happens outside has no part in it
    other = digits_case().train(tmp_path / "other")
    assert sha256(one.weights) == sha256(other.weights)


def test_a_training_learns_and_logs_every_epoch(tmp_path):
    told = []
    case = digits_case(count=300).with_recipe(epochs=8)
    checkpoint = case.train(tmp_path, progress=told.append)
    log = read_log(checkpoint)
    epochs = [Epoch(**line) for line in log["epochs"]]
    assert epochs == told
    assert [line.epoch for line in epochs] == list(range(1, 9))
    assert epochs[-1].loss < epochs[0].loss / 2
    assert epochs[-1].accuracy > 0.8
    assert epochs[0].learning_rate == case.recipe.learning_rate
    assert log["images"] == 300
    assert log["threads"] >= 1
    assert log["device"] == "cpu"
    assert log["resumed_after"] == []


def test_the_checkpoint_says_how_to_rebuild_the_model(tmp_path):
    checkpoint = digits_case().train(tmp_path)
    assert (checkpoint.model, checkpoint.classes) == ("small-cnn", 10)
    assert (checkpoint.height, checkpoint.width) == (SIDE, SIDE)
    model = build_model("small-cnn", 10, SIDE, SIDE)
    model.load_state_dict(weights_of(checkpoint))


def test_matched_trainings_share_weights_order_and_draws_and_differ_in_pixels(tmp_path):
    reference = digits_case(name="reference").train(tmp_path)
    candidate = digits_case(name="candidate", shift=2.5).train(tmp_path)
    logs = [read_log(each) for each in (reference, candidate)]
    assert logs[0]["initial_weights"] == logs[1]["initial_weights"]
    assert logs[0]["order"] == logs[1]["order"]
    assert sha256(reference.weights) != sha256(candidate.weights)


def test_another_seed_begins_with_other_weights_and_another_order(tmp_path):
    logs = [read_log(digits_case(seed=seed).train(tmp_path)) for seed in (0, 1)]
    assert logs[0]["initial_weights"] != logs[1]["initial_weights"]
    assert logs[0]["order"] != logs[1]["order"]


def test_a_finished_training_is_not_done_again(tmp_path):
    checkpoint = digits_case().train(tmp_path)
    written = checkpoint.weights.stat().st_mtime_ns
    again = digits_case().train(tmp_path, progress=lambda epoch: pytest.fail("trained"))
    assert again == checkpoint
    assert checkpoint.weights.stat().st_mtime_ns == written


def test_a_killed_training_goes_on_and_ends_with_the_same_bits(tmp_path):
    root = Path(__file__).resolve().parents[2]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "killed"], check=False, cwd=root, timeout=300
    )
    assert killed.returncode == -signal.SIGKILL
    told = []
    resumed = digits_case().train(
        tmp_path / "killed", progress=lambda epoch: told.append(epoch.epoch)
    )
    assert told == [1, 2, 3]  # for what shows the progress and the log
    log = read_log(resumed)
    assert log["resumed_after"] == [2]
    assert len(log["epochs"]) == 3
    assert sha256(resumed.weights) == sha256(digits_case().train(tmp_path / "whole").weights)
    assert not list((tmp_path / "killed" / ".cache" / "unfinished").iterdir())


def test_sgd_resumes_with_its_momentum(tmp_path):
    case = digits_case().with_recipe(optimiser="sgd", schedule="constant", learning_rate=0.02)

    for last in (1, 2):

        def interrupt(epoch, last=last):
            if epoch.epoch == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            case.train(tmp_path / "interrupted", progress=interrupt)
    resumed = case.train(tmp_path / "interrupted")
    assert read_log(resumed)["resumed_after"] == [1, 2]
    assert sha256(resumed.weights) == sha256(case.train(tmp_path / "whole").weights)


def test_dropout_masks_survive_a_resume(tmp_path):
    case = digits_case(count=24).with_recipe(model="squeezenet1_1", epochs=2)

    def interrupt(epoch):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        case.train(tmp_path / "interrupted", progress=interrupt)
    torch.rand(7)
    resumed, whole = case.train(tmp_path / "interrupted"), case.train(tmp_path / "whole")
    assert sha256(resumed.weights) == sha256(whole.weights)


def test_a_loss_that_is_not_finite_names_epoch_and_batch_and_stores_nothing(tmp_path):
    case = digits_case().with_recipe(optimiser="sgd", learning_rate=1e30)
    with pytest.raises(
        TrainingError, match=r"seed 0: the loss became \S+ in epoch 1, batch 2 of 3"
    ):
        case.train(tmp_path)
    assert not Workspace(tmp_path).stored("trainings", case.training.key)


def test_a_full_disk_keeps_the_last_good_state(tmp_path, monkeypatch):
    import alignkit.train.training_state as module

    write, calls = module.write_atomically, []

    def full_at_the_second(path, content):
        calls.append(path)
        if len(calls) == 2:
            raise WorkspaceError(f"the disk holding {path} is full") from OSError(errno.ENOSPC, "")
        write(path, content)

    monkeypatch.setattr(module, "write_atomically", full_at_the_second)
    with pytest.raises(WorkspaceError, match="full"):
        digits_case().train(tmp_path)
    resumed = digits_case().train(tmp_path)
    assert read_log(resumed)["resumed_after"] == [1]


def killed_after(case, root, *, epochs):
    def interrupt(epoch):
        if epoch.epoch == epochs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        case.train(root, progress=interrupt)
    return Workspace(root).unfinished("trainings", case.training.key) / "state.pt"


def test_a_pipe_in_place_of_a_state_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "state.pt")
    with pytest.raises(WorkspaceError, match=r"state.pt \(not a regular file: a FIFO\)"):
        read_state(tmp_path / "state.pt", "train a", ALONE)


@pytest.mark.parametrize("damage", ["flipped", "cut", "emptied", "another's"])
def test_a_training_whose_state_is_damaged_begins_again_and_says_so(tmp_path, caplog, damage):
    case, other = digits_case(), digits_case(seed=1)
    file = killed_after(case, tmp_path, epochs=2)
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    if damage == "another's":
        content = killed_after(other, tmp_path, epochs=1).read_bytes()
    size = {"cut": len(content) // 2, "emptied": 0}.get(damage, len(content))
    file.write_bytes(content[:size])
    again = case.train(tmp_path)
    assert caplog.messages == [
        f"{case.training.label}: {file} is damaged and the training begins again"
    ]
    assert read_log(again)["resumed_after"] == []
    straight = case.train(tmp_path / "straight")
    assert again.weights.read_bytes() == straight.weights.read_bytes()


def test_torchs_settings_and_generators_are_left_as_they_were(tmp_path):
    def settings():
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.utils.deterministic.fill_uninitialized_memory,
            torch.backends.cudnn.benchmark,
            torch.get_num_threads(),
            torch.backends.cudnn.conv.fp32_precision,
            torch.backends.mkldnn.matmul.fp32_precision,
            torch.random.get_rng_state().numpy().tobytes(),
        )

    before = settings()
    digits_case().train(tmp_path)
    assert settings() == before


@pytest.mark.skipif(gpu_present(), reason="there is a GPU")
def test_a_missing_gpu_is_told_and_never_replaced_by_the_cpu(tmp_path):
    with pytest.raises(MissingDependency, match="cuda: needs an NVIDIA GPU"):
        digits_case().with_recipe(device="cuda").train(tmp_path)


def test_too_few_images_are_refused(tmp_path):
    with pytest.raises(TrainingError, match="only 1 training images"):
        digits_case().train(tmp_path, indices=np.array([4]))


def test_leaving_a_sample_out_is_another_training_with_another_key(tmp_path):
    case = digits_case()
    whole, fewer = case.train(tmp_path), case.train(tmp_path, indices=case.indices[1:])
    assert whole.key == case.training.key
    assert read_log(fewer)["images"] == 95
    assert len({whole.key, fewer.key, case.train(tmp_path, indices=case.indices[:-1]).key}) == 3


def test_no_batch_holds_a_single_image():
    assert batch_bounds(65, 32) == [(0, 32), (32, 65)]
    assert batch_bounds(66, 32) == [(0, 32), (32, 64), (64, 66)]
    assert batch_bounds(20, 32) == [(0, 20)]
    assert batch_bounds(3, 1) == [(0, 1), (1, 3)]


def test_batches_are_normalised_to_the_same_bits_as_numpy():
    case = digits_case(shift=0.37)
    normalise = Normalise((0.1, 0.4, 0.9), (0.2, 0.25, 0.3))
    source = PixelSource(case.prepared.pixels, case.prepared.rows, normalise)
    images = TrainingImages((source,), case.samples.labels, case.samples.ids)
    plain = RECIPE.model_copy(update={"augment": Augment()})
    cpu = torch.device("cpu")
    seen = {}
    bounds = batch_bounds(len(images), 7)
    for batch, labels in images.epoch(seed=0, epoch=0, recipe=plain, device=cpu, bounds=bounds):
        assert batch.is_contiguous(memory_format=torch.channels_last)
        seen.update(
            {
                image.numpy().tobytes(): int(label)
                for image, label in zip(batch, labels, strict=True)
            }
        )
    expected = normalise(np.asarray(case.prepared.pixels))
    assert seen == {
        image.tobytes(): label for image, label in zip(expected, case.samples.labels, strict=True)
    }


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_normalising_leaves_the_pixels_it_was_given(dtype):
    pixels = torch.full((1, 3, 2, 2), 9, dtype=dtype)
    for layout in (torch.channels_last, torch.contiguous_format):
        tensor_normaliser(Normalise(), torch.device("cpu"))(pixels.contiguous(memory_format=layout))
        assert bool((pixels == 9).all())


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_every_level_of_every_channel_is_normalised_to_the_same_bits(layout):
    normalise = Normalise((0.1, 0.4, 0.9), (0.2, 0.25, 0.3))
    levels = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    pixels = np.concatenate([levels, levels[:, ::-1], levels[:, :, ::-1]], axis=3)
    channels = [
        (pixels[..., channel].astype(np.float32) / np.float32(255) - np.float32(mean))
        / np.float32(std)
        for channel, (mean, std) in enumerate(zip(normalise.mean, normalise.std, strict=True))
    ]
    images = torch.from_numpy(pixels).permute(0, 3, 1, 2).contiguous(memory_format=layout)
    batch = tensor_normaliser(normalise, torch.device("cpu"))(images)
    assert batch.is_contiguous(memory_format=layout)
    assert np.array_equal(batch.numpy(), np.stack(channels, axis=1))


def test_cosine_falls_from_the_rate_to_zero_and_constant_stays():
    rates = [learning_rate(RECIPE, step, 100) for step in range(101)]
    assert rates[0] == RECIPE.learning_rate
    assert rates[50] == pytest.approx(RECIPE.learning_rate / 2)
    assert rates[100] == pytest.approx(0, abs=1e-12)
    assert rates == sorted(rates, reverse=True)
    constant = RECIPE.model_copy(update={"schedule": "constant"})
    assert {learning_rate(constant, step, 100) for step in range(101)} == {RECIPE.learning_rate}


def test_label_smoothing_reaches_the_loss(tmp_path):
    plain = read_log(digits_case().train(tmp_path))
    smooth = read_log(digits_case().with_recipe(label_smoothing=0.3).train(tmp_path))
    assert smooth["initial_weights"] == plain["initial_weights"]
    assert smooth["epochs"][-1]["loss"] != plain["epochs"][-1]["loss"]


def test_the_log_is_strict_json(tmp_path):
    log = digits_case().train(tmp_path).weights.with_name("log.json").read_text()
    json.loads(log, parse_constant=pytest.fail)


def test_a_training_is_on_its_device_with_all_that_holds_its_weights():
    """Torch's meta device stands for a GPU: a machine without one has it too."""
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    state = state_of(Recipe(ema=0.9), model, {}, torch.device("meta"), ALONE)
    optimised = [each for group in state.optimiser.param_groups for each in group["params"]]
    held = [*state.model.parameters(), *state.model.buffers(), *state.kept.parameters(), *optimised]
    assert {each.device.type for each in held} == {"meta"}
    assert len(optimised) == 4
