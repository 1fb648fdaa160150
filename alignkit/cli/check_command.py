"""`alignkit check`: experiment files, without a run, and the JSON Schema for them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

import typer

from alignkit.cli.arguments import Json, Overrides, print_error
from alignkit.errors import AlignkitError, ConfigError, worst
from alignkit.text import printable


def check(
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILES…", help="Experiment files in YAML.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    schema: Annotated[
        Literal["experiment", "results"] | None,
        typer.Option(
            "--schema",
            help="Instead, print the JSON Schema of experiment files or of results.json.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Report every mistake in experiment files; run nothing, and read no image but the first mask.

    Models must fit the classes of the data and the paths' size, as far as both are on this machine.

    For completion and hints in an editor, save the schema (alignkit check --schema experiment >
    alignkit.schema.json) and start an experiment file with this line: # yaml-language-server:
    $schema=alignkit.schema.json
    """
    if schema is not None:
        if files:
            raise ConfigError("--schema prints a JSON Schema and checks no file; use one of them")
        print(json.dumps(_schema(schema), indent=2))
        return
    if not files:
        raise ConfigError("give experiment files: alignkit check FILE…")
    codes, documents = [], []
    for file in files:
        try:
            found = _checked(file, overrides)
        except AlignkitError as error:
            codes.append(error.exit_code if as_json else print_error(error, file))
            documents.append({"file": str(file), "right": False, "mistakes": _mistakes(error)})
            continue
        documents.append({"file": str(file), "right": True, "mistakes": [], **found._asdict()})
        if not as_json:
            _print_right(file, found)
    if as_json:
        print(json.dumps(documents, indent=1))
    raise typer.Exit(worst(codes))


class _Right(NamedTuple):
    """The result for a file without a mistake."""

    work: str
    """In words."""
    models: dict[str, str]
    """Given model → how its outputs are read."""
    skipped: dict[str, list[str]]
    """Given model → why it cannot run along paths whose images vary in size."""
    not_checked: list[str]
    """Files that are not on this machine."""
    warnings: list[str]
    """In words."""


def _print_right(file: Path, found: _Right) -> None:
    if absent := found.not_checked:
        missing = f"not here, and not checked: {', '.join(absent)}"
        print(printable(f"{file}: {found.work}; no mistake in what is here; {missing}"))
    else:
        print(printable(f"{file} is right: {found.work}"))
    for name, read in found.models.items():
        for line in (read, *found.skipped.get(name, ())):
            print(printable(f"  {name}: {line}"))
    for warning in found.warnings:
        print(printable(f"  warning: {warning}"))


def _checked(file: Path, overrides: Sequence[str]) -> _Right:
    """Check a file and the models that it names.

    Raise the first reason why it cannot run.
    """
    from alignkit.experiment import load_experiment
    from alignkit.plan import counted
    from alignkit.plan.required_models import (
        recognised,
        require_models,
        seen_identities,
        skipped_sizes,
        to_make,
        unseen,
    )

    experiment = load_experiment(file, overrides)
    require_models(experiment)
    return _Right(
        counted(experiment), {**to_make(experiment), **recognised(experiment)},
        skipped_sizes(experiment), unseen(experiment),
        [*seen_identities(experiment), *experiment.data.first_look()],
    )  # fmt: skip


def _mistakes(error: AlignkitError) -> list[dict[str, str | int]]:
    """Return the mistakes of a file, JSON-ready; line and column count from 1, as editors do."""
    from alignkit.experiment import Mistakes

    if not isinstance(error, Mistakes):
        return [{"message": str(error)}]
    return [
        {
            "where": each.place.where,
            **({"line": each.place.line + 1, "column": each.place.column + 1}
               if each.place.in_the_file else {}),
            "key": each.key,
            "message": each.message,
        }
        for each in error.problems
    ]  # fmt: skip


def _schema(kind: Literal["experiment", "results"]) -> object:
    if kind == "results":
        from alignkit.report.results import results_schema

        return results_schema()
    from alignkit.experiment.experiment import experiment_schema

    return experiment_schema()
