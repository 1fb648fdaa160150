"""`Override`: one ``--set a.b=value``, applied to a parsed document."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from alignkit.experiment.source import Key, Problem, TextPlace, YAMLSource, dotted, parse

AFTER_THE_FILE = 1_000_000_000
"""Line number of the first override, so that its problems are sorted behind those of the file."""


@dataclass(frozen=True, slots=True)
class Override:
    """An argument ``a.b=value``: dots between keys, numbers for list entries, the value in YAML."""

    text: str
    index: int
    """Which ``--set`` of the command line."""

    def place(self, column: int, width: int) -> TextPlace:
        """Return the place of some characters of the argument."""
        line = AFTER_THE_FILE + self.index
        return TextPlace(line, column, width, f"--set {self.text}", self.text)

    def apply(self, source: YAMLSource) -> None:
        """Set the value in the document; a mistake becomes one of its problems."""
        path, equals, value_text = self.text.partition("=")
        if not equals or not path:
            message = "write it as key=value, for example train.epochs=2"
            source.problems.append(Problem(self.place(0, len(self.text)), "", message))
            return
        value = parse(value_text, self.place(0, 1).where)
        if value.problems:
            source.problems.extend(
                replace(problem, place=self.place(len(path) + 1, len(value_text)), key=path)
                for problem in value.problems
            )
            return
        try:
            key = self._put(source, path, value.value)
        except _Impossible as error:
            source.problems.append(Problem(self.place(0, len(path)), path, str(error)))
            return
        self._take_places(source, key, path, value_text)

    def _put(self, source: YAMLSource, path: str, value: Any) -> Key:
        if source.value is None:
            source.value = {}
        holder: Any = source.value
        parent: Any = {"": holder}
        last: str | int = ""
        key: list[str | int] = []
        rest = path
        while True:
            if isinstance(holder, str):  # a plugin by its bare name
                holder = parent[last] = {"name": holder}
                source.keys[tuple(key)] = self.place(0, len(path))
            elif holder is None:
                holder = parent[last] = {}
            part, rest = _next_part(holder, key, rest)
            key.append(part)
            if not rest:
                holder[part] = value
                return tuple(key)
            if isinstance(holder, dict):
                holder.setdefault(part, {})
            parent, last, holder = holder, part, holder[part]

    def _take_places(self, source: YAMLSource, key: Key, path: str, value_text: str) -> None:
        for places in (source.keys, source.values):
            for inner in [each for each in places if each[: len(key)] == key]:
                del places[inner]
        columns = 0
        for end, part in enumerate(key, 1):
            width = len(str(part))
            if key[:end] not in source.keys and key[:end] not in source.values:
                source.keys[key[:end]] = self.place(columns, width)
            columns += width + 1
        source.values[key] = self.place(len(path) + 1, max(1, len(value_text)))


class _Impossible(Exception):  # noqa: N818 - never leaves this module
    pass


def _next_part(holder: Any, key: list[str | int], rest: str) -> tuple[str | int, str]:
    """Return the next key or index of the dotted path, and the rest of the path."""
    where = dotted(tuple(key)) or "the file"
    first, _, after = rest.partition(".")
    if isinstance(holder, list):
        if not first.isdecimal() or int(first) >= len(holder):
            numbers = f"0 to {len(holder) - 1}" if holder else "none"
            raise _Impossible(
                f"{where} is a list; its entries are numbered {numbers}, not {first!r}"
            )
        return int(first), after
    if not isinstance(holder, dict):
        raise _Impossible(f"{where} is {holder!r}, which has no entry {first!r}")
    for name in sorted(holder, key=lambda each: -len(str(each))):  # a name may hold dots
        if rest == name or rest.startswith(f"{name}."):
            return name, rest[len(name) + 1 :]
    if not first:
        raise _Impossible("an empty key")
    return first, after
