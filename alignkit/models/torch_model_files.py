"""Files of torch models, loaded on the CPU and ready to predict."""

from __future__ import annotations

import importlib
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import ConfigError, DataError
from alignkit.extras import require_libraries
from alignkit.models.file_kind import damage
from alignkit.models.weights_header import NESTED
from alignkit.stored_file import file_sha256
from alignkit.workspace import content_key

if TYPE_CHECKING:
    from torch import nn

    from alignkit.models.checkpoint import CheckpointFormat


def read_weights(file: Path, model: str) -> Any:
    """Read the ``state_dict`` in a file of ``torch.save``; no code in the pickle is executed.

    Raise `DataError` if the file is damaged, or holds more than tensors and plain containers.
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
    # the state of a whole training, as scripts save it
    keys = NESTED if isinstance(stored, dict) else ()
    nested = (stored[key] for key in keys if isinstance(stored.get(key), dict))
    return next(nested, stored)


def misfit(own: Mapping[str, Any], weights: Any) -> str:
    """Explain why ``weights`` do not fit a module whose ``state_dict`` is ``own``; else empty."""
    if not isinstance(weights, Mapping):
        return f"it holds a {type(weights).__name__}"
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
    _look_where_started()
    try:
        build = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise _not_found(name, str(error)) from error
    built = build(classes) if signature(build).parameters else build()
    return built


def own_source(name: str) -> str:
    """Hash the source of the package, or of the single module, that holds ``module:function``.

    Nothing is imported. Return SHA-256 hex; raise `ConfigError` if there is no such module, or one
    of its files is not regular.
    """
    from importlib.util import find_spec

    top = name.partition(":")[0].partition(".")[0]
    _look_where_started()
    spec = find_spec(top)  # of a name without a dot, this runs no code
    if spec is None:
        raise _not_found(name, f"no module named {top!r}")
    # a module of a package may import the others
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    found = (each for folder in folders for each in sorted(folder.rglob("*.py")))
    # an editor marks an open file by a link to nowhere
    files = [each for each in found if each.exists() and not each.is_dir()]
    if not folders and spec.has_location:
        files = [Path(str(spec.origin))]
    return content_key([_source_sha256(name, each) for each in files])


def _source_sha256(name: str, file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError as error:
        reason = f"{file}, of its package, cannot be read ({error.strerror})"
        raise ConfigError(f"model {name!r}: {reason}; remove it, or make it readable") from error


def _look_where_started() -> None:
    if "" not in sys.path:
        sys.path.insert(0, "")  # as `python -m` does: the folder alignkit was started in


def _not_found(name: str, reason: str) -> ConfigError:
    return ConfigError(
        f"model {name!r}: {reason}; start alignkit in the folder that holds "
        f"{name.partition(':')[0]}, or install it"
    )


def import_timm() -> Any:
    """Import timm; raise `MissingDependency` without it."""
    require_libraries("timm")
    import timm

    return timm
