"""Search for the configurations of this machine nearest to a target, by pixels or by drift.

Coarse to fine: all configurations are tried on a few images, those clearly farther than the best
are dropped, and the others are tried on more; the finalists are confirmed on every image of the
search, and then checked on images the search did not see. Work that configurations share (a decode,
a resize of equal pixels) is done once for each image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alignkit.match.search import FINALISTS, RUNGS, Ranked, Search

if TYPE_CHECKING:
    from alignkit.match.configurations import Configuration
    from alignkit.match.target import Target
    from alignkit.preprocess import Preprocess
    from alignkit.samples import Samples

__all__ = ["Match", "Ranked", "match"]

PROBE = 500
"""Images on which configurations are dropped; the others only confirm the finalists."""
UNSEEN_SHARE = 0.2
"""Share of all images that is kept from the search, for the check at its end."""
UNSEEN = 200
"""Greatest number of unseen images."""


@dataclass(frozen=True, slots=True)
class Match:
    """The result of a search."""

    target: str
    ranking: tuple[Ranked, ...]
    """Nearest first."""
    tried: int
    """Number of configurations."""
    rungs: tuple[tuple[int, int], ...]
    """(images, configurations tried on them), in the order of the search."""
    images: int
    """Images of the search, confirmation included."""
    unseen: int
    left_out: tuple[tuple[str, str], ...] = ()
    """(id, reason) of images that the target gave no pixels for."""
    facts: tuple[str, ...] = ()
    """Facts about the target, each a sentence."""
    preprocesses: tuple[Preprocess, ...] = ()
    """The plainest configuration of each place of the ranking, as a `Preprocess`."""

    @property
    def winner(self) -> Ranked:
        """The nearest entry of the ranking."""
        return self.ranking[0]

    @property
    def holds(self) -> bool | None:
        """Whether the winner is nearest on the unseen images too; ``None`` without such images."""
        distances = [each.unseen for each in self.ranking if each.unseen is not None]
        if not distances or self.winner.unseen is None:
            return None
        return self.winner.unseen <= min(distances) + 1e-12


def match(
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    configurations: Sequence[Configuration],
    *,
    probe: int = PROBE,
    seed: int = 0,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Match:
    """Rank configurations by their distance to the target on the samples at ``rows``.

    Raises `NothingCompared` if no image can be compared or no configuration can run.
    """
    searched, unseen = _divided(rows, seed)
    search = Search(target, samples, threads, progress, len(rows))
    alive = list(configurations)
    rungs = []
    stops = [stop for stop in RUNGS if stop < min(probe, len(searched))]
    for stop in (*stops, min(probe, len(searched))):
        rungs.append((stop, len(alive)))
        alive = search.narrowed(alive, searched[:stop])
    groups = search.groups(alive, searched)
    ranking = tuple(search.ranked(group, searched, unseen) for group in groups[:FINALISTS])
    return Match(
        target.name,
        ranking,
        len(configurations),
        tuple(rungs),
        len([row for row in searched if row not in search.left_out]),
        len([row for row in unseen if row not in search.left_out]),
        tuple((samples.ids[row], reason) for row, reason in sorted(search.left_out.items())),
        target.facts,
        tuple(
            each.configurations[0].preprocess(target.geometry, target.normalise, f"match-{place}")
            for place, each in enumerate(ranking, 1)
        ),
    )


def _divided(rows: Sequence[int], seed: int) -> tuple[list[int], list[int]]:
    """Shuffle the rows; return those to search on, and those to keep for the check."""
    shuffled = np.random.default_rng(seed).permutation(np.asarray(rows, np.int64)).tolist()
    kept = min(UNSEEN, int(len(shuffled) * UNSEEN_SHARE))
    return shuffled[kept:], shuffled[:kept]
