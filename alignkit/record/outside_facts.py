"""Stored types of comparisons with results from outside a run: a baseline, a published table."""

from __future__ import annotations

from typing import Literal

from alignkit.record.cell_facts import Drift
from alignkit.record.path_facts import CoverageDiff
from alignkit.record.pixel_facts import PixelStage
from alignkit.record.stored import Count, Estimate, Placed, Real, State, Stored

Reading = Literal[
    "holds here", "does not hold here", "inside the noise floor", "undecided", "not measured"
]


class BaselineStage(Stored):
    """One stage of a path compared with the approved one."""

    path: str
    stage: str
    images: Count
    """Images that have an approved line."""
    changed: Count
    """Images whose array differs."""
    begun: Count
    """Changed images in which no earlier stage changed: the change begins here."""
    examples: tuple[str, ...] = ()
    """Ids of changed images, at most 20."""
    cause: str = ""
    """Changes of this stage since: library, options, the image files."""
    pixels: PixelStage | None = None
    """The distance; ``None`` if a changed image has no golden tensor."""
    at_least: dict[str, Real] = {}
    """Lower bounds of the distance, from the lines alone."""
    unmeasured: Count = 0
    """Changed images without a golden tensor."""


class BaselineDrift(Stored):
    """The drift of a matrix entry since the predictions that a baseline keeps of it."""

    seeds: tuple[str, ...]
    """The seeds in which both sides predicted."""
    drift: Drift


class BaselineFacts(Stored):
    """The comparison of a run with a baseline."""

    fingerprint: str
    new: Count
    """Images, counted once for each path, of which a stage has no approved line."""
    gone: Count
    """Approved images, of tapped paths, that this run does not have."""
    untapped: tuple[str, ...] = ()
    """Approved paths that were not looked at: the file no longer has them, or they cannot run."""
    stages: tuple[BaselineStage, ...]
    coverage: tuple[CoverageDiff, ...] = ()
    unchanged: tuple[str, ...] = ()
    """Paths that were not compared: images, code, libraries and options are the approved ones."""
    begins: dict[str, str] = {}
    """Path → the first stage that was compared, if the earlier ones are as approved."""
    metrics: dict[str, dict[str, Real | None]] = {}  # keyed by text, since JSON has no other keys
    """``trained with|evaluated with|backend|precision`` → approved metrics."""
    drifts: dict[str, BaselineDrift] = {}
    """The same keys → drift since, paired image by image, if predictions were kept."""


class RowHere(Placed):
    """The entry of this run's matrix that a published row corresponds to.

    ``backend`` and ``precision`` are empty where it was not part of this run and names none.
    """

    state: State | Literal["absent"]
    """``absent``: not part of this run."""
    metrics: dict[str, Real | None]
    """Values of this run, mean over seeds; ``null`` with ``reason``."""
    reason: str = ""
    simulation: str = ""
    """As `Evaluated.simulation`."""
    surrogates: dict[str, str] = {}
    """Path → the GPU stack that it imitates on a CPU."""


class PublishedRow(Stored):
    """One published row, and what this run has in its place."""

    training: str
    """As published."""
    inference: str
    """As published."""
    published: dict[str, Real]
    """Published values; fractions."""
    here: RowHere


class Claim(Stored):
    """A difference of published figures, read against the same difference here."""

    words: str
    metric: str
    published: Real
    """Candidate minus reference; no interval was published with it."""
    here: Estimate
    """The same difference in this run; of a surrogate or a simulation if ``emulated``."""
    floor: Real | None
    """Noise floor of the metric over seeds in the row here; the greater one of two rows."""
    reading: Reading
    why: str
    emulated: bool = False
    """Whether a surrogate or a simulation ran here, which ``why`` names."""


class PublishedFacts(Stored):
    """A published table."""

    source: str
    label: str
    """Circumstances, e.g. ``internal data set, 3080 Ti``; shown with every figure."""
    note: str = ""
    """Facts that are not known of it, or that differ here."""
    rows: tuple[PublishedRow, ...]
    claims: tuple[Claim, ...]
    """Each row compared with the published row served as trained; then, if models were trained on
    several shares of the data, how much greater that change is with fewer images."""
