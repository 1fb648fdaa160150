"""`Target`: the pixels of the stack to match, image by image, in grey levels.

It is either a `Preprocess` this machine can run (a preset or a YAML block) or a folder of tensors
that the serving stack recorded, see `alignkit.match.recorded_target`.

Some stacks read YCbCr by a wrong matrix, and so shift every colour. JPEG files hold YCbCr after
BT.601 in full range (ITU-T T.871, 7). A video path that takes them for BT.709 (ITU-R BT.709-6, 3)
gives greens and reds that are off by up to some twenty levels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from alignkit.arrays import FloatArray
from alignkit.decoders import Decoded, Decoder
from alignkit.errors import ConfigError, MissingDependency
from alignkit.experiment import listed, read_yaml
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_argument import import_of
from alignkit.experiment.yaml_source import parse
from alignkit.match.configurations import Geometry
from alignkit.plugins import did_you_mean
from alignkit.preprocess import Normalise, Preprocess
from alignkit.preprocess.presets import PRESETS, calibration

BT601 = (0.299, 0.587, 0.114)
"""Weights of R, G and B in luma; the rest of a matrix follows from them."""
BT709 = (0.2126, 0.7152, 0.0722)


@dataclass(frozen=True, slots=True)
class Misreading:
    """YCbCr written by one matrix and read by another."""

    name: str
    written: tuple[float, float, float]
    read: tuple[float, float, float]


MISREADINGS = (
    Misreading("BT.709 in place of the BT.601 that JPEG files are written with", BT601, BT709),
    Misreading("BT.601 for colours that were written by BT.709", BT709, BT601),
)


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The stack to match."""

    name: str
    levels: Callable[[int], npt.NDArray[np.float32] | str] | None
    """Index of a sample → (height, width, 3) in grey levels 0..255, channels as the stack orders
    them; or why there are none. ``None`` where ``preprocess`` gives them."""
    geometry: Geometry
    normalise: Normalise
    facts: tuple[str, ...] = ()
    """Facts found about the stack, each a sentence."""
    tolerance: float = 0.0
    """Resolution of the target's stored numbers, in grey levels."""
    misreading: Misreading | None = None
    """A conversion of colours that no configuration makes; it is applied to our pixels too, so that
    the rest can still be matched."""
    preprocess: Preprocess | None = None
    """The stack itself, where it can run here."""


def preprocess_target(preprocess: Preprocess) -> Target:
    """Return a `Preprocess` as a target. Raises `MissingDependency` if it cannot run here."""
    if reason := preprocess.missing():
        raise MissingDependency(f"target {preprocess.name}: {reason}")
    facts: tuple[str, ...] = ()
    if preprocess.surrogate_of:
        known = calibration(preprocess.name) if preprocess.name in PRESETS else "not yet calibrated"
        facts = (f"{preprocess.name} is a surrogate of {preprocess.surrogate_of}, {known}",)
    return Target(
        preprocess.name,
        None,
        Geometry.of(preprocess),
        preprocess.normalise,
        facts=facts,
        preprocess=preprocess,
    )


def preprocess_of(given: str, size: int | None) -> Preprocess:
    """Build what ``given`` names: a preset, an import, ``FILE.yaml``, or ``FILE.yaml:NAME``.

    `alignkit.experiment.yaml_argument.import_of` reads imports. A file holds either the stages of
    one path or an experiment, where NAME is one of its paths. ``size`` is the input's side in
    pixels, for a preset. Raises `ConfigError`.
    """
    if given in PRESETS:
        if size is None:
            raise ConfigError(f"preset {given!r} needs the input's side in pixels: --size 224")
        return _built({"preset": given, "size": size}, given, given)
    if mapping := import_of(given):
        return _built(mapping, Path(given).stem, given)
    file, _, name = given.partition(":")
    if Path(file).suffix in (".yaml", ".yml"):
        return _from_file(Path(file), name)
    raise ConfigError(
        f"no target {given!r}{did_you_mean(given, PRESETS)}; or a YAML file, a torchpipe .toml, "
        "a preprocessor_config.json, timm:MODEL, or a folder of recorded tensors"
    )


def _from_file(file: Path, name: str) -> Preprocess:
    source = parse(read_yaml(file), str(file))
    if source.problems:
        raise ConfigError(listed(source.problems))
    content = source.value
    if not isinstance(content, dict):
        raise ConfigError(
            f"{file} holds no stages; write them as in 'preprocess:' of an experiment"
        )
    paths = content.get("preprocess")
    if not isinstance(paths, dict):
        return _built(content, file.stem, str(file))
    if name not in paths:
        known = ", ".join(paths)
        raise ConfigError(f"{file} is an experiment; name one of its paths: {file}:NAME ({known})")
    return _built(paths[name], name, f"{file}:{name}")


def _built(content: dict[str, Any], name: str, place: str) -> Preprocess:
    try:
        return PreprocessOption.model_validate(content).build(name)
    except ValidationError as error:
        lines = [
            f"{place}: {'.'.join(str(part) for part in line['loc'])}: {line['msg']}"
            for line in error.errors(include_url=False)
        ]
        raise ConfigError("\n".join(lines)) from None


@dataclass(frozen=True, slots=True)
class MisreadingDecoder:
    """A decoder whose colours are converted by a wrong matrix; no experiment file can name it."""

    orients: ClassVar[bool] = False
    decoder: Decoder
    misreading: Misreading

    def decode(self, encoded: bytes) -> Decoded:
        """Decode with the inner decoder, then misread the colours."""
        decoded = self.decoder.decode(encoded)
        if decoded.image is None:
            return decoded
        # a writer's matrix after the inverse of a reader's: (3, 3), for columns of R, G, B
        written, read = self.misreading.written, self.misreading.read
        matrix = (np.linalg.inv(_to_ycbcr(read)) @ _to_ycbcr(written)).astype(np.float32)
        # whole levels, as every decoder gives them
        colours = np.rint(decoded.image.astype(np.float32) @ matrix.T)
        return Decoded(decoded.outcome, np.clip(colours, 0, 255).astype(np.uint8), decoded.reason)

    def version(self) -> str:
        """Return the inner decoder's version."""
        return self.decoder.version()


def misread(decoder: Any, misreading: Misreading | None) -> Any:
    """Add a misreading to the decoder; without one return the decoder itself."""
    return MisreadingDecoder(decoder, misreading) if misreading else decoder


def _to_ycbcr(weights: tuple[float, float, float]) -> FloatArray:
    """Compute the (3, 3) matrix RGB → YCbCr in full range, with chroma centred at 0."""
    red, _, blue = weights
    luma = np.asarray(weights)
    chroma_blue = (np.array([0, 0, 1]) - luma) / (2 * (1 - blue))
    chroma_red = (np.array([1, 0, 0]) - luma) / (2 * (1 - red))
    return np.stack([luma, chroma_blue, chroma_red])
