"""A `Verdict` in words, the same on every surface: its badge, and its three lines.

A verdict is said with the measurements that it judges: a number is read from where it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from alignkit.place import Column, Place, Row
from alignkit.record import Measurements, NextStep, RuleOutcome, Verdict
from alignkit.record.verdict_facts import Statement, StatementKind
from alignkit.text.causes import cause_words
from alignkit.text.class_words import far_stronger_class
from alignkit.text.measured import effect_words, logits_moved, lost_words, measured_part
from alignkit.text.names import QUICK_LOOK, Names, place_in_words
from alignkit.text.numbers import copies_words, count, estimated, listed, shorten, significant
from alignkit.text.outcome import NOTHING_CHANGED, filled, said, settled_by
from alignkit.text.shares import drawn_words, share_words, shown_size
from alignkit.text.stage_changes import unshown
from alignkit.text.task_words import TaskWords, capital

REPORT_ONLY = "report only"
"""Mark of a finding that fails no command, since the file's gate is informational."""
_MOST_GIVEN = 8
"""Lines of YAML that a text output shows; more are never cut off, but left to the page."""
_SHOWN = 3
"""Rules of one place that a sentence names."""
_TAPS_ALONE = (
    "Of recorded stages the rules look at nothing else; `alignkit match --taps` compares pixels"
)
_PLACE = ("trained_with", "evaluated_with", "backend", "precision")
_MARKS = {True: "measured here", False: "not measured yet", None: ""}
_STARTS = {"inconclusive": "Undecided: ", "warn": "Warned or waived: "}
_FIXED: Mapping[StatementKind, str] = {
    "message": "{text}",
    "distrust": "The measurement cannot be trusted: the control {control!r} expected {expected} "
    "and observed {observed}",
    "quick": QUICK_LOOK,
    "doubt": "No conclusion can be drawn: {observed}",
    "nothing compared": "Nothing was compared: no cell besides the references could run",
    "none held": "Nothing was looked at: all {checks} checks stand as they were approved",
    "repair model": "Repair the model first: find where its values stop being finite",
    "repair control": "Use no number of it: repair that control, then measure all of it again",
    "continue": "Continue: finished work is kept",
    "whole": "Measure the whole experiment: a quick look decides nothing",
    "remove doubt": "Remove that doubt, then run it again",
    "tighten": "Set that limit between what was measured and what those faults give",
    "repeat gate": "Nothing: run this gate again after each change",
    "let CI check": "Nothing to change; let CI check it after each change",
    "install": "Install what is named above to measure it too",
    "repair files": "Repair those files, or leave them out of the data: a pointer of Git LFS "
    "needs 'git lfs pull'",
    "give rules": "Give each difference a rule: {{preset: strict}} is about every stage, and "
    "{{metric: churn, fail: 0.02}} about the answers of models",
    "record others": "Record the other images too: a recorder keeps ALIGNKIT_TAPS_IMAGES of them, "
    "100 by default",
    "record lines": "Record or approve those lines, then run the gate again",
    "remove reason": "Remove the reason named above, then run it again: finished work is kept",
    "let gate judge": "Let the gate judge it",
    "train seeds": "Train {seeds} seeds",
    "serve runtime": "Serve in {runtime}, the baseline of these models",
    "undo": "Undo the change, or look at it and approve it if it is meant",
}  # fmt: skip
"""Statement → its words, filled in with its values."""


def report_only(verdict: Verdict) -> bool:
    """Tell whether rules failed, or stayed undecided, and no command fails for it."""
    return verdict.informational and verdict.state in ("fail", "inconclusive")


def verdict_word(verdict: Verdict, *notes: str) -> str:
    """Return the state as text outputs begin with it: ``FAIL (report only)``, ``PASS``, ….

    ``notes`` stand in the same brackets.
    """
    marks = [*[REPORT_ONLY] * report_only(verdict), *filter(None, notes)]
    return verdict.state.upper() + (f" ({', '.join(marks)})" if marks else "")


@dataclass(frozen=True, slots=True)
class SaidStep:
    """A step in words."""

    lead: str
    """``Do this``, or ``Or`` of the second."""
    words: str
    mark: str
    """Whether its effect was measured; empty for a step without one."""
    given: str
    """Its command, or lines of YAML."""

    @property
    def marked(self) -> str:
        """The step with its mark."""
        return f"{self.words} ({self.mark})" if self.mark else self.words


@dataclass(frozen=True, slots=True)
class SaidVerdict:
    """The three lines of a verdict."""

    sentence: str
    cause: str
    steps: tuple[SaidStep, ...]

    @property
    def lines(self) -> list[str]:
        """Rule, cause and steps, each a line, with the command or YAML of the first step."""
        lines = [self.sentence, *filter(None, [self.cause])]
        for number, step in enumerate(self.steps):
            lines.append(f"{step.lead}: {step.marked}")
            if not number:
                whole = step.given.splitlines()
                too_long = len(whole) > _MOST_GIVEN
                short = ["the lines to change are on the page"] if too_long else whole
                lines += [f"  {line}" for line in short]
        return lines


def verdict_words(
    verdict: Verdict, record: Measurements, *, without: Sequence[StatementKind] = ()
) -> SaidVerdict:
    """Say a verdict of these measurements; ``without`` leaves statements out of the first line."""
    speaker = _Speaker(verdict, record)
    kept = [each for each in verdict.sentence if each.kind not in without]
    return SaidVerdict(
        sentence=speaker.joined(kept),
        cause=" ".join(_ended(capital(each)) for each in cause_words(verdict, record)),
        steps=tuple(
            speaker.step(lead, each)
            for lead, each in zip(("Do this", "Or"), verdict.steps, strict=False)
        ),
    )


def _ended(words: str) -> str:
    return words if words.endswith(".") else f"{words}."


class _Speaker:
    """Words of one verdict."""

    def __init__(self, verdict: Verdict, record: Measurements) -> None:
        self.verdict = verdict
        self.record = record
        self.names = Names(record.paths)
        self.words = TaskWords(record.task)
        self._said: Mapping[StatementKind, Callable[[Statement], str]] = {
            "lost": self._lost,
            "part": lambda _: measured_part(record.own_part.cells),
            "loose": self._loose,
            "error": self._error,
            "measured": lambda found: f"Of all that was measured: {self._failed(found)}",
            "failed": self._failed,
            "nothing changed": self._nothing_changed,
            "held": self._held,
            "beside": lambda found: said(self._rules(found, "rule")[0], "value"),
            "baseline alone": self._baseline_alone,
            "unshown": self._unshown,
            "copies": _copies,
            "overrides": lambda _: (
                "Not as in the file: "
                + ", ".join(f"--set {shorten(each, 120)}" for each in verdict.overrides)
            ),
            "stopped": _stopped,
            "no sample": lambda _: f"No sample settles it: {said(self._headline(), 'value')}",
            "measure more": _more,
            "advised": self._advised,
            "swap": self._swap,
            "train served": self._trained,
            "run with": self._run_with,
        }

    def joined(self, statements: Sequence[Statement]) -> str:
        """Say statements as sentences; reasons why paths did not run share one."""
        if [each.kind for each in statements] == ["message"]:
            return self.statement(statements[0])  # of an error, word for word
        parts: list[str] = []
        for kind, same in groupby(statements, key=lambda each: each.kind):
            if kind == "not run":
                parts.append(f"Not run: {'; '.join(map(_not_run, same))}")
            else:
                parts += [self.statement(each, first=not parts) for each in same]
        return " ".join(_ended(capital(each)) for each in parts)

    def step(self, lead: str, step: NextStep) -> SaidStep:
        """Say a step."""
        words = _ended(self.statement(step.what))
        given = step.command or step.yaml.rstrip("\n")
        return SaidStep(lead, words, _MARKS[step.measured], given)

    def statement(self, found: Statement, *, first: bool = False) -> str:
        """Say a statement; only the first of a line calls something aligned."""
        if fixed := _FIXED.get(found.kind):
            return filled(fixed, found)
        aligned = found.kind in ("nothing changed", "held")
        aligned = aligned and not {"nearest", "taps"} & found.values.keys()
        return f"{'Aligned: ' if first and aligned else ''}{self._said[found.kind](found)}"

    def _rules(self, found: Statement, name: str) -> list[RuleOutcome]:
        """Return the outcomes whose indices are filled in."""
        return [self.verdict.rules[int(index)] for index in found.names(name)]

    def _headline(self) -> RuleOutcome:
        assert self.verdict.first is not None
        return self.verdict.first

    def _place(self, outcome: RuleOutcome) -> str:
        """Name a place; not its runtime where that is the baseline's too."""
        entry = self.record.at(outcome.place)
        aligned = self.record.aligned(entry.row) if entry else None
        own = entry is not None and entry.row.preprocesses == (entry.evaluated_with,)
        same = aligned is not None and aligned.column.runtime == outcome.column.runtime
        return place_in_words(outcome, self.names, runtime=own or not same)

    def _lost(self, found: Statement) -> str:
        row, *column = (str(found.values[name]) for name in _PLACE)
        entry = self.record.at(Place(Row.parse(row), Column(*column)))
        assert entry is not None
        where = f": {place_in_words(entry, self.names)}" if found.values["elsewhere"] else ""
        return lost_words(entry, self.record.aligned(entry.row)) + where

    def _loose(self, _: Statement) -> str:
        told = []
        for each in self.verdict.rules:
            if each.loose:
                faults = [f"{name!r} ({significant(value)})" for name, value in each.loose.items()]
                limits = each.limits
                assert limits is not None
                limit = limits.warn if limits.fail is None else limits.fail
                told.append(f"{each.metric} {limit:g} would pass {listed(faults)}")
        return f"A limit that holds nothing: {'; '.join(dict.fromkeys(told))}"

    def _error(self, found: Statement) -> str:
        (first,) = self._rules(found, "rule")
        where = f"{first.metric}, {self._place(first)}: {said(first, 'value')}"
        return filled("{checks} of {of} checks could not be measured: {where}", found, where=where)

    def _failed(self, found: Statement) -> str:
        rules = self._rules(found, "rules")
        briefs = [said(e, "brief") or f"{e.metric}: {said(e, 'value')}" for e in rules]
        more = f" and {len(briefs) - _SHOWN} more" if len(briefs) > _SHOWN else ""
        # a rule that is left to the gate has no place yet
        place = "" if rules[0].left_to_gate else f": {self._place(rules[0])}"
        start = _STARTS.get(rules[0].state, "")
        parts = [capital(f"{start}{'; '.join(briefs[:_SHOWN])}{more}{place}")]
        parts += self._effects(rules[0])
        if "elsewhere" in found.values:
            (worse,) = self._rules(found, "elsewhere")
            place = place_in_words(worse, self.names)
            parts.append(f"Worst of other models: {said(worse, 'brief')}: {place}")
        return ". ".join(parts)

    def _effects(self, outcome: RuleOutcome) -> Iterator[str]:
        """Say which answers move, of images without labels, or which class is hit far hardest."""
        entry = self.record.at(outcome.place)
        if entry is None or entry.drift is None:
            return
        if not self.record.labelled:
            yield capital(effect_words(entry, self.words))
        fact = far_stronger_class(entry.drift, self.words)
        if outcome.state != "pass" and fact is not None and (fact.change.value or 0.0) <= 0:
            yield f"Hardest hit: {fact.words}"

    def _nothing_changed(self, found: Statement) -> str:
        number = int(found.number("comparisons"))
        many = "the comparison" if number == 1 else f"any of {number} comparisons"
        none = f"no prediction changed in {many}"
        compared = self.record.own_part.compared
        moved = "" if self.record.labelled else logits_moved(compared, self.record.task)
        return f"{none}; {moved}" if moved else none

    def _held(self, found: Statement) -> str:
        if "nearest" not in found.values:
            held = filled("all {checks} checks hold: {places}", found, places=self._places())
            return f"{capital(held)}. {_TAPS_ALONE}" if "taps" in found.values else held
        (nearest,) = self._rules(found, "nearest")
        near = f"{said(nearest, 'brief')}: {self._place(nearest)}"
        held = filled("all {checks} checks hold; nearest to its limit: {near}", found, near=near)
        return ". ".join([capital(held), *self._effects(nearest)])

    def _places(self) -> str:
        held = [e for e in self.verdict.rules if not any(s.kind == "unchanged" for s in e.observed)]
        # each place once, though it has many rules
        compared = list({each.place: each for each in held}.values())
        repeated = {path.name for path in self.record.paths if path.same}
        # a place in a runtime has a comma of its own
        pairs = ("; " if any(each.backend for each in compared[:4]) else ", ").join(
            place_in_words(each, self.names)
            + " (the same on purpose)" * (each.evaluated_with in repeated)
            for each in compared[:4]
        )
        return pairs + (f" and {len(compared) - 4} more" if len(compared) > 4 else "")

    def _baseline_alone(self, found: Statement) -> str:
        words = (
            "Compared with the baseline alone: {path} differs from {own} in {stages:and}, and no "
            "rule looks at that"
        )
        return filled(words, found, own=self.record.reference)

    def _unshown(self, found: Statement) -> str:
        differ, own = unshown(found.names("stages")), self.record.reference
        return filled("{differ}: {path} against {own}", found, differ=differ, own=own)

    def _advised(self, found: Statement) -> str:
        served, change = found.values["served"], found.values["change"]
        each = next(
            each
            for each in self.record.advice
            if each.kept and (each.served, each.change) == (served, change)
        )
        before, after = (
            "an unknown share" if churn.value is None else estimated(churn, 1, share=True)
            for churn in (each.drift[0].before, each.drift[0].confirmed)
        )
        outcome = self._headline()
        aligned = self.record.aligned(outcome.row)
        runtime = aligned.column.runtime if aligned else ""
        where = "" if runtime == outcome.column.runtime else f" in {runtime}"
        done = "Train" if each.change == "training" else "Serve"
        changed = self.words.changed_share(after)
        return f"{done} with {each.label}: {changed} change instead of {before}{where}"

    def _swap(self, step: Statement) -> str:
        found = self.record.attribution(self._headline().place, str(step.values["metric"]))
        assert found is not None
        together = bool(step.values["together"])
        told = (
            f"Serve {self.names.short(found.candidate)} with the {listed(step.names('stages'))} of "
            f"{self.names.short(found.reference)}{' together' * together}"
        )
        if "remains" in step.values:
            remains = step.number("remains")
            little = "less than 0.1 pp" if found.unit == "fraction" else "less than a hundredth"
            left = share_words(remains, found) if shown_size(remains, found) else little
            metric = self.words.phrase(found.metric)
            told += f": {left if remains else 'no change'} of {metric} remains{drawn_words(found)}"
        return told + ("; none of them alone leaves clearly less" if together else "")

    def _trained(self, found: Statement) -> str:
        told = f"Train with {self.names.short(str(found.values['path']))}, as it serves"
        if "metric" not in found.values:
            return told
        metric = str(found.values["metric"])
        then, now = (self.words.value(metric, found.number(each)) for each in ("then", "now"))
        return f"{told}: {self.words.phrase(metric)} {then} instead of {now}"

    def _run_with(self, found: Statement) -> str:
        a, b = (self.names.short(str(found.values[name])) for name in ("served", "own"))
        return filled("Run {a} with the {stage} of {b}", found, a=a, b=b)


def _copies(found: Statement) -> str:
    told = copies_words(int(found.number("copies")), int(found.number("images")))
    return f"{told}; intervals and p-values draw the copies of an image together"


def _more(found: Statement) -> str:
    """Say how large a sample settles all undecided rules."""
    images, seeds = (
        int(found.number(name)) if name in found.values else None for name in ("images", "seeds")
    )
    undecided, settled = int(found.number("undecided")), int(found.number("settled"))
    told = settled_by(images, seeds, str(found.values["of"]))
    # a line of one rule says how many images that one needs
    if images and settled > 1:
        told += f" all {settled} undecided rules"
    left = undecided - settled
    rest = f". {left} of {undecided} undecided rules need other limits" if left else ""
    return f"Measure more: it {told}{rest}"


def _stopped(found: Statement) -> str:
    """Say what a gate that stops at the first failure left out."""
    later, rules = found.names("paths"), int(found.number("rules"))
    left = [f"path{'s' * (len(later) > 1)} {', '.join(later)}"] if later else []
    left += [count(rules, "other rule")] if rules else []
    if not left:
        return "Nothing was left out (--fail-fast)"
    return f"Stopped there (--fail-fast): {' and '.join(left)} not looked at"


def _not_run(found: Statement) -> str:
    before = f" before {found.values['before']}" if "before" in found.values else ""
    return f"{found.values['path']}{before}: {found.values.get('reason', NOTHING_CHANGED)}"
