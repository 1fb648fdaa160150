"""A classifier of identities in parts, one on each rank, is the whole one: loss, gradients, files."""

import json
import os
import socket
import subprocess
import sys

import pytest
import torch

from alignkit.rank import ALONE, Rank
from alignkit.train.identity_head import shard_bounds
from alignkit.train.training_state import read_state
from tests.train.sharded_ranks import CLASSES, LOSSES, TRAININGS, measured, stepped

WORLD = 2


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """Give the folder that two ranks of one group wrote to."""
    folder = tmp_path_factory.mktemp("group")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": WORLD, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "tests.train.sharded_ranks", str(folder)],
            env={**os.environ, **{k: str(v) for k, v in together.items()},
                 "RANK": str(number), "LOCAL_RANK": str(number), "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE, text=True,
        )
        for number in range(WORLD)
    ]  # fmt: skip
    said = [each.communicate(timeout=300)[1] for each in ranks]
    assert [each.returncode for each in ranks] == [0] * WORLD, "\n".join(said)
    return folder


@pytest.fixture(scope="module")
def parts(group):
    return torch.load(group / "losses.pt")


@pytest.mark.slow
@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_and_all_gradients_are_those_of_one_process(parts, name):
    alone, ranks = measured(name, ALONE), parts[name]
    for each in ranks:
        assert each["loss"].item() == pytest.approx(alone["loss"].item(), abs=1e-6, rel=1e-6)
    # each rank has every second image, and the identities from its first to its last
    for number, each in enumerate(ranks):
        assert torch.allclose(each["embeddings"], alone["embeddings"][number::WORLD], atol=1e-6)
        if "answers" in alone:
            assert torch.equal(each["answers"], alone["answers"][number::WORLD])
    if "head" in alone:
        assert [len(each["head"]) for each in ranks] == [4, 3]
        joined = torch.cat([each["head"] for each in ranks])
        assert torch.allclose(joined, alone["head"], atol=1e-6)


@pytest.mark.slow
def test_a_sampled_loss_is_another_than_the_whole(parts):
    assert parts["sampled"][0]["loss"] != parts["arcface"][0]["loss"]


@pytest.mark.slow
def test_a_sharded_classifier_is_stored_in_one_piece_and_trains_as_a_copy_on_each_rank(group):
    files = {
        name: next((group / name).glob("*/trainings/*/identities.pt"), None) for name in TRAININGS
    }
    assert files["circle"] is None
    joined, copied = (torch.load(files[name]) for name in ("sharded", "replicated"))
    assert joined["names"] == copied["names"] == list("0123456789")
    assert joined["weight"].shape == (10, 16)
    assert torch.allclose(joined["weight"], copied["weight"], atol=2e-4)
    first, second = (
        json.loads(files[name].with_name("log.json").read_text())
        for name in ("sharded", "replicated")
    )
    assert first["initial_weights"] == second["initial_weights"]
    for mine, theirs in zip(first["epochs"], second["epochs"], strict=True):
        assert mine["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
        assert mine["accuracy"] == pytest.approx(theirs["accuracy"], abs=0.03)


@pytest.mark.slow
def test_one_process_reads_the_state_that_two_wrote_and_has_the_weights_it_would_have(group):
    stored = read_state(group / "state.pt", "two", ALONE)
    moments = stored["optimiser"]["state"][2]
    assert [tuple(moments[each].shape) for each in ("exp_avg", "exp_avg_sq")] == [(7, 6)] * 2
    alone = stepped(ALONE)
    expected = {name: each.clone() for name, each in alone.every_weight.items()}
    own = {name: each.clone() for name, each in alone.optimiser.state_dict()["state"][2].items()}
    alone.resume(stored)
    for name, each in alone.every_weight.items():
        assert torch.allclose(each, expected[name], atol=1e-6), name
    read = alone.optimiser.state_dict()["state"][2]
    assert all(torch.allclose(read[name], own[name], atol=1e-6) for name in own)


@pytest.mark.parametrize(("classes", "world"), [(CLASSES, 2), (8, 3), (3, 3), (1_000_000, 7)])
def test_shards_cover_every_identity_once_and_the_smaller_come_last(classes, world):
    bounds = [shard_bounds(classes, Rank(number, world)) for number in range(world)]
    assert [stop for _, stop in bounds[:-1]] == [start for start, _ in bounds[1:]]
    assert (bounds[0][0], bounds[-1][1]) == (0, classes)
    sizes = [stop - start for start, stop in bounds]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] - sizes[-1] <= 1
