"""`PreprocessOption`: a preprocessing path as the YAML writes it, validated."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from alignkit.decode import MAX_PIXELS
from alignkit.decoders import DECODERS, Decoder
from alignkit.field import STRICT, Integer, Number
from alignkit.load.option import (
    PluginOption,
    lines_of,
    plugin_from,
    plugin_schema,
    refuse,
    validated_with_plugin,
    wrong,
)
from alignkit.plugins import did_you_mean
from alignkit.preprocess import (
    Colour,
    ColourSpace,
    Crop,
    Normalise,
    Orient,
    Preprocess,
    Quantise,
    Resize,
)
from alignkit.presets import PRESETS
from alignkit.resizers import RESIZERS


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


Side = Annotated[Integer, Field(ge=1, le=8192)]
Size = Annotated[
    tuple[Side, Side], BeforeValidator(_pair, json_schema_input_type=Side | tuple[Side, Side])
]
"""One side of a square in pixels, or height and width."""


class ResizeOption(BaseModel):
    """``resize:`` of a path: a resizer by name with its options, and the target."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str
    size: Size
    fit: Literal["squash", "shorter", "letterbox"] = "squash"
    pad: Annotated[Integer, Field(ge=0, le=255)] = 114
    rounding: Literal["down", "nearest"] = "down"
    """Of the longer side of ``shorter``."""

    @model_validator(mode="wrap")
    @classmethod
    def _with_plugin(cls, given: Any, handler: Callable[[Any], ResizeOption]) -> ResizeOption:
        return validated_with_plugin(cls, given, handler, family="resizers", table=RESIZERS)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        own = dict(handler.resolve_ref_schema(handler(core))["properties"])
        del own["name"]
        return plugin_schema(RESIZERS, own=own, bare=False)

    def build(self) -> Resize:
        """The stage."""
        resizer = plugin_from("resizers", RESIZERS, {"name": self.name, **(self.model_extra or {})})
        return Resize(resizer, self.size, self.fit, self.pad, self.rounding)


class CropOption(BaseModel):
    """``crop:`` of a path: the size, or a mapping of ``size`` and ``half``."""

    model_config = STRICT
    size: Size
    half: Literal["even", "down", "up"] = "even"
    """Where a margin that is odd in all begins."""


def _crop(value: Any) -> Any:
    return value if value is None or isinstance(value, dict) else {"size": value}


class NormaliseOption(BaseModel):
    """``normalise:`` of a path: per-channel mean and std of values in 0..1."""

    model_config = STRICT
    mean: tuple[Number, Number, Number]
    std: tuple[
        Annotated[Number, Field(gt=0)],
        Annotated[Number, Field(gt=0)],
        Annotated[Number, Field(gt=0)],
    ]


class PreprocessOption(BaseModel):
    """One entry of ``preprocess:``: a preset with overrides, or every stage spelt out."""

    model_config = STRICT
    preset: str | None = None
    """What a real stack does, by name; its stages can be overridden one by one."""
    size: Side | None = None
    """Side of the square input a preset prepares, in pixels."""
    decode: Annotated[Decoder, PluginOption("decoders", DECODERS)]
    orient: Literal["none", "exif"] = "none"
    resize: ResizeOption
    crop: Annotated[
        CropOption | None,
        BeforeValidator(_crop, json_schema_input_type=Size | CropOption | None),
    ] = None
    quantise: Literal["none", "round", "truncate"] = "none"
    colour: ColourSpace = "rgb"
    normalise: NormaliseOption | None = None
    max_pixels: Annotated[Integer, Field(ge=1)] = MAX_PIXELS
    """Images whose header declares more are not decoded."""

    @model_validator(mode="wrap")
    @classmethod
    def _from_preset(
        cls, given: Any, handler: Callable[[Any], PreprocessOption]
    ) -> PreprocessOption:
        lines: list[InitErrorDetails] = []
        option: PreprocessOption | None = None
        try:
            option = handler(_expanded(given, lines) if isinstance(given, dict) else given)
        except ValidationError as error:
            lines += lines_of(error)
        if option and option.orient == "exif" and option.decode.orients:
            message = "this decoder turns images by EXIF itself; leave 'orient' out"
            lines.append(wrong("orient", message, "orient"))
        refuse(cls.__name__, lines)
        assert option is not None
        return option

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        schema["properties"]["preset"] = {"enum": sorted(PRESETS)}
        del schema["required"]
        return {
            **schema,
            "if": {"required": ["preset"]},
            "then": {"required": ["size"]},
            "else": {
                "required": ["decode", "resize"],
                "properties": {"resize": {"required": ["name", "size"]}, "size": False},
            },
        }

    def build(self, name: str) -> Preprocess:
        """The `Preprocess` this entry describes."""
        normalise = (
            Normalise(self.normalise.mean, self.normalise.std) if self.normalise else Normalise()
        )
        return Preprocess(
            name=name,
            decode=self.decode,
            resize=self.resize.build(),
            orient=Orient(self.orient),
            crop=Crop(self.crop.size, self.crop.half) if self.crop else Crop(),
            quantise=Quantise(self.quantise),
            colour=Colour(self.colour),
            normalise=normalise,
            surrogate_of=PRESETS[self.preset].surrogate_of if self.preset else "",
            max_pixels=self.max_pixels,
        )


def _expanded(given: dict[str, Any], lines: list[InitErrorDetails]) -> dict[str, Any]:
    """The preset's stages under the given ones; a wrong preset or size goes to ``lines``."""
    name, size = given.get("preset"), given.get("size")
    unknown = [key for key in given if key not in PreprocessOption.model_fields]
    if misspelt := get_close_matches("preset", map(str, unknown), n=1):
        name = given[misspelt[0]]  # reported as an unknown key; what else is wrong follows from it
    if name is None:
        if size is not None:
            message = "a size here belongs to a preset; without one, write it in 'resize'"
            lines.append(wrong("size", message, "size", given=size))
        return given
    if not isinstance(name, str):
        return given
    preset = PRESETS.get(name)
    if preset is None:
        message = f"no preset {name!r}{did_you_mean(name, PRESETS)}"
        lines.append(wrong("preset", message, "preset", given=name))
        preset = next(iter(PRESETS.values()))  # any, so that the other keys are checked too
    if size is None:
        message = "a preset needs 'size', the input's side in pixels"
        lines.append(wrong("preset_size", message, "size", given=given))
    stages = preset.stages(size if type(size) is int and size > 0 else 1)
    for stage in stages.keys() & given.keys():
        stages[stage] = _over(stages[stage], given[stage])
    return {**given, **stages}


def _over(stage: Any, given: Any) -> Any:
    """Given options over a preset's; another plugin keeps the target size and no other option."""
    if not isinstance(stage, dict) or not isinstance(given, dict):
        return given
    kept = ("size", "fit", "pad", "rounding") if "name" in given else stage.keys()
    return {**{key: stage[key] for key in kept if key in stage}, **given}
