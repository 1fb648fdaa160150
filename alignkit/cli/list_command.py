"""`alignkit list`: the names that a file can use, those that run here first."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.backends import BACKENDS
from alignkit.backends.usable import usable_backends
from alignkit.cli.arguments import Json
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError
from alignkit.extras import missing_library
from alignkit.gate.outputs import OUTPUTS
from alignkit.plugins import NO_GPU, UNPROVEN, PluginTable, did_you_mean
from alignkit.preprocess.presets import PRESETS, calibration, decoder_evidence
from alignkit.resizers import RESIZERS
from alignkit.tasks import TASKS
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.backends.usable import Usable

HERE = "run here"


@dataclass(frozen=True, slots=True)
class Listed:
    """Name that an experiment can use."""

    name: str
    usable: bool
    version: str
    summary: str
    why: str = ""
    """Reason that it does not run here, with the fix."""
    source: str = ""
    """Source of a preset's settings."""
    note: str = ""
    """Remark shown in any case: ``not yet run on hardware``."""
    evidence: str = ""
    """Evidence that a surrogate's pixels are the real stack's."""

    @property
    def heading(self) -> str:
        """``run here``, or why not; the same for all entries with one reason."""
        if self.usable:
            return HERE
        before, _, _ = self.why.partition(NO_GPU)
        # "cuda: needs an NVIDIA GPU …; set device: cpu": the name says it
        why = NO_GPU if before != self.why and ";" not in before else self.why
        return "; ".join(each for each in (why, self.note) if each)

    def remark(self, *, brief: bool) -> str:
        """Its summary, with what its heading does not say."""
        from alignkit.text.names import brief_evidence

        evidence = brief_evidence(self.evidence) if brief and self.evidence else self.evidence
        parts = self.summary, self.note if self.usable else "", evidence
        return "; ".join(part for part in parts if part)


def list_names(
    family: Annotated[
        str | None,
        typer.Argument(
            help="decoders, resizers, backends, datasets, tasks, presets, models or outputs."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the names that a file can use: those that run here, and why the others do not.

    `alignkit doctor` describes this machine.
    """
    if family is not None and family not in FAMILIES:
        raise ConfigError(f"unknown family {family!r}{did_you_mean(family, FAMILIES)}")
    chosen = [family] if family else list(FAMILIES)
    if as_json:
        document = {name: [asdict(each) for each in FAMILIES[name]()] for name in chosen}
        print(json.dumps(document, indent=1))
        return
    print("\n\n".join(_family_text(name, brief=family is None) for name in chosen))


def _family_text(family: str, *, brief: bool) -> str:
    listed = _runtimes() if family == "backends" else FAMILIES[family]()
    # torchvision's hundred names would hide the other families
    if brief and family == "models":
        return f"models\n  small-cnn, {len(listed) - 1} torchvision models: alignkit list models"
    headings = dict.fromkeys(each.heading for each in listed)
    ordered = sorted(headings, key=lambda heading: heading != HERE)
    listed = sorted(listed, key=lambda each: ordered.index(each.heading))
    rows = [(each.name, each.version, each.remark(brief=brief)) for each in listed]
    lines = [family]
    for number, line in enumerate(columns(rows, indent="    ").splitlines()):
        each = listed[number]
        if number == 0 or each.heading != listed[number - 1].heading:
            lines.append(f"  {each.heading}")
        lines.append(line)
        if each.source and not brief:
            lines.append(f"      from {each.source}")
    return "\n".join(lines)


def _listed(table: PluginTable) -> list[Listed]:
    listed = []
    for name, plugin in table.items():
        why = table.reason(name) or plugin.missing()
        notes = UNPROVEN if plugin.unproven else "", plugin.package and f"from {plugin.package}"
        note = "; ".join(filter(None, notes))
        listed.append(Listed(name, not why, plugin.version(), plugin.summary, why, note=note))
    return listed


def _decoders() -> list[Listed]:
    return [
        replace(each, evidence=_decoder_evidence(each.name)) if each.usable else each
        for each in _listed(DECODERS)
    ]


def _decoder_evidence(name: str) -> str:
    decoder = DECODERS[name].load()
    # one of another package may need options
    return decoder_evidence(decoder()) if getattr(decoder, "surrogate_of", "") else ""


def _backends() -> list[Listed]:
    """List each backend, then each of its devices and precisions."""
    found = usable_backends()
    able = {each.backend for each in found if not each.reason}
    reasons = {each.backend: each.reason for each in reversed(found)}
    listed = [
        # one that can only build does not run here
        each
        if each.name in able
        else replace(each, usable=False, why=reasons.get(each.name, each.why))
        for each in _listed(BACKENDS)
    ]
    for one in found:
        facts = one.name, not one.reason, one.version, "", one.reason
        listed.append(Listed(*facts, note=one.emulated or one.note))
    # each device's line below its backend, and backends as the table has them
    order = [*BACKENDS]
    return sorted(listed, key=lambda each: order.index(each.name.partition(" ")[0]))


def _runtimes() -> list[Listed]:
    """List each backend and device with its precisions, once for every reason."""
    groups: dict[tuple[str, str, str, str], list[Usable]] = {}
    for each in usable_backends():
        one = each.backend, f"{each.backend} {each.device}".strip(), each.reason, each.note
        groups.setdefault(one, []).append(each)
    listed: list[Listed] = []
    # those that run come first, so that a backend's summary is beside them
    for backend, name, reason, note in sorted(groups, key=lambda group: bool(group[2])):
        members = groups[backend, name, reason, note]
        precisions = ", ".join(
            f"{each.precision}{' (emulated)' if each.emulated else ''}" for each in members
        )
        known = any(each.name.partition(" ")[0] == backend for each in listed)
        summary = precisions if known else f"{precisions}: {BACKENDS[backend].summary}"
        listed.append(Listed(name, not reason, members[0].version, summary, reason, note=note))
    listed += [each for each in _listed(BACKENDS) if BACKENDS.reason(each.name)]
    return listed


def _presets() -> list[Listed]:
    from alignkit.experiment.preprocess_option import PreprocessOption

    listed = []
    for name, preset in PRESETS.items():
        why, summary, evidence = preset.missing(), preset.summary, ""
        if preset.surrogate_of:
            path = PreprocessOption.model_validate({"preset": name, "size": 224}).build(name)
            summary = f"surrogate of {preset.surrogate_of}: {summary}"
            evidence = calibration(path)
        plugins = DECODERS[preset.decode["name"]], RESIZERS[preset.resize["name"]]
        note = UNPROVEN if any(each.unproven for each in plugins) else ""
        listed.append(Listed(name, not why, "", summary, why, preset.source, note, evidence))
    return listed


def _models() -> list[Listed]:
    from alignkit.models.architectures import MODELS, model_version

    why = missing_library("torch") or missing_library("torchvision")
    return [Listed(name, not why, model_version(), summary="", why=why) for name in MODELS]


def _outputs() -> list[Listed]:
    return [Listed(name, True, "", each.summary) for name, each in OUTPUTS.items()]


FAMILIES: dict[str, Callable[[], Sequence[Listed]]] = {
    "decoders": _decoders,
    "resizers": lambda: _listed(RESIZERS),
    "backends": _backends,
    "datasets": lambda: _listed(DATASETS),
    "tasks": lambda: _listed(TASKS),
    "presets": _presets,
    "models": _models,
    "outputs": _outputs,
}
