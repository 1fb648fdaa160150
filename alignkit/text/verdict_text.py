"""A `Verdict` in words, the same on every surface: its badge, and its three lines."""

from __future__ import annotations

from collections.abc import Iterator

from alignkit.record import Action, Verdict

REPORT_ONLY = "report only"
"""Mark of a finding that fails no command, since the file's gate is informational."""
_MOST_GIVEN = 8
"""Lines of YAML that a text output shows; more are never cut off, but left to the page."""
_MARKS = {True: "measured here", False: "not measured yet", None: ""}


def report_only(verdict: Verdict) -> bool:
    """Tell whether rules failed, or stayed undecided, and no command fails for it."""
    return verdict.informational and verdict.state in ("fail", "inconclusive")


def verdict_word(verdict: Verdict, *notes: str) -> str:
    """Return the state as text outputs begin with it: ``FAIL (report only)``, ``PASS``, ….

    ``notes`` stand in the same brackets.
    """
    marks = [*[REPORT_ONLY] * report_only(verdict), *filter(None, notes)]
    return verdict.state.upper() + (f" ({', '.join(marks)})" if marks else "")


def action_mark(action: Action) -> str:
    """Say whether the effect of a step was measured; empty for a step without one."""
    return _MARKS[action.measured]


def action_words(action: Action) -> str:
    """Return a step with its mark, without its command."""
    mark = action_mark(action)
    return f"{action.words} ({mark})" if mark else action.words


def verdict_text(verdict: Verdict) -> list[str]:
    """Return rule, cause and steps, each a line, with the command or YAML of the first step."""
    lines = [verdict.sentence, *filter(None, [verdict.cause])]
    for number, (lead, action, given) in enumerate(steps(verdict)):
        lines.append(f"{lead}: {action_words(action)}")
        if not number:
            whole = given.splitlines()
            short = whole if len(whole) <= _MOST_GIVEN else ["the lines to change are on the page"]
            lines += [f"  {line}" for line in short]
    return lines


def steps(verdict: Verdict) -> Iterator[tuple[str, Action, str]]:
    """Yield each step with the words that lead to it, and its command or lines of YAML."""
    for lead, action in zip(("Do this", "Or"), verdict.actions, strict=False):
        yield lead, action, action.command or action.yaml.rstrip("\n")
