"""`alignkit baseline record|show|log|review|approve`."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import (
    Baselines,
    ClusterAddress,
    EngineNames,
    EngineWorkers,
    Json,
    Overrides,
    ProgressOption,
    Quiet,
    Reports,
    display,
    listed,
)
from alignkit.errors import ConfigError
from alignkit.plugins import did_you_mean
from alignkit.preprocess import STAGES, StageName
from alignkit.text import columns
from alignkit.workspace import Context, Workspace

app = typer.Typer(
    name="baseline",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Record, show, review and approve the baseline of a gate.",
)
File = Annotated[Path, typer.Argument(help="YAML file of the gate or experiment.")]
Reason = Annotated[
    str, typer.Option("--reason", help="Why the change is correct; stored with the approval.")
]


@app.command()
def record(
    file: File,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    golden: Annotated[
        list[str],
        typer.Option(
            "--golden",
            metavar="STAGE",
            help="Also store the arrays of this stage, so that rules can measure how far changed "
            "pixels are; repeatable, or with commas.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    reason: Reason = "recorded",
    engine: EngineNames = "local",
    address: ClusterAddress = "",
    workers: EngineWorkers = None,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    as_json: Json = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Add lines for new images and stages; changed lines become pending. Refused in CI.

    A line is a hash and statistics of one image at one stage. Commit alignkit.baseline/ to version
    control; with --golden STAGE the stage's pixels are in it too.
    """
    from alignkit.experiment import load_experiment
    from alignkit.gate.baseline_recording import record_baseline
    from alignkit.lots.engines import EngineOption
    from alignkit.text.names import facts_of_paths, surrogate_lines

    chosen = EngineOption(engine, address, workers)
    experiment = load_experiment(file, overrides)
    with chosen.when_used() as opened:
        done = record_baseline(
            experiment,
            Context(Workspace(reports), display(progress, quiet=quiet), engine=opened),
            baselines=baselines,
            golden=[_stage(name) for name in listed(golden)],
            reason=reason,
        )
    if as_json:
        print(json.dumps({**asdict(done), "file": str(done.file)}, indent=1))
        return
    print(f"{done.file}: {done.added} lines added, {done.known} known")
    for label in surrogate_lines(facts_of_paths(experiment.paths)):
        print(label)
    if done.pending:
        print(f"{done.pending} lines changed and are pending: alignkit baseline review {file}")
    if done.added:
        print(f"commit {done.file.parents[1]}/ to version control")


def _stage(name: str) -> StageName:
    if name not in STAGES:
        raise ConfigError(f"--golden {name}: unknown stage{did_you_mean(name, STAGES)}")
    return name


@app.command()
def show(
    file: File,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    baselines: Baselines = None,
    as_json: Json = False,
) -> None:
    """Show the baselines of a file: environments, versions, lines."""
    from alignkit.baseline import baseline_folder, read_baseline
    from alignkit.baseline.pending import recorded_surrogates
    from alignkit.experiment import load_experiment
    from alignkit.text.names import Names

    experiment = load_experiment(file, overrides)
    folder = baseline_folder(experiment, baselines)
    found = [read_baseline(path) for path in sorted(folder.glob("*.jsonl"))]
    labels = [recorded_surrogates(each.head, experiment.paths) for each in found]
    if as_json:
        heads = [
            each.head.model_copy(update={"surrogates": surrogates})
            for each, surrogates in zip(found, labels, strict=True)
        ]
        print(json.dumps([head.model_dump() for head in heads], indent=1))
        return
    rows = [("baseline", "path", "decode", "resize", "images", "lines")]
    for each, surrogates in zip(found, labels, strict=True):
        names = Names.of_notes(surrogates)
        for path, versions in each.head.versions.items():
            own = [line for line in each.lines.values() if line.path == path]
            images = len({line.image for line in own})
            libraries = versions.get("decode", ""), versions.get("resize", "")
            rows.append(
                (each.fingerprint, names.short(path), *libraries, str(images), str(len(own)))
            )
    print(columns(rows) if found else f"no baseline in {folder}")
    # baselines of several environments have each its own labels
    for line in dict.fromkeys(f"{path}: {note}" for each in labels for path, note in each.items()):
        print(line)


@app.command()
def log(
    file: File,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    baselines: Baselines = None,
    as_json: Json = False,
) -> None:
    """Show every approval: date, author, commit, number of lines, reason; and lines without one."""
    from alignkit.baseline import baseline_folder, read_baseline
    from alignkit.baseline.approval import read_approvals
    from alignkit.baseline.unapproved import unapproved
    from alignkit.experiment import load_experiment

    folder = baseline_folder(load_experiment(file, overrides), baselines)
    approvals = read_approvals(folder)
    for path in sorted(folder.glob("*.jsonl")):
        if found := unapproved(approvals, baseline := read_baseline(path)):
            names = ", ".join(found[:3]) + ", …" * (len(found) > 3)
            message = f"{path}: no approval covers {len(found)} of {baseline.count} lines: {names}"
            print(message, file=sys.stderr)
    if as_json:
        print(json.dumps([each.model_dump(mode="json") for each in approvals], indent=1))
        return
    rows = [("when", "who", "commit", "lines", "library", "reason")]
    for each in approvals:
        # to the second, and as much of the commit as git shows
        when, commit = each.when[:19], each.commit[:12]
        rows.append((when, each.who, commit, f"{len(each.lines)}", each.upgrades, each.reason))
    print(columns(rows) if approvals else "no approvals yet")


@app.command()
def approve(
    file: File,
    reason: Reason,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    path: Annotated[str | None, typer.Option(help="Only this path.")] = None,
    stage: Annotated[
        StageName | None, typer.Option(help="Only changes that begin at this stage.")
    ] = None,
    image: Annotated[
        str | None, typer.Option(help="Only images that match this pattern, e.g. 'cats/*'.")
    ] = None,
    models: Annotated[
        bool, typer.Option("--models", help="Only predictions of models, no pixels.")
    ] = False,
    pending: Annotated[
        Path | None,
        typer.Option("--from", help="Pending lines from another machine (--out pending=PATH)."),
    ] = None,
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    as_json: Json = False,
) -> None:
    """Approve pending changes without prompts. Refused in CI."""
    from alignkit.baseline.pending import approve_pending
    from alignkit.experiment import load_experiment

    approval = approve_pending(
        load_experiment(file, overrides),
        Workspace(reports),
        baselines=baselines,
        source=pending,
        path=path,
        stage=stage,
        image=image,
        models=models,
        reason=reason,
    )
    if as_json:
        print(approval.model_dump_json(indent=1))
        return
    entries = len(approval.metrics)
    of_models = f" and {entries} entr{'y' if entries == 1 else 'ies'} of models" if entries else ""
    where = f"of {approval.fingerprint}: {approval.reason}"
    print(f"approved {len(approval.lines)} lines{of_models} {where}")


@app.command()
def review(
    file: File,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    baselines: Baselines = None,
    reports: Reports = Path("reports"),
    as_json: Json = False,
) -> None:
    """List the pending changes of a gate with the commands that approve them. Refused in CI."""
    from alignkit.baseline.pending import (
        Undecided,
        commands,
        headline,
        model_lines,
        recorded_surrogates,
        review_document,
    )
    from alignkit.experiment import load_experiment
    from alignkit.text import printable
    from alignkit.text.names import Names

    experiment = load_experiment(file, overrides)
    waiting = Undecided.of(experiment, Workspace(reports), baselines)
    surrogates = recorded_surrogates(waiting.pending.head, experiment.paths)
    names = Names.of_notes(surrogates)
    task = experiment.task.facts()
    if as_json:
        print(json.dumps(review_document(waiting, file, surrogates), indent=1))
        return
    for group in waiting.groups:
        # one line: the next one would be run
        text = f"# {headline(group, names)}; {waiting.cause(group)}"
        print(printable(" ".join(text.split())))
    if waiting.groups or waiting.metrics():
        for path, note in surrogates.items():
            print(printable(f"# {path}: {note}"))
    models = model_lines(waiting.metrics(), file, names, task)
    print("\n".join([*commands(waiting.groups, file), *models]))
