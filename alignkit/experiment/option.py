"""Options in YAML: strict types, errors at their key, and plugins.

A plugin is written as its name alone, or as a mapping of ``name`` and options.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, fields
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    ModelWrapValidatorHandler,
    Strict,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from alignkit.errors import ConfigError, DataError
from alignkit.plugins import Plugin, PluginTable, did_you_mean
from alignkit.removed import instead_of
from alignkit.text.numbers import byte_count


def field_docs(kind: type[Any]) -> dict[str, str]:
    """Return the docstrings below the fields of a class and its bases, read from their sources."""
    # late: only the JSON Schema needs them
    import ast
    import inspect
    from textwrap import dedent

    docs: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if not each.__module__.startswith("alignkit."):
            continue  # a library's, or a plugin's without a source
        (body,) = ast.parse(dedent(inspect.getsource(each))).body
        assert isinstance(body, ast.ClassDef)
        for field, below in pairwise(body.body):
            match field, below:
                case ast.AnnAssign(ast.Name(name)), ast.Expr(ast.Constant(str(text))):
                    docs[name] = " ".join(text.replace("``", "`").split())
    return docs


def describe(schema: dict[str, Any], kind: type[Any]) -> None:
    """Put the docstrings of a class's fields into its JSON Schema, where editors show them."""
    docs = field_docs(kind)
    for name, each in schema.get("properties", {}).items():
        if name in docs:
            each["description"] = docs[name]


# as strict as a person expects: ``true`` is no number
STRICT_MODEL = ConfigDict(
    # a model is part of a larger one, which builds its validator; few are ever used alone
    extra="forbid", frozen=True, arbitrary_types_allowed=True, defer_build=True,
    json_schema_extra=describe,
)  # fmt: skip
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=60)]
Integer = Annotated[int, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Flag = Annotated[bool, Strict()]
Fraction = Annotated[Number, Field(ge=0, le=1)]
Positive = Annotated[Number, Field(gt=0)]


def _bytes(given: Any) -> int:
    size = byte_count(given) if isinstance(given, str) else given
    # a bool is an int to Python, and none to a person
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise PydanticCustomError("size", "is no size; write bytes, or a number with KB, MB or GB")
    return size


Size = Annotated[
    int,
    BeforeValidator(_bytes),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
]
"""Bytes; written as a number, or with its unit."""


UNKNOWN_KEY = "unknown_key"
"""Type of the validation error for a key that nothing reads."""


def wrong(kind: str, message: str, *loc: str | int, given: Any = None) -> InitErrorDetails:
    """Return one line of a `ValidationError`, at a place below the value being validated."""
    error = PydanticCustomError(kind, "{message}", {"message": message})
    return InitErrorDetails(type=error, loc=loc, input=given)


def lines_of(error: ValidationError) -> list[InitErrorDetails]:
    """Return the lines of an error, to be raised together with others."""
    # pydantic formats the message of its own types from ``ctx``, and knows no others
    builtin = get_args(core_schema.ErrorType)
    return [
        InitErrorDetails(
            type=line["type"], loc=line["loc"], input=line["input"], ctx=line.get("ctx", {})
        )
        if line["type"] in builtin
        else wrong(line["type"], line["msg"], *line["loc"], given=line["input"])
        for line in error.errors(include_url=False)
    ]


def no_such(kind: str, name: str, known: Collection[str]) -> str:
    """Say that a file names nothing of this kind, with the nearest name."""
    return f"no {kind} {name!r}{instead_of(f'{kind}: {name}') or did_you_mean(name, known)}"


def refuse(title: str, lines: list[InitErrorDetails]) -> None:
    """Raise a `ValidationError` of these lines, if there are any."""
    if lines:
        raise ValidationError.from_exception_data(title, lines)


def plugin_from(table: PluginTable, given: Any, *, also_known: Collection[str] = ()) -> Any:
    """Build the plugin that ``given`` (a name, or a mapping with ``name``) describes.

    Raises `pydantic.ValidationError` with every wrong option; a surrounding model adds the key
    above it. ``also_known`` are keys of that model, for *did you mean*.
    """
    options = {"name": given} if isinstance(given, str) else given
    name = options.get("name") if isinstance(options, dict) else None
    if not isinstance(name, str):
        message = f"needs a {table.kind}'s name, or a mapping with 'name'"
        lines = [wrong("plugin", message, given=given)]
        raise ValidationError.from_exception_data(table.family, lines)
    try:
        plugin = table.find(name)
    except ConfigError as error:
        place = () if isinstance(given, str) else ("name",)
        line = wrong("plugin_name", str(error), *place, given=name)
        raise ValidationError.from_exception_data(table.family, [line]) from None
    loaded = plugin.load()
    known = {each.name for each in fields(loaded) if each.init}
    lines = [
        wrong(
            UNKNOWN_KEY,
            f"{name} has no such option"
            f"{instead_of(f'{key}:') or did_you_mean(key, known | {*also_known})}",
            key,
        )
        for key in options.keys() - known - {"name"}
    ]
    built = _built(plugin, {key: options[key] for key in options.keys() & known}, lines)
    refuse(table.family, lines)
    return built


def _built(plugin: Plugin, options: dict[str, Any], lines: list[InitErrorDetails]) -> Any:
    try:
        # As JSON: strict, so that `true` is no number, yet a list may stand for a tuple
        return _adapter(plugin).validate_json(json.dumps(options, default=str), strict=True)
    except ValidationError as error:
        lines.extend(lines_of(error))
    except (ConfigError, DataError) as error:
        lines.append(wrong("plugin", str(error), given=options))
    return None


@cache
def _adapter(plugin: Plugin) -> TypeAdapter[Any]:
    return TypeAdapter(plugin.load())


class PluginMapping(BaseModel):
    """A mapping of a plugin's ``name``, the fields of a subclass, and the plugin's own options."""

    # the plugin's options are extra keys here; `plugin_from` checks them
    model_config = ConfigDict(
        extra="allow", frozen=True, arbitrary_types_allowed=True, defer_build=True
    )
    table: ClassVar[PluginTable]
    bare: ClassVar[bool] = True
    """Whether the name alone is allowed; see `plugin_schema`."""
    name: str

    @classmethod
    def completed(cls, given: Any) -> Any:
        """Return the YAML's value as a mapping; a subclass may add defaults of the plugin."""
        return given

    @model_validator(mode="wrap")
    @classmethod
    def _in_one_pass(cls, given: Any, handler: ModelWrapValidatorHandler[Self]) -> Self:
        """Validate the fields and the plugin's options: every mistake is reported at once."""
        given = cls.completed(given)
        lines: list[InitErrorDetails] = []
        option: Self | None = None
        try:
            option = handler(given)
        except ValidationError as error:
            lines += lines_of(error)
        if isinstance(given, dict) and isinstance(given.get("name"), str):
            own = cls.model_fields.keys() - {"name"}
            try:
                options = {key: value for key, value in given.items() if key not in own}
                plugin_from(cls.table, options, also_known=own)
            except ValidationError as error:
                lines += lines_of(error)
        refuse(cls.__name__, lines)
        assert option is not None
        return option

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        own = dict(handler.resolve_ref_schema(handler(core))["properties"])
        del own["name"]
        describe({"properties": own}, cls)
        schema = plugin_schema(cls.table, own=own, bare=cls.bare)
        return {"description": cls.__doc__, **schema}

    def plugin(self) -> Any:
        """Build the plugin from its own options."""
        return plugin_from(self.table, {"name": self.name, **(self.model_extra or {})})


@dataclass(frozen=True, slots=True)
class PluginOption:
    """Annotation of a pydantic field that holds a plugin."""

    table: PluginTable
    only: str = ""
    """Name of the only one that the field takes, as its options without a name; or nothing."""

    def __hash__(self) -> int:
        # a mapping has no hash; a family has one table
        return hash(self.table.family)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._built)

    def _built(self, given: Any) -> Any:
        if not self.only:
            return plugin_from(self.table, given)
        if given is None:
            return None
        if not isinstance(given, dict):
            message = f"needs a mapping, of the options that {self.only!r} has under 'data'"
            refuse(self.only, [wrong("plugin", message, given=given)])
        return plugin_from(self.table, {"name": self.only, **given})

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        if not self.only:
            return plugin_schema(self.table)
        return {"anyOf": [_plugin_schema(self.table[self.only], {}), {"type": "null"}]}


def plugin_schema(
    table: PluginTable, *, own: JsonSchemaValue | None = None, bare: bool = True
) -> JsonSchemaValue:
    """Return the JSON Schema of a family: one of its plugins, with its options.

    ``own`` are the properties a surrounding model adds. ``bare`` allows the name alone; it is
    false where a preset may give the name, so that the other keys may be given without it.
    """
    own = own or {}
    closed = {"type": "object", "additionalProperties": False}
    # a broken package must not take the schema of all others down
    loadable = {name: plugin for name, plugin in sorted(table.items()) if not table.reason(name)}
    choices: list[JsonSchemaValue] = [
        {"enum": [*loadable]} if bare else {**closed, "properties": own}
    ]
    for name, plugin in loadable.items():
        described_name = {"const": name, "description": plugin.summary}
        choices.append(_plugin_schema(plugin, {"name": described_name, **own}))
    return {"anyOf": choices}


def _plugin_schema(plugin: Plugin, own: JsonSchemaValue) -> JsonSchemaValue:
    """Return the JSON Schema of one plugin's options, after the properties ``own``."""
    options = _adapter(plugin).json_schema()
    describe(options, plugin.load())
    return {
        "type": "object",
        "additionalProperties": False,
        "description": plugin.summary,
        "properties": {**own, **options.get("properties", {})},
        "required": ["name"] * ("name" in own) + options.get("required", []),
    }
