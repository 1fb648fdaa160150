"""`Match`: the ranking of a search, and whether the nearest configuration is a finding.

A stack is found where every image is equal, or differs in a few values by one level (`AS_EQUAL`).
Where more remains, the nearest configuration is called near, and a diagnosis is given only where it
explains most of what is seen. Two limits decide. `EXPLAINS_MOST`
is a share: of the distance that a plainer hypothesis leaves, a finding takes away at least half.
Stacks that no hypothesis describes (blur, tone curves, saturation, hue, noise, another JPEG) gave
0.2 at most in the measurements of docs/match.md, true ones 0.6 and more. `AS_DECODERS` is a
distance: two correct decoders of one JPEG differ by 0.2 to 0.8 grey levels in the mean, and two
correct resizers by up to `AS_RESIZERS`.

A normalisation that is none of the known ones is fitted, and a fit also takes in a change of tone:
gamma, saturation, a stretch of the contrast. So it counts only if no more than `AS_ROUNDING`
remains, on at least `CONTRASTED` images whose contrast would show the difference. Where more
remains, a known normalisation near the fit stands in for it if it leaves no more than a decoder
does: the stack is then near, and never found.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from alignkit.compare.image_groups import ImageGroups
from alignkit.preprocess import Preprocess
from alignkit.record import Estimate
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.search.configurations import Configuration
from alignkit.text.numbers import plain

AS_EQUAL = 0.02
"""Mean distance in grey levels that the order of a library's sums leaves, where none is over 1."""
AS_DECODERS = 1.0
"""Distance in grey levels that two correct decoders do not exceed."""
AS_RESIZERS = 4.0
"""Distance in grey levels that two correct resizers seldom exceed."""
AS_ROUNDING = 0.3
"""Distance in grey levels that rounding alone leaves: 0.25 in the mean, and some for clipping."""
CONTRASTED = 3
"""Least number of images of enough contrast for a normalisation that is none of the known ones."""

MatchState = Literal["found", "near", "not found"]


def explained_share(remains: float, default: float) -> float:
    """Return the share, 0..1, of the plainest hypothesis' distance that another one takes away.

    ``default`` is the distance that the plainest leaves, ``remains`` the one that the other leaves.
    """
    return max(0.0, 1 - remains / default) if default > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Ranked:
    """Configurations that give the same pixels on every image, with their distance."""

    configurations: tuple[Configuration, ...]
    """The plainest first."""
    mean_abs: Estimate
    """Mean |Δ| from the target in grey levels, over images and values."""
    max_abs: float
    identical: int
    """Images equal to the target in every value, within the target's tolerance."""
    alike: int = 0
    """Images of the search, and unseen ones, that are equal within `AS_EQUAL` too."""
    groups: ImageGroups | None = None
    """The same images in two groups, if a few differ far more than the others."""
    worst: str = ""
    """The image that differs most."""
    unseen: float | None = None
    """``mean_abs`` on the images the search did not see."""
    unseen_identical: int = 0
    churn: Estimate | None = None
    """Share of a model's predictions that differ from those on the target's pixels; ``None``
    without a model. See `alignkit.search.match_request`."""


@dataclass(frozen=True, slots=True)
class Match:
    """The result of a search."""

    target: str
    ranking: tuple[Ranked, ...]
    """Nearest first."""
    named: Ranked
    """The nearest, or the plainest that is nearly as near: it names no decoder without evidence."""
    plain: Configuration
    """The plainest configuration, which the nearest is read against."""
    plain_mean: float
    """Its mean |Δ| from the target."""
    tried: int
    """Number of configurations."""
    rungs: tuple[tuple[int, int], ...]
    """(images, configurations tried on them), in the order of the search."""
    images: int
    """Images of the search, confirmation included."""
    unseen: int
    copies: int = 0
    """Images, of both kinds, with the pixels of another."""
    left_out: tuple[tuple[str, str], ...] = ()
    """(id, reason) of images without pixels of the target, or with those of another image."""
    facts: tuple[str, ...] = ()
    """Facts about the target, each a sentence."""
    preprocesses: tuple[Preprocess, ...] = ()
    """The plainest configuration of each place of the ranking, as a `Preprocess`."""
    block: Preprocess | None = None
    """That of ``named``."""
    recolouring: str = ""
    """A conversion of the target's colours that no `Preprocess` makes."""
    known: bool = False
    """Whether the target is a `Preprocess`, and not tensors of which everything is inferred."""
    fitted_on: int | None = None
    """See `alignkit.search.target.Target`."""
    stand_in: str = ""
    """See `alignkit.search.target.Target`."""

    @property
    def winner(self) -> Ranked:
        """The nearest entry of the ranking."""
        return self.ranking[0]

    @property
    def names_nearest(self) -> bool:
        """Whether the named configuration is the nearest, and no plainer one."""
        return self.named.configurations == self.winner.configurations

    @property
    def remains(self) -> float:
        """Mean |Δ| of the named configuration from the target."""
        assert self.named.mean_abs.value is not None
        return self.named.mean_abs.value

    @property
    def explained(self) -> float | None:
        """Share of the plainest configuration's distance that the named one explains.

        ``None`` if the plainest is itself the named one.
        """
        if self.plain in self.named.configurations:
            return None
        return explained_share(self.remains, self.plain_mean)

    @property
    def state(self) -> MatchState:
        """Whether the nearest configuration is the target's, see the module's docstring."""
        share = self.explained
        if self.doubt:
            return "not found"
        if self.named.alike == self.images + self.unseen:
            return "near" if self.stand_in else "found"
        # where nothing was inferred, the nearest is all that was asked for
        if self.known or self.remains <= AS_DECODERS:
            return "near"
        near = self.remains <= AS_RESIZERS and share is not None and share >= EXPLAINS_MOST
        return "near" if near else "not found"

    @property
    def doubt(self) -> str:
        """Why a normalisation that is none of the known ones does not count; empty if it does."""
        if self.fitted_on is None:
            return ""
        if self.remains > (AS_DECODERS if self.stand_in else AS_ROUNDING):
            subject = f"{self.stand_in} " if self.stand_in else ""
            fits = (
                f"{subject}fits only to {plain(self.remains, 2, AS_ROUNDING, AS_DECODERS)} levels"
            )
            return f"its normalisation is none that is known, and {fits}"
        if self.fitted_on < CONTRASTED:
            few = "one image" if self.images == 1 else "so few images of enough contrast"
            return (
                f"its normalisation is none that is known, and {few} cannot tell a normalisation "
                f"from a change of tone; record {CONTRASTED} photographs or more"
            )
        return ""

    @property
    def holds(self) -> bool | None:
        """Whether the winner is nearest on the unseen images too; ``None`` without such images."""
        distances = [each.unseen for each in self.ranking if each.unseen is not None]
        if not distances or self.winner.unseen is None:
            return None
        # results that differ in the order of a sum are equal
        return self.winner.unseen <= min(distances) + 1e-12
