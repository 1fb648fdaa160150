"""The drift of serving options, from the record of the run of the same file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.compare.statistics import with_unseen
from alignkit.record.bench_facts import ServedDrift
from alignkit.record.document import read_record
from alignkit.runner.assemble import command
from alignkit.text.task_words import TaskWords

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.place import Place
    from alignkit.record import RunRecord
    from alignkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class KnownDrift:
    """The record of a run, if there is one of the same plan."""

    record: RunRecord | None
    folder: str
    """Of the record, below that of all reports; empty without one."""
    reason: str
    """Why there is none, with the command that makes it."""

    def of(self, place: Place) -> tuple[ServedDrift | None, str]:
        """Return the drift of a place, or ``None`` and why it is not known."""
        if self.record is None:
            return None, self.reason
        entry = next((each for each in self.record.matrix if each.place == place), None)
        if entry is None:
            return None, f"the run has no cell {place}"
        if entry.drift is None or entry.drift.churn.value is None:
            unknown = entry.drift.churn.reason if entry.drift else entry.reason
            return None, unknown or f"the run measured no drift of {place}"
        metric = TaskWords(self.record.task).headline
        images = entry.drift.compared // max(1, len(entry.seeds))
        return (
            ServedDrift(
                images=images,
                # a bootstrap of images without a flip has no width, and more images would show some
                churn=with_unseen(entry.drift.churn, entry.drift.groups or images),
                metric=metric,
                change=entry.drift.of(metric),
            ),
            "",
        )


def known_drift(
    experiment: Experiment, keys: Sequence[str], workspace: Workspace, cells: Sequence[str]
) -> KnownDrift:
    """Find the record of the plan with one of these keys, the first that has one.

    ``cells`` narrow the last of the plans. Raises `DamagedRecord` if a record is there and is not
    whole.
    """
    for key in keys:
        folder = workspace.run_folder(experiment.name, key)
        if not (folder / "record.json").exists():
            continue
        record = read_record(folder)
        if record.key == key:
            return KnownDrift(record, folder.relative_to(workspace.root).as_posix(), "")
    return KnownDrift(None, "", f"not measured: {command(experiment, workspace, cells)}")
