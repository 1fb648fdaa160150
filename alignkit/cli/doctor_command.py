"""`alignkit doctor` and `alignkit list`: the plugins of this machine, and whether they work."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from alignkit.backends import BACKENDS, usable_backends
from alignkit.cli.arguments import Json
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError, ExitCode
from alignkit.gate.outputs import OUTPUTS
from alignkit.plugins import UNPROVEN, Plugin, did_you_mean, missing_library
from alignkit.preprocess.presets import PRESETS, calibration, decoder_evidence
from alignkit.resizers import RESIZERS
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.backends import Usable
    from alignkit.decoders.decoder_check import DecoderCheck
    from alignkit.record import Environment


def doctor(as_json: Json = False) -> None:
    """Report versions, decoder self-tests, and the plugins that this machine can use.

    Exits with 0 if everything in the base install works here.
    """
    from alignkit.decoders.decoder_check import self_test
    from alignkit.findings.environment import environment

    found = environment()
    tested = self_test()
    families = {
        "decoder": DECODERS, "resizer": RESIZERS, "backend": BACKENDS, "dataset": DATASETS
    }  # fmt: skip
    plugins = {
        f"{family} {name}": plugin
        for family, table in families.items()
        for name, plugin in table.items()
    }
    if as_json:
        document = {
            "environment": found.model_dump(),
            "self_test": [asdict(each) | {"passed": each.passed} for each in tested],
            "backends": [asdict(each) for each in usable_backends()],
            "plugins": {name: plugin.missing() for name, plugin in plugins.items()},
            "unproven": [name for name, plugin in plugins.items() if plugin.unproven],
        }
        print(json.dumps(document, indent=1))
    else:
        parts = (_environment(found), _self_test(tested), _backends(), _missing(plugins))
        print(*parts, sep="\n\n")
    raise typer.Exit(_exit_code(plugins, tested))


def _environment(found: Environment) -> str:
    facts = [
        ("python", found.python),
        ("platform", found.platform),
        ("cpu", f"{found.cpu}, {found.cores} cores"),
        ("extensions", found.extensions),
        ("gpu", found.gpu),
        ("git", found.git or "not in a git repository"),
    ]
    tables = {"versions": found.versions, "codecs": found.codecs, "flags": found.flags}
    parts = ["environment", columns(facts, indent="  ")]
    for title, table in tables.items():
        parts += ["", title, columns(list(table.items()), indent="  ")]
    return "\n".join(parts)


def _self_test(tested: list[DecoderCheck]) -> str:
    rows = [("decoder", "file", "outcome", "pixels", "sha-256")]
    rows += [(t.decoder, t.kind, t.outcome, t.finding, t.sha256[:12]) for t in tested]
    return f"decoder self-test\n{columns(rows, indent='  ')}"


def _backends() -> str:
    """Format one line per backend and device, and one per reason that something cannot run."""
    groups: dict[tuple[str, str], list[Usable]] = {}
    for each in usable_backends():
        # a reason that holds for several precisions is printed once
        groups.setdefault((each.backend, each.device), []).append(each)
    rows = [("backend", "version", "usable", "not usable, and reason")]
    for (name, device), members in groups.items():
        usable = ", ".join(
            f"{each.precision}{' (emulated)' if each.emulated else ''}"
            for each in members
            if not each.reason
        )
        reasons: dict[str, list[str]] = {}
        for each in members:
            if each.reason:
                reasons.setdefault(each.reason, []).append(each.precision)
        lines = [f"{', '.join(names)}: {reason}" for reason, names in reasons.items()]
        lines = [*lines, *dict.fromkeys(each.note for each in members if each.note)] or [""]
        rows.append((f"{name} {device}", members[0].version or "none", usable or "-", lines[0]))
        rows += [("", "", "", line) for line in lines[1:]]
    return f"backends\n{columns(rows, indent='  ')}"


def _missing(plugins: dict[str, Plugin]) -> str:
    rows = [(name, plugin.missing()) for name, plugin in plugins.items() if plugin.missing()]
    usable = f"plugins\n  {len(plugins) - len(rows)} of {len(plugins)} usable"
    if unproven := [name for name, plugin in plugins.items() if plugin.unproven]:
        usable += f"\n  {UNPROVEN}: {', '.join(unproven)}"
    return f"{usable}\n{columns(rows, indent='  ')}" if rows else usable


def _exit_code(plugins: dict[str, Plugin], tested: list[DecoderCheck]) -> ExitCode:
    # extras and GPUs are choices; a machine without them is healthy
    base = [plugin for plugin in plugins.values() if not plugin.extra and not plugin.gpu]
    if any(plugin.missing() for plugin in base):
        return ExitCode.MISSING
    return ExitCode.PASS if all(each.passed for each in tested) else ExitCode.CRASHED


@dataclass(frozen=True, slots=True)
class Listed:
    """Entry that an experiment can name."""

    name: str
    usable: bool
    version: str
    summary: str
    why: str = ""
    """Reason that it is not usable, with the fix."""
    source: str = ""
    """Source of a preset's settings."""
    note: str = ""
    """Remark shown in any case: ``not yet run on hardware``."""

    @property
    def remark(self) -> str:
        """Summary, or the reason that it is not usable, with the note."""
        return "; ".join(each for each in (self.why or self.summary, self.note) if each)


def list_plugins(
    family: Annotated[
        str | None,
        typer.Argument(help="decoders, resizers, backends, datasets, presets, models or outputs."),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the entries that an experiment can name: usable or not, the reason and the fix."""
    if family is not None and family not in FAMILIES:
        raise ConfigError(f"unknown family {family!r}{did_you_mean(family, FAMILIES)}")
    chosen = [family] if family else list(FAMILIES)
    listed = {name: FAMILIES[name]() for name in chosen}
    if as_json:
        document = {name: [asdict(each) for each in all_] for name, all_ in listed.items()}
        print(json.dumps(document, indent=1))
        return
    print(
        "\n\n".join(_family_text(name, all_, brief=family is None) for name, all_ in listed.items())
    )


def _family_text(family: str, listed: list[Listed], *, brief: bool) -> str:
    # torchvision's hundred names would hide the other families
    if brief and family == "models":
        return f"models\n  small-cnn, {len(listed) - 1} torchvision models: alignkit list models"
    words = {True: "usable", False: "not usable"}
    rows = [(each.name, words[each.usable], each.version, each.remark) for each in listed]
    lines = columns(rows, indent="  ").splitlines()
    if not brief:
        sources = [f"\n    from {each.source}" if each.source else "" for each in listed]
        lines = [line + source for line, source in zip(lines, sources, strict=True)]
    return "\n".join([family, *lines])


def _listed(table: dict[str, Plugin]) -> list[Listed]:
    listed = []
    for name, plugin in table.items():
        why = plugin.missing()
        listed.append(
            Listed(name, not why, plugin.version(), plugin.summary, why, note=_note(plugin))
        )
    return listed


def _decoders() -> list[Listed]:
    return [
        replace(each, note=_decoder_evidence(each.name) or each.note) if each.usable else each
        for each in _listed(DECODERS)
    ]


def _decoder_evidence(name: str) -> str:
    decoder = DECODERS[name].load()
    # one of a third party may need options
    return decoder_evidence(decoder()) if getattr(decoder, "surrogate_of", "") else ""


def _note(plugin: Plugin) -> str:
    return UNPROVEN if plugin.unproven else ""


def _listed_backends() -> list[Listed]:
    """List each backend, then each of its devices and precisions."""
    found = usable_backends()
    able = {each.backend for each in found if not each.reason}
    reasons = {each.backend: each.reason for each in reversed(found)}
    listed = [
        # one that can only build is not usable here
        each if each.name in able else replace(each, usable=False, why=reasons[each.name])
        for each in _listed(BACKENDS)
    ]
    for each in found:
        facts = each.name, not each.reason, each.version, "", each.reason
        listed.append(Listed(*facts, note=each.emulated or each.note))
    # each device's line below its backend, and backends as the table has them
    order = [*BACKENDS]
    return sorted(listed, key=lambda each: order.index(each.name.partition(" ")[0]))


def _presets() -> list[Listed]:
    from alignkit.experiment.preprocess_option import PreprocessOption

    listed = []
    for name, preset in PRESETS.items():
        stages: dict[str, Any] = preset.stages(224)
        decoder, resizer = DECODERS[stages["decode"]["name"]], RESIZERS[stages["resize"]["name"]]
        why = decoder.missing() or resizer.missing()
        summary = preset.summary
        if preset.surrogate_of:
            path = PreprocessOption.model_validate({"preset": name, "size": 224}).build(name)
            summary = f"surrogate of {preset.surrogate_of}, {calibration(path)}: {summary}"
        note = UNPROVEN if decoder.unproven or resizer.unproven else ""
        listed.append(Listed(name, not why, "", summary, why, preset.source, note))
    return listed


def _models() -> list[Listed]:
    from alignkit.models.architectures import MODELS, model_version

    why = missing_library("torch") or missing_library("torchvision")
    return [Listed(name, not why, model_version(), summary="", why=why) for name in MODELS]


FAMILIES: dict[str, Callable[[], list[Listed]]] = {
    "decoders": _decoders,
    "resizers": lambda: _listed(RESIZERS),
    "backends": _listed_backends,
    "datasets": lambda: _listed(DATASETS),
    "presets": _presets,
    "models": _models,
    "outputs": lambda: [Listed(name, True, "", each.summary) for name, each in OUTPUTS.items()],
}
