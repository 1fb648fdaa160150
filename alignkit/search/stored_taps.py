"""Arrays that `alignkit.tap` recorded: stages by name, each with an array for some of the images.

The lines of ``taps-*.jsonl`` say which file is which stage of which image. They were written
elsewhere, so that no file outside the folder is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, ValidationError

from alignkit.errors import ConfigError, DataError
from alignkit.limits import TABLE_BYTES, parsed_json
from alignkit.plugins import did_you_mean
from alignkit.preprocess import STAGES, StageName
from alignkit.samples import Samples
from alignkit.search.image_names import samples_named
from alignkit.search.stored_tensors import StoredTensor
from alignkit.stored_file import read_regular

_WORDS: dict[StageName, tuple[str, ...]] = {
    "normalise": ("norm", "input", "tensor", "model", "batch", "final"),
    "colour": ("colour", "color", "cvt", "channel", "rgb", "bgr"),
    "quantise": ("quanti", "round", "uint8"),
    "crop": ("crop",),
    "resize": ("resiz", "scale", "letterbox", "shrink"),
    "orient": ("orient", "exif", "rotat", "turn"),
    "decode": ("decod", "load", "imread", "read", "open"),
}
"""Stage → parts of the names that mean it; of several the last stage counts."""
NO_STAGE = "none"
"""In ``--stage NAME=none``: leave this tap out."""


class _Line(BaseModel):
    """One line of a log."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    tap: int
    stage: str
    image: str
    file: str
    dtype: str
    time: float


@dataclass(frozen=True, slots=True)
class TapStage:
    """All arrays of one stage."""

    name: str
    """As the recording code calls it."""
    stage: StageName | None
    """The stage of a `Preprocess` after which it was recorded."""
    tensors: dict[int, StoredTensor]
    """Index of a sample → its array; empty for a tap that is left out."""
    shapes: dict[int, tuple[int, ...]]
    dtypes: dict[int, str]
    """Names of the types that the serving code used, e.g. ``bfloat16``, stored as float32."""

    @property
    def dtype(self) -> str:
        """Type of the numbers; several if they differ."""
        return " and ".join(dict.fromkeys(self.dtypes.values()))

    @property
    def common_shape(self) -> tuple[int, ...] | None:
        """The shape of all arrays; ``None`` if they differ."""
        shapes = set(self.shapes.values())
        return next(iter(shapes)) if len(shapes) == 1 else None


@dataclass(frozen=True, slots=True)
class RecordedTaps:
    """The recorded stages, in the order of their first appearance."""

    folder: Path
    stages: tuple[TapStage, ...]
    rows: tuple[int, ...]
    """Indices of the samples with an array in every stage, ascending."""
    without_image: int
    """Recorded images that are none of the samples."""
    processes: int
    """Logs that were read."""


def stored_taps(
    folder: Path,
    samples: Samples,
    named: Mapping[str, str] | None = None,
    *,
    strict: bool = True,
) -> RecordedTaps:
    """Read a folder of taps; ``named`` maps names of taps to stages, or to ``none``.

    If not ``strict``, a tap with an unknown name gets no stage, and images may lack taps. No array
    of a tap that is left out is opened, and images may lack it.

    Raises `DataError` if the folder holds no taps of these images, or two recorded images mean one
    of them, and `ConfigError` if a name in ``named`` is unknown.
    """
    logs = sorted(folder.glob("taps-*.jsonl"))
    if not logs:
        raise DataError(
            f"{folder} holds no taps-*.jsonl; record with alignkit.tap, or the file that `alignkit "
            "match --tap-source python` prints"
        )
    lines = sorted((line for log in logs for line in _lines(log)), key=lambda line: line.time)
    names = dict.fromkeys(line.stage for line in lines)
    for name in named or {}:
        if name not in names:
            raise ConfigError(f"--stage {name}: no tap has that name{did_you_mean(name, names)}")
    images = dict.fromkeys(line.image for line in lines)
    rows_of = samples_named(images, samples)
    found = [_stage(folder, name, lines, rows_of, named or {}, strict=strict) for name in names]
    used = {
        each.name: set(each.tensors) for each in found if (named or {}).get(each.name) != NO_STAGE
    }
    every = set.intersection if strict else set.union
    rows = every(*used.values()) if used else set()
    if used and not rows:
        raise DataError(
            f"{folder}: no image of {len(samples)} has an array in each of {', '.join(used)}; "
            f"recorded was e.g. {lines[0].image!r}, given e.g. {samples.ids[0]!r}: name the tap's "
            "image as its file"
        )
    lost = len(images) - len(rows_of)
    return RecordedTaps(folder, tuple(found), tuple(sorted(rows)), lost, len(logs))


def _lines(log: Path) -> list[_Line]:
    try:
        text = read_regular(log, TABLE_BYTES).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise DataError(f"{log} cannot be read: {error.strerror}") from None
    whole, _, _ = text.rpartition("\n")
    found = []
    # The last line may be cut off: its process ended while writing it.
    for number, text in enumerate(whole.split("\n"), 1):
        try:
            found.append(_Line.model_validate(parsed_json(text)))
        except (ValueError, ValidationError) as error:
            said = str(error).split("\n", 1)[0]
            raise DataError(f"{log}:{number} is no line of alignkit.tap: {said}") from None
        if found[-1].tap != 1:
            raise DataError(
                f"{log}:{number} has format {found[-1].tap}, expected 1; update alignkit"
            )
    return found


def _stage(
    folder: Path,
    name: str,
    lines: Sequence[_Line],
    rows_of: Mapping[str, int],
    named: Mapping[str, str],
    *,
    strict: bool,
) -> TapStage:
    stage = _stage_of(name, named, strict=strict)
    tensors: dict[int, StoredTensor] = {}
    dtypes: dict[int, str] = {}
    for line in lines:  # of an image recorded twice the newest counts
        row = rows_of.get(line.image)
        if line.stage == name and row is not None and named.get(name) != NO_STAGE:
            file = PurePosixPath(line.file)
            if file.is_absolute() or ".." in file.parts:
                raise DataError(f"{folder}: {line.file!r} is not in the folder; record again")
            tensors[row] = StoredTensor(folder / file)
            # a file has no bfloat16, and may name the order of its bytes
            dtypes[row] = line.dtype
    shapes = {row: tensor.shape()[0] for row, tensor in tensors.items()}
    return TapStage(name, stage, tensors, shapes, dtypes)


def _stage_of(name: str, named: Mapping[str, str], *, strict: bool) -> StageName | None:
    given = named.get(name)
    if given == NO_STAGE:
        return None
    if given is not None:
        for stage in STAGES:
            if given == stage:
                return stage
        raise ConfigError(f"--stage {name}={given}: no stage{did_you_mean(given, STAGES)}")
    words = name.casefold()
    for stage, parts in _WORDS.items():
        if any(part in words for part in parts):
            return stage
    if not strict:
        return None
    raise ConfigError(
        f"tap {name!r}: its name is no stage's; say which it is, --stage {name}=STAGE with one of "
        f"{', '.join(STAGES)}, or --stage {name}={NO_STAGE} to leave it out"
    )


def judged_stages(taps: RecordedTaps) -> tuple[TapStage, ...]:
    """Return the taps that are stages of a `Preprocess`, in its order.

    Raises `ConfigError` if two taps are one stage, or none is any.
    """
    found: dict[StageName, TapStage] = {}
    for each in taps.stages:
        if each.stage is None:
            continue
        if each.stage in found:
            first = found[each.stage].name
            raise ConfigError(
                f"the taps {first!r} and {each.name!r} are both taken as {each.stage}; say which, "
                f"e.g. --stage {first}={NO_STAGE}"
            )
        found[each.stage] = each
    if not found:
        raise ConfigError("no tap is a stage; leave one --stage NAME=none out")
    return tuple(found[stage] for stage in STAGES if stage in found)


def image_of(array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic] | str:
    """Return a recorded array as (height, width, 3); or why it is no image of three channels."""
    shape = array.shape
    if array.ndim == 4 and shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] == 3:
        return array
    if array.ndim == 3 and array.shape[0] == 3:
        return np.moveaxis(array, 0, -1)
    return f"an array of shape {shape} is no image of three channels, (h, w, 3) or (3, h, w)"
