"""`alignkit review`: walk pending changes and decide on each, with cargo-insta's keys.

Changes of one path that begin at one stage have one cause and are decided together. Without a
terminal nothing is asked: the commands that decide are printed.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from alignkit.baseline import Baseline
from alignkit.baseline.approval import LineChange, MetricChange
from alignkit.baseline.pending import ChangeGroup
from alignkit.text.columns import columns
from alignkit.text.names import place_in_words

KEYS = (
    "a accept · r reject · s skip · A, R, S the same for all that are left · "
    "i info · d images · o open report · q quit"
)
DECISIONS = {"a": "accept", "r": "reject", "s": "skip"}
SHOWN = 20
"""Images listed of one group."""


@dataclass(slots=True)
class Decided:
    """What was chosen of every group."""

    accept: list[ChangeGroup] = field(default_factory=list)
    reject: list[ChangeGroup] = field(default_factory=list)
    skip: list[ChangeGroup] = field(default_factory=list)


def walk(
    groups: list[ChangeGroup],
    *,
    cause: Callable[[ChangeGroup], str],
    key: Callable[[], str],
    say: Callable[[str], None],
    show_report: Callable[[], None],
) -> Decided:
    """Ask for each group; ``key`` gives one keypress, ``say`` prints.

    What is left when the user quits is skipped.
    """
    decided = Decided()
    say(KEYS)
    remaining = list(groups)
    while remaining:
        group = remaining[0]
        number = len(groups) - len(remaining) + 1
        say(f"\n[{number}/{len(groups)}] {headline(group)}")
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


def headline(group: ChangeGroup) -> str:
    """``pillow resize: 6 images changed``."""
    what = "have no approved line yet" if group.new else "changed"
    noun = "image" if len(group.images) == 1 else "images"
    return f"{group.path} {group.stage}: {len(group.images)} {noun} {what}"


def image_table(group: ChangeGroup) -> str:
    """Old and new of the first stage, image by image."""
    rows = [("image", "old", "new", "mean R, G, B: new - old")]
    own = [line for line in group.lines if line.stage == group.stage]
    for line in own[:SHOWN]:
        old = line.old.sha256[:12] if line.old and line.old.sha256 else "none"
        new = line.new.sha256[:12] if line.new.sha256 else line.new.outcome
        rows.append((line.image, old, new, _shift(line)))
    text = columns(rows)
    return f"{text}\n… and {len(own) - SHOWN} more" if len(own) > SHOWN else text


def _shift(line: LineChange) -> str:
    if line.old is None or line.old.mean is None or line.new.mean is None:
        return ""
    if line.old.shape != line.new.shape:
        return f"shape {line.old.shape} → {line.new.shape}"
    pairs = zip(line.old.mean, line.new.mean, strict=True)
    return ", ".join(f"{after - before:+.4f}" for before, after in pairs)


def cause_of(group: ChangeGroup, approved: Baseline | None, pending: Baseline) -> str:
    """What else changed of the stage: library, options."""
    from alignkit.baseline.diff import changes_of_stage

    if approved is None:
        return "nothing was approved before"
    return changes_of_stage(approved.head, pending.head, group.path, group.stage)


def model_lines(metrics: Sequence[MetricChange], file: Path) -> Iterator[str]:
    """What models predict otherwise, and the shell line that approves it; none if nothing."""
    for change in metrics:
        old, new = change.old.metrics if change.old else {}, change.new.metrics
        told = [
            f"{name} {_share(old.get(name))} → {_share(new.get(name))}"
            for name in ("top1", "recall.macro")
        ]
        yield f"# {place_in_words(change.new)}: predictions changed; {', '.join(told)}"
    if metrics:
        words = ["alignkit", "baseline", "approve", str(file), "--models", "--reason", "…"]
        yield shlex.join(words)


def _share(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.2f} %"


def commands(groups: list[ChangeGroup], file: Path) -> Iterator[str]:
    """The shell lines that approve each group, for where there is no terminal."""
    for group in groups:
        words = ["alignkit", "baseline", "approve", str(file), "--path", group.path]
        words += ["--stage", group.stage, "--reason", "…"]
        yield shlex.join(words)
