"""`CoreLoader`: PyYAML's safe loader with the scalars of YAML 1.2, within limits.

With aliases a file of a kilobyte has gigabytes of values, and brackets exhaust Python's stack. No
person comes near a limit: an experiment has some hundred values, in eight levels.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import yaml

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
