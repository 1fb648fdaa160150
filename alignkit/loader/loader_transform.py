"""Transforms of a `MixedLoader`: `seeded` adapts those of torchvision, `try_transform` tests one.

A transform must draw from its seed alone: then an image is transformed alike on both paths, in
every resumed epoch, and whatever the number of threads is.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from alignkit.arrays import Pixels
from alignkit.errors import ConfigError
from alignkit.prepare import prepare_one
from alignkit.preprocess import Preprocess

Transform: TypeAlias = Callable[[torch.Tensor, int], torch.Tensor]
"""Function from (3, h, w), 0..255 as the path returns it before normalisation (``uint8``, or
unrounded ``float32``), and a seed for its draws, to (3, h', w') in 0..255."""
_TRIALS = 4
"""Seeds with which a transform is tried, each twice."""
_NORMALISED = 10.0
"""Values that a normalised image does not exceed, and an image of noise in 0..255 does."""
_CALL = "it is called as transform(image, seed)"
_BEYOND = 64
"""Levels beyond black and white that noise may add."""
_WRAP = "a transform of torchvision, or one that takes the image alone, needs seeded(...)"


@dataclass(frozen=True, slots=True)
class seeded:  # noqa: N801 - used as a function
    """A transform of torchvision (v2), or of torch, as a `Transform` that draws from its seed.

    ``transform`` takes a (3, h, w) tensor alone: ``uint8`` in 0..255, or ``float32`` in 0..1 as
    torchvision has it. Its random draws come from a generator of the image's own and not from
    torch's, which the training loop uses at the same time. Raises `ConfigError` for a random
    operation of torch that takes no generator.

    ::

        augment = seeded(v2.Compose([v2.RandomHorizontalFlip(), v2.ColorJitter(0.2)]))
    """

    transform: Callable[[torch.Tensor], torch.Tensor]

    def __call__(self, image: torch.Tensor, seed: int) -> torch.Tensor:
        """Transform (3, h, w) in 0..255 to the same range."""
        # torchvision takes floats beyond 1 for white
        given = image / 255 if image.is_floating_point() else image
        with _DrawsFrom(torch.Generator().manual_seed(seed)):
            changed = self.transform(given)
        if isinstance(changed, torch.Tensor) and changed.is_floating_point():
            return changed * 255
        return changed


# Seeding torch's own generator would let a model's dropout, in another thread, change the draws,
# and the draws the dropout.
class _DrawsFrom(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch has no types here
    """Give a generator to every random operation of this thread."""

    def __init__(self, generator: torch.Generator) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._generator = generator

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; a random one with the generator."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        if any(each.name == "generator" for each in func._schema.arguments):  # noqa: SLF001 - no other way
            return func(*args, **{**kwargs, "generator": self._generator})
        name = func._overloadname  # noqa: SLF001
        named = "generator" if name == "default" else f"{name}_generator"
        if named not in func.overloadpacket.overloads():
            raise ConfigError(
                f"the transform draws by {func.overloadpacket}, which takes no generator, so that "
                "its draws would not follow from the seed; leave it out"
            )
        return getattr(func.overloadpacket, named)(
            *args, **{**kwargs, "generator": self._generator}
        )


def try_transform(transform: Transform, path: Preprocess) -> None:
    """Raise `ConfigError` unless the transform takes a path's image and draws from its seed alone.

    It is called a few times, with a small image of noise that the path prepares.
    """
    pixels = _noise(path)
    if pixels is None:  # a decoder of other files than JPEG
        return
    planes = torch.from_numpy(np.ascontiguousarray(pixels)).permute(2, 0, 1)
    for seed in range(_TRIALS):
        once, again = (_called(transform, planes.clone(), seed) for _ in range(2))
        _refuse_unlike_pixels(once)
        if once.shape != again.shape or not torch.equal(once, again):
            raise ConfigError(
                f"transform: two calls with one image and seed give different images, so that it "
                f"draws elsewhere (random, numpy.random, or torch without the seed); {_WRAP}, and "
                "other draws must come from the seed"
            )


def _noise(path: Preprocess) -> Pixels | None:
    from PIL import Image

    encoded = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    Image.fromarray(noise).save(encoded, "JPEG")
    return prepare_one("a trial image", encoded.getvalue(), path)[1]


def _called(transform: Transform, planes: torch.Tensor, seed: int) -> torch.Tensor:
    given = f"{_CALL}, here with {tuple(planes.shape)} {planes.dtype} and {seed}"
    try:
        changed = transform(planes, seed)
    except ConfigError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"transform: {said}; {given}; {_WRAP}") from error
    if not isinstance(changed, torch.Tensor):
        returned = type(changed).__name__
        raise ConfigError(f"transform: it returns {returned}, no tensor; {given}; {_WRAP}")
    if changed.ndim != 3 or changed.shape[0] != 3:
        raise ConfigError(f"transform: it returns {tuple(changed.shape)}, not (3, h, w); {given}")
    return changed


def _refuse_unlike_pixels(image: torch.Tensor) -> None:
    """Raise `ConfigError` for a float image of noise that is normalised, or in 0..1.

    `seeded` multiplies by 255, so that a third or more of normalised values are far from 0..255.
    """
    low, high = float(image.min()), float(image.max())
    far = float(((image < -_BEYOND) | (image > 255 + _BEYOND)).float().mean())
    # an erased area may be far too: torchvision fills it with normal noise
    if image.is_floating_point() and low < high and (high <= _NORMALISED or far > 0.25):
        raise ConfigError(
            f"transform: it returns values from {low:.3g} to {high:.3g}, not 0..255; the path "
            f"normalises after it, so leave Normalize out; {_WRAP}, which scales floats"
        )
