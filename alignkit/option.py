"""A plugin written in YAML: its name alone, or a mapping of ``name`` and options."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from pydantic import ConfigDict, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from alignkit.errors import ConfigError
from alignkit.plugins import Plugin, did_you_mean, find_plugin


def plugin_from(family: str, table: dict[str, Plugin], given: Any) -> Any:
    """Build the plugin that ``given`` (a name, or a mapping with ``name``) describes.

    Raises `pydantic_core.PydanticCustomError` or `pydantic.ValidationError`, which a surrounding
    model places at the right key.
    """
    options = {"name": given} if isinstance(given, str) else given
    if not isinstance(options, dict) or not isinstance(options.get("name"), str):
        raise PydanticCustomError("plugin", f"needs a {family.rstrip('s')}'s name, or a mapping with 'name'")
    try:
        loaded = find_plugin(family, table, options["name"]).load()
    except ConfigError as error:
        raise PydanticCustomError("plugin_name", "{message}", {"message": str(error)}) from None
    options = {key: value for key, value in options.items() if key != "name"}
    for key in options:
        known = [each.name for each in fields(loaded) if each.init]
        if key not in known:
            raise PydanticCustomError(
                "plugin_option",
                "'{name}' has no option '{key}'{hint}",
                {"name": options and given["name"], "key": key, "hint": did_you_mean(key, known)},
            )
    return _adapter(loaded).validate_python(options)


def _adapter(loaded: type[Any]) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(loaded)
    return adapter


@dataclass(frozen=True, slots=True)
class PluginOption:
    """Annotation of a pydantic field that holds a plugin."""

    family: str
    table: dict[str, Plugin]

    def __hash__(self) -> int:
        return hash(self.family)

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            lambda given: plugin_from(self.family, self.table, given)
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        choices: list[JsonSchemaValue] = [{"enum": sorted(self.table)}]
        for name, plugin in sorted(self.table.items()):
            options = TypeAdapter(plugin.load(), config=ConfigDict()).json_schema()
            choices.append(_named(name, plugin.summary, options))
        return {"anyOf": choices}


def _named(name: str, summary: str, options: JsonSchemaValue) -> JsonSchemaValue:
    return {
        "type": "object",
        "description": summary,
        "properties": {"name": {"const": name}, **options.get("properties", {})},
        "required": ["name", *options.get("required", [])],
        "additionalProperties": False,
    }
