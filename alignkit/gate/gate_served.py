"""Speed and memory of serving options under load, for the rules about them.

They are measured as `alignkit bench` does: each option in its own process, in turn with the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alignkit.plan.plan_keys import keyed_plan
from alignkit.serve.cpu_use import chosen_cpus
from alignkit.serve.rounds import ROUNDS, Load, time_options
from alignkit.serve.served_facts import served_facts
from alignkit.serve.serving_options import ready_options

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.experiment.gate_option import Gate
    from alignkit.experiment.rule_option import Rule
    from alignkit.plan import Plan
    from alignkit.record.bench_facts import ServingOption
    from alignkit.workspace import Context

GROWTH_ROUNDS = 12
"""Rounds, each half of which tells a slope of memory: see `alignkit.serve.memory_growth`."""


def measure_served(experiment: Experiment, context: Context) -> tuple[ServingOption, ...]:
    """Load the options that rules are about, and the references; nothing if no rule is.

    Raises `ConfigError` for more CPUs than there are, `NothingCompared` if there is no image that
    every path decodes.
    """
    gate = experiment.gate
    rules = rules_of_options(gate)
    if not rules:
        return ()
    load = load_of(gate)
    cpus = chosen_cpus(gate.bench.cpus, "gate.bench.cpus:")
    plan = named_options(keyed_plan(experiment, context.workspace), rules)
    options, _ = ready_options(plan, context, load.batch)
    timed = time_options([each.serving for each in options], load, cpus, context.progress)
    return served_facts(options, timed, load, cpus)


def rules_of_options(gate: Gate) -> list[Rule]:
    """Return the rules about serving options under load."""
    return [rule for rule in gate.expanded if rule.measured.of_options]


def load_of(gate: Gate) -> Load:
    """Return the load that all rules of a gate need together."""
    rules = rules_of_options(gate)
    growth = any(rule.measured.kind == "growth" for rule in rules)
    return Load(
        clients=tuple(sorted({rule.load for rule in rules})),
        requests=gate.bench.requests,
        rounds=GROWTH_ROUNDS if growth else ROUNDS,
    )


def named_options(plan: Plan, rules: list[Rule]) -> Plan:
    """Narrow a plan to the cells that rules are about, and the aligned ones."""
    wanted = [
        each
        for each in plan.evaluations
        if each.aligned or any(rule.covers(each.place) for rule in rules)
    ]
    return replace(plan, evaluations=tuple(wanted))
