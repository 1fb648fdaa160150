"""`alignkit baseline review`: a walk through pending changes, each decided by cargo-insta's keys.

Changes of one path that begin at one stage have one cause and are decided together. Without a
terminal it asks nothing and prints the commands that decide.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from alignkit.baseline import BaselineHead
from alignkit.baseline.approval import LineChange, MetricChange
from alignkit.baseline.pending import ChangeGroup, Decided, Undecided
from alignkit.preprocess import Preprocess
from alignkit.task_facts import CLASSIFICATION, TaskFacts, Unit
from alignkit.text import columns, printable
from alignkit.text.names import Names, facts_of_paths, place_in_words, surrogate_notes
from alignkit.text.numbers import signed
from alignkit.text.task_words import in_unit

KEYS = (
    "a accept · r reject · s skip · A, R, S the same for all that are left · "
    "i info · d images · o open report · q quit"
)
DECISIONS = {"a": "accept", "r": "reject", "s": "skip"}
_SHOWN = 20
"""Greatest number of images listed for one group."""


def recorded_surrogates(head: BaselineHead, paths: Sequence[Preprocess]) -> dict[str, str]:
    """Return the labels of a head; for a head without, those of ``paths`` that still run alike."""
    same = [path for path in paths if path.identity() == head.paths.get(path.name)]
    return surrogate_notes(facts_of_paths(same)) | head.surrogates


def walk(
    groups: list[ChangeGroup],
    *,
    names: Names,
    cause: Callable[[ChangeGroup], str],
    key: Callable[[], str],
    say: Callable[[str], None],
    show_report: Callable[[], None],
) -> Decided:
    """Ask for a decision on each group; ``key`` returns one keypress, ``say`` prints.

    Groups that are left when the user quits are skipped.
    """
    decided = Decided()
    say(KEYS)
    remaining = list(groups)
    while remaining:
        group = remaining[0]
        number = len(groups) - len(remaining) + 1
        say(f"\n[{number}/{len(groups)}] {headline(group, names)}")
        pressed = key()
        if pressed == "i":
            say(cause(group))
        elif pressed == "d":
            say(image_table(group))
        elif pressed == "o":
            show_report()
        elif pressed in DECISIONS:
            getattr(decided, DECISIONS[pressed]).append(remaining.pop(0))
            say(DECISIONS[pressed])
        elif pressed in ("A", "R", "S"):
            getattr(decided, DECISIONS[pressed.lower()]).extend(remaining)
            say(f"{DECISIONS[pressed.lower()]} all {len(remaining)}")
            remaining = []
        elif pressed == "q":
            decided.skip.extend(remaining)
            remaining = []
        else:
            say(KEYS)
    return decided


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


def image_table(group: ChangeGroup) -> str:
    """List old and new hash of the group's first stage, image by image."""
    rows = [("image", "old", "new", "mean R, G, B: new - old")]
    own = [line for line in group.lines if line.stage == group.stage]
    for line in own[:_SHOWN]:
        old = line.old.sha256[:12] if line.old and line.old.sha256 else "none"
        new = line.new.sha256[:12] if line.new.sha256 else line.new.outcome
        rows.append((line.image, old, new, _shift(line)))
    text = columns(rows)
    return f"{text}\n… and {len(own) - _SHOWN} more" if len(own) > _SHOWN else text


def _shift(line: LineChange) -> str:
    if line.old is None or line.old.mean is None or line.new.mean is None:
        return ""
    if line.old.shape != line.new.shape:
        return f"shape {line.old.shape} → {line.new.shape}"
    pairs = zip(line.old.mean, line.new.mean, strict=True)
    return ", ".join(signed(after - before, 4) for before, after in pairs)


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
    """Yield the shell line that approves each group, for a session without a terminal."""
    for group in groups:
        words = ["alignkit", "baseline", "approve", str(file), "--path", group.path]
        words += ["--stage", group.stage, "--reason", "…"]
        yield shlex.join(words)
