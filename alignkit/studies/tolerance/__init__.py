"""How much difference a run's models bear: of their outputs, and of the pixels of two paths.

Both rest on the logits that the run stored. A tolerance of the outputs needs no assumption; one of
pixels assumes that outputs are linear along the difference of two paths, which is checked.
"""

from __future__ import annotations

from pathlib import Path

from alignkit.findings.line_models import line_models
from alignkit.findings.pixel_curves import pixel_tolerances
from alignkit.findings.stored_row import stored_rows
from alignkit.machine import cpu_name
from alignkit.progress import Progress
from alignkit.record.document import read_record
from alignkit.record.tolerance_facts import ToleranceDocument
from alignkit.studies.tolerance.logit_limits import logit_tolerance
from alignkit.version import __version__


def tolerance(
    run: Path, *, budget: float, check: bool, command: str, progress: Progress
) -> ToleranceDocument:
    """Measure the tolerance of every row of a run for a share of answers, ``budget``, above 0.

    With ``check`` the network is run between the paths. Raises `RecordError` if the run, its
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
    with progress.stage("tolerance", sum(len(each.homes) for each in rows), record.name) as stage:
        pixels = tuple(
            found
            for each in rows
            for found in pixel_tolerances(each, budget, models, stage.advance)
        )
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
        pixels=pixels,
    )
