"""Published weights by torchvision's or timm's name, and files with which a training begins.

Published weights are downloaded and kept by the library that names them. Their identity is known
before: torchvision's file names hold the first digits of their SHA-256, timm's are a repository of
the Hugging Face hub.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import ConfigError, MissingDependency
from alignkit.models.architectures import (
    import_timm,
    misfit,
    model_version,
    read_weights,
    weights_hash,
)
from alignkit.plugins import did_you_mean, nearest
from alignkit.stored_file import file_sha256
from alignkit.version import WEIGHT_LAYERS, code_version

if TYPE_CHECKING:
    from torch import nn
    from torchvision.models import WeightsEnum

    from alignkit.workspace import Workspace

SCALES_ITS_INPUT = ("googlenet", "inception_v3")
"""With published weights torchvision makes these normalise their input a second time."""


def identity(pretrained: str, model: str) -> str:
    """Identify the weights without a network, for a training's key.

    A file is identified by its SHA-256, a name by its meaning and the published file or repository.
    Raise `ConfigError` if there is no such file, or the model has no weights of that name.
    """
    if is_file(pretrained):
        return f"SHA-256 {file_sha256(_existing(pretrained))}"
    if model.startswith("timm:"):
        return f"{pretrained} ({_timm_repository(pretrained, model)})"
    weights = _torchvision_weights(pretrained, model)
    return f"{weights.name} ({_file_name(weights)})"


def is_file(pretrained: str) -> bool:
    """Tell whether the text is a file: it has a suffix or a slash, which no name has."""
    return any(each in pretrained for each in "./\\")


def read_pretrained(pretrained: str, model: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Read the ``state_dict``, downloaded if need be, and name the modules that depend on classes.

    No code in a pickle is executed. Raise `MissingDependency` if it cannot be downloaded,
    `ConfigError` if the file is not the published one.
    """
    if is_file(pretrained):
        weights = read_weights(_existing(pretrained), model)
        return weights, _last_module(weights)
    if model.startswith("timm:"):
        return _from_timm(pretrained, model)
    weights = _from_torchvision(_torchvision_weights(pretrained, model), model)
    return weights, _last_module(weights)


def published_outputs(pretrained: str, model: str) -> int:
    """Return the number of outputs of published weights, as their library states it.

    Raise as `identity` does.
    """
    if model.startswith("timm:"):
        return int(_timm_config(pretrained, model).num_classes)
    return len(_torchvision_weights(pretrained, model).meta["categories"])


def default_tag(model: str) -> str:
    """Return the name of the weights that timm takes for ``timm:NAME`` by default.

    Raise `ConfigError` if it has none, `MissingDependency` without timm.
    """
    timm = import_timm()
    name = model.removeprefix("timm:")
    tags = _tags(timm, name)
    if not tags:
        known = timm.list_models(pretrained=True)
        hint = did_you_mean(name, known) if nearest(name, known) else ""  # too many to list
        raise ConfigError(f"timm has no published weights of {name!r}{hint}")
    own = timm.models.get_pretrained_cfg(name).tag
    return str(own if own in tags else tags[0])


def timm_size(pretrained: str, model: str) -> tuple[int, int]:
    """Return (height, width) of the input that published weights of timm were trained for."""
    _, height, width = _timm_config(pretrained, model).input_size
    return int(height), int(width)


def published_file(pretrained: str, model: str, workspace: Workspace) -> Path:
    """Return a stored file with the ``state_dict`` of published weights, downloaded if need be.

    Raise as `read_pretrained` does.
    """

    def store(folder: Path) -> None:
        import torch

        torch.save(dict(read_pretrained(pretrained, model)[0]), folder / "weights.pt")

    parts = {
        "pretrained": identity(pretrained, model),
        "library": model_version(model),  # it renames tensors of older files
        "code": code_version(WEIGHT_LAYERS),
    }
    label = f"fetch {model} {pretrained}"
    return workspace.keep("exports", parts, label, store, lambda folder: folder / "weights.pt")


def imagenet_classes() -> tuple[str, ...]:
    """Return the 1,000 WordNet ids of ImageNet-1k in the order of a model's outputs.

    They are read from a list in timm's folder, without importing it. Raise `MissingDependency` if
    timm is not installed, or has no such list.
    """
    from importlib import metadata

    try:
        file = metadata.distribution("timm").locate_file("timm/data/_info/imagenet_synsets.txt")
        return tuple(Path(str(file)).read_text(encoding="utf-8").split())
    except (metadata.PackageNotFoundError, OSError):
        raise MissingDependency(
            "the order of ImageNet's classes is read from timm, which is not installed: "
            "pip install 'alignkit[timm]'; or give a file with one name a line"
        ) from None


def begin_with(module: nn.Module, pretrained: str, model: str) -> dict[str, Any]:
    """Load the weights into ``module``; modules for other classes keep their fresh weights.

    Return the log entry: the weights' ``identity``, the ``sha256`` of the ``state_dict`` and, as
    ``initialised``, the names that keep fresh weights. Raise `ConfigError` if the weights are
    another model's.
    """
    published, heads = read_pretrained(pretrained, model)
    own = module.state_dict()
    fresh = [
        name
        for name in own
        if name.rpartition(".")[0] in heads
        and name in published
        and published[name].shape != own[name].shape
    ]
    # a head for other classes has another shape: it keeps the drawn weights
    loaded = _without(fresh, published)
    if reason := misfit(_without(fresh, own), loaded):
        raise ConfigError(f"pretrained: {pretrained} is not for {model}: {reason}")
    module.load_state_dict(loaded, strict=False)
    return {
        "identity": identity(pretrained, model),
        "sha256": weights_hash(published),
        "initialised": fresh,
    }


def _existing(pretrained: str) -> Path:
    file = Path(pretrained).expanduser()
    if not file.is_file():
        raise ConfigError(f"pretrained: there is no file {file}; give that of a state_dict")
    return file


def _last_module(weights: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(name).rpartition(".")[0] for name in [*weights][-1:])


def _without(names: Sequence[str], weights: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tensor for name, tensor in weights.items() if name not in names}


def _torchvision_weights(name: str, model: str) -> WeightsEnum:
    if model == "small-cnn":
        raise ConfigError("pretrained: small-cnn has no published weights; give a file")
    if model in SCALES_ITS_INPUT:
        raise ConfigError(
            f"pretrained: torchvision's weights of {model} expect another scale of the input "
            "than 'normalise' gives; choose another model, or give a file"
        )
    from torchvision.models import get_model_weights

    known = get_model_weights(model).__members__
    if name not in known:
        raise ConfigError(f"pretrained: {model} has no weights {name!r}{_near(name, known)}")
    weights: WeightsEnum = known[name]
    return weights


def _near(name: str, known: Any) -> str:
    return did_you_mean(name, known) + "; a file is written with its suffix"


def _file_name(weights: WeightsEnum) -> str:
    return str(weights.url).rpartition("/")[2]


def _from_torchvision(weights: WeightsEnum, model: str) -> Mapping[str, Any]:
    import pickle

    import torch
    from torchvision.models import get_model

    file = Path(torch.hub.get_dir()) / "checkpoints" / _file_name(weights)
    try:
        with redirect_stdout(sys.stderr):  # torch announces a download on stdout
            weights.get_state_dict(
                map_location="cpu", progress=False, check_hash=True, weights_only=True
            )
    except pickle.UnpicklingError as error:
        raise ConfigError(
            f"pretrained: {file} was refused: it is no pickle of tensors alone; delete it"
        ) from error
    except (OSError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        raise MissingDependency(
            f"pretrained: {file.name} cannot be downloaded or read ({reason}); fetch "
            f"{weights.url} where there is a network and put it into {file.parent}"
        ) from error
    expected = file.stem.rpartition("-")[2]
    if not file_sha256(file).startswith(expected):  # torch checks only the files it downloads
        raise ConfigError(
            f"pretrained: {file} is not the published file, whose SHA-256 begins with "
            f"{expected}; delete it"
        )
    # torchvision's own constructor, as some of its files hold older names; the check above found
    # tensors only
    built: nn.Module = get_model(model, weights=weights)
    return built.state_dict()


def _timm_repository(tag: str, model: str) -> str:
    config = _timm_config(tag, model)
    return str(config.hf_hub_id or config.url)


def _timm_config(tag: str, model: str) -> Any:
    timm = import_timm()
    name = model.removeprefix("timm:")
    known = _tags(timm, name)
    if tag not in known:
        raise ConfigError(f"pretrained: {model} has no weights {tag!r}{_near(tag, known)}")
    return timm.models.get_pretrained_cfg(f"{name}.{tag}")


def _tags(timm: Any, name: str) -> list[str]:
    """List timm's published weights of a model."""
    return [each.partition(".")[2] for each in timm.list_pretrained(f"{name}.*")]


def _from_timm(tag: str, model: str) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    timm = import_timm()
    repository = _timm_repository(tag, model)
    try:
        _require_hub(repository)
        module = timm.create_model(f"{model.removeprefix('timm:')}.{tag}", pretrained=True)
    except Exception as error:  # the hub's clients use several libraries, each with its own errors
        from huggingface_hub.constants import HF_HUB_CACHE

        reason = str(error).partition("\n")[0]
        raise MissingDependency(
            f"pretrained: {repository} cannot be downloaded or read ({reason}); run "
            f"'hf download {repository}' where there is a network and copy its folder into "
            f"{HF_HUB_CACHE}"
        ) from error
    heads = module.pretrained_cfg["classifier"]
    return module.state_dict(), (heads,) if isinstance(heads, str) else tuple(heads)


def _require_hub(repository: str) -> None:
    """Ask the hub for a repository that is not here; the client raises if it does not answer.

    A download would try for a minute, with a warning for each time.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.constants import HF_HUB_CACHE

    kept = Path(HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}"
    if not any(kept.glob("snapshots/*/*")):
        HfApi().model_info(repository, timeout=10)
