"""Refusal of models that cannot run, before anything is prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from alignkit.errors import AlignkitError, ConfigError, MissingDependency

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.models.user_model import UserModel

    Require: TypeAlias = Callable[[UserModel, Sequence[str], tuple[int, int]], None]


def require_models(experiment: Experiment) -> None:
    """Raise one `ConfigError` that says of each model why it cannot run; read no image.

    Models to train are held against the paths' size; given ones also against the data's classes.
    A file or images that are not on this machine are left to `make_plan`. Raise `MissingDependency`
    without timm, if a model is one of it.
    """
    from alignkit.models.model_fit import require_fit, require_input

    if not experiment.labelled:
        return
    if experiment.content.models:
        _require_each(experiment, require_fit)
        return
    try:
        require_input(experiment.content.train.model, *experiment.reference.size)
    except ConfigError as error:
        raise ConfigError(f"train.model: {error}") from error


def require_own_models(experiment: Experiment) -> None:
    """Raise one `ConfigError` as `require_models` does, of given models that are code: run them."""
    from alignkit.models.model_fit import require_own_code

    _require_each(experiment, require_own_code)


def _require_each(experiment: Experiment, require: Require) -> None:
    lines = []
    classes = experiment.data.class_names()
    for given in (each.build() for each in experiment.content.models):
        try:
            if classes and given.file.is_file():
                require(given, classes, experiment.reference.size)
        except MissingDependency:
            raise  # the model may fit, and the fix is another
        except AlignkitError as error:
            lines.append(f"models: {given.name}: {error}")
    if lines:
        raise ConfigError("\n".join(lines))
