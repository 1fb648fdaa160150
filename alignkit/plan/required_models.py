"""Refusal of models that cannot run, before anything is prepared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from alignkit.datasets import DATASETS
from alignkit.errors import AlignkitError, ConfigError, MissingDependency
from alignkit.plugins import require_libraries

if TYPE_CHECKING:
    from alignkit.datasets import Dataset
    from alignkit.experiment.experiment import Experiment
    from alignkit.models.user_model import UserModel
    from alignkit.plan import Plan

    Require: TypeAlias = Callable[[UserModel, Sequence[str], tuple[int, int]], None]


def require_models(experiment: Experiment) -> None:
    """Raise one `ConfigError` that says of each model why it cannot run; read no image.

    A model to train must take inputs of the paths' size; a given one must fit the data's classes
    too, unless its file or the images are not on this machine. Raise `MissingDependency` if a
    library is not installed without which nothing of the experiment can be measured.
    """
    from alignkit.models.model_fit import require_fit, require_input

    require_libraries(*libraries(experiment))
    if not experiment.labelled:
        return
    if given := [each.build() for each in experiment.content.models]:
        _require_each(given, experiment.data, experiment.reference.size, require_fit)
        return
    try:
        require_input(experiment.content.train.model, *experiment.reference.size)
    except ConfigError as error:
        raise ConfigError(f"train.model: {error}") from error


def libraries(experiment: Experiment) -> list[str]:
    """List the libraries that the data and every model need, by their import names.

    Those of a backend or a path are not among them: its cells are skipped, and the others run.
    """
    content = experiment.content
    needed = [plugin.module] if (plugin := DATASETS.get(experiment.data_name)) else []
    if not experiment.labelled:
        return [*filter(None, needed)]
    formats = {each.build().format for each in content.models}
    if formats != {"onnx"}:
        needed += ["torch", "torchvision"]
    if "onnx" in formats:
        needed += ["onnx"]
    return [*filter(None, needed), "scipy"]


def require_own_models(plan: Plan) -> None:
    """Run each given model of a plan that is code on one image.

    Raise one `ConfigError` that says of each why it does not run.
    """
    from alignkit.models.model_fit import require_own_code

    given = [each.given for each in plan.trainings if each.given is not None]
    _require_each(given, plan.data, plan.reference.size, require_own_code)


def _require_each(
    models: Sequence[UserModel], data: Dataset, size: tuple[int, int], require: Require
) -> None:
    lines = []
    classes = data.class_names()
    for given in models:
        try:
            if classes and given.file.is_file():
                require(given, classes, size)
        except MissingDependency:
            raise  # the model may fit, and the fix is another
        except AlignkitError as error:
            lines.append(f"models: {given.name}: {error}")
    if lines:
        raise ConfigError("\n".join(lines))
