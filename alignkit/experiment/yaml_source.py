"""`YAMLSource`: YAML text as values, each with the place it stands at; and its `Override`.

Scalars are read by the YAML 1.2 core schema, as editors and the JSON Schema read them: ``no`` and
``on`` are text, ``1e-3`` is a number. Infinities and NaN are not numbers here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import yaml

from alignkit.errors import without_credentials, without_secrets

_SHOWN = 200
"""Characters of a line that an error shows."""

# Places come from PyYAML's nodes. Even under YAML 1.2, `ruamel.yaml` reads `017`, `1_000` and
# dates differently, stops at the first key that is there twice, gives no width of a value, and
# takes twice as long. Under PyYAML's own 1.1, `no` is false and `12:30` is 750.
Key: TypeAlias = tuple[str | int, ...]
"""Mapping keys and list indices from the document's root to a value."""


# With aliases a file of a kilobyte has gigabytes of values, and brackets exhaust Python's stack.
# No person comes near a limit: an experiment has some hundred values, in eight levels.
DEEPEST = 40
"""Levels of mappings and lists within each other."""
MOST_VALUES = 100_000
"""Values, with aliases and merged keys written out; long text counts as a value for each
`_TEXT` characters."""
_TEXT = 100
_LONGEST = 1000
"""Characters of a number or date: PyYAML's time for ``!!int 1:1:1`` is quadratic in them."""
_REJECTED = (ValueError, KeyError, IndexError, TypeError, OverflowError, AttributeError)
"""Errors of PyYAML's constructors for text that does not fit a tag, and of `int` for long text."""


class _Extent(NamedTuple):
    """Values and levels of a node, with its aliases written out."""

    values: int = 1
    levels: int = 0


class CoreLoader(yaml.SafeLoader):
    """``yaml.SafeLoader`` with the scalars of YAML 1.2; raises `yaml.MarkedYAMLError`."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - PyYAML's own attribute, emptied

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = self._composed = 0
        self._extents: dict[int, _Extent] = {}
        """By the identity of a node that was composed."""

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, and refuse one that is beyond a limit before anything walks over it."""
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._level += 1
        self._composed += 1
        if self._composed > MOST_VALUES:
            raise _refused(f"more than {MOST_VALUES:,} values", mark)
        if self._level > DEEPEST + 1:
            raise _refused(f"nested more than {DEEPEST} levels deep", mark)
        node = super().compose_node(parent, index)
        self._level -= 1
        if node is not None and id(node) not in self._extents:
            extent = self._extents[id(node)] = self._extent(node)
            if extent.values > MOST_VALUES:
                raise _refused(f"more than {MOST_VALUES:,} values, with aliases written out", mark)
            if extent.levels > DEEPEST:
                raise _refused(f"nested more than {DEEPEST} levels deep by aliases", mark)
        return node

    def _extent(self, node: yaml.Node) -> _Extent:
        if isinstance(node, yaml.ScalarNode):
            return _Extent(1 + len(node.value) // _TEXT)
        pairs = isinstance(node, yaml.MappingNode)
        inner = [each for pair in node.value for each in pair] if pairs else node.value
        # a node that contains itself by an alias has no extent yet, and is refused later
        extents = [self._extents.get(id(each), _Extent()) for each in inner]
        return _Extent(
            1 + sum(each.values for each in extents),
            1 + max((each.levels for each in extents), default=0),
        )

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a node's value, with its place in every error."""
        kind = node.tag.rpartition(":")[2]
        if kind in ("int", "float", "timestamp") and len(node.value) > _LONGEST:
            raise _refused(f"{kind} of more than {_LONGEST:,} characters", node.start_mark)
        try:
            value = super().construct_object(node, deep)
        except _REJECTED as error:
            reason = str(error).partition(";")[0]  # behind it Python advises to change Python
            raise _refused(f"not a value of type {kind}: {reason}", node.start_mark) from None
        if isinstance(value, str) and "\0" in value:
            raise _refused("a NUL character, which no name or path can hold", node.start_mark)
        return value


def _refused(problem: str, mark: Any) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


for _tag, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(?:0|[1-9][0-9]*)|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
):
    CoreLoader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), _first
    )


@dataclass(frozen=True, slots=True, order=True)
class TextPlace:
    """Some characters of one line, to be underlined."""

    line: int
    """From 0; overrides come after every line of the file."""
    column: int
    """From 0."""
    width: int
    where: str
    """``file:line:col`` or ``--set a.b=value``."""
    text: str
    """The whole line."""

    @property
    def in_the_file(self) -> bool:
        """Whether it is in the document, and not in an override."""
        return self.line < _AFTER_THE_FILE

    def underlined(self) -> str:
        """Return the line, and below it a caret under every character of the place.

        Of a long line the part around the place.
        """
        text = without_secrets(self.text)
        place = min(len(without_credentials(self.text[: self.column])), len(text))
        before = max(0, place - _SHOWN // 2) if len(text) > _SHOWN else 0
        shown = text[before : before + _SHOWN].replace("\t", " ")
        column = place - before
        width = max(1, min(self.width, len(shown) - column))
        return f"    {shown}\n    {' ' * column}{'^' * width}"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """Something wrong at a place."""

    place: TextPlace
    key: str
    """Dotted; empty for the document itself."""
    message: str

    def __str__(self) -> str:
        head = f"{self.place.where}: {self.key}: " if self.key else f"{self.place.where}: "
        return f"{head}{self.message}\n{self.place.underlined()}"


def dotted(key: Key) -> str:
    """Write a key as ``--set`` takes it: ``a.b.0``."""
    return ".".join(str(part) for part in key)


@dataclass(slots=True)
class YAMLSource:
    """A parsed document: its value, and the place of each of its keys and values."""

    value: Any = None
    keys: dict[Key, TextPlace] = field(default_factory=dict)
    """Where the key of an entry stands."""
    values: dict[Key, TextPlace] = field(default_factory=dict)
    """Where the value stands."""
    problems: list[Problem] = field(default_factory=list)
    """Syntax errors, duplicate keys, keys that are not text."""

    def place(self, key: Key, *, of_key: bool) -> TextPlace:
        """Return the place of an entry, or of the nearest entry around it."""
        if of_key and key in self.keys:
            return self.keys[key]
        for end in range(len(key), 0, -1):
            found = self.values if end == len(key) and not of_key else self.keys
            for places in (found, self.values):
                if key[:end] in places:
                    return places[key[:end]]
        return self.values[()]


def parse(text: str, name: str) -> YAMLSource:
    """Read YAML text; every mistake becomes a `Problem` of the result."""
    return _Parser(text, name).parse()


class _Parser:
    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.lines = [line.rstrip("\r") for line in text.split("\n")]
        self.source = YAMLSource(values={(): self._at(0, 0, 1)})
        self.open: list[yaml.Node] = []

    def parse(self) -> YAMLSource:
        try:
            loader = CoreLoader(self.text)
            node = loader.get_single_node()
            if node is not None:
                self._walk(node, ())
                # PyYAML would build a value that contains itself, which no check could walk through
                if not any("contains itself" in each.message for each in self.source.problems):
                    self.source.value = loader.construct_document(node)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            line, column = (mark.line, mark.column) if mark else (0, 0)
            parts = [part for part in (error.problem, error.context) if part]
            self._problem(self._at(line, column, 1), "", f"not valid YAML: {', '.join(parts)}")
        except yaml.reader.ReaderError as error:
            line = self.text.count("\n", 0, error.position)
            column = error.position - (self.text.rfind("\n", 0, error.position) + 1)
            message = f"character {error.character!r} is not allowed in YAML"
            self._problem(self._at(line, column, 1), "", message)
        return self.source

    def _walk(self, node: yaml.Node, key: Key) -> None:
        self.source.values[key] = self._place(node)
        if any(node is each for each in self.open):
            self._problem(self._place(node), dotted(key), "contains itself by an alias")
            return
        self.open.append(node)
        if isinstance(node, yaml.MappingNode):
            self._walk_mapping(node, key)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self._walk(item, (*key, index))
        self.open.pop()

    def _walk_mapping(self, node: yaml.MappingNode, key: Key) -> None:
        first: dict[str, int] = {}
        merge = "tag:yaml.org,2002:merge"
        # merged mappings come first, the last of them first: own keys overwrite their places
        for merged in (value for key_node, value in node.value if key_node.tag == merge):
            several = isinstance(merged, yaml.SequenceNode)
            for each in reversed(merged.value) if several else [merged]:
                self._walk(each, key)
        self.source.values[key] = self._place(node)
        for key_node, value_node in node.value:
            if key_node.tag == merge:
                continue
            name, place = str(key_node.value), self._place(key_node)
            if key_node.tag != "tag:yaml.org,2002:str":
                self._problem(place, dotted(key), "a key must be text; put it in quotes")
                continue
            inner = (*key, name)
            if name in first:
                message = f"duplicate key; it stands in line {first[name] + 1} already"
                self._problem(place, dotted(inner), message)
            first.setdefault(name, place.line)
            # the last of two equal keys: PyYAML takes its value
            self.source.keys[inner] = place
            self._walk(value_node, inner)

    def _problem(self, place: TextPlace, key: str, message: str) -> None:
        self.source.problems.append(Problem(place, key, message))

    def _place(self, node: yaml.Node) -> TextPlace:
        start, end = node.start_mark, node.end_mark
        # carets below a block of several lines would say nothing
        one_line = isinstance(node, yaml.ScalarNode) and start.line == end.line
        return self._at(start.line, start.column, end.column - start.column if one_line else 1)

    def _at(self, line: int, column: int, width: int) -> TextPlace:
        text = self.lines[line] if line < len(self.lines) else ""
        return TextPlace(line, column, width, f"{self.name}:{line + 1}:{column + 1}", text)


_AFTER_THE_FILE = 1_000_000_000
"""Line number of the first override, so that its problems are sorted behind those of the file."""


@dataclass(frozen=True, slots=True)
class Override:
    """An argument ``a.b=value``: dots between keys, numbers for list entries, the value in YAML."""

    text: str
    index: int
    """Which ``--set`` of the command line."""

    def place(self, column: int, width: int) -> TextPlace:
        """Return the place of some characters of the argument."""
        line = _AFTER_THE_FILE + self.index
        where = f"--set {without_secrets(self.text)}"
        return TextPlace(line, column, width, where, self.text)

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
