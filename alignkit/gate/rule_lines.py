"""Lines of a gate's rules in its file."""

from __future__ import annotations

from alignkit.experiment.experiment import Experiment
from alignkit.experiment.yaml_source import parse


def rule_lines(experiment: Experiment, *within: str) -> tuple[int, ...]:
    """Return the line of each rule in the file, from 1; 0 for a rule of an override.

    The rules are those of ``gate``, or of its option ``within``.
    """
    source = parse(experiment.text, str(experiment.file))
    option = experiment.gate.taps if within else experiment.gate
    place = ("gate", *within, "rules")
    count = len((option and option.rules) or ())
    places: list[tuple[str | int, ...]] = [(*place, index) for index in range(count)]
    # an override replaces the whole list, so that no rule is the one on the file's line
    name = ".".join(place)
    replaced = [each.partition("=")[0] for each in experiment.overrides]
    if any(each == name[: len(each)] or each.startswith(name) for each in replaced):
        return (0,) * len(places)
    return tuple(
        source.place(each, of_key=False).line + 1 if each in source.values else 0 for each in places
    )
