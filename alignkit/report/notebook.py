"""Results as HTML fragments for notebooks: a verdict, a run, a diff, a match.

A fragment is whole without a script, and takes its colours of text and background from the
notebook, so that it is legible on light and on dark ones. All text in it is escaped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from alignkit.record import Measurements, RuleOutcome, RunRecord, Verdict, VerdictState
from alignkit.record.diff_document import DiffRecord
from alignkit.report.diff_page import prediction_tables
from alignkit.report.entries_view import meanings, measures_tables
from alignkit.report.matrix_section import entries_in_short
from alignkit.report.stage_view import stage_sections
from alignkit.report.table import Table
from alignkit.report.verdict_view import rules_tables, shown_icon, tally
from alignkit.search.configurations import Configuration
from alignkit.search.match_result import Match, Ranked
from alignkit.search.match_text import alternatives, headline, label, levels, paste
from alignkit.text.column import Fact
from alignkit.text.diff_words import ending, images_words, prediction_lines
from alignkit.text.names import Names, surrogate_notes
from alignkit.text.task_words import TaskWords
from alignkit.text.verdict import SaidVerdict, verdict_words

_MOST_ROWS = 20
_STYLE = (
    "<style>.alignkit th,.alignkit td{text-align:left;padding:0 .5em}.alignkit .n{text-align:right}"
    ".alignkit caption{text-align:left;font-size:90%}</style>"
)
"""Of tables; one that a site takes out leaves them legible."""
_SMALL = "font-size:90%;opacity:.8;margin:.3em 0"


@dataclass(frozen=True, slots=True)
class ShownVerdict:
    """A `Verdict` in words, which a notebook shows with its rules, and a terminal as few lines."""

    verdict: Verdict
    said: SaidVerdict
    notes: tuple[str, ...] = ()
    """More sentences: the worst image, and what explains its difference."""

    @classmethod
    def of(cls, verdict: Verdict, record: Measurements) -> ShownVerdict:
        """Say the verdict of these measurements."""
        return cls(verdict, verdict_words(verdict, record))

    @property
    def state(self) -> VerdictState:
        """Pass, warn, fail, inconclusive or error."""
        return self.verdict.state

    @property
    def exit_code(self) -> int:
        """Exit code of the command that would judge it."""
        return self.verdict.exit_code

    @property
    def informational(self) -> bool:
        """Whether drift fails no command."""
        return self.verdict.informational

    @property
    def rules(self) -> tuple[RuleOutcome, ...]:
        """The outcome of each rule at each place."""
        return self.verdict.rules

    @property
    def sentence(self) -> str:
        """The rules that decide it, each value beside its limit, and the place."""
        return self.said.sentence

    @property
    def cause(self) -> str:
        """The stage or runtime that causes it; empty if it is not known."""
        return self.said.cause

    def __str__(self) -> str:
        """Return state, sentence, cause, next steps and notes, a line each."""
        first, *others = self.said.lines
        return "\n".join([f"{self.state}: {first}", *others, *self.notes])

    def __repr__(self) -> str:
        """Return state and sentence."""
        return f"<Verdict {self.state}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return _fragment(*_verdict(self.verdict, self.said, Names(())), *map(_words, self.notes))


def run_html(record: RunRecord) -> str:
    """Show the verdict of a run, its drift matrix, its task's measures, and notes on surrogates."""
    names, words = Names(record.paths), TaskWords(record.task)
    asked = f"<br>{escape(record.question)}" if record.question else ""
    parts = [f"<p><strong>{escape(record.name)}</strong>{asked}</p>"]
    parts += _verdict(record.verdict, verdict_words(record.verdict, record), names)
    if record.matrix:
        table = entries_in_short(record, names)
        parts += [_table(replace(table, caption="")), _words(table.caption)]
        if measured := measures_tables(record.matrix, names, words):
            parts += [*map(_table, measured), *map(_words, meanings(record.task))]
    else:
        for each in stage_sections(record.pixels, names):
            parts += [_words(each.words), _table(each.table)]
    return _fragment(*parts, *_surrogates(record))


def diff_html(record: DiffRecord) -> str:
    """Show the differences by stage of every pair of a diff, and the notes on surrogates."""
    names = Names(record.paths)
    parts = [_words(images_words(record))]
    for pair in record.pairs:
        title = f"{names.short(pair.candidate)} against {names.short(pair.reference)}"
        words = pair.sentence or f"skipped: {pair.reason}"
        parts.append(f"<p><strong>{escape(title)}</strong>: {escape(words)}</p>")
        # of a pair that was skipped there are none
        own = stage_sections(pair.stages, names) if pair.compared else ()
        said = ending(pair) if pair.compared else []
        parts += [_table(each.table) for each in own]
        if pair.predictions and record.model:
            said = [*prediction_lines(pair.predictions, record.model, record.task), *said]
            parts += map(_table, prediction_tables(pair.predictions, record.task))
        parts.append(_list(said))
    return _fragment(*parts, *_surrogates(record))


def match_columns(match: Match, names: Mapping[Configuration, str]) -> tuple[Fact[Ranked], ...]:
    """Return what a row of the ranking shows, in a terminal as in a notebook."""

    def name(each: Ranked) -> str:
        first = each.configurations[0]
        return names.get(first) or label(first)

    churn: Fact[Ranked] = Fact("Churn", lambda each: each.churn, "share", note="not predicted")
    return (
        Fact("Configuration", name),
        Fact("Mean |Δ|", lambda each: each.mean_abs.value, "levels",
             format=lambda mean, _: levels(mean), note=lambda each: each.mean_abs.reason),
        Fact("Max |Δ|", lambda each: each.max_abs, "levels", 1),
        Fact("Identical", lambda each: f"{each.identical}/{match.images}", "count"),
        Fact("Unseen", lambda each: each.unseen, "levels",
             format=lambda mean, _: levels(mean), note="no other images were kept for this test"),
        *([churn] if match.winner.churn else []),
        Fact("Same pixels", lambda each: alternatives(each, names)),
    )  # fmt: skip


def match_html(match: Match, names: Mapping[Configuration, str]) -> str:
    """Show the sentence of a match, the facts of its target, the ranking, and the block to copy."""
    columns = match_columns(match, names)
    table = Table.made("Nearest configurations, in grey levels", columns, match.ranking)
    block = "" if names else paste(match, "matched")
    return _fragment(
        f"<p><strong>{escape(headline(match, names))}</strong></p>",
        _list(match.facts),
        _table(table),
        f"<pre>{escape(block)}</pre>" if block else "",
    )


def _fragment(*parts: str) -> str:
    return f'{_STYLE}<div class="alignkit" style="max-width:72em">{"".join(parts)}</div>'


def _list(lines: Sequence[str]) -> str:
    listed = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{listed}</ul>" if listed else ""


def _words(text: str) -> str:
    return f'<p style="{_SMALL}">{escape(text)}</p>' if text else ""


def _verdict(verdict: Verdict, said: SaidVerdict, names: Names) -> list[str]:
    icon = shown_icon(verdict)
    # shape and word say the state; the colour only repeats it
    sign = (
        f'<svg viewBox="0 0 24 24" width="20" height="20" role="img" aria-label="{icon.word}" '
        f'style="vertical-align:-4px"><path d="{icon.outline}" fill="{icon.colour}"/>'
        f'<path d="{icon.sign}" fill="none" stroke="#fff" stroke-width="2.4"/></svg>'
    )
    box = (
        f"border-left:4px solid {icon.colour};padding:.4em .8em;margin:.4em 0;white-space:pre-wrap"
    )
    first, *others = map(escape, said.lines)
    lines = [f"{sign} <strong>{escape(icon.word)}</strong>: {first}", *others]
    table, _ = rules_tables(verdict, names)  # of those that passed the tally is enough
    return [f'<div style="{box}">{"<br>".join(lines)}</div>', _table(table), _words(tally(verdict))]


def _surrogates(record: RunRecord | DiffRecord) -> list[str]:
    return [_words(f"{name}: {note}") for name, note in surrogate_notes(record.paths).items()]


def _table(table: Table | None) -> str:
    if table is None:
        return ""
    shown, left = table.first(_MOST_ROWS)
    return f"{shown.html()}{_words(left)}"
