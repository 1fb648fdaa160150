"""Stored types of runtimes: distances of their logits, batch sizes, builds, and int8 divided."""

from __future__ import annotations

from dataclasses import dataclass, field

from alignkit.record.stored import STRICT, Count, Real, Stored


@dataclass(frozen=True, slots=True)
class LogitDistance:
    """Distance of two models' outputs on the same images; |Δ| is taken logit by logit."""

    __pydantic_config__ = STRICT

    max_abs: Real | None
    mean_abs: Real | None
    cosine: Real | None
    """Mean over images whose logits are not all zero."""
    reason: str = ""
    """Why a distance is ``None``."""
    p50: Real | None = None
    p99: Real | None = None
    p99_9: Real | None = None
    """Quantiles of |Δ|, linear between order statistics."""
    compared: Count = 0
    """Images whose outputs are finite on both sides."""
    inside: dict[str, Count] = field(default_factory=dict)
    """Tolerance → images none of whose logits differ by more."""
    same_top: dict[str, Count] = field(default_factory=dict)
    """k → images whose k most likely classes are the same, in any order; only for k less than the
    number of classes."""


class NumericDrift(Stored):
    """Drift from the runtime alone: compared with the reference runtime on the same tensors."""

    n: Count
    """Images, times seeds if several are joined."""
    flips: Count
    """Images whose predicted class differs."""
    non_finite: Count
    """Images with a NaN or infinite output on either side."""
    logits: LogitDistance


class QuantisedDrift(Stored):
    """The drift of a runtime's own int8, divided at the same graph executed unfused in float32."""

    unfused: str
    """The runtime that executed it unfused, as in a column's name."""
    quantisation: NumericDrift
    """From the reference runtime to the unfused graph."""
    kernel: NumericDrift
    """From the unfused graph to the kernels of this runtime."""


@dataclass(frozen=True, slots=True)
class MarginDrift:
    """Margins that another path or runtime leaves: how near images are to another class.

    The margin is the logit of the class that the reference predicts less the greatest other one. Of
    it an image loses a share: 1 or more if its class changes, less than 0 if it grows.
    """

    __pydantic_config__ = STRICT

    compared: Count
    """Images with finite logits on both sides and a margin above 0 in the reference."""
    halved: Count
    """Images that keep their class and lose half of their margin or more."""
    p50: Real | None
    """Median of the share lost."""
    p99: Real | None
    reason: str = ""
    """Why there is no share."""


@dataclass(frozen=True, slots=True)
class MovedImage:
    """One image as the reference and the candidate predict it."""

    __pydantic_config__ = STRICT

    id: str
    before: str
    """Name of the output that the reference predicts."""
    after: str
    max_abs: Real | None
    """Greatest |Δlogit|; ``None`` if a logit is not finite, or not kept."""
    margin: Real | None
    """In the reference, in logits; see `MarginDrift`."""
    lost: Real | None
    """Share of the margin that is lost; ``None`` without one above 0, or if a logit is not kept."""


class BatchCheck(Stored):
    """The same session with one image at a time and with a batch of them."""

    images: Count = 0
    """Images that were predicted again, one at a time."""
    batch: Count = 0
    """Size of the batch that they were in."""
    max_abs: Real | None = None
    """Greatest |Δlogit|."""
    relative: Real | None = None
    """See `alignkit.predict.check_batches.dependence`."""
    flips: Count = 0
    reason: str = ""
    """Why there is no distance."""


class BuildSpread(Stored):
    """The same model exported, converted, built and loaded several times."""

    builds: Count
    images: Count = 0
    max_abs: Real | None = None
    """Greatest difference of a logit between any two builds."""
    mean_abs: Real | None = None
    """Mean over logits of the difference between the builds that are farthest apart."""
    flips: Count = 0
    """Images whose predicted class is not the same in every build."""
    reason: str = ""
