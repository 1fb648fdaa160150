"""Plan × names of cells → Plan: only what those cells need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from alignkit.errors import ConfigError
from alignkit.plan import Plan, run_key
from alignkit.plugins import did_you_mean


def narrow_to_cells(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with these cells, the aligned cells of their rows, and the trainings they need.

    A name is that of an `Evaluation.place`; without one the plan stays whole. Every path is
    prepared all the same: a model is trained on the images that all of them decoded. Raises
    `ConfigError` for a name that is none of the plan's.
    """
    if not names:
        return plan
    known = dict.fromkeys(str(each.place) for each in plan.evaluations)
    for name in names:
        if name not in known:
            raise ConfigError(f"--cell {name}: no such cell{did_you_mean(name, known)}")
    rows = {each.training.row for each in plan.evaluations if str(each.place) in names}
    evaluations = tuple(
        each
        for each in plan.evaluations
        if str(each.place) in names or (each.aligned and each.training.row in rows)
    )
    return replace(
        plan,
        key=run_key(plan.experiment, evaluations),
        trainings=tuple(each for each in plan.trainings if each.row in rows),
        evaluations=evaluations,
        pairs=(),
        cells=tuple(names),
    )
