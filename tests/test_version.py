"""The layers of a key hold everything that decides the result."""

from collections.abc import Collection
from pathlib import Path

import grimp
import pytest

import alignkit
from alignkit import version

PACKAGE = Path(alignkit.__file__).parent
LAYERS = {name: value for name, value in vars(version).items() if name.endswith("_LAYERS")}
NO_NUMBERS = {
    "errors": "types of exceptions",
    "extras": "finds optional libraries and says how to install them",
    "outcome": "how work ended",
    "place": "names rows and cells, which are parts of keys",
    "plugins": "finds classes and versions, which are parts of keys",
    "progress": "shows how far work is",
    "version": "the version of the code itself",
    "task_facts": "words, units and names of metrics",
    "stored_file": "reads, writes and hashes files",
    "workspace": "stores and finds what others compute",
    "record": "types that are stored",
    "datasets": "its fingerprint is a part of every key",
    "experiment": "options, which are parts of keys",
    "plan": "makes the keys",
}
"""Rooms and modules that decide no number, with the reason. A key names what they hold."""
SUMS = {"alignkit.record.path_facts", "alignkit.record.pixel_facts"}
"""Modules of such rooms that do: stored types that count and add up."""


@pytest.fixture(scope="module")
def imports():
    """Give the graph of all imports: late ones are in it, those for type checkers are not."""
    return grimp.build_graph("alignkit", exclude_type_checking_imports=True, cache_dir=None)


def module_of(layer: str) -> str:
    return ".".join(["alignkit", *Path(layer).with_suffix("").parts])


BESIDES = {"WEIGHT_LAYERS": {"tasks"}, "ENGINE_LAYERS": {"tasks"}, "LOGIT_LAYERS": {"text"}}
"""Rooms that decide nothing which is stored under a list of layers: tasks choose outputs by name,
and the names are parts of its keys; text words the advice of a drift, which is computed for each record."""


def decides(module: str, besides: Collection[str] = ()) -> bool:
    return module in SUMS or module.split(".")[1] not in {*NO_NUMBERS, *besides}


def reached(
    imports: grimp.ImportGraph, layers: tuple[str, ...], besides: Collection[str] = ()
) -> set[str]:
    """List the modules that layers import, on and on; not through `NO_NUMBERS` and ``besides``."""
    todo = {module_of(layer) for layer in layers}
    todo |= {each for module in todo for each in imports.find_descendants(module)}
    seen: set[str] = set()
    while todo:
        module = todo.pop()
        seen.add(module)
        if decides(module, besides):
            todo |= imports.find_modules_directly_imported_by(module) - seen
    return seen


def lacking(
    imports: grimp.ImportGraph, layers: tuple[str, ...], besides: Collection[str] = ()
) -> set[str]:
    """List the modules that decide numbers and are in no layer of the list."""
    named = {module_of(layer) for layer in layers}
    return {
        module
        for module in reached(imports, layers, besides)
        if not any(f"{module}.".startswith(f"{each}.") for each in named)
        and decides(module, besides)
    }


@pytest.mark.parametrize("name", sorted(set(LAYERS) - {"ALL_LAYERS"}))
def test_layers_hold_all_below_them_that_decides_numbers(imports, name):
    assert all((PACKAGE / layer).exists() for layer in LAYERS[name])
    assert not lacking(imports, LAYERS[name], BESIDES.get(name, ()))


def test_a_layer_that_is_left_out_is_noticed(imports):
    without = tuple(each for each in version.LOGIT_LAYERS if each != "engines")
    assert lacking(imports, without) >= {"alignkit.engines", "alignkit.engines.export"}
    without = tuple(each for each in version.PIXEL_LAYERS if each != "torch_settings.py")
    assert lacking(imports, without) == {"alignkit.torch_settings"}


def test_a_room_that_decides_no_number_is_in_no_list_but_that_of_the_data():
    numbers = {each for name in LAYERS if name != "DATA_LAYERS" for each in LAYERS[name]}
    assert all(decides(module_of(each)) for each in numbers - {"."})
