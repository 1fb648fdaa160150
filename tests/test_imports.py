"""Every module can be the first that is imported: no circle hides behind another's order."""

import os
import pkgutil
import traceback

import pytest

import alignkit

MODULES = [
    each.name
    for each in pkgutil.walk_packages(alignkit.__path__, "alignkit.")
    if "__main__" not in each.name
]


def first_import(name: str, write: int) -> None:
    """In a process of its own, with none of alignkit imported."""
    import sys

    for known in [each for each in sys.modules if each.split(".")[0] == "alignkit"]:
        del sys.modules[known]
    try:
        __import__(name)
    except ImportError:
        os.write(write, traceback.format_exc().encode())
    os._exit(0)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # the child only imports
@pytest.mark.parametrize("name", MODULES)
def test_a_module_can_be_imported_first(name):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        first_import(name, write)
    os.close(write)
    with os.fdopen(read) as said:
        problem = said.read()
    os.waitpid(child, 0)
    assert not problem
