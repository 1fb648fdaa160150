"""Surrogates → how far their stages are from the real ones, measured where the real ones run.

Decode is compared on the same files, each kind of JPEG by itself; resize on the same pixels, those
the surrogate decodes. What is found is kept as ``<preset>.json``: the package ships it, and
`alignkit.preprocess.presets.calibration` shows it wherever the surrogate is. A stage that cannot
run here
keeps what was measured of it elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from alignkit.compare.pixel_sums import PixelSums, pixel_sums
from alignkit.errors import RecordError
from alignkit.preprocess.decode import decode
from alignkit.studies.calibrate.probe import fingerprint, kind_of
from alignkit.studies.calibrate.surrogates import STAGES, Pair, Surrogate, surrogates
from alignkit.text.numbers import percent
from alignkit.workspace import write_atomically

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.isolation.shared_images import Encoded
    from alignkit.preprocess import Preprocess
    from alignkit.progress import Progress

__all__ = ["STAGES", "Pair", "Surrogate", "calibrate", "surrogates", "write_calibration"]

FORMAT = 1
# 1: 2026-11, first format.
SHIPPED = Path(__file__).resolve().parents[2] / "preprocess" / "calibration"

Measured: TypeAlias = tuple[str, "PixelSums | None", str]
"""Kind of image, how far apart, and where that cannot be said why."""


def calibrate(
    surrogate: Surrogate, images: Sequence[Encoded], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Stage → what was measured, JSON-ready; without the stages that cannot run here."""
    from alignkit.machine import cpu_name, gpu_name

    found: dict[str, dict[str, Any]] = {}
    for pair in surrogate.pairs:
        if pair.missing:
            continue
        with progress.stage("calibrate", len(images), f"{pair.stage} of {surrogate.name}") as stage:
            measured = _decoded if pair.stage == "decode" else _resized
            kinds = _summed(measured(pair, surrogate.path, images), stage.advance)
        found[pair.stage] = {
            "real": pair.real.version(),
            "surrogate": pair.surrogate.version(),
            "device": gpu_name() if pair.gpu else f"CPU: {cpu_name()}",
            "probe": {"images": len(images), "sha256": fingerprint(images)},
            "kinds": kinds,
        }
    return found


def residuals(pair: Pair, images: Sequence[Encoded]) -> dict[str, npt.NDArray[np.int16]]:
    """Image → real minus surrogate decode, (h, w, 3) in levels: from which rules can be found."""
    import numpy as np

    found = {}
    for image in images:
        real, ours = (decode(each, image.data).image for each in (pair.real, pair.surrogate))
        if real is not None and ours is not None and real.shape == ours.shape:
            found[image.id] = np.subtract(real, ours, dtype=np.int16)
    return found


def write_calibration(name: str, measured: dict[str, dict[str, Any]], folder: Path) -> Path:
    """Write ``<name>.json``; returns the file.

    Stages that were not measured now are kept as the file has them. Raises `RecordError` if the
    file cannot be read.
    """
    path = folder / f"{name}.json"
    stages = {**_stored(path), **measured}
    of_stages = {str(stage): stages.get(stage) for stage in STAGES}
    content = {"format": FORMAT, "summary": summary(stages), **of_stages}
    write_atomically(path, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return path


def summary(stages: dict[str, dict[str, Any]]) -> str:
    """Each stage in some words; the worst kind of image decides."""
    told = [_told(stage, stages.get(stage)) for stage in STAGES]
    *others, (_, last) = told
    return "; ".join(
        [*(f"{words}{of if of != last else ''}" for words, of in others), "".join(told[-1])]
    )


def _told(stage: str, measured: dict[str, Any] | None) -> tuple[str, str]:
    """How near, and to what."""
    found = list((measured or {}).get("kinds", {}).values())
    left_out = sum(each["not_compared"] for each in found)
    images = left_out + sum(each["images"] for each in found)
    rest = f", {left_out} of {images} images not compared" if left_out else ""
    kinds = [each for each in found if each["images"]]
    if measured is None or not kinds:
        return f"{stage} not yet calibrated{rest}", ""
    where = "a CPU" if measured["device"].startswith("CPU") else measured["device"]
    return f"{stage} {_apart(kinds, whole=not left_out)}{rest}", (
        f" (against {measured['real'].split(',')[0]} on {where})"
    )


def _apart(kinds: Sequence[dict[str, Any]], *, whole: bool) -> str:
    """How far the worst kind is; ``equal`` only of the whole probe."""
    most = max(each["max_levels"] for each in kinds)
    if not most and whole:
        return "equal"
    if most <= 1:
        return f"within {most:.2g} levels"
    share = percent(min(each["share_within_1"] for each in kinds), 2)
    return f"within 1 level on {share} of values, {most:.3g} at most"


def _stored(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}); delete it to measure anew") from None
    if content.get("format") != FORMAT:
        raise RecordError(f"{path} has another format; delete it to measure anew")
    return {stage: content[stage] for stage in STAGES if content.get(stage)}


def _decoded(pair: Pair, path: Preprocess, images: Iterable[Encoded]) -> Iterator[Measured]:
    for image in images:
        real = decode(pair.real, image.data, path.max_pixels)
        ours = decode(pair.surrogate, image.data, path.max_pixels)
        kind = kind_of(image)
        if real.image is None or ours.image is None:
            yield kind, None, real.reason or ours.reason
        elif real.image.shape != ours.image.shape:
            yield kind, None, "another shape"
        else:
            yield kind, pixel_sums(real.image, ours.image), ""


def _resized(pair: Pair, path: Preprocess, images: Iterable[Encoded]) -> Iterator[Measured]:
    for image in images:
        given = decode(path.decode, image.data, path.max_pixels).image
        if given is None:
            yield "not decoded", None, "the surrogate does not decode it"
            continue
        kind = f"to {path.resize.size[1]} px"
        real, ours = (
            replace(path.resize, resizer=each)(given) for each in (pair.real, pair.surrogate)
        )
        if real.shape != ours.shape:
            yield kind, None, "another shape"
        else:
            yield kind, pixel_sums(real, ours), ""


def _summed(measured: Iterator[Measured], advance: Any) -> dict[str, dict[str, Any]]:
    sums: dict[str, PixelSums] = {}
    refused: dict[str, list[str]] = {}
    for kind, one, reason in measured:
        if one is None:
            refused.setdefault(kind, []).append(reason)
        else:
            sums[kind] = sums[kind] + one if kind in sums else one
        advance()
    return {
        kind: {
            **_facts(sums.get(kind)),
            "not_compared": len(refused.get(kind, ())),
            "reasons": sorted(set(refused.get(kind, ()))),
        }
        for kind in sorted({*sums, *refused})
    }


def _facts(found: PixelSums | None) -> dict[str, Any]:
    """Shares, mean and greatest are ``None`` where no image was compared.

    Raises `ValueError` for values that are not finite: the stage that gave them is broken.
    """
    if found is None:
        names = ("share_equal", "share_within_1", "mean_levels", "max_levels")
        return {"images": 0, "images_equal": 0, "pixels": 0, **dict.fromkeys(names)}
    if found.non_finite:
        raise ValueError("a stage gave values that are not finite")
    return {
        "images": found.images,
        "images_equal": found.identical,
        "pixels": found.pixels,
        "share_equal": 1 - (found.share_differing or 0.0),
        "share_within_1": 1 - (found.share_above(1) or 0.0),
        "mean_levels": found.mean_abs,
        "max_levels": float(found.max_abs),
    }
