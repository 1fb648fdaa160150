"""`Baseline`: approved results, one text line per image and stage, with golden arrays; a snapshot
of now, pending changes, their review and approval.

::

    alignkit.baseline/<experiment>/
        <environment>.jsonl     a head, then one line for each image, path and stage; no pixels
        approvals/<time>-….json who approved which lines, why, old → new
        golden/<sha256>.npz     optional tensors, content-addressed

The file of an environment is found by its fingerprint: operating system, processor architecture,
and the GPU where a stage runs on one. Library versions are facts of the file and not part of it, so
that an upgrade is compared with what was there before.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, ValidationError

from alignkit.errors import BaselineError
from alignkit.experiment.experiment import Experiment
from alignkit.place import Place
from alignkit.preprocess import Preprocess, StageName
from alignkit.record import Count, Stored
from alignkit.record.document import refuse_newer
from alignkit.record.stored import Placed
from alignkit.stored_file import open_regular, read_regular, write_atomically

LineKey: TypeAlias = tuple[str, str, str]
"""(path, image, stage)."""
FirstChanged: TypeAlias = Mapping[str, StageName | None]
"""Path → the first stage that can have changed since it was approved; ``None`` if none can."""
_LONGEST_HEAD = 1 << 24


class StageLine(Stored):
    """The array that one stage of a path made of one image, as hash and statistics."""

    path: str
    image: str
    stage: StageName
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None
    """Hash of dtype, shape and values; ``None`` for an image that was not decoded."""
    outcome: Literal["ok", "corrupt", "failed", "unsupported"] = "ok"
    reason: str = ""
    """Why the image was not decoded, in the library's words."""
    source: str = ""
    """The first 16 digits of the encoded file's SHA-256, in a ``decode`` line."""
    dtype: str = ""
    shape: tuple[int, ...] = ()
    mean: tuple[float, float, float] | None = None
    """Mean of each channel."""
    std: float | None = None
    least: float | None = None
    greatest: float | None = None

    @property
    def key(self) -> LineKey:
        """Key of the line in a baseline."""
        return self.path, self.image, self.stage


class MetricLine(Placed):
    """The metrics of one entry of a matrix."""

    metrics: dict[str, float | None]
    predictions: dict[str, str] = {}  # noqa: RUF012 - pydantic copies defaults
    """Seed → predicted class of every image; see `alignkit.baseline.baseline_from_run`."""


class BaselineHead(Stored):
    """The first line of a baseline file."""

    format: Literal[1] = 1
    # 1: 2026-11, first format.
    alignkit: str
    name: str
    environment: dict[str, str]
    """The facts that the fingerprint covers."""
    versions: dict[str, dict[str, str]]
    """Path → stage → library that ran."""
    paths: dict[str, dict[str, Any]]
    """Path → its stages and options."""
    surrogates: dict[str, str] = Field(default_factory=dict)
    """Surrogate → its label when its lines were recorded."""
    data: str
    """Fingerprint of the images."""
    code: str = ""
    """Hash of the modules of alignkit that decide the pixels."""
    lines: Count
    """Number of the lines that follow, which shows a truncated file."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The content of a baseline file."""

    head: BaselineHead
    lines: dict[LineKey, StageLine] = field(default_factory=dict)
    metrics: dict[Place, MetricLine] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of lines after the head."""
        return len(self.lines) + len(self.metrics)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the environment."""
        return environment_fingerprint(self.head.environment)


def baseline_environment(paths: Sequence[Preprocess]) -> dict[str, str]:
    """Return the facts of this machine that choose the baseline file."""
    from alignkit.decoders import DECODERS
    from alignkit.machine import gpu_name
    from alignkit.plugins import name_of
    from alignkit.resizers import RESIZERS

    stages: list[tuple[Any, Any]] = [(path.decode, DECODERS) for path in paths]
    stages += [(path.resize.resizer, RESIZERS) for path in paths]
    plugins = [table.get(name_of(stage, table)) for stage, table in stages]
    # a GPU that no stage runs on decides no pixel: machines with and without one share a baseline
    gpu = any(plugin.gpu for plugin in plugins if plugin)
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "gpu": gpu_name() if gpu else "not used",
    }


def environment_fingerprint(environment: dict[str, str]) -> str:
    """Return ``linux-x86_64-<12 hex>``: readable, and different for every environment."""
    # a digest too, as GPUs that differ in their driver have one system and architecture
    digest = hashlib.sha256(json.dumps(environment, sort_keys=True).encode()).hexdigest()
    # a file's name: pending lines of another machine must not name another folder
    words = (re.sub(r"[^\w.]+", "_", environment.get(each, "")) for each in ("system", "machine"))
    return "-".join((*words, digest[:12])).lower()


def baseline_folder(experiment: Experiment, baselines: Path | None) -> Path:
    """Return the folder of an experiment's baselines, by default beside its file."""
    return (baselines or experiment.file.parent / "alignkit.baseline") / experiment.name


def baseline_file(folder: Path, environment: dict[str, str]) -> Path:
    """Return the file of an environment in an experiment's baseline folder."""
    return folder / f"{environment_fingerprint(environment)}.jsonl"


def named_baseline(folder: Path, fingerprint: str) -> Baseline:
    """Read the baseline of a fingerprint; raise `BaselineError` that names the existing ones."""
    path = folder / f"{fingerprint}.jsonl"
    if path.exists():
        return read_baseline(path)
    there = ", ".join(file.stem for file in sorted(folder.glob("*.jsonl"))) or "none"
    raise BaselineError(f"{folder} has no baseline {fingerprint!r}; there are: {there}")


def recording(file: str | Path = "FILE") -> str:
    """Return the shell command that records the baseline of a gate's file."""
    return shlex.join(["alignkit", "baseline", "record", str(file)])


def find_baseline(folder: Path, environment: dict[str, str], again: str = recording()) -> Baseline:
    """Read the baseline of this environment.

    Raises `BaselineError` that names the nearest one and the fields in which it differs, and
    ``again``, the command that records one.
    """
    path = baseline_file(folder, environment)
    if path.exists():
        return read_baseline(path)
    others = {
        file.name: differences(_read_head(file).environment, environment)
        for file in sorted(folder.glob("*.jsonl"))
    }
    if not others:
        raise BaselineError(f"{folder} holds no baseline; record one outside CI: {again}")
    # the nearest is named and not used: its pixels may differ where nothing is wrong
    name, fields = min(others.items(), key=lambda each: len(each[1]))
    raise BaselineError(
        f"{folder} has no baseline of this environment; the nearest, {name}, differs in "
        f"{'; '.join(fields)}. Record one here, outside CI: {again}"
    )


def differences(there: dict[str, str], here: dict[str, str]) -> list[str]:
    """Describe the fields in which two environments differ."""
    return [
        f"{key}: {there.get(key, 'none')} there, {here.get(key, 'none')} here"
        for key in sorted(there.keys() | here.keys())
        if there.get(key) != here.get(key)
    ]


def _read_head(path: Path) -> BaselineHead:
    # the first line alone: a file has a line for each image and stage
    try:
        with open_regular(path) as file:
            return _head(path, file.readline(_LONGEST_HEAD).decode(errors="replace"))
    except OSError as error:
        raise BaselineError(f"{path} cannot be read ({error.strerror})") from error


def read_baseline(path: Path) -> Baseline:
    """Read a file; raise `BaselineError` if it is missing, damaged, truncated or newer."""
    try:
        text = read_regular(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path} cannot be read: {error}") from error
    return parse_baseline(text, path)


def parse_baseline(content: str, path: Path) -> Baseline:
    """Parse a file's text; errors name ``path``."""
    first, *rest = content.splitlines() or [""]
    # the head first: a newer format is named as such, whatever its lines are
    head = _head(path, first)
    if len(rest) != head.lines:
        raise _damaged(path, f"it holds {len(rest)} lines and its head says {head.lines}")
    baseline = Baseline(head)
    for number, text in enumerate(rest, 2):
        try:
            stored = json.loads(text)
            if "metrics" in stored:
                metric = MetricLine.model_validate(stored)
                known, key = metric.place in baseline.metrics, str(metric.place)
                baseline.metrics[metric.place] = metric
            else:
                line = StageLine.model_validate(stored)
                known, key = line.key in baseline.lines, str(line.key)
                baseline.lines[line.key] = line
        except (ValueError, TypeError, RecursionError) as error:
            raise _damaged(path, f"line {number} is no baseline line") from error
        if known:
            raise _damaged(path, f"line {number} repeats {key}")
    return baseline


def _head(path: Path, text: str) -> BaselineHead:
    try:
        stored = json.loads(text)
        found = stored["format"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _damaged(path, "its first line is no head") from error
    refuse_newer(path, found, BaselineHead, BaselineError)
    try:
        return BaselineHead.model_validate(stored)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise _damaged(path, f"its head: {wrong['loc']}: {wrong['msg']}") from error


def _damaged(path: Path, reason: str) -> BaselineError:
    return BaselineError(f"{path} is damaged ({reason}); restore it from version control")


def write_baseline(folder: Path, baseline: Baseline) -> Path:
    """Write the file of its environment, atomically and in a fixed order, and return its path."""
    path = baseline_file(folder, baseline.head.environment)
    write_atomically(path, baseline_text(baseline))
    return path


def baseline_text(baseline: Baseline) -> str:
    """Return the file's text, in a fixed order."""
    # sorted, so that version control shows the lines that changed and no others
    rows: list[Stored] = [baseline.lines[key] for key in sorted(baseline.lines)]
    rows += [baseline.metrics[key] for key in sorted(baseline.metrics)]
    head = baseline.head.model_copy(update={"lines": len(rows)})
    # defaults are left out of the lines, of which a file in git holds thousands
    return "".join(
        json.dumps(row.model_dump(exclude_defaults=row is not head), sort_keys=True) + "\n"
        for row in (head, *rows)
    )
