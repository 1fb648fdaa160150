"""Models that a recipe can name, and files of torch models, on the CPU and ready to predict.

Torch is imported when a model is built or loaded, not to check a name: `alignkit plan` calls only
`unknown_model` and `model_version`.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import ConfigError, DataError
from alignkit.extras import require_libraries
from alignkit.models.file_headers import damage, weights_in
from alignkit.plugins import Plugin, did_you_mean
from alignkit.tasks.own_code import own_function

if TYPE_CHECKING:
    import torch
    from torch import nn

    from alignkit.models.checkpoint import Checkpoint, CheckpointFormat

# fmt: off
TORCHVISION_MODELS = (
    "alexnet", "convnext_base", "convnext_large", "convnext_small", "convnext_tiny",
    "densenet121", "densenet161", "densenet169", "densenet201", "efficientnet_b0",
    "efficientnet_b1", "efficientnet_b2", "efficientnet_b3", "efficientnet_b4",
    "efficientnet_b5", "efficientnet_b6", "efficientnet_b7", "efficientnet_v2_l",
    "efficientnet_v2_m", "efficientnet_v2_s", "googlenet", "inception_v3", "maxvit_t",
    "mnasnet0_5", "mnasnet0_75", "mnasnet1_0", "mnasnet1_3", "mobilenet_v2",
    "mobilenet_v3_large", "mobilenet_v3_small", "regnet_x_16gf", "regnet_x_1_6gf",
    "regnet_x_32gf", "regnet_x_3_2gf", "regnet_x_400mf", "regnet_x_800mf", "regnet_x_8gf",
    "regnet_y_128gf", "regnet_y_16gf", "regnet_y_1_6gf", "regnet_y_32gf", "regnet_y_3_2gf",
    "regnet_y_400mf", "regnet_y_800mf", "regnet_y_8gf", "resnet101", "resnet152", "resnet18",
    "resnet34", "resnet50", "resnext101_32x8d", "resnext101_64x4d", "resnext50_32x4d",
    "shufflenet_v2_x0_5", "shufflenet_v2_x1_0", "shufflenet_v2_x1_5", "shufflenet_v2_x2_0",
    "squeezenet1_0", "squeezenet1_1", "swin_b", "swin_s", "swin_t", "swin_v2_b", "swin_v2_s",
    "swin_v2_t", "vgg11", "vgg11_bn", "vgg13", "vgg13_bn", "vgg16", "vgg16_bn", "vgg19",
    "vgg19_bn", "vit_b_16", "vit_b_32", "vit_h_14", "vit_l_16", "vit_l_32", "wide_resnet101_2",
    "wide_resnet50_2",
)
# fmt: on
"""``torchvision.models.list_models(torchvision.models)``, kept as text because the call imports
torch; a test compares the two."""
MODELS = ("small-cnn", *TORCHVISION_MODELS)
_LEAST_SIDES = {
    "small-cnn": 32, "alexnet": 63, "convnext": 32, "densenet": 29, "googlenet": 15,
    "inception_v3": 75, "squeezenet1_0": 21, "squeezenet1_1": 17, "vgg": 32,
}  # fmt: skip
"""Beginning of a name → least height and width in pixels: below it, a pooling or a convolution has
nothing left. Kept as numbers, so that a smaller input is found without torch; a test holds them
against torchvision."""
_STEPS = {
    "maxvit_t": 224, "vit_b_16": 16, "vit_b_32": 32, "vit_h_14": 14, "vit_l_16": 16, "vit_l_32": 32,
}  # fmt: skip
"""Name → the number that must divide the side of its square input."""
SCHEMA: dict[str, Any] = {"anyOf": [{"enum": [*MODELS]}, {"pattern": "^timm:"}]}
"""JSON schema of a recipe's model, for editors."""
USER_BUILT = re.compile(r"[A-Za-z_][\w.]*:[\w./-]+")
"""Form of ``module:function``, for weights the user brings, and of ``timm:NAME``."""


def unknown_model(name: str) -> str:
    """Explain why no such model can be built, with the nearest known name; empty if it can."""
    return "" if name in MODELS else f"no model {name!r}{did_you_mean(name, MODELS)}"


def unfit_size(name: str, height: int, width: int) -> str:
    """Explain why a model of `MODELS` does not take this input size; empty if it does."""
    least = next((each for kind, each in _LEAST_SIDES.items() if name.startswith(kind)), 1)
    step = _STEPS.get(name, 1)
    if height % step or (step > 1 and height != width):
        near = -(-max(height, width) // step) * step
        wants = f"square inputs of a multiple of {step}, e.g. {near}x{near}"
    elif min(height, width) < least:
        wants = f"inputs of {least}x{least} or more"
    else:
        return ""
    return (
        f"{name} takes {wants}, not {height}x{width}; set another size in 'resize', or choose "
        "another model"
    )


def model_version(model: str = "") -> str:
    """Return the libraries that define and train a model, with versions; imports none."""
    names = ("torch", "torchvision", *(["timm"] if model.startswith("timm:") else []))
    libraries = (Plugin(target="", distributions=(name,)) for name in names)
    return ", ".join(filter(None, (library.version() for library in libraries)))


def build_model(name: str, classes: int, height: int, width: int) -> nn.Module:
    """Build the module with fresh weights from torch's global generator, in training mode.

    It maps (samples, 3, height, width) float32 to (samples, classes) logits. Raise `ConfigError`
    for an unknown name, and for an input size that the model's layers do not accept.
    """
    import torch

    timm = name.startswith("timm:")
    if USER_BUILT.fullmatch(name) and not timm:
        return build_own(name, classes)
    if not timm and (reason := unknown_model(name) or unfit_size(name, height, width)):
        raise ConfigError(reason)
    if name == "small-cnn":
        return small_cnn(classes)
    try:
        model = build_own(name, classes) if timm else _torchvision(name, classes, height, width)
        # in training mode batch normalisation would count the zeros in its statistics
        model.eval()
        with torch.inference_mode():
            model(torch.zeros(1, 3, height, width))
    except (ValueError, RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(
            f"{name} does not accept inputs of {height}x{width} ({reason}); "
            "choose another model, or another size in 'resize'"
        ) from error
    return model.train()


def build_embedder(name: str, length: int, height: int, width: int) -> nn.Sequential:
    """Build a model that gives (samples, length) embeddings, as `build_model` does with logits.

    Its last layer is followed by a batch normalisation without weights of its own. Features after a
    ReLU share a direction, and all cosines would begin near 1 (Luo et al., *Bag of Tricks* for
    re-identification, 2019, call it BNNeck).
    """
    from torch import nn

    model = build_model(name, length, height, width)
    return nn.Sequential(model, nn.BatchNorm1d(length, affine=False))


def small_cnn(classes: int, width: int = 16) -> nn.Module:
    """Build four blocks of 3x3 convolution, batch norm, ReLU, 2x2 max pooling; then a global mean.

    Channels are ``width`` times 1, 2, 4, 4: enough for digits on photographs, and trained on a
    thousand small images in seconds on a laptop.
    """
    from torch import nn

    layers: list[nn.Module] = []
    channels = 3
    for out in (width, 2 * width, 4 * width, 4 * width):
        layers += [
            nn.Conv2d(channels, out, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        ]
        channels = out
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers, *head)


def _torchvision(name: str, classes: int, height: int, width: int) -> nn.Module:
    """Build a model with the options that some constructors need for a size."""
    import torchvision

    options: dict[str, Any] = {}
    if name in ("googlenet", "inception_v3"):  # no auxiliary heads: a model has one output
        options = {"aux_logits": False, "init_weights": True}
    elif name.startswith("vit_"):
        options = {"image_size": height}
    elif name == "maxvit_t":
        options = {"input_size": (height, width)}
    model: nn.Module = torchvision.models.get_model(
        name, weights=None, num_classes=classes, **options
    )
    return model


def load_model(checkpoint: Checkpoint) -> nn.Module:
    """Load the trained module on the CPU in evaluation mode; torch's generator is unchanged.

    Raise `DataError` if the file is damaged or holds another model's weights.
    """
    import torch

    if checkpoint.format == "onnx":
        raise DataError(f"{checkpoint.weights} is an ONNX file, which torch does not run")
    if checkpoint.format != "weights":
        return load_graph(checkpoint.weights, checkpoint.format)
    # building draws fresh weights, which those of the file replace
    with torch.random.fork_rng(devices=[]):
        outputs = checkpoint.embedding or checkpoint.classes
        build = build_embedder if checkpoint.embedding else build_model
        model = build(checkpoint.model, outputs, checkpoint.height, checkpoint.width)
    weights = read_weights(checkpoint.weights, checkpoint.model)
    try:
        model.load_state_dict(weights)
    except (RuntimeError, TypeError) as error:
        given = "dimensions" if checkpoint.embedding else "classes"
        raise DataError(
            f"{checkpoint.weights} holds no weights of {checkpoint.model} with {outputs} {given}: "
            f"{misfit(model.state_dict(), weights) or error}"
        ) from error
    return model.eval()


def weights_hash(weights: Mapping[str, torch.Tensor]) -> str:
    """Compute the SHA-256 hex over names and values of a ``state_dict``."""
    import torch

    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(name.encode())
        digest.update(tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


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
