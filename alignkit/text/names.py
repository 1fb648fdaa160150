"""Names of paths, metrics and runtimes as the report shows them.

A surrogate is called so wherever its path is named: shortly in long tables, in full in headings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from alignkit.place import Row
from alignkit.preprocess.presets import NOT_CALIBRATED, calibration, imitated
from alignkit.record import Control, PathFacts
from alignkit.record.cell_facts import Evaluated
from alignkit.record.stored import Placed, State
from alignkit.text.numbers import DASH, count

if TYPE_CHECKING:
    from alignkit.preprocess import Preprocess

LABELS = {"churn": "Churn", "pixels": "Mean |Δpixel|", "logits": "Mean |Δlogit|"}
"""Name of a metric that no task has → how a reader is shown it."""

QUICK_LOOK = "Quick look"
"""Label of a run with ``--quick``, on every surface."""


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
        # the names of our own surrogates say it themselves
        if not self.note or all(
            each.endswith("-surrogate") for each in Row.parse(self.name).preprocesses
        ):
            return self.name
        mix = self.name.endswith(")")  # a mix's name ends in brackets already
        return f"{self.name[:-1]}, surrogate)" if mix else f"{self.name} (surrogate)"


class Names:
    """The record's paths by name; a name without facts is shown as it is."""

    def __init__(self, paths: Sequence[PathFacts]) -> None:
        self._known = {
            path.name: PathName(path.name, surrogate_note(path, brief=True), surrogate_note(path))
            for path in paths
        }
        self._real = {path.name: _imitated(path) for path in paths if path.surrogate_of}

    @classmethod
    def of_notes(cls, notes: Mapping[str, str]) -> Names:
        """Make the names of surrogates whose labels were stored."""
        names = cls(())
        names._known = {name: PathName(name, note, note) for name, note in notes.items()}
        return names

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

    def replaced(self, *names: str) -> dict[str, str]:
        """Return the surrogates among paths or rows, each with the stack that it replaces."""
        paths = (path for name in names for path in Row.parse(name).preprocesses)
        return {path: self._real[path] for path in paths if path in self._real}

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


def controls_words(controls: Sequence[Control], verb: str = "passed") -> str:
    """Count the controls that passed; name those that failed, or why one cannot be made."""
    made = [each for each in controls if each.passed is not None]
    words = f"{sum(each.passed is True for each in made)} of {len(made)} {verb}"
    if failed := [repr(each.name) for each in made if not each.passed]:
        words += f"; failed: {', '.join(failed)}"
    cannot = [f"{each.name!r} ({each.observed})" for each in controls if each.passed is None]
    return f"{words}; not made: {', '.join(cannot)}" if cannot else words


def quick_mark(changes: Sequence[str]) -> str:
    """Return `` (quick look)`` for a run with ``--quick``; else an empty text."""
    return f" ({QUICK_LOOK.lower()})" if changes else ""


def quick_words(changes: Sequence[str]) -> str:
    """Say that a run is no evidence, and each value that ``--quick`` made smaller; else empty."""
    if not changes:
        return ""
    return f"{QUICK_LOOK}, no evidence: --quick changed {'; '.join(changes)}."


def place_in_words(placed: Placed, names: Names, *, runtime: bool = True) -> str:
    """Return ``trained with opencv, served with gpu (surrogate) in torch fp32``.

    ``pillow against opencv`` where pixels alone are compared.
    """
    trained, served = names.short(placed.trained_with), names.short(placed.evaluated_with)
    if not placed.column.runtime:
        return f"{served} against {trained}"
    place = f"trained with {trained}, served with {served}"
    return f"{place} in {placed.column.runtime}" if runtime else place


def surrogate_note(path: PathFacts, *, brief: bool = False) -> str:
    """Name what a surrogate replaces and the evidence that its pixels are the real ones.

    ``brief`` keeps of each stage its state, its scope and the real stack it was compared with.
    """
    if not path.surrogate_of:
        return ""
    evidence = path.calibration or NOT_CALIBRATED
    if brief:
        evidence = brief_evidence(evidence)
    return f"surrogate of {_imitated(path)}, {evidence}"


def surrogate_notes(paths: Iterable[PathFacts], *, brief: bool = False) -> dict[str, str]:
    """Return the note of each surrogate by its name."""
    return {path.name: surrogate_note(path, brief=brief) for path in paths if path.surrogate_of}


def _imitated(path: PathFacts) -> str:
    return imitated(path.surrogate_of, path.replaced)


def brief_evidence(evidence: str) -> str:
    """Keep of each stage its state, its scope and the real stack it was compared with."""
    return "; ".join(map(_brief, evidence.split("; ")))


def _brief(stage: str) -> str:
    state, _, detail = stage.partition(": ")[0].partition(" (")
    return f"{state} ({detail}" if detail.startswith("against ") else state


def facts_of_paths(paths: Iterable[Preprocess]) -> tuple[PathFacts, ...]:
    """Return of each path what its name and its label need; no library is loaded."""
    return tuple(
        PathFacts(
            name=path.name,
            stages=(),
            surrogate_of=path.surrogate_of,
            replaced=path.replaced,
            calibration=calibration(path),
        )
        for path in paths
    )


def surrogate_lines(
    paths: Iterable[PathFacts], *, brief: bool = True, most: int | None = None
) -> list[str]:
    """Return ``path: note`` for each surrogate, those with the least evidence first.

    Of more than ``most``, a last line says how many are left out.
    """
    ordered = sorted((path for path in paths if path.surrogate_of), key=_evidence_rank)
    lines = [f"{path.name}: {surrogate_note(path, brief=brief)}" for path in ordered]
    left = len(lines) - (len(lines) if most is None else most)
    more = [f"… and {count(left, 'more surrogate')}; see the report"] if left > 0 else []
    return [*lines[:most], *more]


def _evidence_rank(path: PathFacts) -> int:
    evidence = path.calibration or NOT_CALIBRATED
    return 0 if "unverified" in evidence else 1 if NOT_CALIBRATED in evidence else 2
