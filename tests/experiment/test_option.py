"""Plugins as the YAML writes them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import jsonschema
import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from alignkit.errors import DataError
from alignkit.experiment.option import (
    Options,
    PluginOption,
    plugin_from,
    plugin_schema,
)
from alignkit.plugins import Plugin, PluginTable


@dataclass(frozen=True, slots=True)
class Sharpener:
    """A plugin with an option of each kind."""

    radius: int
    strength: float = 1.0
    clip: bool = True
    window: tuple[int, int] = (3, 3)
    kernel: Path | None = None

    def __post_init__(self) -> None:
        if self.radius == 13:
            raise DataError("13 brings bad luck; choose another radius")


TABLE = PluginTable(
    "sharpeners",
    {
        "sharpener": Plugin(f"{__name__}:Sharpener", summary="sharpens"),
        "dull": Plugin(f"{__name__}:Sharpener"),
    },
)


def build(given, **options):
    return plugin_from(TABLE, given, **options)


def lines(given, **options) -> list[tuple[tuple, str]]:
    with pytest.raises(ValidationError) as caught:
        build(given, **options)
    return [(line["loc"], line["msg"]) for line in caught.value.errors()]


def test_a_mapping_gives_the_options():
    given = {"name": "sharpener", "radius": 2, "window": [5, 7], "kernel": "k.npy"}
    assert build(given) == Sharpener(2, window=(5, 7), kernel=Path("k.npy"))


def test_a_whole_number_is_a_float_but_true_is_no_number():
    assert build({"name": "sharpener", "radius": 1, "strength": 2}).strength == 2.0
    ((loc, message),) = lines({"name": "sharpener", "radius": True})
    assert loc == ("radius",)
    assert "valid integer" in message


def test_text_is_no_number():
    assert lines({"name": "sharpener", "radius": "2"})[0][0] == ("radius",)


def test_every_wrong_option_is_told_at_once():
    told = dict(lines({"name": "sharpener", "strenght": 1.0, "clip": 1, "foo": 2}))
    assert set(told) == {("strenght",), ("clip",), ("foo",), ("radius",)}
    assert told["strenght",] == "sharpener has no such option; did you mean 'strength'?"
    assert told["radius",] == "Field required"


def test_keys_of_the_surrounding_model_are_suggested_too():
    told = dict(lines({"name": "sharpener", "radius": 1, "szie": 3}, also_known=["size"]))
    assert told["szie",].endswith("did you mean 'size'?")


def test_an_unknown_plugin_suggests_the_nearest():
    assert lines("sharpner") == [((), "no sharpener 'sharpner'; did you mean 'sharpener'?")]
    assert lines({"name": "sharpner"})[0][0] == ("name",)


@pytest.mark.parametrize("given", [None, 3, [], {}, {"radius": 2}, {"name": 3}])
def test_what_names_no_plugin_is_refused(given):
    assert lines(given) == [((), "needs a sharpener's name, or a mapping with 'name'")]


def test_what_a_plugin_itself_refuses_is_told_in_its_words():
    assert lines({"name": "sharpener", "radius": 13}) == [
        ((), "13 brings bad luck; choose another radius")
    ]


@dataclass(frozen=True)
class Stage:
    sharpener: Sharpener
    size: int
    written: dict


class StageHolder(BaseModel):
    stage: Annotated[Stage, Options(Stage, TABLE, plugin="sharpener", written="written")]


class Holder(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    stages: list[Annotated[Sharpener, PluginOption(TABLE)]]


def test_a_surrounding_model_places_the_error():
    with pytest.raises(ValidationError) as caught:
        Holder.model_validate({"stages": [{"name": "sharpener", "radius": 1, "windw": [1, 1]}]})
    assert caught.value.errors()[0]["loc"] == ("stages", 0, "windw")


def test_own_keys_and_plugin_options_are_checked_in_one_pass():
    given = {"name": "sharpener", "size": "big", "radius": 1, "clp": True}
    with pytest.raises(ValidationError) as caught:
        StageHolder.model_validate({"stage": given})
    assert {line["loc"][1:] for line in caught.value.errors()} == {("size",), ("clp",)}


def test_a_dataclass_holds_its_plugin_and_the_options_as_they_are_written():
    given = {"name": "sharpener", "size": 3, "radius": 1, "window": [5, 7]}
    stage = StageHolder.model_validate({"stage": given}).stage
    assert stage == Stage(
        Sharpener(1, window=(5, 7)), 3, {"name": "sharpener", "radius": 1, "window": [5, 7]}
    )


def test_the_schema_takes_what_the_validator_takes_and_refuses_what_it_refuses():
    schema = jsonschema.Draft202012Validator(plugin_schema(TABLE))
    for given in ("sharpener", {"name": "sharpener", "radius": 1, "window": [1, 2], "clip": False}):
        assert schema.is_valid(given)
    wrong = (
        "sharpner",
        {"radius": 1},
        {"name": "sharpener"},
        {"name": "dull", "radius": 1, "x": 1},
    )
    for given in wrong:
        assert not schema.is_valid(given)
