"""``models:``, ``evaluate:``, ``attribute:``, ``report:``, ``advise:``: options of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from alignkit.backends import BACKENDS, Backend, Builder, Precision
from alignkit.experiment.option import (
    STRICT_MODEL,
    Flag,
    Integer,
    Number,
    Options,
    Size,
    refuse,
    wrong,
)
from alignkit.models.user_model import UserModel
from alignkit.preprocess.stages import Name

GIVEN_MODEL = Options(UserModel, unwritten="task")
"""Annotation of an entry of ``models:``; the file has one task for all of them."""


def _one_or_many(value: Any) -> Any:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


Precisions = Annotated[
    tuple[Precision, ...],
    Field(min_length=1),
    BeforeValidator(_one_or_many, json_schema_input_type=Precision | tuple[Precision, ...]),
]


@dataclass(frozen=True, slots=True)
class BackendOption:
    """One entry of ``evaluate.backends``: a backend by name with its options and precisions."""

    backend: Backend
    written: Mapping[str, Any]
    """The backend's name and own options, as they are written."""
    precision: Precisions = ()
    """A precision, or a list of them, by default the first that the backend offers; the first of
    the first backend is the reference."""
    builds: Annotated[int, Field(ge=1, le=100)] = 1
    """Times each model is exported, built and loaded; from 2 on, the spread of the builds' logits
    is reported."""

    def __post_init__(self) -> None:
        # some backends have no fp32
        object.__setattr__(self, "precision", self.precision or self.backend.precisions[:1])

    @property
    def name(self) -> str:
        """Name of the backend."""
        return str(self.written["name"])

    def title(self, without: Collection[str] = ()) -> str:
        """Return name and options, so that two backends of one name differ."""
        left_out = {"name", *without}
        given = (f"{k}={v}" for k, v in sorted(self.written.items()) if k not in left_out)
        return " ".join([self.name, *given])


def _usual_backends() -> tuple[BackendOption, ...]:
    return (BackendOption(BACKENDS["torch"].load()(), {"name": "torch"}),)


def _repeated(title: str, other: str, precision: Precision) -> str:
    if title == other:
        return f"{title} stands there twice in {precision}; drop one"
    return f"{title} is {other} in {precision}: an option at its default changes nothing; drop one"


class Evaluate(BaseModel):
    """``evaluate:``: the backends that every model runs in.

    The first backend's first precision is the reference of every row.
    """

    model_config = STRICT_MODEL
    backends: Annotated[
        tuple[
            Annotated[
                BackendOption, Options(BackendOption, BACKENDS, plugin="backend", written="written")
            ],
            ...,
        ],
        Field(min_length=1),
    ] = Field(default_factory=_usual_backends)
    """Runtimes by name, with their options; the first one is the reference of every row. By default
    torch, or onnxruntime for models that are ONNX files alone."""
    batch_size: Annotated[Integer, Field(ge=1, le=65_536)] = 128
    """Images in a batch; the logits of some runtimes depend on it in their last bits."""
    resamples: Annotated[Integer, Field(ge=200, le=100_000)] = 2000
    """Bootstrap resamples behind each interval."""

    @model_validator(mode="after")
    def _each_column_once(self) -> Self:
        """Refuse a column that another makes: its cells would be compared with themselves."""
        seen: dict[Precision, list[tuple[Backend, str]]] = {}
        lines = []
        for index, option in enumerate(self.backends):
            # an option left out equals one spelled out at its default
            backend, title = option.backend, option.title()
            for precision in option.precision:
                known = seen.setdefault(precision, [])
                other = next((name for each, name in known if each == backend), None)
                if other is not None:
                    message = _repeated(title, other, precision)
                    lines.append(wrong("repeated", message, "backends", index))
                known.append((backend, title))
        refuse("Evaluate", lines)
        return self

    @property
    def calibrates(self) -> bool:
        """Whether an engine takes its scales from training images."""
        return any(
            isinstance(each.backend, Builder) and any(map(each.backend.calibration, each.precision))
            for each in self.backends
        )

    def titles(self) -> list[str]:
        """Return a title for each backend; an endpoint's address only where two would be equal."""
        # addresses differ between machines, and would give the same cell two names
        unnamed = [getattr(each.backend, "unnamed", ()) for each in self.backends]
        pairs = zip(self.backends, unnamed, strict=True)
        brief = [each.title(without) for each, without in pairs]
        full = [each.title() for each in self.backends]
        return [
            short if brief.count(short) == 1 else long
            for short, long in zip(brief, full, strict=True)
        ]


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
