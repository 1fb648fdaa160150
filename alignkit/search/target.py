"""`Target`: the pixels of the stack to match, image by image, in grey levels.

It is either a `Preprocess` this machine can run (a preset or a YAML block) or a folder of tensors
that the serving stack recorded, see `alignkit.search.recorded_target`.

Some stacks convert colours as no configuration does: `alignkit.search.recolouring`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from alignkit.errors import ConfigError, MissingDependency
from alignkit.experiment import Mistakes, read_yaml
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.yaml_argument import DEFAULT_SIZE, import_of
from alignkit.experiment.yaml_source import parse
from alignkit.preprocess import Preprocess
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.preset_names import preset_meant
from alignkit.preprocess.presets import PRESETS, calibration, imitated
from alignkit.search.configurations import Framing
from alignkit.search.recolouring import Recolouring
from alignkit.search.target_facts import TargetFact


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """The stack to match."""

    name: str
    levels: Callable[[int], npt.NDArray[np.float32] | str] | None
    """Index of a sample → (height, width, 3) in grey levels 0..255, channels as the stack orders
    them; or why there are none. ``None`` where ``preprocess`` gives them."""
    geometry: Framing
    normalise: Normalise
    facts: tuple[TargetFact | str, ...] = ()
    """Facts found about the stack, each a sentence."""
    tolerance: float = 0.0
    """Resolution of the target's stored numbers, in grey levels."""
    fitted_on: int | None = None
    """Images of enough contrast that a normalisation which is none of the known ones was fitted on;
    ``None`` where the normalisation is known."""
    stand_in: str = ""
    """Name of the known normalisation that is taken in place of the fitted one; or empty."""
    recolouring: Recolouring | None = None
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
        known = calibration(preprocess)
        real = imitated(preprocess.surrogate_of, preprocess.replaced)
        facts = (f"{preprocess.name} is a surrogate of {real}, {known}",)
    return Target(
        preprocess.name,
        None,
        Framing.of(preprocess),
        preprocess.normalise,
        facts=facts,
        preprocess=preprocess,
    )


def preprocess_of(given: str, size: int | None) -> Preprocess:
    """Build what ``given`` names: a preset, an import, ``FILE.yaml``, or ``FILE.yaml:NAME``.

    `alignkit.experiment.yaml_argument.import_of` reads imports. A file holds either the stages of
    one path or an experiment, where NAME is one of its paths. ``size`` is the input's side in
    pixels, for a preset, by default 224. Raises `ConfigError`.
    """
    if given in PRESETS:
        return _built({"preset": given, "size": size or DEFAULT_SIZE}, given, given)
    if mapping := import_of(given):
        return _built(mapping, Path(given).stem, given)
    file, _, name = given.partition(":")
    if Path(file).suffix in (".yaml", ".yml"):
        return _from_file(Path(file), name)
    raise ConfigError(
        f"no target {given!r}{preset_meant(given)}; or a YAML file, a torchpipe .toml, "
        "a preprocessor_config.json, timm:MODEL, or a folder of recorded tensors"
    )


def _from_file(file: Path, name: str) -> Preprocess:
    source = parse(read_yaml(file), str(file))
    if source.problems:
        raise Mistakes(source.problems)
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
