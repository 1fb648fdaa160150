"""Search for the configurations of this machine nearest to a target, by pixels or by drift.

Coarse to fine: all configurations are tried on a few images, those clearly farther than the best
are dropped, and the others are tried on more; the finalists are confirmed on every image of the
search, and then checked on images the search did not see. Work that configurations share (a decode,
a resize of equal pixels) is done once for each image.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np
import numpy.typing as npt

from alignkit.arrays import FloatArray
from alignkit.compare.bootstrap import joined_groups, mean_estimate
from alignkit.compare.image_groups import image_groups
from alignkit.errors import NothingCompared
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_taps import encoded_images, run_isolated
from alignkit.record.blame_facts import EXPLAINS_MOST
from alignkit.samples import Samples, copies_among
from alignkit.search.configuration_distances import MeasureDistances, PixelDistance
from alignkit.search.configurations import Configuration
from alignkit.search.match_result import AS_EQUAL, Match, Ranked, explained_share
from alignkit.search.target import Target
from alignkit.search.target_facts import TargetFact

_PROBE = 500
"""Images on which configurations are dropped; the others only confirm the finalists."""
_RUNGS = (2, 8, 32, 128)
"""Images after which configurations are dropped."""
_FINALISTS = 8
"""Number of different results that reach the end, however far from the best."""
_FEW = 8
"""Below this number of images, a configuration is dropped only if it is more than three times as
far as the best."""
_SIGMAS = 4.0
"""From `_FEW` images on, a configuration is dropped if it is farther than the best by more standard
errors than this."""
_UNSEEN_SHARE = 0.2
"""Share of all images that is kept from the search, for the check at its end."""
_UNSEEN = 200
"""Greatest number of unseen images."""
_AS_NEAR = 1.05
"""A distance is no greater than another by up to this factor."""
_NONE_PREPARES = "no configuration prepares every image the target prepares"


def match(
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    configurations: Sequence[Configuration],
    *,
    probe: int = _PROBE,
    seed: int = 0,
    threads: int = 2,
    progress: Callable[[int, int], None] | None = None,
) -> Match:
    """Rank configurations by their distance to the target on the samples at ``rows``.

    Raises `NothingCompared` if no image can be compared or no configuration can run.
    """
    shuffled = np.random.default_rng(seed).permutation(np.asarray(rows, np.int64)).tolist()
    held_out = min(_UNSEEN, int(len(shuffled) * _UNSEEN_SHARE))
    searched, unseen = shuffled[held_out:], shuffled[:held_out]
    search = Search(target, samples, configurations, threads, progress, len(rows))
    alive, rungs = list(configurations), []
    if not search.usable(alive, searched, 1):  # the only good images may be among the others
        searched, unseen = shuffled, []
    last = min(probe, len(searched))
    for stop in (*(stop for stop in _RUNGS if stop < last), last):
        some = search.usable(alive, searched, stop)
        rungs.append((len(some), len(alive)))
        alive = search.narrowed(alive, some)
    groups = search.groups(alive, searched)
    finalists, checked = search.checked(groups[:_FINALISTS], unseen)
    kept = [row for row in searched if row not in search.left_out]
    checked = search.without_copies([group[0] for group in finalists], kept, checked)
    ranking = tuple(search.ranked(group, kept, checked) for group in finalists)
    plain = min(chain(*groups), key=search.place.__getitem__)
    preprocess = partial(_preprocess, target)
    found = Match(
        target=target.name,
        ranking=ranking,
        named=ranking[0],
        plain=plain,
        plain_mean=float(search.means([plain], kept).mean()),
        tried=len(configurations),
        rungs=tuple(rungs),
        images=len(kept),
        unseen=len(checked),
        copies=len(search.copied),
        left_out=tuple(
            (samples.ids[row], reason) for row, reason in sorted(search.left_out.items())
        ),
        preprocesses=tuple(preprocess(each, place) for place, each in enumerate(ranking, 1)),
        block=preprocess(ranking[0], 1),
        recolouring=target.recolouring.name if target.recolouring else "",
        known=target.preprocess is not None,
        fitted_on=target.fitted_on,
        stand_in=target.stand_in,
    )
    if found.state == "near" and not found.known:
        told = search.told(finalists, kept)
        if told is not finalists[0]:
            search.measure(told[:1], checked)
            named = search.ranked(told, kept, checked)
            found = replace(found, named=named, block=preprocess(named, 1))
    told_as = {"found": TargetFact.settled, "not found": TargetFact.unsettled}.get(
        found.state, lambda it: it
    )
    facts = (told_as(each) if isinstance(each, TargetFact) else each for each in target.facts)
    return replace(found, facts=tuple(map(str, facts)))


def _preprocess(target: Target, ranked: Ranked, place: int) -> Preprocess:
    first = ranked.configurations[0]
    return first.preprocess(target.geometry, target.normalise, f"match-{place}")


class Search:
    """Narrow configurations down to the nearest, each measured once on an image."""

    def __init__(
        self,
        target: Target,
        samples: Samples,
        configurations: Sequence[Configuration],
        threads: int = 2,
        progress: Callable[[int, int], None] | None = None,
        total: int = 0,
    ) -> None:
        self.target, self.samples, self.threads = target, samples, threads
        self.progress, self.total = progress, total
        self.known: dict[int, dict[Configuration, PixelDistance]] = {}
        self.left_out: dict[int, str] = {}
        self.copied: dict[str, str] = {}
        """Images → an earlier one that every finalist gives the same pixels."""
        self.place = {each: place for place, each in enumerate(configurations)}
        """Configuration → its place in the order given, the plainest first."""

    def nearest(self, alive: list[Configuration], rows: Sequence[int]) -> Configuration:
        """Return the nearest on a few rows."""
        return self.narrowed(self.narrowed(alive, rows[: _RUNGS[0]]), rows)[0]

    def measure(self, alive: Sequence[Configuration], rows: Sequence[int]) -> list[int]:
        """Compute all missing distances; return the rows that could be compared, perhaps none."""
        asked: list[int] = []
        # `levels` is a closure, which cannot be sent to a worker: its result is, with the image
        work = MeasureDistances(tuple(alive), replace(self.target, levels=None))
        # one image is the work of all configurations
        parts = run_isolated(
            work, work.preprocesses, self._images(alive, rows, asked), processes=self.threads,
            images_a_task=1,
        )  # fmt: skip
        # `asked` grows as the images are sent, so a result's row is looked up and not zipped
        for number, (found,) in enumerate(parts):
            row = asked[number]
            if isinstance(found, str):
                self.left_out[row] = found
            else:
                by_place = {alive[place]: each for place, each in found.items()}
                self.known.setdefault(row, {}).update(by_place)
            if self.progress:
                self.progress(len(self.known) + len(self.left_out), self.total)
        return [row for row in rows if row not in self.left_out]

    def usable(self, alive: Sequence[Configuration], rows: Sequence[int], count: int) -> list[int]:
        """Measure the first ``count`` rows that can be compared; return them, perhaps fewer."""
        kept: list[int] = []
        waiting = list(rows)
        while waiting and len(kept) < count:
            missing = count - len(kept)
            kept += self.measure(alive, waiting[:missing])
            waiting = waiting[missing:]
        return kept

    def _images(
        self, alive: Sequence[Configuration], rows: Sequence[int], asked: list[int]
    ) -> Iterator[Encoded]:
        """Yield the images on which a distance is missing; append their rows to ``asked``."""
        for row in rows:
            known, wanted = self.known.get(row, {}), None
            missing = [place for place, each in enumerate(alive) if each not in known]
            if not missing or row in self.left_out:
                continue
            if self.target.levels:
                wanted = self.target.levels(row)
            if isinstance(wanted, str):
                self.left_out[row] = wanted
                continue
            (image,) = encoded_images(self.samples, [row])
            if image.lost:
                self.left_out[row] = image.lost[0][1]
                continue
            asked.append(row)
            yield replace(image, given=(missing, wanted))

    def means(self, alive: Sequence[Configuration], rows: Sequence[int]) -> FloatArray:
        """Return mean |Δ|, (configurations, images)."""
        return np.array([[self.known[row][each].mean for row in rows] for each in alive])

    def narrowed(self, alive: list[Configuration], rows: Sequence[int]) -> list[Configuration]:
        """Keep those that may still be the nearest, and some of the next, nearest first."""
        kept = self.measure(alive, rows)
        if not kept:
            reason = next(iter(self.left_out.values()), "there are no images")
            raise NothingCompared(f"{self.target.name} gives no pixels for any image: {reason}")
        means = self.means(alive, kept)
        usable = np.flatnonzero(np.isfinite(means).all(axis=1))
        if not len(usable):
            raise NothingCompared(_NONE_PREPARES)
        # it stays until the end, as the nearest is read against it
        plainest = min(usable, key=lambda i: self.place[alive[i]])
        # stable, so that of equal distances the plainest configuration stays first
        order = usable[np.argsort(means[usable].mean(axis=1), kind="stable")]
        # means that differ by rounding alone are one result
        steps = np.flatnonzero(np.diff(means[order].mean(axis=1)) > 1e-9)
        limit = steps[_FINALISTS - 1] + 1 if len(steps) >= _FINALISTS else len(order)
        near = _near(means[order])
        return [
            alive[i]
            for place, i in enumerate(order)
            if near[place] or place < limit or i == plainest
        ]

    def groups(
        self, alive: Sequence[Configuration], rows: Sequence[int]
    ) -> list[list[Configuration]]:
        """Group configurations by equal pixels on every row, the nearest group first."""
        kept = self.measure(alive, rows)
        by_pixels: dict[tuple[PixelDistance, ...], list[Configuration]] = {}
        for each in alive:
            by_pixels.setdefault(tuple(self.known[row][each] for row in kept), []).append(each)
        distance = {group[0]: self.means(group[:1], kept).mean() for group in by_pixels.values()}
        nearest = sorted(by_pixels.values(), key=lambda group: distance[group[0]])
        # a configuration without pixels on some image has no finite distance
        finite = [group for group in nearest if np.isfinite(distance[group[0]])]
        if not finite:
            raise NothingCompared(_NONE_PREPARES)
        return [sorted(group, key=_libraries) for group in finite]

    def checked(
        self, finalists: Sequence[list[Configuration]], unseen: Sequence[int]
    ) -> tuple[list[list[Configuration]], list[int]]:
        """Measure finalists on the unseen rows; return those that prepare them, with the rows.

        The rows are those that could be compared.
        """
        firsts = [group[0] for group in finalists]
        rows = self.measure(firsts, unseen) if unseen else []
        finite: npt.NDArray[np.bool_] = np.isfinite(self.means(firsts, rows))
        left = [group for group, each in zip(finalists, finite, strict=True) if each.all()]
        if not left:
            raise NothingCompared(_NONE_PREPARES)
        return left, rows

    def without_copies(
        self, firsts: Sequence[Configuration], rows: Sequence[int], unseen: Sequence[int]
    ) -> list[int]:
        """Note images to which every configuration gives the pixels of an earlier one.

        Leave such images of ``rows`` out of the unseen ones; return the others.
        """
        both = [*rows, *unseen]
        ids = [self.samples.ids[row] for row in both]
        pixels = [" ".join(str(self.known[row][each].pixels) for each in firsts) for row in both]
        self.copied, seen = copies_among(ids, pixels), set(ids[: len(rows)])
        for row, name in zip(unseen, ids[len(rows) :], strict=True):
            if (first := self.copied.get(name)) in seen:
                del self.copied[name]
                self.left_out[row] = f"it has the pixels of {first}, which the search has seen"
        return [row for row in unseen if row not in self.left_out]

    def told(
        self, finalists: Sequence[list[Configuration]], rows: Sequence[int]
    ) -> list[Configuration]:
        """Return the plainest group of those as near as the nearest.

        A decoder must explain most of what the plainest decoder leaves with the best resizer.
        """
        plainest = min(self.place, key=self.place.__getitem__).decode
        firsts = [group[0] for group in finalists]
        plain = [replace(each, decode=plainest) for each in firsts]
        plain = [each for each in dict.fromkeys(plain) if each in self.place]
        self.measure(plain, rows)
        both = list(dict.fromkeys((*firsts, *plain)))
        distance = dict(zip(both, self.means(both, rows).mean(axis=1), strict=True))
        left = min((distance[each] for each in plain), default=np.inf)
        choices = plain
        if explained_share(distance[firsts[0]], left) >= EXPLAINS_MOST:
            choices = [each for each in firsts if each.decode == firsts[0].decode]
        least = min(distance[each] for each in choices)
        near = [each for each in choices if distance[each] <= _AS_NEAR * least]
        chosen = min(near, key=self.place.__getitem__)
        return next((group for group in finalists if chosen in group), [chosen])

    def ranked(
        self, group: Sequence[Configuration], rows: Sequence[int], unseen: Sequence[int]
    ) -> Ranked:
        """Sum up a group's distances on the search's rows and on the unseen ones."""
        first = group[0]
        seen = [self.known[row][first] for row in rows]
        others = [self.known[row][first] for row in unseen]
        both = [*seen, *others]
        groups = joined_groups([self.samples.ids[row] for row in rows], None, self.copied)
        farthest = max((*rows, *unseen), key=lambda row: self.known[row][first].mean)
        return Ranked(
            configurations=tuple(group),
            mean_abs=mean_estimate(np.array([each.mean for each in seen]), groups, resamples=1000),
            max_abs=max(each.greatest for each in seen),
            identical=sum(each.greatest <= self.target.tolerance for each in seen),
            unseen=float(np.mean([each.mean for each in others])) if others else None,
            unseen_identical=sum(each.greatest <= self.target.tolerance for each in others),
            alike=sum(map(self._alike, both)),
            groups=image_groups(Counter(each.mean for each in both)),
            worst=self.samples.ids[farthest],
        )

    def _alike(self, distance: PixelDistance) -> bool:
        """Tell whether an image is equal, apart from the order of a library's sums."""
        tolerance = self.target.tolerance
        within = distance.mean <= AS_EQUAL and distance.greatest <= 1 + tolerance
        return distance.greatest <= tolerance or within


def _libraries(configuration: Configuration) -> int:
    """Count the libraries needed: among equal pixels, the plainest configuration comes first."""
    return len({type(each).__module__.rpartition(".")[2] for each in
                (configuration.decode, configuration.resizer)})  # fmt: skip


def _near(means: FloatArray) -> npt.NDArray[np.bool_]:
    """Return which are not clearly farther than the first, (configurations,)."""
    images = means.shape[1]
    if images < _FEW:
        return np.atleast_1d(means.mean(axis=1) <= 3 * means[0].mean() + 1.0)
    # paired: an image that is hard for one configuration is hard for all
    farther = means - means[0]
    error = farther.std(axis=1, ddof=1) / np.sqrt(images)
    return np.atleast_1d(farther.mean(axis=1) <= _SIGMAS * error)
