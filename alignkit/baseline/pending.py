"""Changes that wait for a decision, in groups, and the approval of those that are accepted.

They are a baseline file of only the changed lines, among the reports, written by `alignkit gate`
outside CI, read by `alignkit baseline review` and `alignkit baseline approve`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from alignkit.baseline import (
    Baseline,
    BaselineHead,
    baseline_environment,
    baseline_file,
    baseline_folder,
    baseline_text,
    parse_baseline,
    read_baseline,
)
from alignkit.baseline.approval import (
    Approval,
    LineChange,
    MetricChange,
    approve,
    changes,
    metric_changes,
    refuse_in_ci,
)
from alignkit.baseline.baseline_diff import changes_of_stage
from alignkit.errors import BaselineError, ConfigError
from alignkit.experiment.experiment import Experiment
from alignkit.preprocess import STAGES, Preprocess, StageName
from alignkit.stored_file import DamagedError, read_sealed, sealed, write_atomically
from alignkit.task_facts import CLASSIFICATION, TaskFacts, Unit
from alignkit.text import printable
from alignkit.text.names import Names, facts_of_paths, place_in_words, surrogate_notes
from alignkit.text.task_words import in_unit
from alignkit.workspace import Workspace


@dataclass(frozen=True, slots=True)
class ChangeGroup:
    """Changes of one path that begin at the same stage."""

    path: str
    stage: StageName
    """The first stage that changed; the changes of later stages follow from it."""
    lines: tuple[LineChange, ...]
    """The changes, including those of later stages."""

    @property
    def images(self) -> tuple[str, ...]:
        """Ids of the images, in order."""
        return tuple(dict.fromkeys(line.image for line in self.lines))

    @property
    def new(self) -> bool:
        """Whether these images had no line before."""
        return all(line.old is None for line in self.lines)


def grouped(lines: Iterable[LineChange]) -> list[ChangeGroup]:
    """Group changes by path and first changed stage, in this order."""
    by_image: dict[tuple[str, str], list[LineChange]] = {}
    for line in lines:
        by_image.setdefault((line.path, line.image), []).append(line)
    groups: dict[tuple[str, StageName], list[LineChange]] = {}
    for (path, _), of_image in by_image.items():
        first = min((line.new.stage for line in of_image), key=STAGES.index)
        groups.setdefault((path, first), []).extend(of_image)
    ordered = sorted(groups.items(), key=lambda each: (each[0][0], STAGES.index(each[0][1])))
    return [ChangeGroup(path, stage, tuple(members)) for (path, stage), members in ordered]


def pending_file(workspace: Workspace, name: str, fingerprint: str) -> Path:
    """Return the file of an experiment's pending changes."""
    return workspace.root / name / f"pending-{fingerprint}.jsonl"


def pending_changes(approved: Baseline | None, now: Baseline) -> Baseline:
    """Return only the lines of ``now`` that are not approved."""
    lines = {change.key: change.new for change in changes(approved, now)}
    metrics = {change.new.place: change.new for change in metric_changes(approved, now)}
    return Baseline(now.head, lines, metrics)


def pending_text(pending: Baseline) -> str:
    """Return the lines with a seal, since they wait outside version control."""
    return sealed(baseline_text(pending))


def read_pending(path: Path) -> Baseline:
    """Read pending changes; raises `BaselineError` if the file is not what was written."""
    again = "run alignkit gate FILE again"
    try:
        text = read_sealed(path).decode()
    except (DamagedError, OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path} holds no pending changes ({error}); {again}") from error
    return parse_baseline(text, path)


def write_pending(path: Path, pending: Baseline) -> None:
    """Replace the file, or remove it if nothing is left to decide."""
    if pending.metrics or pending.lines:
        write_atomically(path, pending_text(pending))
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Undecided:
    """The pending changes of one file and environment."""

    folder: Path
    """The folder of the baselines."""
    source: Path
    """The file of pending lines."""
    approved: Baseline | None
    pending: Baseline
    groups: list[ChangeGroup]

    @classmethod
    def of(
        cls,
        experiment: Experiment,
        workspace: Workspace,
        baselines: Path | None,
        source: Path | None = None,
    ) -> Undecided:
        """Read both sides; raises `ConfigError` in CI or if nothing is pending."""
        refuse_in_ci("deciding on a baseline")
        folder = baseline_folder(experiment, baselines)
        file = baseline_file(folder, baseline_environment(experiment.paths))
        source = source or pending_file(workspace, experiment.name, file.stem)
        if not source.exists():
            raise ConfigError(f"nothing is pending in {source}; run alignkit gate FILE first")
        pending = read_pending(source)
        # lines from another machine belong to that machine's baseline
        known = baseline_file(folder, pending.head.environment)
        approved = read_baseline(known) if known.exists() else None
        return cls(folder, source, approved, pending, grouped(changes(approved, pending)))

    def cause(self, group: ChangeGroup) -> str:
        """Name the library and the options that changed at the group's stage."""
        if self.approved is None:
            return "nothing was approved before"
        return changes_of_stage(self.approved.head, self.pending.head, group.path, group.stage)

    def metrics(self, path: str | None = None) -> tuple[MetricChange, ...]:
        """Return pending matrix entries of models evaluated on a path, or on all."""
        return tuple(
            change
            for change in metric_changes(self.approved, self.pending)
            if path in (None, change.new.evaluated_with)
        )


def approve_pending(
    experiment: Experiment,
    workspace: Workspace,
    *,
    baselines: Path | None,
    source: Path | None,
    path: str | None,
    stage: StageName | None,
    image: str | None,
    models: bool = False,
    reason: str,
) -> Approval:
    """Approve the pending lines that match; raises `ConfigError` if none does.

    They are of a path, a first changed stage and a pattern of images; ``None`` matches all.
    ``models`` approves predictions and no pixels.
    """
    narrowed = stage is not None or image is not None
    if models and narrowed:
        raise ConfigError("--models is about no stage and no image; leave --stage and --image out")
    waiting = Undecided.of(experiment, workspace, baselines, source)
    lines = tuple(
        line
        for group in ([] if models else waiting.groups)
        if path in (None, group.path) and stage in (None, group.stage)
        for line in group.lines
        if image is None or fnmatch(line.image, image)
    )
    # predictions follow from all stages and images: one of them alone decides nothing of a model
    metrics = () if narrowed else waiting.metrics(path)
    if not lines and not metrics:
        there = [f"--path {each.path} --stage {each.stage}" for each in waiting.groups]
        there += ["--models"] if waiting.metrics() else []
        raise ConfigError(f"no pending change matches; there are: {'; '.join(there) or 'none'}")
    return _approved(waiting, lines, metrics, reason)


def _approved(
    waiting: Undecided,
    lines: Sequence[LineChange],
    metrics: Sequence[MetricChange],
    reason: str,
) -> Approval:
    pending = waiting.pending
    approval = approve(waiting.folder, pending, lines, metrics, reason=reason)
    # only after the approval is stored: a crash between the two asks again and loses nothing
    gone, places = {line.key for line in lines}, {change.new.place for change in metrics}
    left = Baseline(
        pending.head,
        {key: line for key, line in pending.lines.items() if key not in gone},
        {key: line for key, line in pending.metrics.items() if key not in places},
    )
    write_pending(waiting.source, left)
    return approval


def recorded_surrogates(head: BaselineHead, paths: Sequence[Preprocess]) -> dict[str, str]:
    """Return the labels of a head; for a head without, those of ``paths`` that still run alike."""
    same = [path for path in paths if path.identity() == head.paths.get(path.name)]
    return surrogate_notes(facts_of_paths(same)) | head.surrogates


def review_document(waiting: Undecided, file: Path, surrogates: dict[str, str]) -> dict[str, Any]:
    """Return the pending changes with the command that approves each, JSON-ready."""
    return {
        "file": str(file),
        "surrogates": surrogates,
        "changes": [
            {
                "path": group.path,
                "stage": group.stage,
                "images": list(group.images),
                "new": group.new,
                "cause": waiting.cause(group),
                "approve": command,
            }
            for group, command in zip(waiting.groups, commands(waiting.groups, file), strict=True)
        ],
        "models": [each.model_dump(mode="json") for each in waiting.metrics()],
    }


def headline(group: ChangeGroup, names: Names) -> str:
    """Describe a group as in ``pillow resize: 6 images changed``."""
    verb = "have no approved line yet" if group.new else "changed"
    noun = "image" if len(group.images) == 1 else "images"
    return f"{names.short(group.path)} {group.stage}: {len(group.images)} {noun} {verb}"


def model_lines(
    metrics: Sequence[MetricChange], file: Path, names: Names, task: TaskFacts = CLASSIFICATION
) -> Iterator[str]:
    """Yield the changed predictions of models and the shell line that approves them, if any."""
    for change in metrics:
        old, new = change.old.metrics if change.old else {}, change.new.metrics
        sentences = [
            f"{name} {_value(old.get(name), unit)} → {_value(new.get(name), unit)}"
            for name, unit in ((each.name, each.unit) for each in task.metrics[:2])
        ]
        where = place_in_words(change.new, names)
        place = printable(" ".join(where.split()))  # one line of a script
        yield f"# {place}: predictions changed; {', '.join(sentences)}"
    if metrics:
        words = ["alignkit", "baseline", "approve", str(file), "--models", "--reason", "…"]
        yield shlex.join(words)


def _value(value: float | None, unit: Unit) -> str:
    # plain spaces, as the line is one of a script
    return "none" if value is None else " ".join(in_unit(value, unit).split())


def commands(groups: list[ChangeGroup], file: Path) -> Iterator[str]:
    """Yield the shell line that approves each group."""
    for group in groups:
        words = ["alignkit", "baseline", "approve", str(file), "--path", group.path]
        words += ["--stage", group.stage, "--reason", "…"]
        yield shlex.join(words)
