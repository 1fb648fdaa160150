"""Stored types of evaluations: cells, the matrix, and comparisons of its entries."""

from __future__ import annotations

from dataclasses import dataclass

from alignkit.record.drift_facts import (
    BatchCheck,
    BuildSpread,
    Drift,
    DriftMetric,
    NumericDrift,
    QuantisedDrift,
)
from alignkit.record.stored import STRICT, Artifact, Count, Estimate, Placed, Real, State, Stored

OWN_GRAPH = "graph"
"""Fact in ``effective`` of a cell that ran the user's own ONNX file, beside the model's weights."""


class ClassCounts(Stored):
    """Confusion counts of one class."""

    name: str
    true_positive: Count
    false_positive: Count
    false_negative: Count


class EngineFacts(Stored):
    """An engine that was built here and not run: nothing is known of its predictions."""

    library: str
    """Distribution and version that built it."""
    sha256: str
    """Of the file ``model.engine``: the engine that a machine with a GPU must run."""
    size: Count
    """Bytes of the file."""
    layers: dict[str, dict[str, Count]]
    """Type → kind of layer → layers that compute on it, as the library names them; a layer that
    reads several types counts for each."""
    moving: Count
    """Layers that only copy, convert or synchronise."""
    fingerprint: str
    """SHA-256 of all layers in order, without the library's names: kinds, operations, types, shapes
    and ONNX nodes. Two builds of a graph may differ in bytes and not in their layers."""


REFERENCE_ENDED = "the cell it is compared with did not run: "
"""Beginning of the reason of an entry whose reference ended so."""


class Evaluated(Placed):
    """The outcome of one evaluation, or of those of all seeds: then its numbers are joined."""

    aligned: bool
    state: State
    reason: str = ""
    simulation: str = ""
    """How its numbers were simulated, and what is unknown of them; empty if a runtime computed in
    its precision, or if it did not run."""
    metrics: dict[str, Real | None] = {}
    """Absolute values of the metrics that ``Drift`` compares, means over seeds; ``None`` of images
    without labels."""
    drift: Drift | None = None
    """Against the aligned cell of the same row and seed; ``None`` for that cell itself. Over seeds,
    images are resampled together."""
    fraction: Real = 1.0
    """Share of the training images its model saw; ``trained_with`` names it too."""
    numeric: NumericDrift | None = None
    """Against the same model and path in the row's reference runtime, so that it is drift from the
    runtime alone; ``None`` for that itself."""
    quantised: QuantisedDrift | None = None
    """``numeric`` divided; only for an int8 graph that was also executed unfused."""
    non_finite: Count = 0
    """Images with a NaN or infinite output, summed over seeds."""
    batch: BatchCheck | None = None
    """Of the seed in which batch size matters most."""
    builds: BuildSpread | None = None
    """If the experiment asks for several; on the path that the model was trained with. Of the seed
    whose builds differ most."""
    unsuited: bool = False
    """Skipped on every machine, in every seed: the backend does not run this kind of model, or the
    endpoint serves another. Nothing is missing, and no rule applies."""

    @property
    def ran(self) -> bool:
        """Whether it has numbers, measured or simulated."""
        return self.state in ("measured", "simulated")


class Cell(Evaluated):
    """One evaluation: a training's model under a path, a backend and a precision."""

    seed: int
    key: str
    traceback: str = ""
    n: Count = 0
    counts: tuple[ClassCounts, ...] = ()
    class_values: dict[str, tuple[Real | None, ...]] = {}
    """The task's further metrics by class, in the order of ``counts``."""
    effective: dict[str, str] = {}
    """Settings that really ran: provider, precision, TF32, inserted casts."""
    predictions: Artifact | None = None
    inputs: str = ""
    """XXH3, 128 bits, of the backend's input tensors, image by image in the data's order."""
    engine: EngineFacts | None = None
    """In the state ``built``."""


class MatrixEntry(Evaluated):
    """The cells of all seeds joined."""

    seeds: tuple[int, ...] = ()
    engines: tuple[EngineFacts, ...] = ()
    """Engines of the seeds in the state ``built``, in the order of the cells."""
    warning: str = ""
    """Warning of the first session whose logits are valid on this machine alone."""

    @property
    def churn(self) -> float:
        """Share of predictions that change; 0 where none were compared."""
        # a number always, so that entries can be sorted
        return (self.drift and self.drift.churn.value) or 0.0

    @property
    def changes(self) -> bool:
        """Whether an answer or a metric is another than in the aligned entry."""
        drift = self.drift
        return bool(self.churn or (drift and any(each.value for each in drift.metrics.values())))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseFloor:
    """Differences of a path's aligned cell between trainings that differ only in their seed."""

    __pydantic_config__ = STRICT

    preprocess: str
    seeds: tuple[int, ...]
    metrics: dict[str, Real]
    """Metric that every seed's model defines → greatest minus least value over seeds."""
    churn: Real
    """Mean disagreement of two seeds' models on the same images."""


class SizePoint(Stored):
    """The drift of models trained on so many images."""

    fraction: Real
    images: Count
    seeds: Count
    drift: Estimate
    """The matrix entry's own."""


class SizeCurve(Placed):
    """One entry of the matrix over the shares of the training images; its row has all of them."""

    metric: DriftMetric
    points: tuple[SizePoint, ...]
    """By growing training set, two or more."""
    change: Estimate
    """Drift with the fewest images less that with the most, paired by seed and image."""


class MixFacts(Stored):
    """The drift of a mix's models beside that of its first path's own, served with another path."""

    metric: DriftMetric
    mix: str
    """The row."""
    alone: str
    """The row of the mix's first path."""
    evaluated_with: str
    in_mix: bool
    """Whether training images of the mix came from that path too."""
    backend: str
    precision: str
    mixed: Estimate
    single: Estimate
    change: Estimate
    """``mixed`` less ``single``, paired by seed and image."""
