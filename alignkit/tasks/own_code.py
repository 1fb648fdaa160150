"""Functions of the user's own, named ``module:function``: import them, and hash their source.

They are looked for in the folder that alignkit was started in, then among installed packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Mapping
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from alignkit.errors import ConfigError
from alignkit.stored_file import file_sha256
from alignkit.tasks.own_sources import (
    ALIGNKIT,
    is_file,
    is_installed,
    look_where_started,
    not_found,
    own_files,
)
from alignkit.workspace import content_key


class _SourceLoader(SourceFileLoader):
    """A loader that compiles the source, and reads no bytecode.

    Python takes bytecode for that of the source if size and second of the last edit agree: after
    two edits within a second it would run the first.
    """

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.get_filename(fullname))


_IMPORTED: dict[Path, str] = {}
"""Files that Python holds as modules → SHA-256 when this process imported them."""

_KEYED: dict[str, str] = {}
"""Functions → the source by which their results are stored."""


def own_function(name: str, use: str) -> Callable[..., Any]:
    """Import ``module:function``, or ``file.py:function``.

    ``use`` is the function's purpose: *model*, *score*. Raise `ConfigError` if there is none, or
    its module raises anything.
    """
    module, _, function = name.rpartition(":")
    look_where_started()
    # hashed before the import: an edit in between is then refused, and not missed
    files = own_files(name, use)
    source = _unedited(name, use, files)
    if _KEYED.get(name, source) != source:
        raise ConfigError(f"{use} {name!r}: its code was edited during the run; start again")
    try:
        imported = _from_file(module) if is_file(module) else importlib.import_module(module)
    except Exception as error:  # a module runs whatever code it has
        if _is_missing(error, module):
            raise not_found(name, use, str(error)) from error
        raise ConfigError(
            f"{use} {name!r}: {module} cannot be imported: {raised(error)}; mend it, or install "
            "what it imports"
        ) from error
    for file, sha256 in _held(module, files).items():
        _IMPORTED.setdefault(file, sha256)
    if not hasattr(imported, function):
        raise ConfigError(f"{use} {name!r}: {module} has no function {function!r}")
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
        if not each.filename.startswith(("<", ALIGNKIT))
    ]
    own = [each for each in frames if not is_installed(each.filename)]
    last = next(reversed(own or frames), None)
    return f"{said} ({last.filename}:{last.lineno})" if last else said


def own_source(name: str, use: str) -> str:
    """Hash the source of ``module:function``, and of all that `own_files` finds behind it.

    Nothing is imported. Return SHA-256 hex; raise `ConfigError` as `own_files` does, or if this
    process has imported one of the files as it was before an edit.
    """
    _KEYED[name] = _unedited(name, use, own_files(name, use))
    return _KEYED[name]


def _unedited(name: str, use: str, files: Mapping[Path, str]) -> str:
    """Hash the files together; raise `ConfigError` if Python holds one as it was before."""
    for file, sha256 in _held(name.rpartition(":")[0], files).items():
        if _IMPORTED.get(file, sha256) != sha256:
            raise ConfigError(
                f"{use} {name!r}: {file.name} was edited since this process imported it; start "
                "again (a notebook: restart its kernel)"
            )
    return content_key([*files.values()])


def _held(module: str, files: Mapping[Path, str]) -> dict[Path, str]:
    """Select the files of modules that Python imports once; `_from_file` sees edits of its file."""
    return {
        file: sha256 for at, (file, sha256) in enumerate(files.items()) if at or not is_file(module)
    }


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


def _is_missing(error: Exception, module: str) -> bool:
    """Tell whether the module, or a package that should hold it, does not exist."""
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    return name is not None and f"{module}.".startswith(f"{name}.")
