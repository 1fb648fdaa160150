"""Two runs' folders → `RunComparison`: the cells, stages and images that changed."""

from __future__ import annotations

from pathlib import Path

from alignkit.errors import NothingCompared
from alignkit.record import RunRecord
from alignkit.record.study_documents import ComparedRun, RunComparison
from alignkit.studies.compare_runs.comparable import check_comparable, differences
from alignkit.studies.compare_runs.entries import entry_changes
from alignkit.studies.compare_runs.seeds import stored_run
from alignkit.studies.compare_runs.stages import pixel_changes, stage_changes
from alignkit.version import __version__


def compare_runs(before: Path, after: Path, *, force: bool, command: str) -> RunComparison:
    """Compare the run in ``after`` with the one in ``before``.

    Raises `NotComparable` with the reasons if that would mislead, unless ``force``, and
    `NothingCompared` if the two have neither a cell nor a pair of paths in common.
    """
    runs = stored_run(before), stored_run(after)
    a, b = (run.record for run in runs)
    forced = check_comparable(a, b, force=force)
    entries, stages, pixels = entry_changes(*runs), stage_changes(a, b), pixel_changes(*runs)
    changes = {each.change for each in entries} | {each.change for each in stages}
    if not changes - {"not compared"} and not pixels:
        raise NothingCompared(
            f"{a.name} and {b.name} have no cell and no pair of paths in common; compare two runs "
            "of one experiment"
        )
    return RunComparison(
        alignkit=__version__,
        command=command,
        before=_side(before, a),
        after=_side(after, b),
        forced=forced,
        differences=differences(a, b),
        entries=entries,
        stages=stages,
        pixels=pixels,
    )


def _side(folder: Path, record: RunRecord) -> ComparedRun:
    return ComparedRun(
        folder=folder.resolve().name,
        name=record.name,
        key=record.key,
        started=record.started,
        verdict=record.verdict.state,
        sentence=record.verdict.sentence,
    )
