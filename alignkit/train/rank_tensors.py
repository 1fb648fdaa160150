"""Tensors that ranks share inside a forward pass, with the gradients that belong to them.

The two functions with a gradient are the pair *g* and *f* of Shoeybi et al., *Megatron-LM*, 2019:
every rank computes the same loss from its own part of a layer.
"""

from __future__ import annotations

from typing import Any

import torch

from alignkit.rank import Rank


def gather_rows(rows: torch.Tensor, count: int, rank: Rank, *, times: int = 1) -> torch.Tensor:
    """Return the (count, …) rows of all ranks in the order from which `Rank.share` dealt them.

    The gradient of this rank's rows is the sum of those of all ranks, multiplied by ``times``: DDP
    divides by the number of ranks.
    """
    if rank.world == 1:
        return rows
    gathered: torch.Tensor = _GatheredRows.apply(rows, count, rank, times)  # type: ignore[no-untyped-call]
    return gathered


def add_up(values: torch.Tensor, rank: Rank) -> torch.Tensor:
    """Return the sum over ranks; its gradient is handed on unchanged.

    It is for a loss that every rank computes alike from the sum.
    """
    if rank.world == 1:
        return values
    added: torch.Tensor = _AddedUp.apply(values, rank)  # type: ignore[no-untyped-call]
    return added


def greatest(values: torch.Tensor, rank: Rank) -> torch.Tensor:
    """Return the elementwise greatest of all ranks' values, without a gradient."""
    found = values.detach().clone()
    if rank.world > 1:
        from torch import distributed

        with rank.raise_rank_errors():
            distributed.all_reduce(found, op=distributed.ReduceOp.MAX)
    return found


class _GatheredRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, count: int, rank: Rank, times: int) -> torch.Tensor:
        from torch import distributed

        ctx.rank, ctx.times = rank, times
        # ranks send as many rows; a share has one row less at most
        sent = rows.new_zeros(-(-count // rank.world), *rows.shape[1:])
        sent[: len(rows)] = rows
        parts = [torch.empty_like(sent) for _ in range(rank.world)]
        with rank.raise_rank_errors():
            distributed.all_gather(parts, sent)
        # row i is row i // world of rank i % world, so that the zeros come last
        return torch.stack(parts, dim=1).flatten(0, 1)[:count]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None, None]:
        whole = ctx.rank.all_reduce(gradients[0].contiguous().clone())
        return whole[ctx.rank.share] * ctx.times, None, None, None


class _AddedUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, rank: Rank) -> torch.Tensor:  # noqa: ARG004
        return rank.all_reduce(values.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:  # noqa: ARG004
        return gradients[0], None
