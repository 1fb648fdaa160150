"""`alignkit gate --fail-fast`: judge pixels before models, path by path, until one fails."""

from __future__ import annotations

from pathlib import Path

from alignkit.experiment.experiment import Experiment
from alignkit.experiment.rule import PIXEL_RULES, Rule
from alignkit.gate.pixel_gate import compare_pixels, pixel_record, self_test_controls
from alignkit.judge import judge
from alignkit.judge.evidence import Evidence
from alignkit.record import RunRecord
from alignkit.workspace import Context


def first_failure(
    experiment: Experiment, rule_lines: tuple[int, ...], context: Context
) -> tuple[RunRecord, Path] | None:
    """Return the record of the first path whose pixels fail a rule, and the folder for it.

    The record holds that path and the reference; ``None`` if no path fails. Comparisons are stored,
    so that the whole gate does not repeat them.
    """
    samples = experiment.data.evaluation()
    for candidate in experiment.paths[1:]:
        pair, lines = _pair(experiment, candidate.name, rule_lines)
        if not lines:
            continue
        compared = compare_pixels(pair.paths, samples, context)
        record = pixel_record(
            pair,
            samples,
            tuple(stage for each in compared for stage in each.stages),
            tuple(each.coverage for each in compared),
            self_test_controls(experiment.reference, samples),
        )
        verdict = judge(
            pair.gate,
            Evidence(
                pixels=record.pixels, coverage_diffs=record.coverage_diffs, paths=record.paths
            ),
            controls=record.controls,
            lines=lines,
        )
        if verdict.state == "fail":
            sentence = f"{verdict.sentence} {_left_out(experiment, candidate.name, len(lines))}"
            judged = verdict.model_copy(update={"sentence": sentence})
            folder = context.workspace.run_folder(experiment.name, record.key)
            return record.model_copy(update={"verdict": judged}), folder
    return None


def _pair(
    experiment: Experiment, candidate: str, rule_lines: tuple[int, ...]
) -> tuple[Experiment, tuple[int, ...]]:
    """Narrow the experiment to one candidate and the rules its pixels decide, with their lines."""
    rules = _rules(experiment)
    placed = zip(rules, rule_lines or [0] * len(rules), strict=True)
    kept = [(rule, line) for rule, line in placed if _decided(rule, candidate)]
    names = (experiment.reference.name, candidate)
    pair = experiment.narrowed(names, [rule for rule, _ in kept])
    return pair, tuple(line for _, line in kept)


def _rules(experiment: Experiment) -> tuple[Rule, ...]:
    return experiment.gate.rules or (() if experiment.labelled else PIXEL_RULES)


def _decided(rule: Rule, candidate: str) -> bool:
    of_pixels = all(each.measured.kind in ("pixel", "coverage") for each in rule.expanded())
    own = rule.against == "reference" and rule.path in (None, candidate)
    return of_pixels and own and rule.where is None


def _left_out(experiment: Experiment, failed: str, judged: int) -> str:
    names = [path.name for path in experiment.paths]
    later = names[names.index(failed) + 1 :]
    rules = len(_rules(experiment)) - judged
    left = [f"path{'s' * (len(later) > 1)} {', '.join(later)}"] if later else []
    left += [f"{rules} other rule{'s' * (rules > 1)}"] if rules else []
    if not left:
        return "Nothing was left out (--fail-fast)."
    return f"Stopped there (--fail-fast): {' and '.join(left)} not looked at."
