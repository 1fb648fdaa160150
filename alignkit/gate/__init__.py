"""`alignkit gate`: measure what a file's rules need, whole or in shards, assert it, and tell CI.

`gate_check` does this for an experiment, `gate_run` for a file, `assertion` for two stacks in a
test; `baseline_recording` records what is approved, and `outputs` write the outcome. Nothing is
imported at the top: every command reads rules, few judge.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.record import RunRecord
    from alignkit.workspace import Context


def run_or_check(
    experiment: Experiment,
    context: Context,
    *,
    fresh: bool = False,
    cells: Sequence[str] = (),
) -> tuple[RunRecord, Path]:
    """Run an experiment; images without labels are compared and judged as a gate does it.

    Returns the record and its folder. Raises what `alignkit.runner.run_experiment` and
    `alignkit.gate.gate_check.check` raise.
    """
    from alignkit.runner import forget, run_experiment

    if experiment.predicts:
        return run_experiment(experiment, context, fresh=fresh, cells=cells)
    from alignkit.errors import ConfigError
    from alignkit.gate.gate_check import check
    from alignkit.plan.plan_keys import keyed_plan

    if cells:
        raise ConfigError("--cell: without a model there are no cells; leave it out")
    if fresh:
        forget(keyed_plan(experiment, context.workspace), context.workspace)
    checked = check(experiment, context, baselines=None, as_run=True)
    return checked.record, checked.folder
