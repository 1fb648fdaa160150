"""Whether two runs may be compared, and all other differences between them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from alignkit.errors import NotComparable
from alignkit.record import Environment, PathFacts, RunRecord
from alignkit.record.study_documents import Difference

MACHINE = re.compile(r"x86_64|amd64|aarch64|arm64", re.IGNORECASE)
HARMLESS = ("threads", "_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
"""Ends of the names of settings that change times rather than values."""


def check_comparable(before: RunRecord, after: RunRecord, *, force: bool) -> tuple[str, ...]:
    """Return the obstacles that ``force`` overrules; empty if there are none.

    Raises `NotComparable` with the reasons: always if the classes differ; without ``force`` if
    images, GPU, system, or settings that change numbers differ.
    """
    if before.data.classes != after.data.classes:
        raise NotComparable(
            f"the runs know different classes ({_few(before.data.classes)} and "
            f"{_few(after.data.classes)}): a prediction of one means nothing in the other; compare "
            "two runs of one data set"
        )
    found = tuple(obstacles(before, after))
    if found and not force:
        raise NotComparable(
            "the runs may not be compared: " + "; ".join(found) + ". What changed could be due to "
            "that alone; run both on one machine and one data set, or compare all the same with "
            "--force, and the report will say so"
        )
    return found


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:3]) + (f" … of {len(names)}" if len(names) > 3 else "") or "none"


def obstacles(before: RunRecord, after: RunRecord) -> Iterator[str]:
    """Yield each difference, in words, that could itself be the cause of a change."""
    if before.data.fingerprint != after.data.fingerprint:
        yield (
            f"the images are not the same ({before.data.name} {before.data.fingerprint[:12]} with "
            f"{before.data.eval} and {after.data.name} {after.data.fingerprint[:12]} with "
            f"{after.data.eval} evaluation images)"
        )
    there, here = before.environment, after.environment
    for name, a, b in (
        ("system", _system(there.platform), _system(here.platform)),
        ("GPU", there.gpu, here.gpu),
    ):
        if a != b:
            yield f"another {name} ({a} and {b})"
    for name in sorted(there.flags.keys() | here.flags.keys()):
        a, b = _flag(there.flags, name), _flag(here.flags, name)
        if a != b and not name.endswith(HARMLESS):
            yield f"{name} is {a} in one and {b} in the other"


def _system(platform: str) -> str:
    machine = MACHINE.search(platform)
    return f"{platform.split('-', maxsplit=1)[0]} {machine[0] if machine else ''}".strip()


def _flag(flags: dict[str, str], name: str) -> str:
    return flags.get(name, "not set")


def differences(before: RunRecord, after: RunRecord) -> tuple[Difference, ...]:
    """Return the versions, settings, paths and trainings that differ."""
    a, b = before.environment, after.environment
    facts = [
        ({"alignkit": before.alignkit, **_machine(a)}, {"alignkit": after.alignkit, **_machine(b)}),
        (_without_alignkit(a.versions), _without_alignkit(b.versions)),
        (_named("codec of ", a.codecs), _named("codec of ", b.codecs)),
        (a.flags, b.flags),
        (_stages(before.paths), _stages(after.paths)),
        ({"data": before.data.fingerprint[:12]}, {"data": after.data.fingerprint[:12]}),
        (_models(before), _models(after)),
    ]  # fmt: skip
    return tuple(
        Difference(what=name, before=old.get(name) or "none", after=new.get(name) or "none")
        for old, new in facts
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    )


def _machine(environment: Environment) -> dict[str, str]:
    return {
        "Python": environment.python,
        "CPU": environment.cpu,
        "vector extensions": environment.extensions,
        "GPU": environment.gpu,
        "platform": environment.platform,
        "git revision": environment.git,
    }


def _without_alignkit(versions: dict[str, str]) -> dict[str, str]:
    return {name: version for name, version in versions.items() if name != "alignkit"}


def _named(prefix: str, facts: dict[str, str]) -> dict[str, str]:
    return {prefix + name: value for name, value in facts.items()}


def _stages(paths: tuple[PathFacts, ...]) -> dict[str, str]:
    found = {f"{path.name}, skipped": path.skipped for path in paths if path.skipped}
    for path in paths:
        for stage in path.stages:
            options = ", ".join(f"{name} {value}" for name, value in stage.options.items())
            parts = (stage.label, options, stage.version)
            found[f"{path.name}, {stage.stage}"] = "; ".join(part for part in parts if part)
    return found


def _models(record: RunRecord) -> dict[str, str]:
    return {
        f"model trained with {each.preprocess}, seed {each.seed}": f"{each.state} {each.key[:12]}"
        for each in record.trainings
    }
