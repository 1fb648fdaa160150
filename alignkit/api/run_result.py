"""`run` and `load_run`: an experiment → `RunResult`, the run's record as tables."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.api.frames import fact_frame, figure_frame, frame_of, image_frame, pixel_frame
from alignkit.datasets import listed_once
from alignkit.errors import ConfigError, RecordError
from alignkit.progress import ProgressMode, progress_for
from alignkit.record import RunRecord
from alignkit.record.document import read_record
from alignkit.stored_file import write_atomically
from alignkit.text.run_columns import cell_table, class_table, matrix_table
from alignkit.text.verdict import REPORT_ONLY, report_only
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    import pandas as pd

    from alignkit.lots.engines import EngineName
    from alignkit.report.notebook import ShownVerdict


@dataclass(frozen=True, slots=True, repr=False)
class RunResult:
    """A finished run: its record, and the tables in it."""

    folder: Path
    """The folder of ``record.json``, ``index.html`` and ``cells.parquet``."""
    record: RunRecord

    @property
    def name(self) -> str:
        """Name of the experiment."""
        return self.record.name

    @property
    def verdict(self) -> ShownVerdict:
        """Judgement of the gate's rules: ``state``, ``sentence``, ``exit_code`` and ``rules``."""
        from alignkit.report.notebook import ShownVerdict

        return ShownVerdict.of(self.record.verdict, self.record)

    @property
    def page(self) -> Path:
        """The HTML report."""
        return self.folder / "index.html"

    @property
    def cells(self) -> pd.DataFrame:
        """A row for each model, path, runtime and seed, as in ``cells.parquet``."""
        return frame_of(cell_table(self.record.cells, self.record.task))

    @property
    def matrix(self) -> pd.DataFrame:
        """The cells of all seeds joined, with p-values corrected for the whole matrix."""
        return frame_of(matrix_table(self.record.matrix, self.record.task))

    @property
    def classes(self) -> pd.DataFrame:
        """A row for each class of each cell, with its confusion counts."""
        return frame_of(class_table(self.record.cells, self.record.task))

    @property
    def images(self) -> pd.DataFrame:
        """A row for each image and pair of paths: outcomes of the decodes, differences by stage."""
        return image_frame(self.record.images, self.folder)

    @property
    def pixels(self) -> pd.DataFrame:
        """A row for each pair of paths, stage and mode, over all images."""
        return pixel_frame(self.record.pixels)

    @property
    def figures(self) -> pd.DataFrame:
        """A row for each point of each line of the task's figures; empty if it gives none."""
        return figure_frame(self.record.matrix)

    @property
    def tables(self) -> pd.DataFrame:
        """A row for each cell of the task's own tables; a ``share`` or ``points`` is a fraction."""
        return fact_frame(self.record.matrix)

    def __repr__(self) -> str:
        """Return name, verdict, size and folder."""
        cells, verdict = len(self.record.cells), self.record.verdict
        notes = ", a quick look" * bool(self.record.quick)
        notes += f", {REPORT_ONLY}" * report_only(verdict)
        return f"<Run {self.name}: {verdict.state}{notes}, {cells} cells, {self.folder}>"

    def _repr_html_(self) -> str:
        from alignkit.report.notebook import run_html

        return run_html(self.record)


@listed_once()
def run(
    experiment: str | Path | Mapping[str, Any],
    *,
    overrides: Mapping[str, Any] | None = None,
    cells: Sequence[str] = (),
    fresh: bool = False,
    quick: bool = False,
    reports: str | Path = "reports",
    page: bool = True,
    engine: EngineName = "local",
    workers: int | None = None,
    address: str = "",
    progress: ProgressMode = "auto",
) -> RunResult:
    """Run an experiment as `alignkit run` does, or read its run if it is finished.

    ``experiment`` is a YAML file, or a mapping of the same keys, which is written below ``reports``
    so that the run's command works. ``overrides`` are values by dotted key, as in
    ``{"train.epochs": 2}``. ``cells`` narrows the run to cells
    ``TRAINED/EVALUATED/BACKEND/PRECISION``, ``fresh`` repeats finished work, ``quick`` is a first
    look on fewer images and one seed, ``page`` writes the HTML report, ``progress`` goes to stderr.
    ``engine`` ("local", "dask" or "ray") divides the images among ``workers`` that it starts here,
    by default one for each CPU, or among those of the cluster at ``address``.

    Drift raises nothing: see ``verdict``. Raises `ConfigError` with every mistake of the file, and
    the other errors that the command reports.
    """
    from alignkit.experiment import load_experiment
    from alignkit.gate import run_or_check
    from alignkit.lots.engines import EngineOption
    from alignkit.report.write_report import form, kept_report

    chosen = EngineOption(engine, address, workers)
    workspace = Workspace(Path(reports))
    mapped = isinstance(experiment, Mapping)
    file = _written(experiment, workspace.root) if mapped else Path(experiment)  # type: ignore[arg-type]  # a file
    sets = [f"{key}={json.dumps(value, default=str)}" for key, value in (overrides or {}).items()]
    loaded = load_experiment(file, sets, quick=quick)
    with chosen.when_used() as opened:
        context = Context(workspace, progress_for(progress), engine=opened)
        record, folder = run_or_check(loaded, context, fresh=fresh, cells=cells)
    if page:
        kept_report(folder, form(single_file=False, images="", max_report_size=""))
    return RunResult(folder, record)


def _written(experiment: Mapping[str, Any], root: Path) -> Path:
    """Write a mapping as a file named after its content."""
    try:
        # JSON is YAML whatever the values are; another dialect might read text as a number
        text = json.dumps(dict(experiment), indent=1, default=str) + "\n"
    except (TypeError, ValueError) as error:
        raise ConfigError(f"the experiment is no mapping of YAML's values: {error}") from None
    name = re.sub(r"[^\w.-]+", "-", str(experiment.get("name", "experiment")))
    file = root / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.yaml"
    write_atomically(file, text)
    return file


def load_run(folder: str | Path) -> RunResult:
    """Read the run in a folder, ``reports/<experiment>/<run>``, or its ``record.json``.

    Raises `RecordError` if there is none, and `DamagedRecord` if it is not what was written.
    """
    given = Path(folder)
    if not given.is_file() and not (given / "record.json").exists():
        runs = sorted(given.glob("*/record.json"), key=lambda each: each.stat().st_mtime)
        newest = f"; its newest run is {runs[-1].parent}" if runs else ""
        raise RecordError(
            f"no record.json in {given}; give the folder of a finished run, "
            f"reports/<experiment>/<run>{newest}"
        )
    return RunResult(given.parent if given.is_file() else given, read_record(given))
