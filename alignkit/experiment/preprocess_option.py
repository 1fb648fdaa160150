"""`PreprocessOption`: a preprocessing path as the YAML writes it, validated."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
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
    Options,
    PluginOption,
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
    Orient,
    Preprocess,
    Quantise,
    Resize,
    StageName,
)
from alignkit.preprocess.image_header import MAX_PIXELS
from alignkit.preprocess.normalise import Normalise
from alignkit.preprocess.presets import PRESETS
from alignkit.preprocess.stages import InputSide
from alignkit.resizers import RESIZERS


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
    resize: Annotated[Resize, Options(Resize, RESIZERS, plugin="resizer")]
    """Resizer by name, with its options and the size."""
    crop: Annotated[Crop, Options(Crop, short="size")] = Crop()
    """Crop after the resize, of the centre unless it says where; by default none."""
    quantise: Literal["none", "round", "truncate"] = "none"
    """Conversion of unrounded floats back to 8 bits: ``round``, ``truncate`` or ``none``."""
    colour: ColourSpace = "rgb"
    """Order of the channels that the model takes: ``rgb`` or ``bgr``."""
    normalise: Annotated[Normalise, Options(Normalise, whole=True)] = Normalise()
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
        if option and option.resize.auto and option.crop.size:
            message = "the size of an image with 'auto' varies; leave 'crop' or 'auto' out"
            lines.append(wrong("crop", message, "crop"))
        if option and option.resize.fit == "none" and not option.crop.size:
            message = "with 'fit: none' every image keeps its size; add 'crop', as 'crop: 224'"
            lines.append(wrong("crop", message, "crop"))
        doubt = option.normalise.doubt if option else ""
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

    def build(self, name: str) -> Preprocess:
        """Build the `Preprocess` this entry describes."""
        # a third party's decoder has the contract's methods and need not have its defaults
        imitated = getattr(self.decode, "surrogate_of", "")
        built = Preprocess(
            name=name,
            decode=self.decode,
            resize=self.resize,
            orient=Orient(self.orient),
            crop=self.crop,
            quantise=Quantise(self.quantise),
            colour=Colour(self.colour),
            normalise=self.normalise,
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
