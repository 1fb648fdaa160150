"""Stored types of trainings."""

from __future__ import annotations

from alignkit.record.stored import Artifact, Count, State, Stored


class Epoch(Stored):
    """One line of a training's log."""

    epoch: int
    loss: float
    accuracy: float
    """Accuracy on the augmented training images."""
    learning_rate: float
    images_per_second: float
    held_out_loss: float | None = None
    """Mean cross entropy on ``train.holdout``; none without it."""
    held_out_accuracy: float | None = None
    held_out_recall: float | None = None
    """Mean recall over the classes of the held-out images."""


class PretrainedFacts(Stored):
    """The weights a training began with."""

    identity: str
    """The published name and file, or the SHA-256 of the user's file."""
    sha256: str
    """Over names and values of the ``state_dict`` that was loaded."""
    drawn_anew: tuple[str, ...]
    """Tensors of the last layer, where it has other classes."""


class TrainingFacts(Stored):
    """One training."""

    preprocess: str
    seed: int
    key: str
    state: State
    reason: str = ""
    epochs: tuple[Epoch, ...] = ()
    images: Count = 0
    """Training images: those that every path decoded, or the share of them that was used."""
    fraction: float = 1.0
    """That share."""
    ranks: int = 1
    """Processes that trained it together."""
    held_out: Count = 0
    """Training images that were only evaluated, not trained on."""
    kept_epoch: int | None = None
    """The epoch whose weights are the model."""
    pretrained: PretrainedFacts | None = None
    """``None`` if it began with weights drawn by its seed."""
    files: tuple[Artifact, ...] = ()
    """Its log as CSV, and scikit-learn's classification report of every epoch."""
