"""`alignkit gate calibrate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import Overrides, Quiet, Reports
from alignkit.progress import progress_for
from alignkit.workspace import Context, Workspace


def calibrate(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="YAML file of the gate or experiment.")
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    repeats: Annotated[int, typer.Option(min=1, help="Number of repeats per path.")] = 3,
    reports: Reports = Path("reports"),
    quiet: Quiet = False,
) -> None:
    """Propose thresholds from the noise between repeats and between seeds; change no file."""
    from alignkit.experiment import load_experiment
    from alignkit.gate.gate_thresholds import proposal_text, propose
    from alignkit.run import run_experiment

    experiment = load_experiment(file, overrides)
    display = progress_for("none" if quiet else "auto")
    record = None
    if experiment.labelled:
        record, _ = run_experiment(experiment, Context(Workspace(reports), display))
    print(proposal_text(propose(experiment, record, repeats=repeats, progress=display)))
