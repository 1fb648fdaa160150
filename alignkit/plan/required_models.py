"""Refusal of models that cannot run, before anything is prepared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alignkit.errors import AlignkitError, ConfigError

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment


def require_models(experiment: Experiment) -> None:
    """Raise one `ConfigError` that says of each model why it cannot run; read no image.

    Models to train are held against the paths' size; given ones also against the data's classes.
    What is not on this machine, a model's file or the images, is left to `make_plan`.
    """
    from alignkit.models.model_fit import require_fit, require_input

    if not experiment.labelled:
        return
    size = experiment.reference.size
    models = experiment.content.models
    if not models:
        try:
            require_input(experiment.content.train.model, *size)
        except ConfigError as error:
            raise ConfigError(f"train.model: {error}") from error
        return
    lines = []
    classes = experiment.data.class_names()
    for given in (each.build() for each in models):
        try:
            if classes and given.file.is_file():
                require_fit(given, classes, size)
        except AlignkitError as error:
            lines.append(f"models: {given.name}: {error}")
    if lines:
        raise ConfigError("\n".join(lines))
