"""`TapLots`: a lot of images → the line of every stage of every path, and its stored form.

A stage that does not change an image has no line: its array is that of the stage before, and so is
its golden tensor. Worker processes tap the images, and measure the distance to the golden tensor of
the approved array where one is kept.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import metadata
from itertools import product
from typing import Any, Literal, Self

from pydantic import TypeAdapter

from alignkit.arrays import Batch, Pixels
from alignkit.baseline import Baseline, FirstChanged, LineKey, StageLine, baseline_environment
from alignkit.baseline.golden import GoldenStore, array_sha256
from alignkit.compare.pixel_sums import PixelSums, StoredSums, pixel_sums
from alignkit.isolation import Limits
from alignkit.isolation.worker import Begin, Encoded
from alignkit.lots import EachImageOnce, Lot, unseen_folder
from alignkit.machine import cpu_name, vector_extensions
from alignkit.preprocess import STAGES, Preprocess, StageName, Taps
from alignkit.preprocess.image_taps import Started, each_taps, warm_up
from alignkit.resizers import RESIZERS
from alignkit.version import ALL_LAYERS, code_version
from alignkit.workspace import content_key


@dataclass(frozen=True, slots=True)
class TappedStage:
    """One stage of one image."""

    stage: StageName
    line: StageLine
    """Line of its array; the line of an earlier stage if this one does nothing."""
    old: StageLine | None = None
    """Approved line of its array, by the same rule."""
    array: Pixels | Batch | None = None
    """``None`` if the image was not decoded, or the stage not tapped."""
    distance: PixelSums | None = None


# Stages are stored although a baseline is to find what nobody announced: their keys hold the
# builds of codecs, the processor and the GPU too.
@dataclass(frozen=True, slots=True)
class TapImages:
    """Tap every path on each image; a `Work` of `alignkit.isolation`."""

    paths: tuple[Preprocess, ...]
    approved: Baseline | None
    golden: GoldenStore | None
    keep: tuple[StageName, ...]
    first_changed: FirstChanged
    held: frozenset[str] = frozenset()
    """Hashes that the driver has golden tensors of, so that a worker without one is found out."""

    def warm_up(self, begin: Begin) -> None:
        """Run every path once."""
        warm_up(self.paths, begin)

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> list[list[TappedStage]]:
        """Return the stages of every path, for each image."""
        return [
            list(self._image(image, partial(begin, position)))
            for position, image in enumerate(images)
        ]

    def _image(self, image: Encoded, begin: Started) -> Iterator[TappedStage]:
        source = hashlib.sha256(image.data).hexdigest()[:16]
        for path, taps in zip(self.paths, each_taps(self.paths, image, begin), strict=True):
            if taps.last is None:
                decoded = taps.decoded
                line = StageLine(
                    path=path.name, image=image.id, stage="decode", sha256=None, source=source,
                    outcome=decoded.outcome, reason=decoded.reason,
                )  # fmt: skip
                yield TappedStage("decode", line)
                continue
            first, before = self.first_changed.get(path.name) or STAGES[0], None
            for tapped in _stage_lines(path, image.id, taps, source, self.approved, first):
                if self.golden and tapped.array is not None and tapped.stage in self.keep:
                    self.golden.put(tapped.array)
                distance = self._distance(tapped, before) if self.golden else None
                before = replace(tapped, distance=distance)
                # the pixels stay in the worker, and only their line is sent
                yield replace(before, array=None, old=None)

    def _distance(self, tapped: TappedStage, before: TappedStage | None) -> PixelSums | None:
        array, old = tapped.array, tapped.old
        if array is None or old is None or old.sha256 is None or old.sha256 == tapped.line.sha256:
            return None
        if before and (before.line, before.old) == (tapped.line, old):
            return before.distance  # neither side does anything here
        assert self.golden is not None
        kept = self.golden.get(old.sha256)
        if kept is None and old.sha256 in self.held:
            raise unseen_folder(self.golden.root, "--baselines", f"the worker on {platform.node()}")
        if kept is None or kept.shape != array.shape:
            return None
        channels: Literal["first", "last"] = "first" if tapped.stage == "normalise" else "last"
        return pixel_sums(kept, array, channels=channels)


@dataclass(frozen=True, slots=True)
class TapLots(EachImageOnce):
    """The `LotWork` of a snapshot."""

    work: TapImages
    limits: Limits | None = None

    @classmethod
    def of(
        cls,
        paths: Sequence[Preprocess],
        approved: Baseline | None,
        golden: GoldenStore | None,
        *,
        keep: Collection[StageName] = (),
        first_changed: FirstChanged | None = None,
    ) -> TapLots:
        """Return the work of `alignkit.baseline.snapshot.take_snapshot`."""
        return cls(TapImages(tuple(paths), approved, golden, tuple(keep), first_changed or {}))

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """See `LotWork.paths`."""
        return self.work.paths

    def identity(self) -> Mapping[str, Any]:
        """See `LotWork.identity`."""
        work = self.work
        lines = work.approved.lines.values() if work.approved else ()
        return {
            "work": "snapshot",
            "paths": [[each.name, each.identity(), each.versions()] for each in work.paths],
            # hashed, as a lot has thousands
            "approved": content_key([each.model_dump_json() for each in lines]),
            "golden": content_key(sorted(work.held)),
            "first_changed": dict(work.first_changed),
            # a baseline is to find what another machine or build of a library changes
            "machine": [baseline_environment(work.paths), cpu_name(), vector_extensions()],
            "builds": [[p.decode.version(), p.resize.resizer.version()] for p in work.paths],
            "libraries": [
                *(RESIZERS[name].version() for name in ("opencv", "pillow")),
                metadata.version("numpy"),
            ],
            "code": code_version(ALL_LAYERS),
        }

    def only(self, lot: Lot) -> Self:
        """Return the work with the approved lines of a lot's images alone; see `LotWork.only`."""
        work, lines, held = self.work, dict[LineKey, StageLine](), set[str]()
        for key in product((path.name for path in work.paths), lot.samples.ids, STAGES):
            if work.approved and (line := work.approved.lines.get(key)):
                lines[key] = line
                if work.golden and line.sha256 and line.sha256 in work.golden:
                    held.add(line.sha256)
        approved = work.approved and replace(work.approved, lines=lines, metrics={})
        golden = work.golden and GoldenStore(work.golden.root.resolve())
        own = replace(work, approved=approved, golden=golden, held=frozenset(held))
        return replace(self, work=own)

    def images(self, result: list[list[TappedStage]]) -> int:
        """See `LotWork.images`."""
        return len(result)

    def empty(self, lot: Lot) -> list[TappedStage]:  # noqa: ARG002 - lines name their images
        """See `LotWork.empty`."""
        return []

    def add(
        self, part: list[TappedStage], results: Sequence[list[list[TappedStage]]]
    ) -> list[TappedStage]:
        """See `LotWork.add`."""
        part += (stage for result in results for image in result for stage in image)
        return part

    def text(self, part: list[TappedStage]) -> str:
        """See `LotWork.text`."""
        stages = [(each.stage, each.line, each.distance) for each in part]
        return _stored().dump_json(stages).decode()

    def parsed(self, text: str) -> list[TappedStage]:
        """See `LotWork.parsed`."""
        stages = _stored().validate_json(text)
        return [TappedStage(stage, line, distance=found) for stage, line, found in stages]


@cache
def _stored() -> TypeAdapter[list[tuple[StageName, StageLine, StoredSums | None]]]:
    return TypeAdapter(list[tuple[StageName, StageLine, StoredSums | None]])


def _stage_lines(
    path: Preprocess,
    image: str,
    taps: Taps,
    source: str,
    approved: Baseline | None,
    begin: StageName,
) -> Iterator[TappedStage]:
    """Yield approved lines before ``begin``, then every stage; an idle stage has no new line."""
    assert taps.last is not None
    arrays: dict[StageName, Pixels | Batch] = {**taps.pixels}
    arrays["normalise"] = path.normalise(taps.last)
    line, old, before, previous = None, None, "", None
    for stage in STAGES:
        known = approved.lines.get((path.name, image, stage)) if approved else None
        old = known or old
        array = arrays.get(stage)
        if array is None:
            continue
        if STAGES.index(stage) < STAGES.index(begin):
            if known and known.sha256:
                line, before = known, known.sha256
                yield TappedStage(stage, line)
            continue
        sha256 = before if array is previous else array_sha256(array)
        # a stage that does nothing has a line only to replace an approved one
        if line is None or sha256 != before or known:
            facts = _statistics(array, stage)
            if stage == "decode":
                facts |= {"outcome": taps.decoded.outcome, "source": source}
            line = StageLine(path=path.name, image=image, stage=stage, sha256=sha256, **facts)
        yield TappedStage(stage, line, old, array)
        before, previous = sha256, array


def _statistics(array: Pixels | Batch, stage: StageName) -> dict[str, Any]:
    """Return the fields of a line that describe its array, of which no pixels are kept."""
    import cv2
    import numpy as np

    # an image (height, width, 3), or the three planes of a tensor
    parts = array if stage == "normalise" else [array]
    # one pass, in exact integers for bytes; numpy's mean along two axes takes ten times as long
    found = [cv2.meanStdDev(np.ascontiguousarray(part)) for part in parts]
    means = np.concatenate([mean for mean, _ in found]).ravel()
    variances = np.concatenate([std for _, std in found]) ** 2
    return {
        "dtype": str(array.dtype),
        "shape": array.shape,
        "mean": tuple(round(float(each), 6) for each in means),
        # of all values together, hence the spread of the channels' means
        "std": round(float(np.sqrt(variances.mean() + means.var())), 6),
        "least": float(array.min()),
        "greatest": float(array.max()),
    }
