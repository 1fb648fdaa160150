"""``advise:`` of an experiment: the options that may change, and the serving stacks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from pydantic_core import InitErrorDetails

from alignkit.decoders import DECODERS
from alignkit.experiment.option import STRICT_MODEL, Integer, Name, wrong
from alignkit.plugins import Plugin, did_you_mean
from alignkit.resizers import RESIZERS

ADVISED = "advised-"
"""Prefix of an advised path's name; the name of the path it is advice for follows."""


class AdviseOption(BaseModel):
    """Search the configuration that comes nearest, add it as a path, and check what it promised."""

    model_config = STRICT_MODEL
    served_by: tuple[Name, ...] = ()
    """Paths to find advice for; by default all except the reference."""
    change: Literal["training", "serving"] = "training"
    """``training``: come near to the path that serves, and train with that. ``serving``: come near
    to the reference, and serve the models that were trained with it along that."""
    decoders: tuple[str, ...] = ()
    """Decoders to choose from, by name; by default all that can run here."""
    resizers: tuple[str, ...] = ()
    images: Annotated[Integer, Field(ge=10)] = 200
    """Training images the search is made on, a fifth of them for its own check. It never sees an
    evaluation image."""


def unadvisable(
    advise: AdviseOption, paths: Sequence[str], *, labelled: bool, trains: bool
) -> list[InitErrorDetails]:
    """Return one line for each contradiction between ``advise`` and the rest of the file."""
    lines = []
    if not labelled:
        lines.append(wrong("advise", "needs labelled images: its effect is a model's", "advise"))
    if not trains and advise.change == "training":
        message = "models: are trained already; with change: serving, their serving can be advised"
        lines.append(wrong("advise", message, "advise", "change", given=advise.change))
    for name in advise.served_by:
        if name not in paths[1:]:
            given = "is the reference" if name in paths else "is no path"
            message = f"{name!r} {given}{did_you_mean(name, paths[1:])}"
            lines.append(wrong("advise", message, "advise", "served_by", given=name))
    lines += [
        wrong("paths", f"a name with {ADVISED!r} before it is kept for advice", "preprocess", name)
        for name in paths
        if name.startswith(ADVISED)
    ]
    families: Mapping[str, tuple[dict[str, Plugin], tuple[str, ...]]] = {
        "decoders": (DECODERS, advise.decoders),
        "resizers": (RESIZERS, advise.resizers),
    }
    for family, (table, names) in families.items():
        lines += [
            wrong("advise", f"no {family[:-1]} {name!r}{did_you_mean(name, table)}", "advise",
                  family, given=name)
            for name in names
            if name not in table
        ]  # fmt: skip
    return lines
