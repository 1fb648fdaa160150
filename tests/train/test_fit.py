"""A training is the plain loop, to the bit."""

import numpy as np
import pytest
import torch
from torch import nn

from alignkit.experiment.train_option import Augment
from alignkit.models.architectures import build_model
from alignkit.train.training_draws import shuffle
from alignkit.train.training_step import seed_of
from tests.training_case import SIDE, Case, digits_case


def plain_loop(case: Case) -> dict[str, torch.Tensor]:
    """Train with nothing but torch, on float tensors that lie in memory."""
    recipe, seed = case.recipe, case.training.seed
    normalise = case.training.preprocess.normalise
    pixels = torch.from_numpy(np.asarray(case.prepared.pixels, np.float32)).permute(0, 3, 1, 2)
    mean, std = (torch.tensor(each)[:, None, None] for each in (normalise.mean, normalise.std))
    images, labels = (pixels / 255 - mean) / std, torch.tensor(case.samples.labels)
    torch.manual_seed(seed_of(f"weights:{seed}"))
    model = build_model(recipe.model, 10, SIDE, SIDE)
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay
    )
    for epoch in range(recipe.epochs):
        order = torch.from_numpy(shuffle(seed=seed, epoch=epoch, ids=case.samples.ids))
        for chosen in order.split(recipe.batch_size):
            batch = images[chosen].contiguous(memory_format=torch.channels_last)
            loss = nn.functional.cross_entropy(model(batch), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return model.state_dict()


@pytest.mark.parametrize("shift", [0.0, 0.37], ids=["uint8", "float32"])
def test_a_training_gives_the_weights_of_a_plain_loop(tmp_path, shift):
    plain = {"augment": Augment(), "schedule": "constant", "epochs": 2}
    case = digits_case(shift=shift).with_recipe(**plain)
    stored = torch.load(case.train(tmp_path).weights, weights_only=True)
    expected = plain_loop(case)
    assert stored.keys() == expected.keys()
    for name, weights in expected.items():
        assert torch.equal(stored[name], weights), name
