"""Source files behind a function of the user's own, found by syntax: nothing of them is run.

They are those of its module, and of every module that these import and nobody installed. A module
that is imported by a computed name is not seen, nor is any other file that the code reads.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from functools import lru_cache
from importlib.machinery import ModuleSpec
from pathlib import Path

from alignkit.errors import ConfigError
from alignkit.stored_file import file_sha256

ALIGNKIT = f"{Path(__file__).parents[1]}{os.sep}"
_INSTALLED = tuple(f"{sysconfig.get_path(each)}{os.sep}" for each in ("stdlib", "platstdlib"))


def own_files(name: str, use: str) -> dict[Path, str]:
    """Map the source files behind ``module:function`` to their SHA-256, those of its module first.

    ``use`` is the function's purpose: *model*, *score*. Raise `ConfigError` if no such module
    exists, or one of the files is not regular.
    """
    module = name.rpartition(":")[0]
    waiting = [Path(module)] if is_file(module) else _module_files(find_module(name, use))
    found: dict[Path, str] = {}
    known: set[str] = set()
    while waiting:
        file = waiting.pop(0)
        if (place := file.resolve()) in found:
            continue
        found[place] = _source_sha256(name, use, file)
        if file.suffix != ".py" or is_installed(file):
            continue
        for top in imported_names(place, found[place]):
            if top not in known:
                known.add(top)
                waiting += [each for each in _found_files(top) if not is_installed(each)]
    return found


def find_module(name: str, use: str) -> ModuleSpec:
    """Find the top package of ``module:function``; raise `ConfigError` if there is none."""
    module = name.rpartition(":")[0]
    top = module.partition(".")[0]
    if top == "__main__":
        raise ConfigError(
            f"{use} {name!r}: __main__ is the program that was started, whose edits cannot be "
            "seen; write the function into a file, and name it FILE.py:FUNCTION"
        )
    if not all(module.split(".")):
        raise ConfigError(f"{use} {name!r}: {module!r} is no module's name; write module:function")
    spec = _found(top)
    if spec is None:
        raise not_found(name, use, f"no module named {top!r}")
    return spec


def is_file(module: str) -> bool:
    """Return whether it names a file, and not an importable module."""
    return module.endswith(".py")


def is_installed(file: Path | str) -> bool:
    """Return whether a file is of Python, of alignkit or of an installed library."""
    place = str(file)
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(file).parts) or place.startswith(
        (*_INSTALLED, ALIGNKIT)
    )


def look_where_started() -> None:
    """Let modules be found in the folder that alignkit was started in, as ``python -m`` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def not_found(name: str, use: str, reason: str) -> ConfigError:
    """Return the error for a module that does not exist, with the next step."""
    return ConfigError(
        f"{use} {name!r}: {reason}; start alignkit in the folder that holds "
        f"{name.rpartition(':')[0]}, or install it"
    )


@lru_cache(maxsize=4096)  # a run asks before each batch
def imported_names(file: Path, sha256: str) -> tuple[str, ...]:  # noqa: ARG001 - the cache's key
    """List the top names of the modules that a Python file imports, anywhere in it."""
    try:
        tree = syntax_tree(file)
    except (SyntaxError, ValueError):
        return ()  # the import raises it, if anything imports this file
    return tuple(dict.fromkeys(name.partition(".")[0] for name in _names(tree)))


def syntax_tree(file: Path) -> ast.Module:
    """Parse a Python file; raise `SyntaxError`, `ValueError` for null bytes, or `OSError`."""
    with warnings.catch_warnings():  # the import gives them, where they belong
        warnings.simplefilter("ignore")
        return ast.parse(file.read_bytes(), str(file))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from (each.name for each in node.names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case ast.Call(
                func=ast.Name(id="import_module" | "__import__")
                | ast.Attribute(attr="import_module"),
                args=[ast.Constant(value=str(module)), *_],
            ):
                yield module


def _found(top: str) -> ModuleSpec | None:
    look_where_started()
    try:
        return importlib.util.find_spec(top)  # of a name without a dot, this runs no code
    except ValueError:  # a module that a program made has no file
        return None


def _found_files(top: str) -> list[Path]:
    spec = _found(top) if top and top != "__main__" else None
    if spec is None:
        return []
    first = (
        spec.origin
        if spec.has_location
        else next(iter(spec.submodule_search_locations or ()), None)
    )
    return [] if first is None or is_installed(first) else _module_files(spec)


def _module_files(spec: ModuleSpec) -> list[Path]:
    """List the sources of a package, as a module of it may import the others, or the one module."""
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    if not folders:
        return [Path(str(spec.origin))] if spec.has_location else []
    found = (each for folder in folders for each in sorted(folder.rglob("*.py")))
    # an editor marks an open file by a link to nowhere
    return [each for each in found if each.exists() and not each.is_dir()]


def _source_sha256(name: str, use: str, file: Path) -> str:
    try:
        return file_sha256(file)
    except FileNotFoundError as error:
        raise not_found(name, use, f"no file {str(file)!r}") from error
    except OSError as error:
        reason = f"{file}, which it needs, cannot be read ({error.strerror})"
        raise ConfigError(f"{use} {name!r}: {reason}; remove it, or make it readable") from error
