"""Functions of the user's own as their source shows them: nothing of it is imported or run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean
from alignkit.tasks.own_code import raised
from alignkit.tasks.own_sources import find_module, is_file, not_found, syntax_tree

_Function = ast.FunctionDef | ast.AsyncFunctionDef


# By its syntax tree, because `alignkit check` runs no code of the user's, and importing torch for
# it takes seconds.
def require_function(name: str, use: str, arguments: Sequence[str]) -> None:
    """Raise `ConfigError` if ``module:function`` is missing, or cannot be called as it will be.

    ``arguments`` words those that it will be called with. A source that does not show the function
    passes: a compiled module, a star import, a module's ``__getattr__``. So do the arguments of one
    that is decorated, or defined several times.
    """
    module, _, function = name.rpartition(":")
    file = _source_file(name, use)
    if file is None:
        return
    try:
        tree = syntax_tree(file)
    except FileNotFoundError as error:
        raise not_found(name, use, f"no file {module!r}") from error
    except (SyntaxError, ValueError) as error:  # of a file with null bytes
        raise ConfigError(f"{use} {name!r}: {raised(error)}; mend it") from error
    found = list(_definitions(tree))
    own = [node for known, node in found if known == function]
    if not own and not {"*", "__getattr__"} & {known for known, _ in found}:
        functions = [known for known, node in found if isinstance(node, _Function)]
        meant = did_you_mean(function, functions)
        raise ConfigError(f"{use} {name!r}: {file} has no function {function!r}{meant}")
    match own:
        case [ast.FunctionDef(decorator_list=[]) | ast.AsyncFunctionDef(decorator_list=[]) as node]:
            if reason := _refused(node, arguments):
                raise ConfigError(f"{use} {name!r}: {reason} ({file}:{node.lineno})")


def _source_file(name: str, use: str) -> Path | None:
    """Find the module's source; ``None`` if it has none. Raise `ConfigError` without a module."""
    module = name.rpartition(":")[0]
    if is_file(module):
        return Path(module)
    top, *parts = module.split(".")
    spec = find_module(name, use)  # of the top, as that of its parts would run their packages
    file = Path(spec.origin) if spec.has_location and spec.origin else None
    folders = [Path(each) for each in spec.submodule_search_locations or ()]
    for number, part in enumerate(parts, 1):
        found = [each for folder in folders for each in _named(folder, part)]
        if not found:
            missing = ".".join([top, *parts[:number]])
            raise not_found(name, use, f"no module named {missing!r}")
        folders = [each for each in found if each.is_dir()]
        inside = [each / "__init__.py" for each in folders]
        file = next((each for each in (*inside, *found) if each.is_file()), None)
    return file if file is not None and file.suffix == ".py" else None


def _named(folder: Path, part: str) -> list[Path]:
    """List the package and the modules of this name, compiled ones too."""
    package = folder / part
    return [*([package] if package.is_dir() else []), *sorted(folder.glob(f"{part}.*"))]


def _definitions(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Give the names that a module's own lines define, not those of functions and classes."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function | ast.ClassDef):
            yield child.name, child
        elif isinstance(child, ast.alias):
            yield child.asname or child.name.partition(".")[0], child
        elif isinstance(child, ast.Name):
            if isinstance(child.ctx, ast.Store):
                yield child.id, child
        elif not isinstance(child, ast.Lambda):
            yield from _definitions(child)


def _refused(function: _Function, arguments: Sequence[str]) -> str:
    """Say why the function cannot be called with the arguments; empty if it can."""
    if isinstance(function, ast.AsyncFunctionDef):
        return "it is a coroutine; write a plain function"
    given = function.args
    places = [each.arg for each in (*given.posonlyargs, *given.args)]
    needed = len(places) - len(given.defaults)
    named = [
        each.arg
        for each, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    ]
    fits = needed <= len(arguments) and (len(arguments) <= len(places) or given.vararg)
    if fits and not named:
        return ""
    takes = ", ".join([*places, *named]) or "no argument"
    return f"it takes {takes}, and is called with {' and '.join(arguments)}"
