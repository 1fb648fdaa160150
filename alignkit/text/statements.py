"""Statements of a verdict in words: one template for each kind, filled in with its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from string import Formatter

from alignkit.record.verdict_facts import Statement, StatementKind, StatementValue
from alignkit.text.names import QUICK_LOOK
from alignkit.text.numbers import count, grouped, listed, percent, plain
from alignkit.text.numbers import significant as short

NOTHING_CHANGED = "nothing of it changed since it was approved"
WORDS: Mapping[StatementKind, str] = {
    # what was observed of an outcome
    "shapes": "{images} images have another shape",
    "not finite": "{values} values are NaN or infinite",
    "no answer": "{images:images} without a value: NaN or infinite",
    "identical": "identical",
    "at least": "at least {value:4}",
    "amount": "mean {mean:3}, max {max:3} {unit}",
    "unseen": "changes not seen are less than ±{share:hundredths} {unit}",
    "too few": "too few {few} to rule out ±{share:hundredths} {unit} of changes not seen",
    "unchanged": f"not looked at: {NOTHING_CHANGED}",
    "left baseline": "`alignkit gate` reads the baseline",
    "left groups": "`alignkit gate` measures subgroups",
    "left taps": "`alignkit gate` judges rules about taps",
    "no approved line": "{images} without an approved line; add them: alignkit baseline record "
    "FILE",
    "dropped": "{paths} not in the file any more; their lines are kept",
    "repeated": "nothing was compared: {path} has the stages and options of {reference}; change "
    "one, or write 'same: true' in preprocess.{path} if that is meant",
    "cells": "{cells} of {of} cells {state}: {reason}",
    "no cell": "no cell besides the references could run",
    "no comparison": "{reason}",
    "undecoded": "{images} of {of} images not decoded by {by}, and so in no comparison: {names}",
    "by neither": "{images} of {of} images decoded by neither {by:nor}, and so in no comparison: "
    "{names}",
    "not by both": "{images} of {of} images not decoded by both {by:and}, and so in no comparison: "
    "{names}",
    "allows": "{{metric: coverage, fail: {share}}} allows as many",
    "calibration": "the scales of int8 come from {images} images, {evaluated} of which are "
    "evaluated, too, so that it looks better here than on new images; name others: 'calibration: "
    "{{root: DIR}}', which need no labels",
    "no candidate": "no candidate can run here, and all may be missing; nothing was compared",
    "no rule": "no rule looks at a stage in which the paths differ, so that nothing was compared"
    "[; {path} differs in {stages}]",
    "differs": "{part}{stage}, which differs on {images} of {of} images[ (mean {mean:3}, max "
    "{max:3} {unit})]",
    "blind": "{stage}, which differs on {images} of {of} images (mean {mean:3}, max {max:3} "
    "{unit}), in a way that no limit of {rules:and} shows",
    "answers": "{part}the answers, of which {share:churn} change",
    "class": "the other classes, of which {name} changes most, by {share:part}",
    "since approval": "{part}{stage}, which changed on {images} of {of} images since it was "
    "approved",
    "tap unknown": "no tap {tap:quoted} in {folder}: {known}",
    "tap empty": "tap {tap:quoted} was recorded for none of the {images} images",
    "tap refused": "{reason}",
    "tap values": "{value} on {images} images",
    "tap others": "{found} of {images} images",
    "tap no value": "{what} for {image}",
    "tap range": "{low} to {high} over {images} images",
    "tap outside": "{low} to {high} over {images} images; outside on {outside} (first {first})",
    "tap order": "{order}: {distance}",
    "tap part": "tap {tap:quoted} was recorded for {images} of {of} images",
    # the cause of an outcome
    "change": "{change}",
    "earlier change": "it comes from {stage}, {change}",
    "one-sided": "{images} of {of} only {by} decodes: {names}",
    "gone": "{images} of {of} approved images are gone: {names}",
    "here first": "{images} images change here first: {cause}",
    "below floor": "the limit is less than retraining changes ({share:%})",
    "earlier stage": "all of it comes from an earlier stage",
    # what a verdict rests on, decides, and does not cover
    "message": "{text}",
    "distrust": "The measurement cannot be trusted: the control {control:quoted} expected "
    "{expected} and observed {observed}",
    "quick": QUICK_LOOK,
    "part": "{part}",
    "doubt": "No conclusion can be drawn: {observed}",
    "lost": "{lost:grouped} of {images:images} have an output that is NaN or infinite "
    "({as_served:grouped} as served[, {as_trained:grouped} as trained])[: {place}]",
    "loose": "A limit that holds nothing: {limits}",
    "error": "{checks} of {of} checks could not be measured: {rule}",
    "measured": "Of all that was measured: {failed}",
    "failed": "{failed}",
    "nothing changed": "no prediction changed in {comparisons:comparisons}[; {moved}]",
    "held": "all {checks} checks hold[; nearest to its limit: {near}][: {places}][. {others}]",
    "none held": "Nothing was looked at: all {checks} checks stand as they were approved",
    "beside": "{rule}",
    "baseline alone": "Compared with the baseline alone: {path} differs from {own} in "
    "{stages:and}, and no rule looks at that",
    "unshown": "{options}: {path} against {own}",
    "copies": "{copies}; intervals and p-values draw the copies of an image together",
    "not run": "Not run: {path}[ before {before}]: {reason}",
    "overrides": "Not as in the file: {overrides}",
    "stopped": "Stopped there (--fail-fast)[; not looked at: {left}]",
    # the cause that a verdict names
    "lost on one side": "{lost:grouped} of {changed:grouped} changed answers have an output that "
    "is NaN or infinite on one side alone",
    "runtime": "The pixels are the same, so the runtime{file} is the cause",
    "stage": "{stage}: {why}",
    "pixels": "The pixels differ most in {stage} (mean {mean:hundredth} of 255[; also "
    "{others:and}])[: {mechanism}]",
    "options": "{paths:and} differ in {stages:and}; the share of each is measured against {own} "
    "alone",
    "no stage": "No stage changes {metric}{least}{drawn}",
    "shares unknown": "The share of {unknown:and} is unknown{drawn}",
    "opposed": "{opposed:and} push against each other, so none of them alone is the cause: alone "
    "{alone:and} of {metric}[, together {total}]{drawn}",
    "all": "All of it from {first}{drawn}[: {mechanism}][; {rest:and} {adds} nothing]",
    "most": "Most of it from {first} ({share}[ of {total}] {metric}{drawn})[: {mechanism}]; "
    "{shares}",
    "largest": "The largest share is from {first} ({share}[ of {total}] {metric}{drawn}); "
    "{shares}",
    # steps
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
    "no sample": "No sample settles it: change the limit",
    "measure more": "Measure more: it {needs} ({settled} of {undecided} undecided rules)",
    "train seeds": "Train {seeds} seeds",
    "serve runtime": "Serve in {runtime}, the baseline of these models",
    "advised": "{verb} with {label}: {changed} change instead of {before}[ in {runtime}]",
    "swap": "Serve {served} with the {stages:and} of {own}[: {left} of {metric} remains]{drawn}",
    "swap all": "Serve {served} with the {stages:and} of {own} together[: {left} of {metric} "
    "remains]{drawn}; none of them alone leaves clearly less",
    "train served": "Train with {path}, as it serves[: {metric} {then} instead of {now}]",
    "undo": "Undo the change, or look at it and approve it if it is meant",
    "run with": "Run {served} with the {stage} of {own}",
}  # fmt: skip
"""Kind → its words. A part in brackets is left out where a value of it is missing or empty."""
_OPTIONAL = re.compile(r"\[([^\]]*)\]")
_FORMS: Mapping[str, Callable[[float], str]] = {
    "": lambda value: str(value) if isinstance(value, int) else short(value, 6),
    "3": short,
    "4": lambda value: short(value, 4),
    "%": lambda value: f"{plain(100 * value, 1)} %",
    "limit": lambda value: f"{short(100 * value)} %",
    "hundredths": lambda value: plain(100 * value, 2),
    "hundredth": lambda value: plain(value, 2),
    "churn": lambda value: percent(value, 2),
    "part": percent,
    "grouped": lambda value: grouped(int(value)),
    "images": lambda value: count(int(value), "image"),
    "comparisons": lambda value: count(int(value), "comparison"),
}
"""How a template writes a number: ``{share:%}``."""


class _Written:
    """A value of a statement in a template."""

    def __init__(self, value: StatementValue) -> None:
        self.value = value

    def __format__(self, form: str) -> str:
        if isinstance(self.value, tuple):
            names = [*map(str, self.value)]
            joined = " nor ".join(names) if form == "nor" else ", ".join(names)
            return listed(names) if form == "and" else joined
        if isinstance(self.value, str):
            return repr(self.value) if form == "quoted" else self.value
        return _FORMS[form](self.value)


def filled(words: str, values: Mapping[str, StatementValue]) -> str:
    """Fill a template in.

    >>> filled("{a} of {b}[ in {c}]", {"a": 1, "b": ("x", "y")})
    '1 of x, y'
    """

    def part(found: re.Match[str]) -> str:
        names = [name for _, name, *_ in Formatter().parse(found[1]) if name]
        # zero is a value
        return found[1] if all(values.get(name, "") not in ("", ()) for name in names) else ""

    known = {name: _Written(value) for name, value in values.items()}
    return _OPTIONAL.sub(part, words).format_map(known)


def statement_words(found: Statement) -> str:
    """Say what was observed of an outcome, or what causes it."""
    return filled(WORDS[found.kind], found.values)
