"""A `Verdict` in words, the same on every surface: its badge, and its three lines.

A verdict is said with the measurements that it judges: a number is read from where it is stored. A
mechanism is named only if the pixels of that stage show it (`alignkit.compare.compare_pixels`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from alignkit.record import (
    AttributionFacts,
    Measurements,
    NextStep,
    RuleOutcome,
    Verdict,
)
from alignkit.record.stored import Placed
from alignkit.record.verdict_facts import Statement, StatementKind, StatementValue
from alignkit.text.class_words import far_stronger_class
from alignkit.text.measured import effect_words, logits_moved, measured_part
from alignkit.text.names import Names, place_in_words
from alignkit.text.numbers import copies_words, count, estimated, listed, shorten, significant
from alignkit.text.outcome import said, settled_by
from alignkit.text.shares import (
    drawn_words,
    factor_words,
    main_shares,
    pushing,
    share_beside_alone,
    share_words,
    shown_size,
)
from alignkit.text.stage_changes import unshown
from alignkit.text.statements import NOTHING_CHANGED, WORDS, filled
from alignkit.text.task_words import TaskWords, capital
from alignkit.text.where_words import mechanism_names

_Values: TypeAlias = dict[str, StatementValue]

REPORT_ONLY = "report only"
"""Mark of a finding that fails no command, since the file's gate is informational."""
_MOST_GIVEN = 8
"""Lines of YAML that a text output shows; more are never cut off, but left to the page."""
_SHOWN = 3
"""Rules of one place that a sentence names."""
_TAPS_ALONE = (
    "Of recorded stages the rules look at nothing else; `alignkit match --taps` compares pixels"
)
_MARKS = {True: "measured here", False: "not measured yet", None: ""}
_STARTS = {"inconclusive": "Undecided: ", "warn": "Warned or waived: "}
_PATHS = {"path", "paths", "own", "served"}
"""Values that name paths, which may be surrogates."""


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
        cause=speaker.joined(verdict.cause),
        steps=tuple(
            speaker.step(lead, each)
            for lead, each in zip(("Do this", "Or"), verdict.steps, strict=False)
        ),
    )


class _Speaker:
    """Words of one verdict."""

    def __init__(self, verdict: Verdict, record: Measurements) -> None:
        self.verdict = verdict
        self.record = record
        self.names = Names(record.paths)
        self.words = TaskWords(record.task)
        shares, failed = self._shares, self._failed
        self._looked_up: Mapping[StatementKind, Callable[[Statement], _Values]] = {
            "lost": self._lost,
            "part": lambda _: {"part": measured_part(record.own_part.cells)},
            "loose": self._loose,
            "error": self._error,
            "measured": lambda found: {"failed": failed(found)},
            "failed": lambda found: {"failed": failed(found)},
            "nothing changed": self._nothing_changed,
            "held": self._held,
            "beside": lambda found: {"rule": said(self._rules(found, "rule")[0], "value")},
            "unshown": lambda found: {"options": unshown(found.names("stages"))},
            "copies": lambda found: {
                "copies": copies_words(int(found.number("copies")), int(found.number("images")))
            },
            "stopped": lambda found: {
                "left": (*found.names("paths"), *_other_rules(found.values.get("rules", 0)))
            },
            "overrides": lambda _: {
                "overrides": tuple(f"--set {shorten(each, 120)}" for each in verdict.overrides)
            },
            "stage": lambda _: {"why": said(self._headline(), "remark")},
            "pixels": lambda found: {
                "mechanism": self._mechanism(found.names("paths"), str(found.values["stage"]))
            },
            "no stage": shares, "shares unknown": shares, "opposed": shares, "all": shares,
            "most": shares, "largest": shares,
            "measure more": _needs,
            "advised": self._advised,
            "swap": self._swap, "swap all": self._swap,
        }  # fmt: skip

    def joined(self, statements: Sequence[Statement]) -> str:
        """Say statements as sentences; the message of an error word for word."""
        if [each.kind for each in statements] == ["message"]:
            return self.statement(statements[0])
        return " ".join(
            _ended(capital(self.statement(each, first=not index)))
            for index, each in enumerate(statements)
        )

    def step(self, lead: str, step: NextStep) -> SaidStep:
        """Say a step."""
        words = _ended(self.statement(step.what))
        given = step.command or step.yaml.rstrip("\n")
        return SaidStep(lead, words, _MARKS[step.measured], given)

    def statement(self, found: Statement, *, first: bool = False) -> str:
        """Say a statement; only the first of a line calls something aligned."""
        values: _Values = {"reason": NOTHING_CHANGED, "drawn": "", **found.values}
        for name in _PATHS & found.values.keys():
            shown = tuple(map(self.names.short, found.names(name)))
            values[name] = shown if isinstance(values[name], tuple) else shown[0]
        if "metric" in values:
            metric = str(values["metric"])
            values["metric"] = self.words.phrase(metric)
            for name in {"then", "now"} & found.values.keys():
                values[name] = self.words.value(metric, found.number(name))
        if looked_up := self._looked_up.get(found.kind):
            values |= looked_up(found)
        aligned = first and found.kind in ("nothing changed", "held")
        aligned = aligned and not {"nearest", "taps"} & found.values.keys()
        return "Aligned: " * aligned + filled(WORDS[found.kind], values)

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

    def _lost(self, found: Statement) -> _Values:
        place = {name: str(found.values[name]) for name in Placed.model_fields
                 if name in found.values}  # fmt: skip
        return {"place": place_in_words(Placed(**place), self.names)} if place else {}

    def _loose(self, _: Statement) -> _Values:
        limits = []
        for each in self.verdict.rules:
            if each.loose and each.limits:
                faults = [f"{name!r} ({significant(value)})" for name, value in each.loose.items()]
                limit = each.limits.warn if each.limits.fail is None else each.limits.fail
                limits.append(f"{each.metric} {limit:g} would pass {listed(faults)}")
        return {"limits": "; ".join(dict.fromkeys(limits))}

    def _error(self, found: Statement) -> _Values:
        (first,) = self._rules(found, "rule")
        return {"rule": f"{first.metric}, {self._place(first)}: {said(first, 'value')}"}

    def _failed(self, found: Statement) -> str:
        rules = self._rules(found, "rules")
        briefs = [said(each, "brief") for each in rules[:_SHOWN]]
        more = f" and {len(rules) - _SHOWN} more" if len(rules) > _SHOWN else ""
        # a rule that is left to the gate has no place yet
        place = "" if rules[0].left_to_gate else f": {self._place(rules[0])}"
        start = _STARTS.get(rules[0].state, "")
        parts = [capital(f"{start}{'; '.join(briefs)}{more}{place}"), *self._effects(rules[0])]
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

    def _nothing_changed(self, _: Statement) -> _Values:
        compared = self.record.own_part.compared
        return {"moved": "" if self.record.labelled else logits_moved(compared, self.record.task)}

    def _held(self, found: Statement) -> _Values:
        if "nearest" in found.values:
            (nearest,) = self._rules(found, "nearest")
            near = f"{said(nearest, 'brief')}: {self._place(nearest)}"
            return {"near": ". ".join([near, *self._effects(nearest)])}
        return {"places": self._places(), "others": _TAPS_ALONE * ("taps" in found.values)}

    def _places(self) -> str:
        # each place once, though it has many rules
        compared = list({
            each.place: each
            for each in self.verdict.rules
            if not (each.instead and each.instead.kind == "unchanged")
        }.values())  # fmt: skip
        repeated = {path.name for path in self.record.paths if path.same}
        # a place in a runtime has a comma of its own
        pairs = ("; " if any(each.backend for each in compared[:4]) else ", ").join(
            place_in_words(each, self.names)
            + " (the same on purpose)" * (each.evaluated_with in repeated)
            for each in compared[:4]
        )
        return pairs + (f" and {len(compared) - 4} more" if len(compared) > 4 else "")

    def _attribution(self, found: Statement) -> AttributionFacts:
        shares = self.record.attribution(self._headline().place, str(found.values["metric"]))
        assert shares is not None
        return shares

    def _shares(self, cause: Statement) -> _Values:
        """Say which factors cause a change, by their shares."""
        found = self._attribution(cause)
        first, others = main_shares(found)
        known = pushing([each for each in (first, *others) if each])
        total = found.total.value
        values: _Values = {
            "drawn": drawn_words(found),
            "total": "" if total is None else share_words(total, found),
            "least": " by a tenth of a point" * (found.unit == "fraction"),
            "unknown": tuple(factor_words(e, found) for e in others if e.effect.value is None),
            "opposed": tuple(factor_words(each, found) for each in known),
            "alone": tuple(
                f"{factor_words(each, found)} {share_words(each.alone.value or 0.0, found)}"
                for each in known
            ),
            "shares": tuple(
                f"{factor_words(each, found)} {share_beside_alone(each, found)}" for each in others
            ),
        }
        if first is not None:
            rest = tuple(factor_words(each, found) for each in found.shares if each is not first)
            pair = found.reference, found.candidate
            values |= {
                "first": factor_words(first, found),
                "share": share_beside_alone(first, found),
                "rest": rest,
                "adds": "adds" if len(rest) == 1 else "add",
                "mechanism": self._mechanism(pair, first.factor),
            }
        return values

    def _mechanism(self, pair: Sequence[str], factor: str) -> str:
        """Name what the pixels of a stage show; that would not explain a missing answer."""
        if any(each.kind == "lost on one side" for each in self.verdict.cause):
            return ""
        for each in self.record.spatial:
            of_pair = {each.reference, each.candidate} == {*pair}
            if of_pair and each.mechanisms and each.stage in factor.split("+"):
                # the remainder is beside its map
                return mechanism_names(each, self.names.short)
        return ""

    def _advised(self, found: Statement) -> _Values:
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
        return {
            "verb": "Train" if each.change == "training" else "Serve",
            "label": each.label,
            "before": before,
            "changed": self.words.changed_share(after),
            "runtime": "" if runtime == outcome.column.runtime else runtime,
        }

    def _swap(self, step: Statement) -> _Values:
        found = self._attribution(step)
        pair = {"own": found.reference, "served": found.candidate}
        shown: _Values = {name: self.names.short(path) for name, path in pair.items()}
        if "remains" not in step.values:
            return shown
        remains = step.number("remains")
        left = share_words(remains, found) if remains else "no change"
        if remains and not shown_size(remains, found):
            of = "0.1 pp" if found.unit == "fraction" else "a hundredth"
            left = f"less than {of}"
        return {**shown, "left": left, "drawn": drawn_words(found)}


def _other_rules(left: StatementValue) -> list[str]:
    return [count(int(str(left)), "other rule")] if left else []


def _ended(words: str) -> str:
    return words if words.endswith(".") else f"{words}."


def _needs(found: Statement) -> _Values:
    """Say how large a sample settles all undecided rules."""
    images, seeds = (
        int(found.number(name)) if name in found.values else None for name in ("images", "seeds")
    )
    return {"needs": settled_by(images, seeds, str(found.values["of"]))}
