"""The result of a torch module → named outputs: a tensor, several, a dictionary, or one an image.

torchvision's detectors return a dictionary for each image, whose tensors have as many rows as the
image has objects. They are padded with NaN to the rows of the image with the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from alignkit.arrays import require_exact, unreal
from alignkit.errors import BackendError
from alignkit.models.user_model import LONE_OUTPUT
from alignkit.tasks import OutputShape


def takes_a_list(model: torch.nn.Module) -> bool:
    """Tell whether a scripted module takes a list of images, as torchvision's detectors do."""
    schema = getattr(getattr(model, "forward", None), "schema", None)
    return schema is not None and [str(each.type) for each in schema.arguments[1:2]] == [
        "List[Tensor]"
    ]


def declared_outputs(model: torch.nn.Module, size: tuple[int, int]) -> tuple[OutputShape, ...]:
    """Run a module on one black image of (height, width); describe its outputs as a file would.

    Raise as `named_outputs` and the module do.
    """
    images = torch.zeros(1, 3, *size)
    with torch.inference_mode():
        returned = model([*images] if takes_a_list(model) else images)
    found = named_outputs(returned)
    # the number of objects is another one for each image
    free = 2 if _by_image(returned) is not None else 1
    return tuple(
        OutputShape(name, (None,) * free + tuple(each.shape[free:]), not each.is_floating_point())
        for name, each in found.items()
    )


def wanted_module(
    model: torch.nn.Module, size: tuple[int, int], names: Sequence[str]
) -> tuple[torch.nn.Module, bool]:
    """Return a module that gives a tuple of the outputs ``names``, by default the only one.

    The flag tells whether the module gives objects of each image: then the new one takes one image
    of (height, width). A module that gives one tensor is returned as it is.
    """
    with torch.inference_mode():
        images = torch.zeros(1, 3, *size)
        returned = model([*images] if takes_a_list(model) else images)
    if isinstance(returned, torch.Tensor):
        return model, False
    return _Wanted(model, tuple(names)), _by_image(returned) is not None


class _Wanted(torch.nn.Module):
    """A module whose outputs are those that are wanted, in their order."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.names, self.lists = model, names, takes_a_list(model)

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, ...]:
        returned = self.model([images[0]] if self.lists else images)
        if (found := _by_image(returned)) is not None:
            # one image has no padding, and no tensor of NaN to be traced
            tensors = {name: each[None] for name, each in _tensors(found[0]).items()}
        else:
            tensors = named_outputs(returned)
        return tuple(tensors[name] for name in self.names or tensors)


def _by_image(returned: Any) -> Sequence[Mapping[str, torch.Tensor]] | None:
    """Return the dictionaries of the images; ``None`` if there is none for each."""
    if not isinstance(returned, Sequence) or not returned:
        return None
    # a scripted detector of torchvision returns its losses, of which it has none, before
    if returned[0] == {} and len(returned) == 2:
        return _by_image(returned[1])
    return returned if all(isinstance(each, Mapping) for each in returned) else None


def named_outputs(returned: Any) -> dict[str, torch.Tensor]:
    """Map names to (images, …) tensors; those of a tuple are numbered from ``0``.

    Raise `BackendError` for what holds anything but tensors.
    """
    if isinstance(returned, torch.Tensor):
        return {LONE_OUTPUT: _real(returned)}
    if isinstance(returned, Mapping):
        return _tensors(returned)
    if (images := _by_image(returned)) is not None:
        return _padded([_tensors(each) for each in images])
    if isinstance(returned, Sequence) and returned:
        return _tensors({str(index): each for index, each in enumerate(returned)})
    raise _unfit(returned)


def _tensors(given: Mapping[Any, Any]) -> dict[str, torch.Tensor]:
    # transformers' outputs leave out what was not asked for
    held = {str(name): each for name, each in given.items() if each is not None}
    if not held or not all(isinstance(each, torch.Tensor) for each in held.values()):
        raise _unfit(given)
    return {name: _real(each) for name, each in held.items()}


def _real(output: torch.Tensor) -> torch.Tensor:
    if reason := unreal(output):
        raise BackendError(f"an output of the module {reason}")
    return output


def _unfit(returned: Any) -> BackendError:
    kinds = returned
    if isinstance(returned, Mapping):
        kinds = [f"{name}: {type(each).__name__}" for name, each in returned.items()]
    held = f" of {', '.join(map(str, kinds))}" if kinds is not returned else ""
    return BackendError(
        f"the module returns {type(returned).__name__}{held}, and not tensors; wrap it in a "
        "module that returns a tensor, a tuple or a dictionary of tensors, or one for each image"
    )


def _padded(images: Sequence[Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
    """Join the images' tensors, (objects, …), as (images, most objects, …)."""
    names = images[0].keys()
    if any(each.keys() != names for each in images):
        raise BackendError("the module returns other names for some images of a batch")
    return {name: _stacked([each[name] for each in images]) for name in names}


def _stacked(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    widths = {tuple(each.shape[1:]) for each in tensors}
    if len(widths) != 1 or any(each.ndim == 0 for each in tensors):
        shapes = ", ".join(map(str, _shapes(tensors)))
        raise BackendError(f"the module's outputs for the images of a batch differ: {shapes}")
    most = max(len(each) for each in tensors)
    for each in tensors:
        if not each.is_floating_point() and each.numel():
            require_exact(int(each.min()), int(each.max()))
    # in float32, as whole numbers have no NaN
    joined = torch.full((len(tensors), most, *widths.pop()), float("nan"), dtype=torch.float32)
    for row, each in zip(joined, tensors, strict=True):
        row[: len(each)] = each
    return joined


def _shapes(tensors: Iterable[torch.Tensor]) -> list[tuple[int, ...]]:
    return sorted({tuple(each.shape) for each in tensors})
