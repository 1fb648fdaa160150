"""How much difference a run's models bear: of their outputs, and of the pixels of two paths.

Both rest on the logits that the run stored. A tolerance of the outputs needs no assumption; one of
pixels assumes that outputs are linear along the difference of two paths, which is checked.
"""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from alignkit.findings.line_models import LineModels, line_models
from alignkit.findings.pixel_curves import checked_pairs, pair_passes, pixel_tolerances
from alignkit.findings.stored_row import StoredRow, stored_rows
from alignkit.machine import cpu_name
from alignkit.progress import NoProgress, Progress
from alignkit.record.document import read_record
from alignkit.record.tolerance_facts import (
    NamedTolerance,
    PixelDifference,
    PixelTolerance,
    ToleranceDocument,
)
from alignkit.studies.tolerance.exchange import exchange
from alignkit.studies.tolerance.lines import PASSES
from alignkit.studies.tolerance.logit_limits import logit_tolerance
from alignkit.studies.tolerance.stage_curves import stage_tolerances, stages_of
from alignkit.version import __version__


def tolerance(
    run: Path, *, budget: float, check: bool, alone: bool, command: str, progress: Progress
) -> ToleranceDocument:
    """Measure the tolerance of every row of a run for a share of answers, ``budget``, above 0.

    With ``check`` the network is run between the paths, and with ``alone`` also along each stage
    and each named difference, which takes most of the time. Raises `RecordError` if the run, its
    answers or, with ``check``, its stored work are gone, and `NothingCompared` if no model ran or
    the task's answers have no tolerance.
    """
    record = read_record(run)
    folder = run.parent if run.is_file() else run
    rows = stored_rows(folder, record)
    for row in rows:  # an answer without margins is known before a model is loaded
        row.home(next(iter(row.homes)))
    models = line_models(folder, record, progress) if check else None
    logits = tuple(logit_tolerance(each, budget) for each in rows)
    lone = models if alone else None
    passes = sum(map(pair_passes, rows)) if models else 0
    passes += sum(_passes_alone(each, lone) for each in rows) if lone else 0
    pixels: list[PixelTolerance] = []
    stages: list[PixelTolerance] = []
    named: list[NamedTolerance] = []
    shown = progress if passes else NoProgress()
    with shown.stage("tolerance", passes, f"{record.name}, passes of a network") as stage:
        for each in rows:
            pixels += pixel_tolerances(
                each, budget, models, checked_pairs(each, models, stage.advance)
            )
            if lone is not None:
                stages += stage_tolerances(each, budget, lone, stage.advance)
            named += exchange(each, budget, lone, stage.advance)
    return ToleranceDocument(
        alignkit=__version__,
        command=command,
        name=record.name,
        key=record.key,
        cpu=record.environment.cpu,
        checked_on=cpu_name() if models else "",
        quick=record.quick,
        task=record.task,
        paths=record.paths,
        budget=budget,
        logits=logits,
        pixels=tuple(pixels),
        stages=tuple(stages),
        exchange=tuple(named),
    )


def _passes_alone(row: StoredRow, models: LineModels) -> int:
    """Count the passes of a network along a row's stages and named differences."""
    lines = len(stages_of(row, models)) + len(get_args(PixelDifference))
    return PASSES * lines * len(row.homes)
