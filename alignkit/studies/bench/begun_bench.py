"""A bench that has begun, of serving options or of loaders, and its origin as documents have it."""

from __future__ import annotations

import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from alignkit.compare.statistics import with_unseen
from alignkit.findings.environment import environment
from alignkit.findings.provenance import paths_facts
from alignkit.plan.made_models import with_made_models
from alignkit.plan.plan_keys import keyed_plan
from alignkit.record.bench_facts import ServedDrift
from alignkit.record.document import read_record
from alignkit.runner.assemble import command
from alignkit.serve.cpu_use import chosen_cpus, cpu_quota, load_average
from alignkit.text.task_words import TaskWords
from alignkit.version import __version__

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.place import Place
    from alignkit.plan import Plan
    from alignkit.record import RunRecord
    from alignkit.record.bench_facts import TimedStudy
    from alignkit.workspace import Context, Workspace

TimedRecord = TypeVar("TimedRecord", bound="TimedStudy")


@dataclass(frozen=True, slots=True)
class BenchResult(Generic[TimedRecord]):
    """A bench and the folder that it is stored in."""

    record: TimedRecord
    folder: Path


@dataclass(frozen=True, slots=True)
class BegunBench:
    """A plan of which something will be timed on some CPUs, from now on."""

    experiment: Experiment
    context: Context
    plan: Plan
    words: Sequence[str]
    """The command as it was called."""
    cpus: tuple[int, ...]
    load_before: tuple[float, ...]
    started: datetime
    clock: float
    """Of `time.monotonic`, at the same moment."""

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        context: Context,
        *,
        cpus: int | None,
        words: Sequence[str],
        makes: bool = True,
    ) -> Self:
        """Begin one, which ``makes`` the models of scripts if it times any.

        Raise `ConfigError` for more CPUs than there are.
        """
        started, clock = datetime.now(UTC), time.monotonic()
        held, before = chosen_cpus(cpus), load_average()
        experiment = with_made_models(experiment, context) if makes else experiment
        plan = keyed_plan(experiment, context.workspace)
        return cls(experiment, context, plan, words, held, before, started, clock)

    def folder(self, kind: str = "bench") -> Path:
        """Return the folder that the bench is stored in."""
        run = self.context.workspace.run_folder(self.experiment.name, self.plan.key)
        return run / f"{kind}-{self.started:%Y%m%dT%H%M%SZ}"

    def facts(self) -> dict[str, Any]:
        """Return fields of every bench's document, of one that ends now."""
        return {
            "alignkit": __version__,
            "command": shlex.join(self.words),
            "name": self.experiment.name,
            "key": self.plan.key,
            "quick": self.experiment.quick,
            "started": self.started.isoformat(timespec="milliseconds"),
            "seconds": round(time.monotonic() - self.clock, 1),
            "environment": environment(),
            "paths": paths_facts(self.plan.experiment.paths, self.experiment.entries),
            "cpus": self.cpus,
            "cpu_quota": cpu_quota(),
            "load_before": self.load_before,
        }


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
