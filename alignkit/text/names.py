"""Names of paths, metrics and runtimes as the report shows them.

A surrogate is called so wherever its path is named: shortly in long tables, in full in headings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from alignkit.place import Row
from alignkit.preprocess.presets import NOT_CALIBRATED
from alignkit.record import PathFacts
from alignkit.record.cell_facts import Evaluated
from alignkit.record.stored import Placed, State
from alignkit.text.numbers import DASH

LABELS = {
    "recall.macro": "Macro recall",
    "precision.macro": "Macro precision",
    "top1": "Top-1 accuracy",
    "churn": "Churn",
    "pixels": "Pixels",
    "logits": "Logits",
    "pixels.decode": "Pixels, inside decode",
}
"""Name of a metric → how a reader is shown it."""
MATRIX_METRICS = ("recall.macro", "precision.macro", "top1", "churn")
"""The metrics that have a matrix of their own, in the order of the page."""
CELL_METRICS = MATRIX_METRICS[:3]
"""Those of them that are values of one cell; churn compares two."""


def state_words(state: State) -> str:
    """Return the state of a cell as it is shown."""
    return "built, not run" if state == "built" else state


def why_not(evaluated: Evaluated) -> str:
    """Return the state of a cell or entry that did not run, with the reason."""
    return f"{state_words(evaluated.state)}: {evaluated.reason}"


@dataclass(frozen=True, slots=True)
class PathName:
    """A path where it heads something."""

    name: str
    note: str = ""
    """``surrogate of X, decode equal; resize equal``; empty for a path that is no surrogate."""
    evidence: str = ""
    """The same with what each stage was compared with, to be said once."""

    @property
    def short(self) -> str:
        """For a cell of a long table."""
        if not self.note:
            return self.name
        mix = self.name.endswith(")")  # a mix's name ends in brackets already
        return f"{self.name[:-1]}, surrogate)" if mix else f"{self.name} (surrogate)"


class Names:
    """The record's paths by name; a name without facts is shown as it is."""

    def __init__(self, paths: tuple[PathFacts, ...]) -> None:
        self._known = {
            path.name: PathName(path.name, surrogate_note(path, brief=True), surrogate_note(path))
            for path in paths
        }

    def of(self, name: str) -> PathName:
        """Return the path of that name."""
        if name in self._known:
            return self._known[name]
        # a row may name a mix, or a share of the data
        known = [self._known[path] for path in Row.parse(name).preprocesses if path in self._known]
        noted = [path for path in known if path.note]
        return PathName(
            name,
            "; ".join(path.note for path in noted),
            "; ".join(path.evidence for path in noted),
        )

    def short(self, name: str) -> str:
        """Return its name for a cell of a long table."""
        return self.of(name).short

    def cells(self, placed: Placed) -> tuple[str, str, str]:
        """Return a place as three cells of a table: trained with, evaluated with, runtime."""
        row, preprocess = self.short(placed.trained_with), self.short(placed.evaluated_with)
        return row, preprocess, placed.column.runtime or DASH

    def title(self, placed: Placed) -> str:
        """Return a place as a heading: ``opencv → pillow, torch fp32``."""
        return "{} → {}, {}".format(*self.cells(placed))


def place_in_words(placed: Placed) -> str:
    """Return ``trained with opencv, served with pillow in torch fp32``, ``pillow against opencv``.

    The second where pixels alone are compared.
    """
    if not placed.column.runtime:
        return f"{placed.evaluated_with} against {placed.trained_with}"
    return (
        f"trained with {placed.trained_with}, served with {placed.evaluated_with} in "
        f"{placed.column.runtime}"
    )


def surrogate_note(path: PathFacts, *, brief: bool = False) -> str:
    """Name what a surrogate replaces and the evidence that its pixels are the real ones.

    ``brief`` leaves out, stage by stage, what follows the first bracket or colon.
    """
    if not path.surrogate_of:
        return ""
    evidence = path.calibration or NOT_CALIBRATED
    if brief:
        stages = evidence.split("; ")
        evidence = "; ".join(each.partition(" (")[0].partition(": ")[0] for each in stages)
    return f"surrogate of {path.surrogate_of}, {evidence}"


def surrogate_lines(paths: Iterable[PathFacts], *, brief: bool = True) -> list[str]:
    """Return ``path: note`` for each surrogate."""
    return [f"{e.name}: {note}" for e in paths if (note := surrogate_note(e, brief=brief))]
