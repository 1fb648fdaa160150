"""`NearestIdentity`: the score of embeddings on identities that the training has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.train.training_step import Score, plain_outputs

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import nn

    from alignkit.experiment.train_option import Recipe
    from alignkit.rank import Rank
    from alignkit.train.training_images import TrainingImages

_BLOCK = 1024
"""Images that are searched at once."""


@dataclass(frozen=True, slots=True)
class NearestIdentity:
    """Every image that has another of its identity, and the identity of the nearest other image."""

    labels: npt.NDArray[np.int64]
    """(queries,) true identities."""
    found: npt.NDArray[np.int64]
    """(queries,) identity of the image with the greatest cosine, never the query itself."""
    apart: float
    """Mean of the greatest cosine with another identity minus that with the own, −2..2."""

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> NearestIdentity:
        """Search each image among all others: (n, dimensions) float32, (n,) identities."""
        # a vector of zeros has no direction; its cosines are 0
        lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        unit = vectors / lengths
        _, identities, counts = np.unique(labels, return_inverse=True, return_counts=True)
        queries = np.flatnonzero(counts[identities] > 1)
        found = np.empty(len(queries), np.int64)
        apart = np.empty(len(queries))
        for start in range(0, len(queries), _BLOCK):
            block = queries[start : start + _BLOCK]
            cosines = unit[block] @ unit.T
            cosines[np.arange(len(block)), block] = -np.inf
            found[start : start + _BLOCK] = labels[cosines.argmax(1)]
            same = labels[block][:, None] == labels
            own = np.where(same, cosines, -np.inf).max(1)
            apart[start : start + _BLOCK] = np.where(same, -1, cosines).max(1) - own
        return cls(labels[queries], found, float(apart.mean()))


def score_embeddings(
    model: nn.Module, images: TrainingImages, recipe: Recipe, device: torch.device, rank: Rank
) -> Score:
    """Search every image among the others, by its outputs as `plain_outputs` gives them."""
    parts = [
        (outputs.cpu().numpy(), labels.tolist())
        for outputs, labels in plain_outputs(model, images, recipe, device, rank)
    ]
    # one order of the images, whatever the number of ranks
    dealt = rank.gather(parts)
    every = [dealt[at % rank.world][at // rank.world] for at in range(sum(map(len, dealt)))]
    nearest = NearestIdentity.of(
        np.concatenate([vectors for vectors, _ in every]),
        np.array([label for _, labels in every for label in labels], np.int64),
    )
    return Score(nearest.apart, nearest.labels.tolist(), nearest.found.tolist())


def identity_report(labels: Sequence[int], predicted: Sequence[int]) -> dict[str, Any]:
    """Compute the accuracy and the mean recall over identities, at the keys of `classification`.

    There is no line for each identity: they may be a million.
    """
    right = np.asarray(labels) == np.asarray(predicted)
    _, identities, counts = np.unique(labels, return_inverse=True, return_counts=True)
    recall = float((np.bincount(identities, weights=right) / counts).mean())
    macro = {"recall": recall, "support": float(len(right))}
    return {"accuracy": float(right.mean()), "identities": len(counts), "macro avg": macro}
