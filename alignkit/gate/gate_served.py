"""Speed and memory of serving options under load, for the rules about them.

They are measured as `alignkit bench` does: each option in its own process, in turn with the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from alignkit.errors import ConfigError
from alignkit.plan.plan_keys import keyed_plan
from alignkit.serve.cpu_use import chosen_cpus
from alignkit.serve.rounds import Load, time_options
from alignkit.serve.served_facts import served_facts
from alignkit.serve.serving_options import chosen_evaluations, ready_options

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.experiment.gate_option import Gate
    from alignkit.experiment.rule_option import Rule
    from alignkit.plan import Plan
    from alignkit.record.bench_facts import ServingOption
    from alignkit.workspace import Context, Workspace


def measure_served(experiment: Experiment, context: Context) -> tuple[ServingOption, ...]:
    """Load the options that rules are about, and the references; nothing if no rule is.

    Raises `ConfigError` for more CPUs than there are, `NothingCompared` if there is no image that
    every path decodes.
    """
    gate = experiment.gate
    rules = gate.of_options
    if not rules:
        return ()
    load = load_of(gate)
    cpus = chosen_cpus(gate.bench.cpus, "gate.bench.cpus:")
    plan = _narrowed(keyed_plan(experiment, context.workspace), rules)
    options, _ = ready_options(plan, context, load.batch)
    timed = time_options([each.serving for each in options], load, cpus, context.progress)
    return served_facts(options, timed, load, cpus)


def require_options(experiment: Experiment, workspace: Workspace) -> None:
    """Raise `ConfigError` for a rule that is about the references alone: it could never fail."""
    rules = experiment.gate.of_options
    if not rules:
        return
    chosen = chosen_evaluations(_narrowed(keyed_plan(experiment, workspace), rules))
    others = [each.place for each in chosen if not each.aligned]
    for rule in rules:
        if not any(rule.covers(each) for each in others):
            known = ", ".join(map(str, others)) or "none"
            raise ConfigError(
                f"the rule {rule.id!r} is about no serving option besides the references; "
                f"others that a rule names: {known}"
            )


def _narrowed(plan: Plan, rules: Sequence[Rule]) -> Plan:
    """Narrow a plan to the cells that rules are about, and the aligned ones."""
    wanted = [
        each
        for each in plan.evaluations
        if each.aligned or any(rule.covers(each.place) for rule in rules)
    ]
    return replace(plan, evaluations=tuple(wanted))


def load_of(gate: Gate) -> Load:
    """Return the load that all rules of a gate need together."""
    clients = tuple(sorted({rule.load for rule in gate.of_options}))
    return Load(clients, gate.bench.requests)
