"""``attribute:``, ``report:``, ``advise:``: options of a run besides its cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import BaseModel, Field, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from alignkit.decoders import DECODERS
from alignkit.experiment.option import (
    STRICT_MODEL,
    Flag,
    Integer,
    Name,
    Number,
    Size,
    no_such,
    wrong,
)
from alignkit.plugins import PluginTable, did_you_mean
from alignkit.resizers import RESIZERS


class ReportOption(BaseModel):
    """``report:``: the images whose pixels are kept for the page, for each pair of paths."""

    model_config = STRICT_MODEL
    changed: Size = 2_000_000
    """Room for images whose prediction changed, in bytes or as ``2 MB``: those that changed in most
    models first, then right to wrong, then by the shift of their logits; as much again for the
    pixels of all kept images after decode and resize."""
    worst: Annotated[Integer, Field(ge=0, le=200)] = 12
    """Images whose pixels differ most."""
    random: Annotated[Integer, Field(ge=0, le=200)] = 4
    """Images whose prediction did not change, drawn by the run's key."""


class AttributeOption(BaseModel):
    """``attribute:``: the images and runtimes whose drift is divided among stages.

    By default as many images are mixed as keep the predictions of mixtures within a tenth of the
    run's own, and no fewer than a hundred.
    """

    model_config = STRICT_MODEL
    images: Annotated[Integer, Field(ge=2)] | Literal["all", "none"] | None = None
    """Evaluation images to mix, drawn by class; ``all`` takes every one, whatever it costs; with
    ``none`` no drift is divided."""
    seconds: Annotated[Number, Field(gt=0)] | None = None
    """Budget for the predictions of all mixtures, by the time that the cells took here: the number
    of images then depends on the machine, and is stored with the result."""
    runtimes: Literal["worst", "all"] = "worst"
    """``worst``: for each path the reference runtime, and the one in which most predictions
    change."""
    decode: Flag | None = None
    """Whether the changes of predictions inside decode are divided too; by default on at most 300
    images, where the budget allows it; ``true`` takes all that are mixed."""

    @model_validator(mode="after")
    def _images_or_seconds(self) -> Self:
        if isinstance(self.images, str) and self.seconds is not None:
            message = f"images: {self.images} and seconds contradict each other"
            raise PydanticCustomError("attribute", message)
        return self


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
    """Resizers to search; by default those of the base install."""
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
    # the reference is the path that the others should come near
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
    families: Mapping[str, tuple[PluginTable, tuple[str, ...]]] = {
        "decoders": (DECODERS, advise.decoders),
        "resizers": (RESIZERS, advise.resizers),
    }
    for family, (table, names) in families.items():
        lines += [
            wrong("advise", no_such(family[:-1], name, table), "advise", family, given=name)
            for name in names
            if name not in table
        ]
    return lines
