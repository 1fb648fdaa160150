"""Files of torch models, loaded on the CPU and ready to predict."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import ConfigError, DataError
from alignkit.extras import require_libraries
from alignkit.models.file_kind import damage
from alignkit.models.weights_header import weights_in
from alignkit.tasks.own_code import own_function

if TYPE_CHECKING:
    from torch import nn

    from alignkit.models.checkpoint import CheckpointFormat


def read_weights(file: Path, model: str) -> Mapping[str, Any]:
    """Read the ``state_dict`` in a file of ``torch.save``; no code in the pickle is executed.

    Raise `DataError` if the file is damaged, or holds more than tensors and plain containers, or no
    ``state_dict``.
    """
    import pickle

    import torch

    try:
        stored = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        if re.search("unsupported (global|class)", str(error), re.IGNORECASE):
            raise DataError(
                f"{file} was refused: it is a pickle that would run code or build objects other "
                "than tensors; save the weights alone, torch.save(model.state_dict(), FILE)"
            ) from error
        reason = damage(file, error, "weights")
        raise DataError(f"{file} holds no weights of {model}: {reason}") from error
    # of a file that is cut, torch's reader also raises OSError
    except (RuntimeError, EOFError, ValueError, LookupError, OSError) as error:
        reason = damage(file, error, "weights")
        raise DataError(f"{file} holds no weights of {model}: {reason}") from error
    try:
        return weights_in(stored).tensors
    except DataError as error:
        raise DataError(f"{file} holds no weights of {model}: {error}") from None


def misfit(own: Mapping[str, Any], weights: Mapping[str, Any]) -> str:
    """Explain why ``weights`` do not fit a module whose ``state_dict`` is ``own``; else empty."""
    missing = [name for name in own if name not in weights]
    surplus = [str(name) for name in weights if name not in own]
    shapes = [
        f"{name} is {_shape(weights[name])}, the model's {_shape(own[name])}"
        for name in own
        if name in weights and _differ(own[name], weights[name])
    ]
    faults = [f"{len(missing)} missing ({_some(missing)})"] if missing else []
    faults += [f"{len(surplus)} not the model's ({_some(surplus)})"] if surplus else []
    faults += [f"{len(shapes)} of another shape ({_some(shapes)})"] if shapes else []
    wrapped = next((name for name in missing if any(s.endswith(f".{name}") for s in surplus)), "")
    if wrapped:
        prefix = next(s for s in surplus if s.endswith(f".{wrapped}")).removesuffix(wrapped)
        faults.append(f"its names begin with {prefix!r}: save the state_dict of the module inside")
    if not faults:
        return ""
    fit = len(own) - len(missing) - len(shapes)
    return "; ".join([f"{fit} of the model's {len(own)} tensors fit", *faults])


def _differ(own: Any, given: Any) -> bool:
    # a header does not know the shape of every kind of tensor
    return getattr(given, "shape", ()) is not None and _shape(own) != _shape(given)


def _shape(tensor: Any) -> str:
    return "x".join(map(str, getattr(tensor, "shape", ()))) or "one value"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def load_graph(file: Path, kind: CheckpointFormat) -> nn.Module:
    """Load a TorchScript file or an archive of ``torch.export``; raise `DataError` if it is none.

    An exported program keeps the mode in which it was exported.
    """
    import torch

    jit: Any = torch.jit
    try:
        with quiet_torchscript():
            if kind == "torchscript":
                scripted: nn.Module = jit.load(str(file), map_location="cpu")
                return scripted.eval()
            return torch.export.load(file).module()
    except Exception as error:
        reason = damage(file, error, kind)
        raise DataError(f"{file} cannot be loaded as {kind}: {reason}") from error


@contextmanager
def quiet_torchscript() -> Iterator[None]:
    """Silence TorchScript's deprecation warnings: the user cannot act on them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit", category=DeprecationWarning)
        # torch.export.load copies nothing; the module's tensors are not written to
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        yield


def build_own(name: str, classes: int) -> nn.Module:
    """Build ``timm:NAME``, or call ``module:function`` for a number of classes.

    The function is called with the number of classes if it takes an argument. Raise `ConfigError`
    if there is none, `MissingDependency` without timm.
    """
    from inspect import signature

    module, _, function = name.partition(":")
    built: nn.Module
    if module == "timm":
        try:
            built = import_timm().create_model(function, pretrained=False, num_classes=classes)
        except RuntimeError as error:
            raise ConfigError(f"timm has no model {function!r} ({error})") from error
        return built
    build = own_function(name, "model")
    built = build(classes) if signature(build).parameters else build()
    return built


def import_timm() -> Any:
    """Import timm; raise `MissingDependency` without it."""
    require_libraries("timm")
    import timm

    return timm
