"""`TapReport`: each recorded stage beside the reference's, and the first that differs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.preprocess import StageName

TapState = Literal["same", "idle", "explained", "not explained"]
"""``idle``: equal, and the reference's stage leaves every image as it is, as another one may."""


@dataclass(frozen=True, slots=True)
class TapDistance:
    """Distance of recorded pixels from the reference's, over images and values."""

    mean: float
    """Mean |Δ| in grey levels."""
    greatest: float
    identical: int
    """Images equal in every value."""
    images: int


@dataclass(frozen=True, slots=True)
class OtherSize:
    """Images whose recorded size is not the reference's, by the first of them."""

    image: str
    recorded: tuple[int, int]
    """(height, width) in pixels."""
    reference: tuple[int, int]
    images: int


@dataclass(frozen=True, slots=True)
class Cause:
    """One respect in which the recorded stage differs from the reference's."""

    text: str
    before: float | None
    """Mean |Δ| in grey levels without it; ``None`` where shapes differ without it."""
    after: float
    """Mean |Δ| with it and all causes before it."""
    meaning: str = ""
    """Its effect in plain words, where the options alone do not say it."""


@dataclass(frozen=True, slots=True)
class StageReport:
    """One recorded stage."""

    stage: StageName
    tap: str
    dtype: str
    shape: str
    state: TapState
    isolated: TapDistance | None
    """The reference's stage applied to the recorded input of this stage, next to the recorded
    output; ``None`` if the shapes differ."""
    cumulative: TapDistance | None
    """The reference from the file on, next to the recorded output, both in the same channel order
    where the recorded code only holds its images reversed."""
    other_size: OtherSize | None = None
    """Why there is no isolated distance, if sizes differ."""
    causes: tuple[Cause, ...] = ()
    remains: float | None = None
    """Mean |Δ| that the causes leave, in grey levels."""
    explained: float | None = None
    """Share of the isolated distance that they take away."""
    nearest: str = ""
    """The nearest configuration, where the causes are no explanation; empty if none that was tried
    gives these sizes."""
    reversed: bool = False
    """Whether its channels are in the reverse of the reference's order."""
    note: str = ""
    left_out: tuple[tuple[str, str], ...] = ()
    """(image, reason) of images that could not be compared; with any, no stage is the same."""
    unshown: tuple[StageName, ...] = ()
    """Stages of the reference since the tap before that leave every image as it is: of an equal
    result, the images do not show them."""

    @property
    def differs(self) -> bool:
        """Whether it is not equal to the reference's."""
        return self.state not in ("same", "idle")


@dataclass(frozen=True, slots=True)
class TapReport:
    """All recorded stages, in the order of a `Preprocess`."""

    taps: str
    reference: str
    """Name of the reference, or of the configuration that was found nearest."""
    given: bool
    """Whether the reference was given, and not found."""
    images: int
    processes: int
    without_image: int
    stages: tuple[StageReport, ...]
    unused: tuple[str, ...] = ()
    """Taps that are no stage."""

    @property
    def first(self) -> StageReport | None:
        """The first stage that differs; ``None`` if all are the reference's."""
        return next((each for each in self.stages if each.differs), None)
