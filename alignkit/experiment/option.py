"""Options in YAML: strict types, errors at their key, and plugins.

A plugin is written as its name alone, or as a mapping of ``name`` and options.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import MISSING, dataclass, fields
from functools import cache, partial
from itertools import pairwise
from typing import Annotated, Any, get_args, get_type_hints

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Strict,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, core_schema

from alignkit.errors import ConfigError, DataError
from alignkit.plugins import Plugin, PluginTable, did_you_mean
from alignkit.removed import instead_of
from alignkit.text.numbers import byte_count, listed


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


def unknown_key(key: str, known: Collection[str], who: str = "") -> str:
    """Say that nothing reads a key, or not the plugin ``who``, with the nearest known one."""
    said = f"{who} has no such option" if who else "unknown key"
    return said + (instead_of(f"{key}:") or did_you_mean(f"{key}", known))


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
        wrong(UNKNOWN_KEY, unknown_key(key, known | {*also_known}, name), key)
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


@dataclass(frozen=True, slots=True)
class Options:
    """Annotation of a pydantic field that holds a frozen dataclass, whose fields are the keys.

    With a ``table`` the field ``plugin`` is a plugin: its name and options stand beside the others.
    The dataclass may say in ``faults(keys)`` which of the given keys do not fit together, and why;
    a fault of all of them has no key.
    """

    kind: type[Any]
    table: PluginTable | None = None
    plugin: str = ""
    written: str = ""
    """Field that keeps the plugin's name and options as they are written; or none."""
    short: str = ""
    """Field that is given by a value alone, which is no mapping; or none."""
    whole: bool = False
    """Whether every key is required, also one with a default in the dataclass."""
    unwritten: str = ""
    """Field that no key gives; or none."""

    def __hash__(self) -> int:
        return hash(self.kind)  # a table has no hash

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.built)

    def built(self, given: Any) -> Any:
        """Build the dataclass from a file's value; raise `ValidationError` with every mistake."""
        title, keys = self.kind.__name__, _own_keys(self)
        required = [name for name, each in keys.model_fields.items() if each.is_required()]
        if given is None and not self.table and not required:
            return self.kind()
        if short := "name" if self.table else self.short:
            given = given if isinstance(given, dict) else {short: given}
        if not isinstance(given, dict):
            with_these = f", with {listed(required)}" if required else ""
            message = f"should be a mapping of keys{with_these}"
            refuse(title, [wrong("mapping", message, given=given)])
        others = {key: value for key, value in given.items() if key not in keys.model_fields}
        lines: list[InitErrorDetails] = []
        values: dict[str, Any] = {}
        try:
            own = {key: value for key, value in given.items() if key not in others}
            # as JSON, for the reason of `_built` below
            held = keys.model_validate_json(json.dumps(own, default=str))
            values = {key: getattr(held, key) for key in keys.model_fields}
        except ValidationError as error:
            lines += lines_of(error)
        try:
            values |= self._with_plugin(others, keys.model_fields)
        except ValidationError as error:
            lines += lines_of(error)
        refuse(title, lines)
        try:
            built = self.kind(**values)
        except (ConfigError, DataError) as error:
            refuse(title, [wrong("options", str(error), given=given)])
        for key, said in built.faults(given) if hasattr(built, "faults") else ():
            at = (key,) if key else ()
            lines.append(wrong("fault", said, *at, given=given.get(key, given)))
        refuse(title, lines)
        return built

    def _with_plugin(self, others: dict[str, Any], known: Collection[str]) -> dict[str, Any]:
        """Return the fields that the other keys give: the plugin's; none without a plugin."""
        if self.table is None:
            unknown = (wrong(UNKNOWN_KEY, unknown_key(key, known), key) for key in others)
            refuse(self.kind.__name__, [*unknown])
            return {}
        built = {self.plugin: plugin_from(self.table, others, also_known=known)}
        return {**built, self.written: others} if self.written else built

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = _own_keys(self).model_json_schema()
        describe(schema, self.kind)
        own, said = schema["properties"], {"description": self.kind.__doc__}
        if self.table:
            # of a stage of a preset some keys may be given without the name
            return {**said, **plugin_schema(self.table, own=own, bare="required" not in schema)}
        closed = {**schema, **said, "additionalProperties": False}
        return {"anyOf": [own[self.short], closed]} if self.short else closed


@cache
def _own_keys(options: Options) -> type[BaseModel]:
    """Return the model of the fields that are keys, and none of a plugin."""
    hints = get_type_hints(options.kind, include_extras=True)
    others = (options.plugin, options.written, options.unwritten)
    own: dict[str, Any] = {
        each.name: (hints[each.name], ... if each.default is MISSING else each.default)
        for each in fields(options.kind)
        if each.name not in others
    }
    if options.whole:
        own = {name: (hint, ...) for name, (hint, _) in own.items()}
    return create_model(options.kind.__name__, __config__=ConfigDict(strict=True), **own)


@dataclass(frozen=True, slots=True)
class PluginOption:
    """Annotation of a pydantic field that holds a plugin."""

    table: PluginTable

    def __hash__(self) -> int:
        # a mapping has no hash; a family has one table
        return hash(self.table.family)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(partial(plugin_from, self.table))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return plugin_schema(self.table)


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
