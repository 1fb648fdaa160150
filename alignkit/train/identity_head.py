"""`IdentityHead`: the classifier of the training identities, whole or a part of it on each rank.

It stands beside the model during a training and is not part of it: the model that is kept gives the
embedding.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from alignkit.rank import Rank
from alignkit.train.training_step import seed_of

if TYPE_CHECKING:
    from alignkit.experiment.train_option import IdentityLoss
    from alignkit.train.objective import Step

_BLOCK = 8192
"""Identities whose weights are drawn at once, whatever the number of ranks."""
_SPREAD = 0.01
"""Standard deviation of the initial weights, as in An et al., *Partial FC*, 2021."""
_NEAR_ONE = 1e-6
"""Distance from 1 within which a cosine's angle has no usable gradient in float32."""


# Tensors that ranks share inside a forward pass. Their gradients are the pair g and f of Shoeybi et
# al., Megatron-LM, 2019: every rank computes the same loss from its own part of a layer.
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


def with_margin(cosines: torch.Tensor, name: str, margin: float) -> torch.Tensor:
    """Return the cosines of images with their own identity, made smaller by the margin.

    ``arcface``: cos(θ + m), and cos θ − m·sin m where θ > π − m, so that it falls throughout (Deng
    et al., *ArcFace*, CVPR 2019, and its published code). ``cosface``: cos θ − m (Wang et al.,
    *CosFace*, CVPR 2018). ``softmax``: as they are.
    """
    if name == "softmax":
        return cosines
    if name == "cosface":
        return cosines - margin
    angles = torch.acos(cosines.clamp(-1 + _NEAR_ONE, 1 - _NEAR_ONE))
    return torch.where(
        angles <= math.pi - margin,
        torch.cos(angles + margin),
        cosines - margin * math.sin(margin),
    )


def sharded_cross_entropy(
    logits: torch.Tensor, images: torch.Tensor, places: torch.Tensor, rank: Rank
) -> torch.Tensor:
    """Compute the mean cross entropy of (n, own classes) logits over the classes of all ranks.

    This rank has the classes of ``images``, indices of rows, at the columns ``places``. With the
    greatest logit M of a row it is log Σ exp(z − M) − (z_target − M), where maximum, sum and target
    are reduced over the ranks (Shoeybi et al., *Megatron-LM*, 2019, section 3).
    """
    lowest = torch.full_like(logits[:, :1], -math.inf)
    peaks = greatest(torch.cat([logits, lowest], dim=1).amax(1), rank)
    sums = add_up((logits - peaks[:, None]).exp().sum(1), rank)
    own = logits.new_zeros(len(logits)).index_put((images,), logits[images, places] - peaks[images])
    return (sums.log() - add_up(own, rank)).mean()


class IdentityHead(nn.Module):
    """Weights of this rank's identities, and the loss over those of all ranks.

    The logits are scale · cos(embedding, weight), or embedding · weight for ``softmax``. Computed
    in float32.
    """

    def __init__(self, loss: IdentityLoss, classes: int, seed: int, rank: Rank) -> None:
        """Draw the weights: the same for a seed, whichever ranks hold them."""
        super().__init__()
        self.loss, self.classes, self.seed, self.rank = loss, classes, seed, rank
        self.bounds = shard_bounds(classes, rank)
        self.weight = nn.Parameter(_drawn(seed, *self.bounds, loss.embedding))

    def forward(
        self, embeddings: torch.Tensor, labels: torch.Tensor, step: Step
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Return the mean loss and the (n,) most similar identities, computed without a margin.

        ``embeddings`` (n, dimensions) and ``labels`` (n,) are this rank's. The loss of a sharded
        classifier is that of the whole batch. With ``sample`` there are no answers: an image is
        compared with a part of the identities.
        """
        rank, loss = self.rank, self.loss
        with torch.autocast(embeddings.device.type, enabled=False):
            whole = gather_rows(embeddings.float(), step.images, rank, times=rank.world)
            targets = gather_rows(labels, step.images, rank)
            rows = self._compared(targets, step)
            plain = self._products(whole, self.weight if rows is None else self.weight[rows])
            images, places = self._targets(targets, rows)
            own = with_margin(plain[images, places], loss.name, loss.margin)
            logits = plain.index_put((images, places), own) * loss.scale
            mean = sharded_cross_entropy(logits, images, places, rank)
        answers = self._answers(plain.detach())[rank.share] if rows is None else None
        return mean, answers

    def _products(self, embeddings: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        if self.loss.name == "softmax":
            return embeddings @ weight.T
        return nn.functional.normalize(embeddings) @ nn.functional.normalize(weight).T

    def _compared(self, targets: torch.Tensor, step: Step) -> torch.Tensor | None:
        """Choose the rows of this rank's weights that a step uses, ascending; ``None`` for all.

        Those of the images that it sees are among them, and of the others a share that is drawn by
        the step: the idea of An et al., *Partial FC*, 2021. The draw does not depend on the number
        of ranks. A sharded classifier sees the whole batch; one that is not sees this rank's share
        of it, so that its ranks compare with different identities.
        """
        if self.loss.sample == 1:
            return None
        draws = torch.Generator().manual_seed(seed_of(f"identities:{step.key}"))
        chosen = torch.rand(self.classes, generator=draws) < self.loss.sample
        chosen[targets.cpu()] = True
        start, stop = self.bounds
        return chosen[start:stop].nonzero()[:, 0].to(targets.device)

    def _targets(
        self, targets: torch.Tensor, rows: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the images whose identity this rank has, and its column among the compared."""
        start, stop = self.bounds
        images = ((targets >= start) & (targets < stop)).nonzero()[:, 0]
        places = targets[images] - start
        return images, places if rows is None else torch.searchsorted(rows, places)

    def _answers(self, products: torch.Tensor) -> torch.Tensor:
        """Return the identity of the greatest product of each image, over all ranks."""
        peaks, places = products.max(1)
        every = greatest(peaks, self.rank)
        # of equal products the first identity answers, as in a classifier that is whole
        found = torch.where(peaks == every, places + self.bounds[0], self.classes)
        return -greatest(-found, self.rank)

    def joined(self, part: torch.Tensor) -> torch.Tensor:
        """Join an array with a row for each of this rank's identities to that of all, on a CPU."""
        return torch.cat(self.rank.gather(part.detach().cpu()))

    def taken(self, whole: torch.Tensor) -> torch.Tensor:
        """Take this rank's rows of an array that `joined` returned."""
        return whole[slice(*self.bounds)]


def shard_bounds(classes: int, rank: Rank) -> tuple[int, int]:
    """Return the first identity of a rank and the one after its last.

    Shards differ by one identity at most, and the smaller ones come last.
    """
    each, more = divmod(classes, rank.world)
    start = rank.number * each + min(rank.number, more)
    return start, start + each + (rank.number < more)


def _drawn(seed: int, start: int, stop: int, dimensions: int) -> torch.Tensor:
    """Draw rows start…stop of the initial weights, without those of the others."""
    weights = torch.empty(stop - start, dimensions)
    for block in range(start // _BLOCK, -(-stop // _BLOCK)):
        draws = torch.Generator().manual_seed(seed_of(f"identities:{seed}:{block}"))
        rows = torch.empty(_BLOCK, dimensions).normal_(0, _SPREAD, generator=draws)
        first, last = max(start, block * _BLOCK), min(stop, (block + 1) * _BLOCK)
        weights[first - start : last - start] = rows[first - block * _BLOCK : last - block * _BLOCK]
    return weights
