"""The version of this package, and of the source code of its layers.

A stored result is read only while the code that made it is unchanged: its key has the
`code_version` of the layers that decide it. Each list below holds all rooms that its members import
and that decide numbers.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

GROUND = ("arrays.py", "limits.py", "machine.py", "rank.py", "samples.py", "torch_settings.py")
"""The modules of the ground that decide numbers."""
# images that are read from files depend on no code of ours
DATA_LAYERS = ("samples.py", "limits.py", "datasets")
"""Layers that decide generated images."""
# of the stored types, those that count and add up
_SUMS = ("record/path_facts.py", "record/pixel_facts.py")
PIXEL_LAYERS = (
    *GROUND, *_SUMS, "decoders", "resizers", "preprocess", "isolation", "lots", "prepare",
)  # fmt: skip
# a task names a model's outputs, and the names are parts of the keys; it decides no weight
WEIGHT_LAYERS = (*PIXEL_LAYERS, "compare/metrics.py", "models", "train")
ENGINE_LAYERS = (*PIXEL_LAYERS, "models", "backends", "engines")
"""Layers that decide exported graphs, and the engines that backends build of them."""
LOGIT_LAYERS = (*ENGINE_LAYERS, "compare", "annotations.py", "tasks", "predict")
SHARE_LAYERS = (*LOGIT_LAYERS, "attribute", "text")
"""The share of each stage in a drift, stored with its notes."""
# `runner` imports nearly every room; of its modules this one decides what is stored
DIFFERENCE_LAYERS = (*PIXEL_LAYERS, "compare", "text/numbers.py", "runner/comparison_stage.py")
ADVICE_LAYERS = (
    *LOGIT_LAYERS, "text", "search", "findings/stage_yaml.py", "runner/advise.py",
)  # fmt: skip
ALL_LAYERS = (".",)
"""All layers: for a result that is quick to compute again."""


@cache
def code_version(layers: tuple[str, ...]) -> str:
    """Hash the source of modules and folders of this package: SHA-256, in hex."""
    # sources and not their dates: a checkout or an installation gives every file a new one
    digest = hashlib.sha256()
    for name in layers:
        digest.update(_source(name))
    return digest.hexdigest()


@cache  # the lists of layers share most of theirs
def _source(layer: str) -> bytes:
    source = Path(__file__).parent / layer
    files = sorted(source.rglob("*.py")) if source.is_dir() else [source]
    return b"".join(file.read_bytes() for file in files)
