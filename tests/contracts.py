"""Tests of `alignkit.testing`, called one by one."""

import pytest


def names_of(contract):
    return [name for name in dir(contract) if name.startswith("test_")]


def held(contract, plugin, name):
    """Run one test of a contract on a plugin."""
    made = contract()
    made.plugin = plugin
    getattr(made, name)()


def broken(contract, plugin, *, skips=False):
    """Return the message of each test that fails, or with ``skips`` is skipped, by its name."""
    found = {}
    for name in names_of(contract):
        try:
            held(contract, plugin, name)
        except pytest.skip.Exception as reason:
            found |= {name: f"skipped: {reason}"} if skips else {}
        except Exception as error:  # noqa: BLE001 - whatever the plugin raises is its failure
            found[name] = f"{type(error).__name__}: {error}"
    return found
