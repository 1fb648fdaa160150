"""Functions of the user's own, named ``module:function``: import them, and hash their source.

They are looked for in the folder that alignkit was started in, then among installed packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import sysconfig
import traceback
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from alignkit.errors import ConfigError
from alignkit.stored_file import file_sha256
from alignkit.workspace import content_key

_ALIGNKIT = f"{Path(__file__).parents[1]}{os.sep}"


class _SourceLoader(SourceFileLoader):
    """A loader that compiles the source, and reads no bytecode.

    Python takes bytecode for that of the source if size and second of the last edit agree: after
    two edits within a second it would run the first.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.get_filename(fullname))


_IMPORTED: dict[str, str] = {}
"""Importable modules of the user's own → hash of their source when they were imported."""


def own_function(name: str, use: str) -> Callable[..., Any]:
    """Import ``module:function``, or ``file.py:function``.

    Raise `ConfigError` if there is none, or its module raises anything; ``use`` says what it is
    for: *model*, *score*.
    """
    module, _, function = name.rpartition(":")
    look_where_started()
    try:
        imported = _from_file(module) if is_file(module) else importlib.import_module(module)
    except Exception as error:  # a module runs whatever code it has
        if _is_missing(error, module):
            raise not_found(name, use, str(error)) from error
        raise ConfigError(
            f"{use} {name!r}: {module} cannot be imported: {raised(error)}; mend it, or install "
            "what it imports"
        ) from error
    if not hasattr(imported, function):
        raise ConfigError(f"{use} {name!r}: {module} has no function {function!r}")
    if not is_file(module):
        _IMPORTED.setdefault(module, _source_of(name, use))
    found: Callable[..., Any] = getattr(imported, function)
    if not callable(found):
        raise ConfigError(f"{use} {name!r}: {function} is no function; name one")
    return found


def raised(error: BaseException) -> str:
    """Word an exception of the user's code: ``KeyError: 'x' (/home/me/scores.py:12)``.

    The line is the last one that is neither of alignkit nor, if there is another, of an installed
    library.
    """
    said = " ".join(f"{type(error).__name__}: {error}".split())
    if isinstance(error, SyntaxError) and error.filename:
        return f"{type(error).__name__}: {error.msg} ({error.filename}:{error.lineno})"
    frames = [
        each
        for each in traceback.extract_tb(error.__traceback__)
        if not each.filename.startswith(("<", _ALIGNKIT))
    ]
    libraries = ("stdlib", "purelib", "platlib")
    installed = tuple(f"{sysconfig.get_path(each)}{os.sep}" for each in libraries)
    own = [each for each in frames if not each.filename.startswith(installed)]
    last = next(reversed(own or frames), None)
    return f"{said} ({last.filename}:{last.lineno})" if last else said


def own_source(name: str, use: str) -> str:
    """Hash the source of the package, or of the single module, that holds ``module:function``.

    Nothing is imported. Return SHA-256 hex; raise `ConfigError` if there is no such module, one of
    its files is not regular, or this process has imported it as it was before an edit.
    """
    source, module = _source_of(name, use), name.rpartition(":")[0]
    if _IMPORTED.get(module, source) != source:
        raise ConfigError(
            f"{use} {name!r}: {module} was edited since this process imported it; start again (a "
            "notebook: restart its kernel)"
        )
    return source


def _source_of(name: str, use: str) -> str:
    module = name.rpartition(":")[0]
    if is_file(module):
        return content_key([_source_sha256(name, use, Path(module))])
    top = module.partition(".")[0]
    look_where_started()
    spec = importlib.util.find_spec(top)  # of a name without a dot, this runs no code
    if spec is None:
        raise not_found(name, use, f"no module named {top!r}")
    # a module of a package may import the others
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    found = (each for folder in folders for each in sorted(folder.rglob("*.py")))
    # an editor marks an open file by a link to nowhere
    files = [each for each in found if each.exists() and not each.is_dir()]
    if not folders and spec.has_location:
        files = [Path(str(spec.origin))]
    return content_key([_source_sha256(name, use, each) for each in files])


def _source_sha256(name: str, use: str, file: Path) -> str:
    try:
        return file_sha256(file)
    except FileNotFoundError as error:
        raise not_found(name, use, f"no file {str(file)!r}") from error
    except OSError as error:
        reason = f"{file}, of its package, cannot be read ({error.strerror})"
        raise ConfigError(f"{use} {name!r}: {reason}; remove it, or make it readable") from error


def is_file(module: str) -> bool:
    """Return whether it names a file, and not an importable module."""
    return module.endswith(".py")


def _from_file(name: str) -> Any:
    """Import a file; the same content of a file is imported once."""
    file = Path(name).resolve()
    if not file.exists():
        raise ModuleNotFoundError(f"no file {name!r}", name=name)
    # a name that no module of a package has, and another one after an edit
    known = f"alignkit own code {file} {file_sha256(file)}"
    if known not in sys.modules:
        loader = _SourceLoader(known, str(file))
        spec = importlib.util.spec_from_file_location(known, file, loader=loader)
        if spec is None:
            raise ImportError(f"{file} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module  # dataclasses look their module up
        try:
            loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def look_where_started() -> None:
    """Let modules be found in the folder that alignkit was started in, as ``python -m`` does."""
    if "" not in sys.path:
        sys.path.insert(0, "")


def _is_missing(error: Exception, module: str) -> bool:
    """Tell whether the module, or a package that should hold it, does not exist."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return name is not None and f"{module}.".startswith(f"{name}.")


def not_found(name: str, use: str, reason: str) -> ConfigError:
    """Return the error for a module that does not exist, with the next step."""
    return ConfigError(
        f"{use} {name!r}: {reason}; start alignkit in the folder that holds "
        f"{name.rpartition(':')[0]}, or install it"
    )
