"""`PreprocessOption`: a preprocessing path as the YAML writes it, validated."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    GetJsonSchemaHandler,
    PrivateAttr,
    ValidationError,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails

from alignkit.decoders import DECODERS, Decoder
from alignkit.errors import ConfigWarning
from alignkit.experiment.imported_configuration import SOURCE_KEYS, Stages, stages_from_source
from alignkit.experiment.option import (
    STRICT_MODEL,
    Flag,
    Integer,
    Number,
    PluginMapping,
    PluginOption,
    Positive,
    describe,
    lines_of,
    refuse,
    wrong,
)
from alignkit.preprocess import (
    STAGES,
    Colour,
    ColourSpace,
    Crop,
    HalfRounding,
    Orient,
    Preprocess,
    Quantise,
    Resize,
    SideRounding,
    StageName,
)
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS


def _pair(value: Any) -> Any:
    return (value, value) if isinstance(value, int) else value


InputSide = Annotated[Integer, Field(ge=1, le=8192)]
InputSize = Annotated[
    tuple[InputSide, InputSide],
    BeforeValidator(_pair, json_schema_input_type=InputSide | tuple[InputSide, InputSide]),
]
"""One side of a square in pixels, or height and width."""


_Place = tuple[Annotated[Integer, Field(ge=0, le=8192)], Annotated[Integer, Field(ge=0, le=8192)]]
"""Rows above and columns left of something, in pixels."""


class ResizeOption(PluginMapping):
    """``resize:`` of a path: a resizer by name with its options, and the target."""

    table = RESIZERS
    bare = False  # a preset names the resizer, so that a size alone may be given
    size: InputSize
    """Size after the resize, in pixels: one side of a square, or [height, width]; for ``shorter``
    the shorter side."""
    fit: Literal["squash", "shorter", "letterbox", "none"] = "squash"
    """``squash`` ignores the aspect ratio · ``shorter`` scales the shorter side to ``size`` ·
    ``letterbox`` scales the longer side and pads · ``none`` scales nothing, and pads sides below
    ``size`` for ``crop``."""
    pad: Annotated[Integer, Field(ge=0, le=255)] = 114
    """Grey level 0..255 of the padding of ``letterbox`` and ``none``."""
    rounding: Literal[SideRounding, "down"] | None = None
    """Of the sides that follow from the aspect ratio: by default ``floor`` for ``shorter``, and
    ``even`` for ``letterbox``. ``down`` is the older name of ``floor``, for ``shorter``."""
    auto: Flag = False
    """Of ``letterbox``: pad only to the next multiple of ``stride``, as Ultralytics does for models
    that take any size, so that the size of the input varies with the image."""
    stride: Annotated[Integer, Field(ge=1, le=1024)] = 32
    """Of ``auto``: step of the sizes, in pixels."""
    half: HalfRounding = "down"
    """Of ``letterbox`` and ``none``: rounding of half an odd margin, on the top and left."""
    at: _Place | None = None
    """Of ``letterbox`` and ``none``: [top, left] of the image within the padding; by default it is
    centred."""

    @model_validator(mode="after")
    def _auto_fits(self) -> ResizeOption:
        lines = []
        if self.auto and self.fit != "letterbox":
            message = f"belongs to 'fit: letterbox', not to {self.fit}"
            lines.append(wrong("auto", message, "auto", given=self.auto))
        elif self.auto and (over := [side for side in self.size if side % self.stride]):
            below = over[0] - over[0] % self.stride
            near = " or ".join(str(side) for side in (below, below + self.stride) if side)
            message = (
                f"{over[0]} is no multiple of the stride {self.stride}, so 'auto' would give sizes "
                f"that are none either; write {near}"
            )
            lines.append(wrong("size", message, "size", given=self.size))
        if self.rounding == "down" and self.fit == "letterbox":
            message = "in a letterbox that meant even; write 'even', the default, or 'floor'"
            lines.append(wrong("rounding", message, "rounding", given=self.rounding))
        for name, given in (("half", self.half != "down"), ("at", self.at is not None)):
            if given and self.fit not in ("letterbox", "none"):
                message = f"belongs to 'fit: letterbox', not to {self.fit}; a crop has its own"
                lines.append(wrong(name, message, name, given=getattr(self, name)))
        if not self.auto and "stride" in self.model_fields_set:
            message = "belongs to 'auto: true', which is not set"
            lines.append(wrong("stride", message, "stride", given=self.stride))
        refuse(type(self).__name__, lines)
        return self

    def build(self) -> Resize:
        """Build the stage."""
        rounding = "floor" if self.rounding == "down" else self.rounding
        sides = self.fit, self.pad, rounding, self.auto, self.stride, self.half, self.at
        return Resize(self.plugin(), self.size, *sides)


class CropOption(BaseModel):
    """``crop:`` of a path: the size, or a mapping of ``size`` and ``half`` or ``at``."""

    model_config = STRICT_MODEL
    size: InputSize
    """Size of the crop, in pixels: one side of a square, or [height, width]."""
    half: HalfRounding = "even"
    """Side of an odd margin that gets the extra pixel."""
    at: _Place | None = None
    """[top, left] of the crop, if it is not that of the centre."""


def _crop(value: Any) -> Any:
    return value if value is None or isinstance(value, dict) else {"size": value}


class NormaliseOption(BaseModel):
    """``normalise:`` of a path: per-channel mean and std of values in 0..1."""

    model_config = STRICT_MODEL
    mean: tuple[Number, Number, Number]
    """Mean of red, green and blue, of values 0..1."""
    std: tuple[Positive, Positive, Positive]
    """Standard deviation of red, green and blue, of values 0..1."""


class PreprocessOption(BaseModel):
    """One entry of ``preprocess:``: a preset or an import with overrides, or every stage spelt out.

    An import warns (`ConfigWarning`) of settings that it ignores or leaves open.
    """

    model_config = STRICT_MODEL
    preset: str | None = None
    """Name of a real stack's stages, which can be overridden one by one."""
    torchpipe_toml: str | None = None
    """A torchpipe TOML file; see `torchpipe_toml`."""
    huggingface: str | None = None
    """A ``preprocessor_config.json``, or its folder; see `hugging_face_config`."""
    timm: str | None = None
    """A model of timm; see `imported_configuration.stages_of_timm`."""
    size: InputSide | None = None
    """Side of the square input, in pixels: needed by a preset, a timm model has its own."""
    surrogate: bool = False
    """Replace the stages that the TOML file runs on a GPU by CPU stand-ins."""
    processor: Literal["slow", "fast"] | None = None
    """Hugging Face's processor; by default fast."""
    decode: Annotated[Decoder, PluginOption(DECODERS)]
    """Decoder by name, with its options."""
    orient: Literal["none", "exif"] = "none"
    """Whether the EXIF orientation is applied: ``exif`` or ``none``."""
    resize: ResizeOption
    """Resizer by name, with its options and the size."""
    crop: Annotated[
        CropOption | None,
        BeforeValidator(_crop, json_schema_input_type=InputSize | CropOption | None),
    ] = None
    """Crop after the resize, of the centre unless it says where; by default none."""
    quantise: Literal["none", "round", "truncate"] = "none"
    """Conversion of unrounded floats back to 8 bits: ``round``, ``truncate`` or ``none``."""
    colour: ColourSpace = "rgb"
    """Order of the channels that the model takes: ``rgb`` or ``bgr``."""
    normalise: NormaliseOption | None = None
    """Mean and standard deviation; by default those of ImageNet."""
    max_pixels: Annotated[Integer, Field(ge=1)] = MAX_PIXELS
    """Images whose header declares more are not decoded."""
    same: Flag = False
    """An A/A comparison on purpose: every stage and option is that of an earlier path."""
    _source: Stages = PrivateAttr(default_factory=Stages)

    @model_validator(mode="wrap")
    @classmethod
    def _from_source(
        cls, given: Any, handler: Callable[[Any], PreprocessOption]
    ) -> PreprocessOption:
        lines: list[InitErrorDetails] = []
        option: PreprocessOption | None = None
        source = Stages()
        # an import is measured as it is, mistakes included
        own = isinstance(given, dict) and "normalise" in given
        try:
            if isinstance(given, dict):
                given, source = stages_from_source(given, cls.model_fields, lines)
            option = handler(given)
        except ValidationError as error:
            lines += lines_of(error)
        # the image would be turned twice
        if option and option.orient == "exif" and option.decode.orients:
            message = "this decoder turns images by EXIF itself; leave 'orient' out"
            lines.append(wrong("orient", message, "orient"))
        if option and option.resize.auto and option.crop:
            message = "the size of an image with 'auto' varies; leave 'crop' or 'auto' out"
            lines.append(wrong("crop", message, "crop"))
        if option and option.resize.fit == "none" and not option.crop:
            message = "with 'fit: none' every image keeps its size; add 'crop', as 'crop: 224'"
            lines.append(wrong("crop", message, "crop"))
        doubt = option.numbers.doubt if option else ""
        if doubt and own:
            lines.append(wrong("normalise", doubt, "normalise"))
        refuse(cls.__name__, lines)
        assert option is not None
        option._source = source  # noqa: SLF001 - the model's own attribute, in a class method
        for warning in (*source.warnings, *([f"normalise: {doubt}"] if doubt else [])):
            warnings.warn(warning, ConfigWarning, stacklevel=2)
        return option

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core))
        schema["properties"]["preset"] = {"enum": sorted(PRESETS)}
        describe(schema, cls)
        # a source gives the stages; `if` below says when they are required
        del schema["required"]
        spelt_out = {
            "required": ["decode", "resize"],
            "properties": {"resize": {"required": ["name", "size"]}, "size": False},
        }
        imported = {"anyOf": [{"required": [key]} for key in SOURCE_KEYS if key != "preset"]}
        return {
            **schema,
            "if": {"required": ["preset"]},
            "then": {"required": ["size"]},
            "else": {"if": imported, "else": spelt_out},
        }

    @property
    def numbers(self) -> Normalise:
        """The mean and std, by default ImageNet's."""
        own = self.normalise
        return Normalise(own.mean, own.std) if own else Normalise()

    def build(self, name: str) -> Preprocess:
        """Build the `Preprocess` this entry describes."""
        # a third party's decoder has the contract's methods and need not have its defaults
        imitated = getattr(self.decode, "surrogate_of", "")
        built = Preprocess(
            name=name,
            decode=self.decode,
            resize=self.resize.build(),
            orient=Orient(self.orient),
            crop=Crop(self.crop.size, self.crop.half, self.crop.at) if self.crop else Crop(),
            quantise=Quantise(self.quantise),
            colour=Colour(self.colour),
            normalise=self.numbers,
            surrogate_of=self._source.surrogate_of or imitated,
            max_pixels=self.max_pixels,
        )
        return replace(built, replaced=self._replaced(built))

    def _replaced(self, built: Preprocess) -> tuple[StageName, ...]:
        """Name the stages that the source of a surrogate gives and this entry replaces."""
        if not self._source.surrogate_of:
            return ()
        own = type(self).model_validate(self._source.block).build(built.name)
        return tuple(each for each in STAGES if getattr(own, each) != getattr(built, each))

    def imitating(self, other: PreprocessOption) -> PreprocessOption:
        """Return this entry as one that replaces stages of the source of ``other``."""
        entry = self.model_copy()
        entry._source = other._source  # noqa: SLF001 - of the same class
        return entry
