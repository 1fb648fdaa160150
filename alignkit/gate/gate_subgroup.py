"""``where`` of a rule → the images it selects, measured by themselves."""

from __future__ import annotations

from collections.abc import ItemsView, Mapping
from pathlib import Path

import numpy as np

from alignkit.compare import drift
from alignkit.compare.answers import Answers, mean_metrics
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import UnreadableImage
from alignkit.experiment.experiment import Experiment
from alignkit.gate.pixel_gate import compare_pixels, judged_images
from alignkit.place import Place
from alignkit.preprocess.image_kinds import kinds_of_file
from alignkit.record import GroupFacts, MatrixEntry, RunRecord
from alignkit.record.document import artifact_file
from alignkit.samples import Samples
from alignkit.tasks import stored_answers
from alignkit.workspace import Context


def measure_groups(
    experiment: Experiment,
    record: RunRecord,
    folder: Path,
    context: Context,
) -> tuple[GroupFacts, ...]:
    """Measure every distinct ``where`` of the rules; ``folder`` holds the record's predictions.

    Raises `DataError` if the images are no longer those of the record.
    """
    if not any(rule.group for rule in experiment.gate.rules or ()):
        return ()
    groups, draws = [], SharedDraws(experiment.resamples, copies=record.data.copies)
    for where, chosen in subgroups(experiment, judged_images(experiment, record)):
        compared = compare_pixels(experiment.paths, chosen, context) if len(chosen) else ()
        groups.append(
            GroupFacts(
                where=where,
                images=len(chosen),
                pixels=tuple(stage for each in compared for stage in each.stages),
                coverage=tuple(each.coverage for each in compared),
                matrix=_matrix(record, folder, frozenset(chosen.ids), draws),
            )
        )
    return tuple(groups)


def subgroups(experiment: Experiment, samples: Samples) -> list[tuple[dict[str, str], Samples]]:
    """Return every distinct ``where`` of the rules with its images."""
    wanted = [rule.group for rule in experiment.gate.rules or () if rule.group]
    # several rules may ask for one subgroup, in any order of its conditions
    distinct = {tuple(sorted(each.items())): each for each in wanted}
    return [(each, samples.take(members(each, samples))) for each in distinct.values()]


def members(where: Mapping[str, str], samples: Samples) -> list[int]:
    """Return the indices of the images whose kinds of file, by dimension, are all of ``where``."""
    return [index for index in range(len(samples)) if where.items() <= _kinds(samples, index)]


def _kinds(samples: Samples, index: int) -> ItemsView[str, str]:
    try:
        return kinds_of_file(samples.read(index))._asdict().items()
    except UnreadableImage:  # it is one failed image, and of no kind
        return {}.items()


def _matrix(
    record: RunRecord, folder: Path, ids: frozenset[str], draws: SharedDraws
) -> tuple[MatrixEntry, ...]:
    """Compute the matrix over these images alone."""
    kept: dict[Place, dict[int, Answers]] = {}
    for cell in record.cells if record.matrix else ():
        if cell.predictions is not None:
            whole = stored_answers(record, artifact_file(folder, cell.predictions))
            rows = [row for row, name in enumerate(whole.ids) if name in ids]
            of_group = whole.rows(np.asarray(rows, np.int64))
            kept.setdefault(cell.place, {})[cell.seed] = of_group
    # a drift is against the aligned entry of the same row
    aligned = {each.row: each.place for each in record.matrix if each.aligned}
    return tuple(
        _entry(
            each,
            kept.get(aligned.get(each.row, each.place), {}),
            kept.get(each.place, {}),
            draws,
        )
        for each in record.matrix
    )


def _entry(
    entry: MatrixEntry,
    reference: Mapping[int, Answers],
    candidate: Mapping[int, Answers],
    draws: SharedDraws,
) -> MatrixEntry:
    # churn pairs images, and a pair needs both sides of a seed
    seeds = [seed for seed in entry.seeds if seed in reference and seed in candidate]
    sides = [reference[seed] for seed in seeds], [candidate[seed] for seed in seeds]
    shared = bool(seeds) and all(set(a.ids) & set(b.ids) for a, b in zip(*sides, strict=True))
    if entry.ran and not shared:
        return entry.model_copy(
            update={"drift": None, "metrics": {}, "reason": "no image of the subgroup is predicted"}
        )
    change = drift(*sides, draws=draws) if shared and not entry.aligned else None
    return entry.model_copy(update={"drift": change, "metrics": mean_metrics(sides[1])})
