"""A run whose answers are sets of labels: the folder of `write_run` by another task."""

from dataclasses import replace

import numpy as np

from alignkit.compare.predictions import Predictions
from alignkit.record.document import write_record
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks.multi_label import MultiLabel
from alignkit.tasks.multi_label.multi_label_answers import MultiLabelAnswers
from tests.report.run_folder import artifact, write_run


def labels_of(found):
    """Each image has its class, and the next one where its number is even; so has the answer."""
    n, outputs = len(found), len(found.classes)
    truth = np.zeros((n, outputs), bool)
    given = np.zeros((n, outputs), bool)
    even = np.arange(n) % 2 == 0
    for marked, classes in ((truth, found.labels), (given, found.predicted)):
        marked[np.arange(n), classes] = True
        marked[even, (classes[even] + 1) % outputs] = True
    scores = np.where(given, 0.9, 0.1).astype(np.float32)
    return MultiLabelAnswers(found.ids, truth, scores, found.classes, (), (0.5,) * outputs, "as-is")


def write_said_run(folder):
    """A whole run's folder, without its page; returns the record."""
    return with_labels(write_run(folder), folder)


def with_labels(record, folder):
    """The record of a run whose answers are the labels of those of ``record``, written there."""
    cells = []
    for cell in record.cells:
        if cell.predictions:
            made = labels_of(Predictions.from_parquet(folder / cell.predictions.path))
            stored = artifact(folder, f"said/{cell.key}.parquet", made.to_parquet)
            cell = cell.model_copy(update={"predictions": stored})  # noqa: PLW2901
        cells.append(cell)
    kept = {
        name: getattr(CLASSIFICATION, name) for name in ("metrics", "matrices", "class_metrics")
    }
    task = replace(MultiLabel().facts(), **kept, measures=())
    whole = record.model_copy(update={"task": task, "cells": tuple(cells)})
    write_record(whole, folder)
    return whole
