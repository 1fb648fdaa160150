"""A runtime as the report names it, e.g. ``onnxruntime optimisation=basic fp16`` → `Runtime`."""

from __future__ import annotations

from typing import Any, get_args

import yaml
from pydantic import ValidationError

from alignkit.backends import BACKENDS, Precision
from alignkit.errors import ConfigError
from alignkit.experiment.option import plugin_from
from alignkit.plan.planned_runtime import Runtime
from alignkit.plugins import did_you_mean, find_plugin


def runtime_named(text: str) -> Runtime:
    """Parse a backend's name, its options as KEY=VALUE, and a precision (by default fp32).

    Raises `ConfigError` for a mistake, or a backend that bisect cannot follow.
    """
    name, *words = text.split() or [""]
    precision: Any = "fp32"
    options: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if equals:
            options[key] = yaml.safe_load(value)
        elif word in get_args(Precision):
            precision = word
        else:
            known = did_you_mean(word, get_args(Precision))
            raise ConfigError(f"{text!r}: {word!r} is no precision and no KEY=VALUE{known}")
    plugin = find_plugin("backends", BACKENDS, name)
    try:
        backend = plugin_from("backends", BACKENDS, {"name": name, **options})
    except ValidationError as error:
        raise ConfigError(f"{text!r}: {error.errors()[0]['msg']}") from None
    require_followed(name, needs_onnx=backend.needs_onnx)
    label = " ".join((name, *(f"{key}={value}" for key, value in sorted(options.items()))))
    reason = plugin.missing() or backend.impossible(precision)
    return Runtime(label, backend, precision, plugin.version(), reason)


def require_followed(name: str, *, needs_onnx: bool) -> None:
    """Raise `ConfigError` for a backend that does not run an ONNX graph."""
    if not needs_onnx:
        raise ConfigError(
            f"{name}: bisect follows the layers of an ONNX graph; compare a backend that runs one "
            "(onnxruntime, openvino). torch fp32 is the reference where the cell's model is torch's"
        )
