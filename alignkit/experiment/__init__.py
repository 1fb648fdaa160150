"""YAML file → `Experiment`: its options, rules and imported configurations, every mistake."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from alignkit.datasets.regular_file import read_text
from alignkit.errors import ConfigError, ConfigWarning
from alignkit.experiment.experiment import Experiment, ExperimentFile, quick_changes
from alignkit.experiment.option import UNKNOWN_KEY
from alignkit.experiment.yaml_source import Key, Override, Problem, YAMLSource, dotted, parse
from alignkit.plugins import did_you_mean, nearest
from alignkit.preprocess import same_as
from alignkit.removed import instead_of

OF_KEY = ("extra_forbidden", UNKNOWN_KEY)
"""Errors that concern a key and not its value."""
_LISTED = 50
"""Mistakes that are shown."""
_WRITTEN = 80
"""Characters of a value that a message shows."""


class Mistakes(ConfigError):  # noqa: N818 - it holds several
    """Every mistake of one document, once, by its place; the message has the first `_LISTED`."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(set(problems)))
        lines = [str(each) for each in self.problems[:_LISTED]]
        if len(self.problems) > _LISTED:
            lines.append(f"and {len(self.problems) - _LISTED} more mistakes")
        super().__init__("\n".join(lines))


def load_experiment(
    path: Path, overrides: Sequence[str] = (), *, quick: bool = False
) -> Experiment:
    """Read, override and validate an experiment file; make it a first look if ``quick``.

    Raises one `ConfigError` that lists every mistake as ``file:line:col: a.b.c: message``, with the
    line and a caret below it.
    """
    return experiment_of_text(read_yaml(path), path, overrides, quick=quick)


def experiment_of_text(
    text: str, path: Path, overrides: Sequence[str] = (), *, quick: bool = False
) -> Experiment:
    """Do what `load_experiment` does with the text of a file, which a run's record holds too."""
    source = _parsed(text, path, overrides)
    # after a syntax error there is no document; everything else would be a consequence
    if source.value is not None or not source.problems:
        content, mistakes = _validated(source)
        source.problems += mistakes
        if content is not None and not source.problems:
            experiment = Experiment(path, text, content, tuple(overrides))
            if quick:
                changes = quick_changes(experiment)
                smaller = experiment_of_text(text, path, (*overrides, *changes))
                return replace(experiment, content=smaller.content, quick=tuple(changes.values()))
            _warn_of_doubles(experiment, source)
            return experiment
    raise Mistakes(source.problems)


def _parsed(text: str, path: Path, overrides: Sequence[str]) -> YAMLSource:
    source = parse(text, str(path))
    if source.value is not None or not source.problems:
        for index, override in enumerate(overrides):
            Override(override, index).apply(source)
    return source


def source_of(experiment: Experiment) -> YAMLSource:
    """Return the document of an experiment with its overrides, to find places in it."""
    return _parsed(experiment.text, experiment.file, experiment.overrides)


def _warn_of_doubles(experiment: Experiment, source: YAMLSource) -> None:
    """Warn of every path that repeats an earlier one without ``same: true``."""
    for name, first in same_as(experiment.paths).items():
        if not experiment.entries[name].same:
            warnings.warn(
                f"{source.place(('preprocess', name), of_key=True).where}: preprocess.{name} has "
                f"the stages and options of preprocess.{first}, so that comparing them compares "
                "nothing; change one, or write 'same: true' in it if that is meant",
                ConfigWarning,
                stacklevel=3,
            )


def read_yaml(path: Path) -> str:
    """Return the text of a user's YAML file; raise `ConfigError` if it cannot be read."""
    try:
        return read_text(path)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file{_nearest_file(path)}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: byte {error.start} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        if path.is_dir():
            advice = f"is a folder; give the YAML files in it: {path}/*.yaml"
            raise ConfigError(f"{path} {advice}") from None
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None


def _nearest_file(path: Path) -> str:
    """Suggest experiments beside the file that is missing, and in ``experiments/``."""
    folders = (path.parent, Path("experiments"))
    beside = {each for folder in folders for each in folder.glob("*.y*ml") if _is_experiment(each)}
    by_name = {each.stem: str(each) for each in sorted(beside)}
    if near := nearest(path.stem, by_name):
        return f"; did you mean {' or '.join(repr(by_name[name]) for name in near)}?"
    return f"; known: {', '.join(by_name.values())}" if by_name else ""


def _is_experiment(file: Path) -> bool:
    """Tell whether a YAML file has the key that each experiment and gate has."""
    try:
        return any(line.startswith("preprocess:") for line in read_text(file).splitlines())
    except (OSError, UnicodeDecodeError):  # it is only left out of a suggestion
        return False


def _validated(source: YAMLSource) -> tuple[ExperimentFile | None, list[Problem]]:
    if not isinstance(source.value, dict):
        message = "the file is empty" if source.value is None else "not a mapping of keys"
        advice = "; an experiment has at least 'name', 'data' and 'preprocess'"
        return None, [Problem(source.place((), of_key=False), "", message + advice)]
    try:
        return ExperimentFile.model_validate(source.value), []
    except ValidationError as error:
        return None, problems_of(error, source, ExperimentFile)


def problems_of(
    error: ValidationError, source: YAMLSource, model: type[BaseModel]
) -> list[Problem]:
    """Return pydantic's errors about a document that should be a ``model``, each at its place."""
    problems = []
    errors = error.errors(include_url=False)
    meant = set()
    for each in errors:
        if each["type"] in OF_KEY and "; did you mean" in _message(each, model):
            word = _message(each, model).rpartition("did you mean '")[2].rstrip("?'")
            meant.add((*each["loc"][:-1], word))
    for each in errors:
        loc: Key = tuple(part for part in each["loc"] if part != "[key]")
        below = (e["loc"] for e in errors if len(e["loc"]) > len(loc))
        if each["type"] == "too_short" and any(inner[: len(loc)] == loc for inner in below):
            continue  # pydantic counts only the entries that are right
        if each["type"] in ("missing", "preset_size") and loc in meant:
            continue  # the key is there, misspelt, and reported as unknown
        of_key = each["type"] in OF_KEY or loc != each["loc"] or isinstance(each["input"], dict)
        place = source.place(loc, of_key=of_key)
        number = isinstance(each["input"], int | float)
        if number and loc and isinstance(loc[-1], int) and loc not in source.values:
            loc = loc[:-1]  # one number that is given for several, as the side of a square
        problems.append(Problem(place, dotted(loc), _message(each, model)))
    return problems


IN_WORDS = {
    "missing": "is required",
    "string_pattern_mismatch": "a name begins with a letter or digit and holds only those and ._-",
    "model_type": "should be a mapping of keys",
    "model_attributes_type": "should be a mapping of keys",
    "dict_type": "should be a mapping of keys",
    "tuple_type": "should be a list",
    "list_type": "should be a list",
}
"""Type of a pydantic error → our own message."""


def _message(error: ErrorDetails, model: type[BaseModel]) -> str:
    kind, given, message = error["type"], error["input"], error["msg"]
    if kind == "extra_forbidden":
        key = str(error["loc"][-1])
        known = _known_keys(error["loc"][:-1], model)
        return f"unknown key{instead_of(f'{key}:') or did_you_mean(key, known)}"
    if kind == "too_short":
        two = error["loc"] == ("preprocess",)
        return "needs two paths or more; the first is the reference" if two else "needs an entry"
    if kind in IN_WORDS:
        return IN_WORDS[kind]
    if not message.startswith("Input "):
        return message
    # pydantic's sentence goes on behind our key: "epochs: should be …"
    message = message.removeprefix("Input ")
    # a whole mapping would bury the message
    if not isinstance(given, str | int | float | None):
        return message
    return f"{message}, not {_written(given)}{_nearest(error) if kind == 'literal_error' else ''}"


def _nearest(error: ErrorDetails) -> str:
    expected = error["ctx"]["expected"].replace(" or ", ", ").split(", ")
    *_, holder, _, last = ("", *error["loc"])
    # the key of a mapping has a place of its own behind it
    place = holder if last == "[key]" else last
    if gone := instead_of(f"{place}: {error['input']}"):
        return gone
    hint = did_you_mean(str(error["input"]), [each.strip("'") for each in expected])
    return hint if "did you mean" in hint else ""


def _written(given: Any) -> str:
    if given is None:
        return "empty"
    if isinstance(given, bool):
        return str(given).lower()
    written = repr(given)
    return written if len(written) <= _WRITTEN else f"{written[:_WRITTEN]}…"


def _known_keys(loc: Sequence[str | int], model: type[BaseModel]) -> list[str]:
    """Return the keys allowed in the mapping at ``loc`` of a ``model``."""
    holder: Any = model
    for part in loc:
        holder = _inner(holder, part)
    return list(holder.model_fields) if _is_model(holder) else []


def _inner(holder: Any, part: str | int) -> Any:
    if _is_model(holder):
        field = holder.model_fields.get(str(part))
        return _bare(field.annotation) if field else None
    arguments = get_args(holder)
    if get_origin(holder) is dict:
        return _bare(arguments[1])
    return _bare(arguments[0]) if get_origin(holder) is tuple else None


def _bare(annotation: Any) -> Any:
    """Strip ``Annotated`` and ``| None`` from an annotation."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        (annotation,) = [each for each in get_args(annotation) if each is not type(None)]
        return _bare(annotation)
    return annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
