"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

import alignkit

PACKAGE = Path(alignkit.__file__).parent
MODULES = [
    ".".join(file.relative_to(PACKAGE.parent).with_suffix("").parts)
    for file in sorted(PACKAGE.rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_every_example_gives_what_it_shows(name):
    failed, tried = doctest.testmod(importlib.import_module(name.removesuffix(".__init__")))
    assert tried
    assert not failed
