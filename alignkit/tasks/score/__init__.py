"""Any outputs, rated by a function of the user's own: regression, keypoints, actions of a robot."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from alignkit.errors import BackendError, ConfigError
from alignkit.plugins import did_you_mean
from alignkit.task_facts import MetricFacts, TaskFacts
from alignkit.tasks import Task
from alignkit.tasks.one_output import described
from alignkit.tasks.own_code import own_source, raised
from alignkit.tasks.own_sources import find_module, is_file, not_found, syntax_tree

if TYPE_CHECKING:
    from pathlib import Path

    from alignkit.preprocess.geometry import Geometry
    from alignkit.samples import Samples
    from alignkit.tasks import ClassMap, Outputs, OutputShape, Records
    from alignkit.tasks.score.score_answers import ScoreAnswers
    from alignkit.tasks.score.score_function import PlacedOutputs, ScoreRecord

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


KEPT_VALUES = 4_096
"""Most values of an image that are kept for ``changed`` to compare."""


@dataclass(frozen=True, slots=True)
class OwnScore(Task):
    """Numbers of each image that a function of the user's own computes."""

    score: str
    """``module:function`` or ``file.py:function``: ``(outputs, sample)`` → a number, or a mapping
    of ``names`` to numbers, ``None`` where an image has none. ``outputs`` maps the names of
    ``outputs`` to arrays of one image; ``sample`` is an
    `alignkit.tasks.score.score_function.ScoredSample`."""
    names: tuple[str, ...] = ()
    """Names of the numbers, the main one first; without them the function returns one number, which
    has the function's name."""
    outputs: tuple[str, ...] = ()
    """The model's outputs that the function needs; without them the model has one, ``output``."""
    changed: str = ""
    """``module:function``: ``(a, b)`` → whether two answers to an image differ, each a mapping as
    ``outputs``. It is asked where the outputs differ at all. Without it, scores are compared."""
    tolerance: float = 0.0
    """An answer changed if a score differs by more; not used with ``changed``."""
    better: Literal["more", "less"] = "more"
    """Whether greater scores are better."""
    source: str = field(init=False, default="")
    """SHA-256 of the functions' code, so that an edit computes again."""

    def __post_init__(self) -> None:
        for option in ("score", "changed"):
            given = getattr(self, option)
            module, _, function = given.rpartition(":")
            if (given or option == "score") and not (module and function):
                raise ConfigError(f"{option}: {given!r} names no function; write module:function")
        if not 0 <= self.tolerance < inf:  # nor NaN
            raise ConfigError(f"tolerance: {self.tolerance}; a number, 0 or more")
        for option in ("names", "outputs"):
            given = getattr(self, option)
            if len({*given}) < len(given) or "" in given:
                raise ConfigError(f"{option}: {', '.join(given)}; names that differ")
        for name in self.score_names:
            for measure in (f"{name}.apart", f"{name}.missing"):
                if measure in self.score_names:
                    raise ConfigError(f"names: {measure!r} is a measure of {name!r}; rename it")
        object.__setattr__(self, "source", " ".join(self._sources()))

    def _sources(self) -> Iterator[str]:
        """Hash the functions' code; refuse one that its source shows to be none."""
        for name, use, arguments in (
            (self.score, "score", ("outputs", "sample")),
            (self.changed, "changed", ("a", "b")),
        ):
            if name:
                require_function(name, use, arguments)
                yield own_source(name, use)

    @property
    def score_names(self) -> tuple[str, ...]:
        """Names of the numbers."""
        return self.names or (self.score.rpartition(":")[2],)

    def facts(self) -> TaskFacts:
        names = self.score_names
        changed = (
            "A score differs, by however little; set 'tolerance' of the task to allow for more."
        )
        if self.tolerance:
            changed = f"A score differs by more than {self.tolerance:g}."
        return TaskFacts(
            name="score",
            metrics=tuple(
                MetricFacts(
                    name=f"score.{name}",
                    label=name,
                    unit="value",
                    better=self.better,
                    meaning=f"mean of {name} over images; a change is taken of the images that "
                    "have it on both sides",
                )
                for name in names
            ),
            measures=tuple(each for name in names for each in _measures(name)),
            matrices=(*(f"score.{name}" for name in names), "churn"),
            class_metrics=(),
            answer="score",
            changed=f"{self.changed} says so." if self.changed else changed,
            quality=f"its {names[0]}, {'greater' if self.better == 'more' else 'less'} is better",
            turned=("worse", "better", "neither"),
            rated=names[0],
            rated_unit="value",
            needs_labels=False,
        )

    def refuses(self, samples_kind: str) -> str:  # noqa: ARG002 - the function may need none
        return ""

    def wanted(self, outputs: Sequence[OutputShape]) -> tuple[str, ...]:
        known = [each.name for each in outputs]
        if not self.outputs:
            if len(known) == 1:
                return (known[0],)
            raise ConfigError(
                f"the model has {len(known)} outputs ({described(outputs)}); name those that the "
                f"function needs: outputs: [{known[0] if known else 'NAME'}]"
            )
        for name in self.outputs:
            if name not in known:
                raise ConfigError(f"it has no output {name!r}{did_you_mean(name, known)}")
        return self.outputs

    def recognise(self, outputs: Sequence[OutputShape], classes: int | None) -> str:  # noqa: ARG002
        shapes = {each.name: each for each in outputs}
        chosen = [shapes[name] for name in self.wanted(outputs)]
        sides = [each.shape[1:] for each in chosen if each.shape is not None]
        if len(sides) == len(chosen):
            self._check_size(sum(prod(each or 1 for each in one) for one in sides))
        return f"{described(chosen)}, given to {self.score}"

    def _check_size(self, values: int) -> None:
        if self.changed and values > KEPT_VALUES:
            raise ConfigError(
                f"changed: the outputs have {values} values an image, and up to {KEPT_VALUES} are "
                "kept to be compared; name smaller ones in 'outputs:', or remove 'changed:'"
            )

    def counted(self, outputs: Sequence[OutputShape]) -> int:  # noqa: ARG002
        return 0

    def decode(
        self,
        outputs: Outputs,
        places: Sequence[Geometry],
        classes: ClassMap,  # noqa: ARG002 - the function knows its outputs
    ) -> list[PlacedOutputs]:
        from alignkit.tasks.score.score_function import PlacedOutputs

        if any(each.shape[:1] != (len(places),) for each in outputs):
            shapes = ", ".join(str(each.shape) for each in outputs)
            raise BackendError(
                f"it gives {shapes} for {len(places)} images; export outputs whose first axis is "
                "the image"
            )
        self._check_size(sum(each[0].size for each in outputs if len(each)))
        return [
            PlacedOutputs(tuple(each[index] for each in outputs), place)
            for index, place in enumerate(places)
        ]

    def keep(self, records: Records, samples: Samples) -> list[ScoreRecord]:
        from alignkit.tasks.score.score_function import scored

        return scored(self, list(records), samples)

    def answers(
        self,
        ids: Sequence[str],
        records: Records,
        samples: Samples,  # noqa: ARG002 - they are rated already
        classes: ClassMap,  # noqa: ARG002
    ) -> ScoreAnswers:
        from alignkit.tasks.score.score_function import joined_scores

        return joined_scores(self, ids, list(records))

    @staticmethod
    def read(path: Path) -> ScoreAnswers:
        from alignkit.tasks.score.score_answers import ScoreAnswers

        return ScoreAnswers.from_parquet(path)


def _measures(name: str) -> tuple[MetricFacts, MetricFacts]:
    """Describe how far a score moves, and how often one side alone has it."""
    return (
        MetricFacts(
            name=f"score.{name}.apart",
            label=f"|Δ {name}|",
            unit="value",
            better="less",
            meaning=f"mean over images of how far {name} moves",
        ),
        MetricFacts(
            name=f"score.{name}.missing",
            label=f"{name} on one side alone",
            better="less",
            meaning=f"share of the images with {name} of which the other side has none",
        ),
    )
