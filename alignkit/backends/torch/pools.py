"""Ceil mode: the one change of a model between training and serving that is no preprocessing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import nn

from alignkit.errors import BackendError

if TYPE_CHECKING:
    from alignkit.models.checkpoint import Checkpoint


def round_pools_up(model: nn.Module, checkpoint: Checkpoint) -> str:
    """Set ``ceil_mode`` in every max-pool; says how many of them give another size by it.

    Raises `BackendError` for a model without a layer that could be changed.
    """
    pools = [each for each in model.modules() if isinstance(each, nn.MaxPool2d)]
    changed = [pool for pool in pools if not pool.ceil_mode]
    if not changed:
        raise BackendError(
            f"torch ceil_mode: {checkpoint.model} has no max-pooling layer that rounds down"
        )
    for pool in changed:
        pool.ceil_mode = True
    larger: list[nn.Module] = []

    def note(pool: nn.Module, inputs: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        assert isinstance(pool, nn.MaxPool2d)
        down = nn.functional.max_pool2d(
            inputs[0], pool.kernel_size, pool.stride, pool.padding, pool.dilation
        )
        if down.shape != output.shape:
            larger.append(pool)

    handles = [pool.register_forward_hook(note) for pool in changed]
    with torch.inference_mode():
        model(torch.zeros(1, 3, checkpoint.height, checkpoint.width))
    for handle in handles:
        handle.remove()
    return f"ceil mode; {len(larger)} of {len(pools)} layers give another size by it"
