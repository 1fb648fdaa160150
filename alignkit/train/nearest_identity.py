"""`NearestIdentity`: the score of embeddings on identities that the training has not seen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from alignkit.tasks.embedding.unit_vectors import unit_vectors
from alignkit.train.training_step import Score, plain_outputs

if TYPE_CHECKING:
    import numpy.typing as npt
    import torch
    from torch import nn

    from alignkit.experiment.train_option import Recipe
    from alignkit.rank import Rank
    from alignkit.train.training_images import TrainingImages

NOBODY = -1
"""Identity that an image without a direction finds."""
_BLOCK = 1024
"""Images that are searched at once."""


@dataclass(frozen=True, slots=True)
class NearestIdentity:
    """Every image that has another of its identity, and the identity of the nearest other image."""

    labels: npt.NDArray[np.int64]
    """(queries,) true identities."""
    found: npt.NDArray[np.int64]
    """(queries,) identity of the image with the greatest cosine, never the query itself; `NOBODY`
    if it finds none."""
    apart: float
    """Mean of the greatest cosine with another identity minus that with the own, −2..2."""
    without: int
    """Images whose vector has no direction: zero, infinite or NaN. They find no image, which is
    wrong, and no image finds them."""

    @classmethod
    def of(cls, vectors: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> NearestIdentity:
        """Search each image among all others: (n, dimensions) float32, (n,) identities."""
        unit, images = unit_vectors(vectors)
        of_image = labels[images]
        _, identities, counts = np.unique(labels, return_inverse=True, return_counts=True)
        asked = counts[identities] > 1
        found = np.full(len(vectors), NOBODY, np.int64)
        apart = np.full(len(vectors), 2.0)
        places = np.flatnonzero(asked[images])
        for start in range(0, len(places), _BLOCK):
            block = places[start : start + _BLOCK]
            cosines = unit[block] @ unit.T
            cosines[np.arange(len(block)), block] = -np.inf
            nearest = np.where(np.isfinite(cosines.max(1)), of_image[cosines.argmax(1)], NOBODY)
            same = of_image[block][:, None] == of_image
            own, other = (
                np.where(each, cosines, -1).max(1) for each in (same & np.isfinite(cosines), ~same)
            )
            found[images[block]], apart[images[block]] = nearest, other - own
        without = len(vectors) - len(images)
        return cls(labels[asked], found[asked], float(apart[asked].mean()), without)


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
    return Score(nearest.apart, nearest.labels.tolist(), nearest.found.tolist(), nearest.without)


def identity_report(
    labels: Sequence[int], predicted: Sequence[int], without: int | None = None
) -> dict[str, Any]:
    """Compute the accuracy and the mean recall over identities, at the keys of `classification`.

    There is no line for each identity: they may be a million. ``without`` counts the images whose
    vector has no direction, where vectors were compared.
    """
    right = np.asarray(labels) == np.asarray(predicted)
    _, identities, counts = np.unique(labels, return_inverse=True, return_counts=True)
    recall = float((np.bincount(identities, weights=right) / counts).mean())
    macro = {"recall": recall, "support": float(len(right))}
    counted = {"identities": len(counts)}
    if without is not None:
        counted["without_direction"] = without
    return {"accuracy": float(right.mean()), **counted, "macro avg": macro}
