"""``task:``: whether the data and the rest of a file fit the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_core import InitErrorDetails

from alignkit.errors import ConfigError
from alignkit.experiment.option import wrong
from alignkit.plugins import name_of
from alignkit.tasks import TASKS, OutputShape

if TYPE_CHECKING:
    from alignkit.datasets import Dataset
    from alignkit.experiment.train_option import Recipe
    from alignkit.samples import Truth
    from alignkit.tasks import Task

NEEDS_MODEL = "--task says how a model's outputs are read; add --model FILE"
NEEDS_CLASSES = "{} is for data with one class an image, and this data has {}; remove it"
"""Refusal of a part of the file that is about the metrics of classes."""


def mistaught(task: Task, recipe: Recipe, data: Dataset) -> list[InitErrorDetails]:
    """Return one line for each way in which a training does not give what the task reads."""
    name, at = name_of(task, TASKS), ("train", "embedding")
    embeds = recipe.embedding is not None
    if embeds and not _reads_vectors(task, recipe.embedding):
        message = (
            f"gives a vector, and {name} reads a score for each class; write 'task: embedding'"
        )
    elif not embeds and task.keeps_vectors:
        message = "is missing: the task reads vectors; set train.embedding, say to 128"
    elif not embeds and getattr(data, "held_out", False):
        message = (
            "is missing: the data's identities of evaluation are not those of training, so that no "
            "classifier knows them; write 'task: embedding' and set train.embedding, say to 128"
        )
    else:
        return []
    return [wrong("embedding", message, *at)]


def _reads_vectors(task: Task, length: int | None) -> bool:
    """Tell whether a task reads a vector an image, and no score for each class."""
    vector = OutputShape("embedding", (None, length))
    try:
        return task.counted([vector]) == 0
    except ConfigError:
        return False


def training_truth(data: Dataset) -> Truth:
    """Return the truth of the training images; a plugin that extends no `Dataset` has one truth."""
    return getattr(data, "training_truth", data.truth)


def untaught(task: Task, truth: Truth, trained: Truth | None) -> list[InitErrorDetails]:
    """Return one line for each way in which a task does not fit the data's ``truth``.

    ``trained`` is the truth of the training images, or None if the file has no part ``train``.
    """
    lines = []
    if reason := task.refuses(truth):
        lines.append(wrong("task", reason, "task"))
    if trained not in (None, "class"):
        message = (
            f"trains classifiers, from one class an image, and this data has {trained}; give "
            "models that are trained as 'models:'"
        )
        lines.append(wrong("task", message, "train"))
    return lines
