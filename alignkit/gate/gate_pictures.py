"""Failed rules about pixels → the images that break them most, for the page of a pixel gate."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from alignkit.compare.image_table import LAST, ImageTable, read_image_table
from alignkit.compare.shown_stages import ImageTaker
from alignkit.errors import DataError
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.metric_option import find_metric
from alignkit.gate.gate_subgroup import members
from alignkit.plan import CHANGED
from alignkit.preprocess import Preprocess
from alignkit.record import RuleOutcome, RunRecord, ShownImage
from alignkit.runner.comparison_stage import compare_stored
from alignkit.samples import Samples
from alignkit.text.outcome import said
from alignkit.workspace import Workspace

WORST = 6
"""Images shown of each failed rule."""


def with_pictures(
    record: RunRecord, experiment: Experiment, folder: Path, workspace: Workspace
) -> RunRecord:
    """Show the worst images of each failed rule that compares the pixels of two paths.

    Raises `DataError` if the images are no longer those of the record.
    """
    if not (failed := _failed(record, experiment)):
        return record
    samples = experiment.data.evaluation()
    if samples.fingerprint != record.data.fingerprint:  # a record of pixels is of these alone
        raise DataError(CHANGED)
    paths = {path.name: path for path in experiment.paths}
    shown: list[ShownImage] = []
    for pair, outcomes in failed.items():
        reference, candidate = (paths[name] for name in pair)
        table = _table(reference, candidate, samples, workspace)
        worst: dict[str, list[str]] = {}
        for each in outcomes:
            for name in _worst(each, table, experiment, samples):
                worst.setdefault(name, []).append(said(each, "rule"))
        taken = ImageTaker(reference, candidate, samples, folder).show(list(worst))
        shown += [each.model_copy(update={"rules": tuple(worst[each.id])}) for each in taken]
    return record.model_copy(update={"shown": tuple(shown)})


def _failed(record: RunRecord, experiment: Experiment) -> dict[tuple[str, str], list[RuleOutcome]]:
    """Return pair of paths → its failed rules about pixels."""
    names = {path.name for path in experiment.paths}
    failed: dict[tuple[str, str], list[RuleOutcome]] = {}
    for each in record.verdict.rules:
        pair = each.trained_with, each.evaluated_with
        # rules about recorded stages name no metric, and a baseline keeps no pixels
        if each.state != "fail" or not names.issuperset(pair):
            continue
        if find_metric(each.metric).kind == "pixel":
            failed.setdefault(pair, []).append(each)
    return failed


def _table(
    reference: Preprocess, candidate: Preprocess, samples: Samples, workspace: Workspace
) -> ImageTable:
    """Read the distances of every image, which the gate has just stored."""
    stored = compare_stored(reference, candidate, samples, workspace, lambda *_: None)
    return read_image_table(stored.images)


def _worst(
    outcome: RuleOutcome, table: ImageTable, experiment: Experiment, samples: Samples
) -> list[str]:
    """Name the images that differ most after the rule's stage and those before it, if any do."""
    metric = find_metric(outcome.metric)
    of_stage = table.max_abs if metric.field == "max_abs" else table.mean_abs
    distance = 1 - table.ssim if metric.field == "ssim" else of_stage[metric.stage or LAST].copy()
    distance[np.isnan(distance)] = np.inf  # another shape is the greatest difference
    distance[np.isnan(table.mean_abs[LAST])] = 0  # neither are there final pixels to show
    rule = next((each for each in experiment.gate.expanded if each.id == outcome.rule), None)
    if rule is not None and rule.group:
        chosen = {samples.ids[index] for index in members(rule.group, samples)}
        distance[[name not in chosen for name in table.ids]] = 0
    order = np.argsort(-distance, kind="stable")[:WORST]
    return [table.ids[index] for index in order if distance[index] > 0]
