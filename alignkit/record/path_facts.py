"""Stored types of the machine, the data, the paths with the images they decoded, and trainings."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

from alignkit.record.stored import Artifact, Count, Real, State, Stored

COVERAGE_EXAMPLES = 20
"""Images named for each direction in which two sides do not decode the same ones."""


class Environment(Stored):
    """The machine and software of a run."""

    python: str
    platform: str
    cpu: str
    cores: int
    gpu: str
    """Name and driver; ``none``."""
    versions: dict[str, str]
    """Distribution → version."""
    codecs: dict[str, str]
    """Library → the JPEG codec build it runs, if it says."""
    flags: dict[str, str]
    """TF32, determinism, threads: settings that change numbers."""
    git: str
    """Revision of the folder the run was started in, ``-dirty`` if changed; empty outside git."""
    extensions: str = ""
    """The processor's vector extensions, or that they are unknown; empty in older records."""


class DataFacts(Stored):
    """The data set."""

    name: str
    options: dict[str, Any]
    train: Count
    eval: Count
    classes: tuple[str, ...]
    fingerprint: str
    version: str
    notes: tuple[str, ...] = ()
    calibration: Count = 0
    """Images that engines took their scales from; 0 where none did."""
    calibration_evaluated: Count = 0
    """Of these, images with the content of an evaluated one."""
    copies: dict[str, str] = {}
    """Evaluation image → the first with the same decoded pixels; intervals draw them together."""


class StageFacts(Stored):
    """One stage of a path as it ran."""

    stage: str
    label: str
    """One line for a person, e.g. ``opencv linear 48x48``."""
    options: dict[str, Any]
    version: str
    """The library that really ran; empty for alignkit's own stages."""
    yaml: str = ""
    """The stage as an experiment writes it, in one line."""


class PathFacts(Stored):
    """One preprocessing path."""

    name: str
    stages: tuple[StageFacts, ...]
    surrogate_of: str = ""
    replaced: tuple[str, ...] = ()
    """Stages of that stack that are others here."""
    calibration: str = ""
    """The known distance of a surrogate to the real stack, e.g. ``not yet calibrated``."""
    skipped: str = ""
    max_pixels: Count = 0
    """Images whose header declares more are not decoded; 0 in records that did not keep it."""
    same_as: str = ""
    """The first earlier path with the same stages and options; empty if there is none."""
    same: bool = False
    """Whether the file says ``same: true``: an A/A comparison on purpose."""


class NotDecoded(Stored):
    """An image a path did not decode cleanly."""

    id: str
    outcome: Literal["corrupt", "failed", "unsupported"]
    reason: str


class Coverage(Stored):
    """Outcomes of the decodes of one split on one path."""

    preprocess: str
    split: Literal["train", "eval"]
    ok: Count
    corrupt: Count
    failed: Count
    unsupported: Count
    examples: tuple[NotDecoded, ...] = ()  # limited: a broken data set has thousands
    """Every image that is not ``ok``, at most 50."""


class OneSided(NamedTuple):
    """Images that one side decodes and the other does not."""

    by: str
    not_by: str
    images: int
    examples: tuple[str, ...]


class CoverageDiff(Stored):
    """Images that only one of two paths, or of a baseline and a path, decodes."""

    reference: str
    """A path, or ``baseline``."""
    candidate: str
    images: Count
    only_reference: Count
    only_candidate: Count
    reference_examples: tuple[str, ...] = ()
    """Ids of images that only the reference decodes, the first 20."""
    candidate_examples: tuple[str, ...] = ()
    """Ids of images that only the candidate decodes, the first 20."""
    neither: Count = 0
    """Images that no side decodes."""
    neither_examples: tuple[str, ...] = ()
    """Ids of such images, the first 20."""
    gone: Count = 0
    """Images of the baseline that are not among those of this run; in none of the other counts."""
    gone_examples: tuple[str, ...] = ()
    """Ids of such images, the first 20."""

    @property
    def decoded(self) -> int:
        """Number of images that both sides decode."""
        return self.images - self.only_reference - self.only_candidate - self.neither - self.gone

    @property
    def one_sided(self) -> tuple[OneSided, ...]:
        """The direction in which images are lost, or both; empty if both sides decode the same."""
        both = (
            OneSided(self.reference, self.candidate, self.only_reference, self.reference_examples),
            OneSided(self.candidate, self.reference, self.only_candidate, self.candidate_examples),
        )
        return tuple(each for each in both if each.images)


class Epoch(Stored):
    """One line of a training's log."""

    epoch: int
    loss: Real
    accuracy: Real | None
    """Accuracy on the augmented training images; none if they were not classified."""
    learning_rate: Real
    images_per_second: Real
    held_out_loss: Real | None = None
    """Mean cross entropy on ``train.holdout``; none without it, and for embeddings."""
    held_out_accuracy: Real | None = None
    """Share of right answers; of embeddings, of images whose nearest other has their identity."""
    held_out_recall: Real | None = None
    """Mean recall over the classes of the held-out images."""


class PretrainedFacts(Stored):
    """The weights a training began with."""

    identity: str
    """The published name and file, or the SHA-256 of the user's file."""
    sha256: str
    """Over names and values of the ``state_dict`` that was loaded."""
    initialised: tuple[str, ...]
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
    fraction: Real = 1.0
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
