"""`alignkit plan`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from alignkit.cli.arguments import (
    Cells,
    Files,
    Json,
    Overrides,
    Quick,
    Reports,
    print_error,
)
from alignkit.errors import AlignkitError, worst
from alignkit.text import columns
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.place import Place
    from alignkit.plan import Plan
    from alignkit.plan.outlooks import Memory, Outlook, Outlooks


def plan(
    files: Files,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    cells: Cells = [],  # noqa: B006
    quick: Quick = False,
    reports: Reports = Path("reports"),
    as_json: Json = False,
) -> None:
    """Show the work of a run without doing it.

    Lists every preparation, training, cell, attribution and pixel comparison as cached, to run (and
    why) or impossible (and why).
    """
    from alignkit.experiment import load_experiment
    from alignkit.plan.outlooks import outlooks
    from alignkit.plan.plan_keys import keyed_plan

    # a mistake in one file does not hide the plans of the others
    codes = []
    planned_files = []
    for file in files:
        try:
            # only read: what is stored there decides what a run would repeat
            workspace = Workspace(reports)
            experiment = load_experiment(file, overrides, quick=quick)
            planned = keyed_plan(experiment, workspace, cells=cells)
            gate = _gate_alone(planned, workspace)
            planned_files.append((planned, outlooks(planned, workspace), gate))
        except AlignkitError as error:
            codes.append(print_error(error, file))
    if as_json:
        print(json.dumps([_as_json(*each) for each in planned_files], indent=1))
    elif planned_files:
        print("\n\n".join(_as_text(*each) for each in planned_files))
        if len(planned_files) > 1:
            print(f"\n{_total(planned_files)}")
    raise typer.Exit(worst(codes))


def _total(planned_files: Sequence[tuple[Plan, Outlooks, list[str]]]) -> str:
    """Count the work of all files, and sum the seconds that they state if all state some."""
    from alignkit.plan.required_models import to_make

    made = sum(len(to_make(planned.experiment)) for planned, *_ in planned_files)
    counts = [f"models made by a script {made}"]
    for kind in ("trainings", "cells", "attributions", "comparisons"):
        works = [each for _, expected, _ in planned_files for each in getattr(expected, kind)]
        # files share work: whichever comes first does it
        to_run = {each.work.key for each in works if each.state == "to run"}
        counts.append(f"{kind} {len(to_run):,}")
    said = [_stated_seconds(planned.experiment) for planned, *_ in planned_files]
    time = "" if None in said else f"\nby their comments: {sum(filter(None, said)):,} s of CPU time"
    return f"{len(planned_files)} files, to run: {', '.join(counts)}{time}"


def _stated_seconds(experiment: Experiment) -> int | None:
    """Return the seconds that the file states; ``None`` if it is changed or states none."""
    stated = r"^# CPU time: (?:(\d+) s; )?(\d+) s with --quick"
    found = re.search(stated, experiment.text, re.MULTILINE)
    if found is None or experiment.overrides:
        return None
    seconds = found[2] if experiment.quick else found[1]
    return int(seconds) if seconds else None


def _gate_alone(planned: Plan, workspace: Workspace) -> list[str]:
    """Describe the work that `alignkit gate` adds to a run."""
    if not any(rule.against == "baseline" for rule in planned.experiment.gate.expanded):
        return []
    from alignkit.gate.gate_check import taps_of_baseline

    return taps_of_baseline(planned.experiment, workspace)


def _as_text(planned: Plan, expected: Outlooks, gate: list[str]) -> str:
    experiment = planned.experiment
    compared = [("pixels", "state", ""), *map(_row, expected.comparisons)]
    from alignkit.text.names import quick_words

    said = _stated_seconds(experiment)
    surrogates, simulations = _surrogates(planned, brief=True), _simulations(planned)
    return "\n".join(
        [
            f"{experiment.name}  {experiment.file}",
            *([experiment.question] if experiment.question else []),
            *([quick_words(experiment.quick)] if experiment.quick else []),
            *([f"its comment says: {said} s of CPU time, from the start"] if said else []),
            *(f"{name}: {note}" for name, note in {**surrogates, **simulations}.items()),
            *(["", columns(compared, indent="  ")] if expected.comparisons else []),
            *(_models(planned, expected, gate) if planned.evaluations else _pixels(planned, gate)),
        ]
    )


def _surrogates(planned: Plan, *, brief: bool = False) -> dict[str, str]:
    """Return the label of each surrogate by its path."""
    from alignkit.text.names import facts_of_paths, surrogate_notes

    return surrogate_notes(facts_of_paths(planned.experiment.paths), brief=brief)


def _simulations(planned: Plan) -> dict[str, str]:
    """Return the label of each simulated runtime by its name."""
    labels = {each.place.column.runtime: each.runtime.simulation for each in planned.evaluations}
    return {runtime: label for runtime, label in labels.items() if label}


def _pixels(planned: Plan, gate: list[str]) -> list[str]:
    """Format the plan of a gate without models."""
    from alignkit.experiment.gate_option import PIXEL_RULES

    _, images = planned.experiment.data.counts()
    rules = sum(len(rule.expanded()) for rule in planned.experiment.gate.rules or PIXEL_RULES)
    return [
        "",
        f"images     {images}",
        f"rules      {rules}",
        *(f"gate       {each}" for each in gate),
    ]


def _models(planned: Plan, expected: Outlooks, gate: list[str]) -> list[str]:
    from alignkit.plan.outlooks import memory

    trainings = [("training", "state", ""), *map(_row, expected.trainings)]
    # all trainings begin with the same weights, which this names without downloading them
    begun = [each.parts["pretrained"] for each in planned.trainings if "pretrained" in each.parts]
    attributed = [f"attributed {_counted(found)}"] if (found := expected.attributions) else []
    return [
        *(["", columns(trainings, indent="  ")] if expected.trainings else []),
        "",
        columns(_cell_rows(planned, expected.cells), indent="  "),
        "",
        *_attribution_table(planned, expected),
        *[f"model      {name}: {text}" for name, text in _given(planned).items()],
        *[f"reads      {name}: {text}" for name, text in _read(planned).items()],
        *_images(planned),
        f"prepared   {_counted(expected.prepared)}",
        *[f"begin with {weights}" for weights in begun[:1]],
        f"trainings  {_counted(expected.trainings) or 'none'}",
        f"cells      {_counted(expected.cells)}",
        *[f"emulated   {each}" for each in _emulations(expected)],
        *attributed,
        *_advice(planned),
        *(f"gate       {each}" for each in gate),
        *_identities(needed := memory(planned)),
        f"memory     {_memory(needed)}",
    ]


def _given(planned: Plan) -> dict[str, str]:
    """Describe the file of each given model by its name."""
    given = (each.given for each in planned.trainings)
    return {each.name: each.described() for each in given if each is not None}


def _read(planned: Plan) -> dict[str, str]:
    """Say how the outputs of each given model are read, by its name."""
    from alignkit.plan.required_models import recognised

    return recognised(planned.experiment)


def _emulations(expected: Outlooks) -> list[str]:
    from alignkit.plan.work import Evaluation, emulations

    works = [each.work for each in expected.cells if each.state == "to run"]
    return emulations(work for work in works if isinstance(work, Evaluation))


def _images(planned: Plan) -> list[str]:
    """Say how many images given models are evaluated on, and why these."""
    from alignkit.datasets.unlabelled_images import CalibratedData
    from alignkit.plan import missing_labels

    if planned.trains:
        return []
    others, evaluated = planned.experiment.data.counts()
    line = f"images     {evaluated} evaluated"
    if choice := planned.experiment.data.choice():
        line += f": {choice}"
    if remark := missing_labels(planned.experiment):
        line += f"; {remark}"
    if isinstance(planned.experiment.data, CalibratedData):
        line += f"; int8 takes its scales from the {others} of 'calibration'"
    elif others:
        line += f"; the other {others} are for 'advise' and the calibration of int8"
    return [line]


def _row(outlook: Outlook) -> tuple[str, str, str]:
    return outlook.work.label, outlook.state, _reason(outlook)


def _reason(outlook: Outlook) -> str:
    again = outlook.state == "to run" and outlook.reason
    return f"again: {outlook.reason}" if again else outlook.reason


def _cell_rows(planned: Plan, outlooks: Sequence[Outlook]) -> list[tuple[str, ...]]:
    """Format one row for cells that differ only in their seed."""
    from alignkit.plan.work import Evaluation
    from alignkit.text.names import Names, facts_of_paths

    names = Names(facts_of_paths(planned.experiment.paths))

    grouped: dict[Place, list[Outlook]] = {}
    for outlook in outlooks:
        cell = outlook.work
        assert isinstance(cell, Evaluation)
        grouped.setdefault(cell.place, []).append(outlook)
    rows: list[tuple[str, ...]] = [("trained with", "evaluated with", "in", "cells", "")]
    for place, same in grouped.items():
        paths = names.short(str(place.row)), names.short(place.column.preprocess)
        reasons = "; ".join(filter(None, dict.fromkeys(map(_reason, same))))
        rows.append((*paths, place.column.runtime, _counted(same), reasons))
    return rows


def _attribution_table(planned: Plan, expected: Outlooks) -> list[str]:
    """Format the stages and the number of mixtures of each attribution; empty if there is none."""
    from alignkit.plan.planned_attribution import PlannedAttribution

    _, images = planned.experiment.data.counts()
    rows: list[tuple[str, ...]] = [("attribution", "state", "mixtures", "images", "swapped", "")]
    for outlook in expected.attributions:
        work = outlook.work
        assert isinstance(work, PlannedAttribution)
        stages = ", ".join(work.factors) or "no stage differs"
        scope = work.scope
        drawn = f"{scope.images or images}" + ("" if scope.seconds is None else " at most")
        counts = f"{work.mixture_count}", drawn
        rows.append((work.label, outlook.state, *counts, stages, _reason(outlook)))
    return [columns(rows, indent="  "), ""] if len(rows) > 1 else []


def _advice(planned: Plan) -> list[str]:
    """Describe the work ``advise`` adds; its path is not known before the run."""
    advise = planned.experiment.advise
    if advise is None:
        return []
    paths = ", ".join(advise.served_by or [each.name for each in planned.experiment.paths[1:]])
    trains = " trainings and" if advise.change == "training" else ""
    return [f"advice     a search for {paths}; each advised path adds{trains} cells"]


def _counted(outlooks: Sequence[Outlook]) -> str:
    counts = Counter(outlook.state for outlook in outlooks)
    return ", ".join(f"{number} {state}" for state, number in counts.items())


def _as_json(planned: Plan, expected: Outlooks, gate: list[str]) -> dict[str, Any]:
    from alignkit.plan.outlooks import memory

    return {
        "name": planned.experiment.name,
        "file": str(planned.experiment.file),
        "key": planned.key,
        "quick": [*planned.experiment.quick],
        "data": planned.fingerprint,
        "models": _given(planned),
        "reads": _read(planned),
        "prepared": [_outlook_json(each) for each in expected.prepared],
        "trainings": [_outlook_json(each) for each in expected.trainings],
        "cells": [_outlook_json(each) for each in expected.cells],
        "emulated": _emulations(expected),
        "attributions": [_outlook_json(each) for each in expected.attributions],
        "comparisons": [_outlook_json(each) for each in expected.comparisons],
        "gate": gate,
        "memory": asdict(memory(planned)),
        "surrogates": _surrogates(planned),
        "simulations": _simulations(planned),
    }


def _outlook_json(outlook: Outlook) -> dict[str, Any]:
    from alignkit.plan.planned_attribution import PlannedAttribution

    work = outlook.work
    facts = {"label": work.label, "key": work.key, "state": outlook.state, "reason": outlook.reason}
    if isinstance(work, PlannedAttribution):
        scope = asdict(work.scope)
        return {**facts, "factors": [*work.factors], "mixtures": work.mixture_count, **scope}
    return facts


def _identities(needed: Memory) -> list[str]:
    """Say how large the classifier of the training identities is, if there is one."""
    if (found := needed.identities) is None:
        return []
    of = "" if found.shards == 1 else f" on each of {found.shards} processes"
    size = f"{_megabytes(found.weights)}{of}, {_megabytes(found.training)}"
    line = f"classifier {found.count:,} identities of {found.embedding}: {size}"
    return [f"{line} with gradient and moments"]


def _memory(needed: Memory) -> str:
    parts = (
        f"at most {_megabytes(needed.workers)} in workers, {_megabytes(needed.batch)} per batch, "
        f"{_megabytes(needed.caches)} of prepared pixels (files, mapped)"
    )
    if needed.available is None:
        return f"{parts}; this system does not report the available memory"
    memory = f"{parts}; {_megabytes(needed.available)} available"
    return memory if needed.fits else f"{memory}: every epoch reads the pixels from disk again"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
