"""Stored types of the machine, the data, the paths with the images they decoded, and trainings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import product
from typing import Any, Literal, NamedTuple, get_args

from alignkit.decoders import DecodeOutcome
from alignkit.record.stored import Artifact, Count, Real, State, Stored

UNCLEAN_EXAMPLES = 50
"""Images named for each path that does not decode them cleanly."""
COVERAGE_EXAMPLES = 20
"""Images named for each direction in which two sides do not decode the same ones."""
_OUTCOMES: tuple[DecodeOutcome, ...] = get_args(DecodeOutcome)


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

    @classmethod
    def of(
        cls,
        preprocess: str,
        split: Literal["train", "eval"],
        decodes: Iterable[tuple[str, DecodeOutcome, str]],
    ) -> Coverage:
        """Count decodes: the image's id, how it ended, and the reason."""
        every = list(decodes)
        ended = Counter(outcome for _, outcome, _ in every)
        unclean = [
            NotDecoded(id=image, outcome=outcome, reason=reason)
            for image, outcome, reason in every
            if outcome != "ok"
        ]
        return cls(
            preprocess=preprocess,
            split=split,
            **{outcome: ended[outcome] for outcome in _OUTCOMES},
            examples=tuple(unclean[:UNCLEAN_EXAMPLES]),
        )

    def __add__(self, later: Coverage) -> Coverage:
        """Add the outcomes of images that come later."""
        examples = (self.examples + later.examples)[:UNCLEAN_EXAMPLES]
        counts = {str(name): getattr(self, name) + getattr(later, name) for name in _OUTCOMES}
        return self.model_copy(update={**counts, "examples": examples})


class OneSided(NamedTuple):
    """Images that one side decodes and the other does not."""

    by: str
    images: int
    examples: tuple[str, ...]


class CoverageDiff(Stored):
    """Images that only one of two paths, or of a baseline and a path, decodes."""

    reference: str
    """A path, or ``baseline``."""
    candidate: str
    images: Count = 0
    only_reference: Count = 0
    only_candidate: Count = 0
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

    @classmethod
    def of(
        cls, reference: str, candidate: str, images: Iterable[tuple[str, bool, bool | None]]
    ) -> CoverageDiff:
        """Count (id, decoded by the reference, decoded by the candidate).

        The last is ``None`` for an image that the candidate does not have any more.
        """
        every = list(images)
        gone = tuple(image for image, _, after in every if after is None)
        _, first, second, neither = (
            tuple(image for image, *decoded in every if decoded == [*sides])
            for sides in product((True, False), repeat=2)
        )
        return cls(
            reference=reference,
            candidate=candidate,
            images=len(every),
            only_reference=len(first),
            reference_examples=first[:COVERAGE_EXAMPLES],
            only_candidate=len(second),
            candidate_examples=second[:COVERAGE_EXAMPLES],
            neither=len(neither),
            neither_examples=neither[:COVERAGE_EXAMPLES],
            gone=len(gone),
            gone_examples=gone[:COVERAGE_EXAMPLES],
        )

    def __add__(self, later: CoverageDiff) -> CoverageDiff:
        """Add the counts of images of the same two sides that come later."""
        both = {name: (own, getattr(later, name)) for name, own in self}
        # as many examples as one count of all images would name
        return self.model_copy(
            update={
                name: own + more if isinstance(own, int) else (own + more)[:COVERAGE_EXAMPLES]
                for name, (own, more) in both.items()
                if not isinstance(own, str)
            }
        )

    @property
    def decoded(self) -> int:
        """Number of images that both sides decode."""
        return self.images - self.only_reference - self.only_candidate - self.neither - self.gone

    @property
    def one_sided(self) -> tuple[OneSided, ...]:
        """The direction in which images are lost, or both; empty if both sides decode the same."""
        both = (
            OneSided(self.reference, self.only_reference, self.reference_examples),
            OneSided(self.candidate, self.only_candidate, self.candidate_examples),
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
