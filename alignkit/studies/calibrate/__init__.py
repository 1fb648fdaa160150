"""Distance of each surrogate's stages from the real ones, on probe images where these can run.

Decode is compared on the same files, by kind of JPEG; resize on the same pixels, decoded by the
surrogate. The result is kept as ``<preset>.json``: the package ships it, and
`alignkit.preprocess.presets.calibration` shows it beside the surrogate. A stage that cannot run
here keeps the result of another machine.

The probe images are JPEG files of every kind, encoded here from two photographs of scikit-learn, at
odd sizes, so that chroma samples are cut at the edges. Equal encoders give equal bytes on every
machine; the fingerprint shows it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from alignkit.arrays import Pixels
from alignkit.compare.pixel_sums import PixelSums, pixel_sums
from alignkit.errors import RecordError
from alignkit.extras import require_libraries
from alignkit.isolation.worker import Encoded
from alignkit.preprocess import Preprocess
from alignkit.preprocess.image_header import decode
from alignkit.preprocess.jpeg_header import read_jpeg_header
from alignkit.preprocess.presets import NOT_CALIBRATED, joined
from alignkit.preprocess.stress import SUBSAMPLINGS, Stress
from alignkit.progress import Progress, ProgressStage
from alignkit.stored_file import DamagedError, read_sealed, sealed, write_atomically
from alignkit.studies.calibrate.surrogate_stages import CALIBRATED_STAGES, Pair, Surrogate
from alignkit.text.numbers import percent

_FORMAT = 2  # 2: 2026-11, a summary for each stage. 1: 2026-11, first format.
PHOTOS = ("china.jpg", "flower.jpg")
SIZES = ((427, 640), (191, 253))
"""(height, width) of the crops from the photographs' middle."""
_QUALITIES = (50, 75, 90, 95)
PROGRESSIVE = {"4:4:4": 0, "4:2:2": 1, "4:2:0": 2}
"""Pillow's number of each chroma subsampling it can write."""
SHIPPED = Path(__file__).resolve().parents[2] / "preprocess" / "calibration"

_PairResult: TypeAlias = tuple[str, "PixelSums | None", str]
"""Kind of image, sums of the differences or ``None``, and the reason for ``None``."""


def calibrate(
    surrogate: Surrogate, images: Sequence[Encoded], progress: Progress
) -> dict[str, dict[str, Any]]:
    """Measure each stage that can run here; return stage → result, JSON-ready."""
    from alignkit.machine import cpu_name, gpu_name

    results: dict[str, dict[str, Any]] = {}
    for pair in surrogate.pairs:
        if pair.missing:
            continue
        with progress.stage("calibrate", len(images), f"{pair.stage} of {surrogate.name}") as stage:
            kinds = _summed((_compared(pair, surrogate.path, each) for each in images), stage)
        results[pair.stage] = {
            "real": pair.real.version(),
            "surrogate": pair.surrogate.version(),
            "device": gpu_name() if pair.gpu else f"CPU: {cpu_name()}",
            "probe": {"images": len(images), "sha256": fingerprint(images)},
            "kinds": kinds,
        }
    return results


def residuals(pair: Pair, images: Sequence[Encoded]) -> dict[str, npt.NDArray[np.int16]]:
    """Return image → real minus surrogate decode, (h, w, 3) in levels, to derive rules from."""
    found = {}
    for image in images:
        real, ours = (decode(each, image.data).image for each in (pair.real, pair.surrogate))
        if real is not None and ours is not None and real.shape == ours.shape:
            found[image.id] = np.subtract(real, ours, dtype=np.int16)
    return found


def write_calibration(name: str, measured: dict[str, dict[str, Any]], folder: Path) -> Path:
    """Write ``<name>.json`` and return its path.

    The file keeps its results of stages that are not among ``measured``. Raises `RecordError` if
    the file cannot be read.
    """
    path = folder / f"{name}.json"
    stages = {**_stored(path), **measured}
    of_stages = {str(stage): stages.get(stage) for stage in CALIBRATED_STAGES}
    words = {name: _sentence(name, found) for name, found in of_stages.items() if found}
    write_record(path, {"summary": words, **of_stages})
    return path


def write_record(path: Path, content: dict[str, Any]) -> None:
    """Write results of a calibration as sealed JSON with the number of their format."""
    # NaN is no JSON
    text = json.dumps({"format": _FORMAT, **content}, indent=1, allow_nan=False)
    write_atomically(path, sealed(text + "\n"))


def summary(stages: dict[str, dict[str, Any]]) -> str:
    """Describe each measured stage in a few words, by its worst kind of image."""
    return joined(
        [_sentence(stage, stages[stage]) for stage in CALIBRATED_STAGES if stage in stages]
    )


def _sentence(stage: str, measured: dict[str, Any]) -> str:
    """Describe how near the stage is, and what it was compared with."""
    results = list(measured["kinds"].values())
    left_out = sum(each["not_compared"] for each in results)
    images = left_out + sum(each["images"] for each in results)
    # an image that only one of the two decodes is no equal one
    rest = f", {left_out} of {images} images not compared" if left_out else ""
    kinds = [each for each in results if each["images"]]
    if not kinds:
        return f"{stage} {NOT_CALIBRATED}{rest}"
    where = "a CPU" if measured["device"].startswith("CPU") else measured["device"]
    real = measured["real"].split(",")[0]
    return f"{stage} {_apart(kinds, whole=not left_out)}{rest} (against {real} on {where})"


def _apart(kinds: Sequence[dict[str, Any]], *, whole: bool) -> str:
    """Describe the worst kind; ``equal`` is said only if the whole probe was compared."""
    most = max(each["max_levels"] for each in kinds)
    if not most and whole:
        return "equal"
    if most <= 1:
        return "within 1 level" if most == 1 else f"within {most:.2g} levels"
    share = percent(min(each["share_within_1"] for each in kinds), 2)
    return f"within 1 level on {share} of values, {most:.3g} at most"


def _stored(path: Path) -> dict[str, dict[str, Any]]:
    if not path.is_file():
        return {}
    again = "delete it to measure again"
    try:
        content = json.loads(read_sealed(path))
    except (DamagedError, OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read ({error}); {again}") from None
    if content.get("format") != _FORMAT:
        raise RecordError(f"{path} has another format; delete it to measure again")
    return {stage: content[stage] for stage in CALIBRATED_STAGES if content.get(stage)}


def _compared(pair: Pair, path: Preprocess, image: Encoded) -> _PairResult:
    """Run both stages on one image: on the file, or on the pixels that the surrogate decodes."""
    real: Pixels | None
    ours: Pixels | None
    if image.lost:
        return "not read", None, image.lost[0][1]
    if pair.stage == "decode":
        kind = kind_of(image)
        decoded = [
            decode(each, image.data, path.max_pixels) for each in (pair.real, pair.surrogate)
        ]
        real, ours = (each.image for each in decoded)
        if real is None or ours is None:
            return kind, None, decoded[0].reason or decoded[1].reason
    else:
        given = decode(path.decode, image.data, path.max_pixels).image
        if given is None:
            return "not decoded", None, "the surrogate does not decode it"
        kind = f"to {path.resize.size[1]} px"
        # a surrogate may leave it to its next stage to round as the real resize does
        real, ours = (
            path.quantise(replace(path.resize, resizer=each)(given))
            for each in (pair.real, pair.surrogate)
        )
    if real.shape != ours.shape:
        return kind, None, "another shape"
    return kind, pixel_sums(real, ours), ""


def _summed(measured: Iterable[_PairResult], progress: ProgressStage) -> dict[str, dict[str, Any]]:
    sums: dict[str, PixelSums] = {}
    refused: dict[str, list[str]] = {}
    for kind, one, reason in measured:
        if one is None:
            refused.setdefault(kind, []).append(reason)
        else:
            sums[kind] = sums[kind] + one if kind in sums else one
        progress.advance()
    return {
        kind: {
            **_facts(sums.get(kind)),
            "not_compared": len(refused.get(kind, ())),
            "reasons": sorted(set(refused.get(kind, ()))),
        }
        for kind in sorted({*sums, *refused})
    }


def _facts(found: PixelSums | None) -> dict[str, Any]:
    """Return the counts; shares, mean and maximum are ``None`` if no image was compared.

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


def probe_images() -> tuple[Encoded, ...]:
    """Encode baseline files of every subsampling, progressive ones of the usual, and grey ones."""
    return tuple(Encoded(name, data) for name, data in _files())


def kind_of(image: Encoded) -> str:
    """Return subsampling and coding, which decoders treat differently: ``4:2:0 progressive``."""
    header = read_jpeg_header(image.data)
    return f"{header.subsampling} {header.coding}" if header else "not a readable JPEG"


def fingerprint(images: Sequence[Encoded]) -> str:
    """Compute SHA-256 hex over names and contents."""
    digest = hashlib.sha256()
    for image in images:
        digest.update(image.id.encode() + b"\0" + hashlib.sha256(image.data).digest())
    return digest.hexdigest()


def _files() -> Iterator[tuple[str, bytes]]:
    require_libraries("sklearn")  # its two photographs
    from PIL import Image
    from sklearn.datasets import load_sample_image

    for photo, (height, width) in product(PHOTOS, SIZES):
        whole = load_sample_image(photo)
        top, left = (whole.shape[0] - height) // 2, (whole.shape[1] - width) // 2
        pixels = whole[top : top + height, left : left + width].copy()  # encoders take no view
        name = f"{photo.removesuffix('.jpg')}-{width}x{height}"
        for subsampling, quality in product(SUBSAMPLINGS, _QUALITIES):
            stress = Stress(subsampling, quality)
            yield f"{name} {stress.name}", stress.encode(pixels)
        for (subsampling, code), quality in product(PROGRESSIVE.items(), _QUALITIES):
            options = {"quality": quality, "subsampling": code, "progressive": True}
            yield (
                f"{name} {subsampling} q{quality} progressive",
                by_pillow(pixels, **options),
            )
        grey = np.array(Image.fromarray(pixels).convert("L"))
        yield f"{name} grey q90", by_pillow(grey, quality=90)


def by_pillow(image: npt.NDArray[np.uint8], **options: Any) -> bytes:
    """Encode (height, width, 3) or, grey, (height, width) as JPEG with Pillow's ``options``."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(image)).save(file, "JPEG", **options)
    return file.getvalue()
