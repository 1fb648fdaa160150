"""`Approval`: who approved which changes of a baseline, in which commit, and why.

Every approval is a file of its own, so that two branches never conflict. A line is replaced only if
it is still the line that the reviewer saw, and no line is ever removed.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shutil
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from alignkit.baseline import (
    Baseline,
    BaselineHead,
    LineKey,
    MetricLine,
    StageLine,
    baseline_file,
    read_baseline,
    write_baseline,
)
from alignkit.errors import BaselineError, ConfigError
from alignkit.findings.environment import git_revision
from alignkit.machine import command_output
from alignkit.record import Stored
from alignkit.stored_file import explained, read_regular, write_atomically
from alignkit.workspace import content_key


@dataclass(frozen=True, slots=True)
class LineChange:
    """One line before and after."""

    path: str
    image: str
    stage: str
    old: StageLine | None
    """``None`` if the line is new."""
    new: StageLine

    @property
    def key(self) -> LineKey:
        """The line's key."""
        return self.new.key


class MetricChange(Stored):
    """The metrics of a matrix entry, before and after."""

    old: MetricLine | None
    new: MetricLine


class LineValue(Stored):
    """The fields of a line that an approval stores, enough to recognise the line."""

    sha256: str | None
    outcome: str
    mean: tuple[float, float, float] | None


class ApprovedLine(Stored):
    """One line, old → new."""

    path: str
    image: str
    stage: str
    old: LineValue | None
    new: LineValue


class Approval(Stored):
    """One approval, as it is stored."""

    format: Literal[1] = 1
    when: str
    """UTC, ISO 8601."""
    who: str
    commit: str
    """Commit of the working tree, with ``-dirty`` if it was changed; empty outside git."""
    reason: str
    fingerprint: str
    versions_before: dict[str, dict[str, str]]
    versions_after: dict[str, dict[str, str]]
    lines: tuple[ApprovedLine, ...]
    metrics: tuple[MetricChange, ...] = ()
    head: str = ""
    """Hash of the baseline's head that this approval wrote; see `head_key`."""

    @property
    def upgrades(self) -> str:
        """Libraries of approved paths that changed, as in ``pillow 9.5.0 → pillow 13.0.0``."""
        paths = {line.path for line in self.lines}
        pairs = {
            f"{before} → {self.versions_after[path][stage]}": None
            for path in sorted(paths & self.versions_before.keys() & self.versions_after.keys())
            for stage, before in self.versions_before[path].items()
            if before != self.versions_after[path].get(stage, before)
        }
        return "; ".join(pairs)


def refuse_in_ci(action: str, command: str = "") -> None:
    """Raise `ConfigError` if ``CI`` is set: a job that rewrites its own baseline checks nothing.

    The message names the ``command`` to run outside.
    """
    if in_ci():
        outside = f"run it outside: {command}" if command else "run it outside"
        raise ConfigError(f"{action} is refused in CI (the variable CI is set): {outside}")


def in_ci() -> bool:
    """Return whether this process runs in a CI job."""
    # some users set it to false to act as outside CI
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def changes(approved: Baseline | None, now: Baseline) -> tuple[LineChange, ...]:
    """List every line that is new or has other pixels or another outcome, in the file's order."""
    known = approved.lines if approved else {}
    return tuple(
        LineChange(*key, known.get(key), line)
        for key, line in sorted(now.lines.items())
        if _content(known.get(key)) != _content(line)
    )


def _content(line: StageLine | None) -> tuple[str | None, str] | None:
    # not its statistics, which follow from the pixels, nor the reason, a library's wording
    return (line.sha256, line.outcome) if line else None


def metric_changes(approved: Baseline | None, now: Baseline) -> tuple[MetricChange, ...]:
    """List every matrix entry that is new or has other metrics."""
    known = approved.metrics if approved else {}
    return tuple(
        MetricChange(old=known.get(place), new=line)
        for place, line in sorted(now.metrics.items())
        if known.get(place) != line
    )


def approve(
    folder: Path,
    now: Baseline,
    lines: Iterable[LineChange],
    metrics: Iterable[MetricChange] = (),
    *,
    reason: str,
) -> Approval:
    """Write lines to the baseline of ``now``'s environment, and store the approval.

    Raises `ConfigError` in CI or without a reason, `BaselineError` if another approval changed one
    of the lines meanwhile.
    """
    refuse_in_ci("approving")
    if not reason.strip():
        raise ConfigError("an approval needs a reason: --reason 'why the pixels may change'")
    with _locked(folder):
        path = baseline_file(folder, now.head.environment)
        known = read_baseline(path) if path.exists() else None
        accepted, measured = tuple(lines), tuple(metrics)
        merged = _merged(known, now, accepted, measured)
        approval = Approval(
            when=datetime.now(UTC).isoformat(timespec="microseconds"),
            who=_who(),
            commit=git_revision(folder),
            reason=reason.strip(),
            fingerprint=now.fingerprint,
            versions_before=known.head.versions if known else {},
            versions_after=now.head.versions,
            lines=tuple(
                ApprovedLine.model_validate(change, from_attributes=True) for change in accepted
            ),
            head=head_key(merged.head),
            metrics=tuple(
                MetricChange(
                    old=change.old and without_predictions(change.old),
                    new=without_predictions(change.new),
                )
                for change in measured
            ),
        )
        # the approval first: a crash between the two writes then leaves an approval without effect,
        # and never a changed baseline that nobody approved
        stamp = approval.when.replace(":", "").replace("+0000", "Z")
        file = folder / "approvals" / f"{stamp}-{content_key(approval.model_dump())[:8]}.json"
        write_atomically(file, approval.model_dump_json(indent=1))
        write_baseline(folder, merged)
        if not (folder / ".gitignore").exists():
            # the lock is this machine's; all else is committed
            write_atomically(folder / ".gitignore", ".lock\n")
    return approval


def head_key(head: BaselineHead) -> str:
    """Hash all of a head but its labels, by which `--changed-only` skips stages."""
    return content_key(head.model_dump(mode="json", exclude={"lines", "alignkit", "surrogates"}))


def without_predictions(line: MetricLine) -> MetricLine:
    """Return the line as an approval stores it: a hash of each seed's predictions."""
    # the baseline holds them; here they would be five bytes for each image and approval
    hashes = {
        seed: hashlib.sha256(packed.encode()).hexdigest()
        for seed, packed in line.predictions.items()
    }
    return line.model_copy(update={"predictions": hashes})


def _merged(
    known: Baseline | None,
    now: Baseline,
    lines: tuple[LineChange, ...],
    metrics: tuple[MetricChange, ...],
) -> Baseline:
    before = known or Baseline(now.head)
    # a reviewer accepted a change from the line that was shown, and from no other
    stale = [
        f"{change.path} {change.image} {change.stage} was"
        for change in lines
        if before.lines.get(change.key) != change.old
    ]
    stale += [
        f"the metrics of {' '.join(change.new.place.names)} were"
        for change in metrics
        if before.metrics.get(change.new.place) != change.old
    ]
    if stale:
        raise BaselineError(
            f"{stale[0]} changed by another approval meanwhile; run the gate again and review "
            "what is left"
        )
    return Baseline(
        _merged_head(before, now, lines),
        before.lines | {change.key: change.new for change in lines},
        before.metrics | {change.new.place: change.new for change in metrics},
    )


def _merged_head(before: Baseline, now: Baseline, lines: tuple[LineChange, ...]) -> BaselineHead:
    """Take over a path's new versions, options and label once its changes are all accepted."""
    accepted = {change.key for change in lines}
    left = {change.path for change in changes(before, now) if change.key not in accepted}
    whole = not left and before.head.paths.keys() <= now.head.paths.keys()
    heads = dict.fromkeys(before.head.paths, before.head)
    heads |= dict.fromkeys(now.head.paths.keys() - left, now.head)
    return now.head.model_copy(
        update={
            "code": now.head.code if whole else "",
            "versions": {path: head.versions[path] for path, head in heads.items()},
            "paths": {path: head.paths[path] for path, head in heads.items()},
            "surrogates": {p: h.surrogates[p] for p, h in heads.items() if p in h.surrogates},
        }
    )


def read_approvals(folder: Path) -> list[Approval]:
    """Read every approval, oldest first; raise `BaselineError` if one is damaged."""
    found = []
    for file in sorted((folder / "approvals").glob("*.json")):
        try:
            found.append(Approval.model_validate_json(read_regular(file)))
        except ValidationError as error:
            raise BaselineError(f"{file} is damaged; restore it from version control") from error
        except OSError as error:
            raise BaselineError(
                f"{file} cannot be read ({error.strerror}); restore it from version control"
            ) from error
    return sorted(found, key=lambda each: each.when)


def _who() -> str:
    """Return git's ``Name <mail>``, or the login name if git has none."""
    if shutil.which("git"):
        keys = ("user.name", "user.email")
        name, mail = (command_output(["git", "config", "--get", key]) for key in keys)
        if name or mail:
            return f"{name} <{mail}>".strip()
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user often has no name
        return "unknown"


def _locked(folder: Path) -> AbstractContextManager[object]:
    """Lock the folder until the context ends; a second process waits."""
    from filelock import FileLock

    with explained(folder):
        folder.mkdir(parents=True, exist_ok=True)
        # a soft lock would outlive a process that is killed
        return FileLock(folder / ".lock", fallback_to_soft=False).acquire()
