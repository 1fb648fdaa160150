"""`alignkit list`."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from alignkit.backends import BACKENDS
from alignkit.cli.arguments import Json
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError
from alignkit.gate.outputs import OUTPUTS
from alignkit.plugins import UNPROVEN, Plugin, did_you_mean
from alignkit.preprocess.presets import PRESETS, calibration
from alignkit.resizers import RESIZERS
from alignkit.text.columns import columns


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
    print("\n\n".join(_as_text(name, all_, brief=family is None) for name, all_ in listed.items()))


def _as_text(family: str, listed: list[Listed], *, brief: bool) -> str:
    if brief and family == "models":
        return f"models\n  small-cnn, {len(listed) - 1} torchvision models: alignkit list models"
    words = {True: "usable", False: "not usable"}
    rows = [(each.name, words[each.usable], each.version, each.remark) for each in listed]
    lines = columns(rows, indent="  ").splitlines()
    if not brief:
        sources = [f"\n    from {each.source}" if each.source else "" for each in listed]
        lines = [line + source for line, source in zip(lines, sources, strict=True)]
    return "\n".join([family, *lines])


def _plugins(table: dict[str, Plugin]) -> list[Listed]:
    return [
        Listed(
            name,
            not plugin.missing(),
            plugin.version(),
            plugin.summary,
            plugin.missing(),
            note=_note(plugin),
        )
        for name, plugin in table.items()
    ]


def _note(plugin: Plugin) -> str:
    return UNPROVEN if plugin.unproven else ""


def _backends() -> list[Listed]:
    """List each backend, then each of its devices and precisions."""
    from alignkit.backends import usable_backends

    listed = _plugins(BACKENDS)
    for each in usable_backends():
        note = _note(BACKENDS[each.backend])
        listed.append(Listed(each.name, not each.reason, each.version, "", each.reason, note=note))
    order = [*BACKENDS]
    return sorted(listed, key=lambda each: order.index(each.name.partition(" ")[0]))


def _presets() -> list[Listed]:
    listed = []
    for name, preset in PRESETS.items():
        stages: dict[str, Any] = preset.stages(224)
        decoder, resizer = DECODERS[stages["decode"]["name"]], RESIZERS[stages["resize"]["name"]]
        why = decoder.missing() or resizer.missing()
        surrogate = f"surrogate of {preset.surrogate_of}, {calibration(name)}: "
        summary = (surrogate if preset.surrogate_of else "") + preset.summary
        listed.append(Listed(name, not why, "", summary, why, preset.source))
    return listed


def _models() -> list[Listed]:
    from alignkit.models.architectures import MODELS, model_version

    return [Listed(name, usable=True, version=model_version(), summary="") for name in MODELS]


FAMILIES: dict[str, Callable[[], list[Listed]]] = {
    "decoders": lambda: _plugins(DECODERS),
    "resizers": lambda: _plugins(RESIZERS),
    "backends": _backends,
    "datasets": lambda: _plugins(DATASETS),
    "presets": _presets,
    "models": _models,
    "outputs": lambda: [Listed(name, True, "", each.summary) for name, each in OUTPUTS.items()],
}
