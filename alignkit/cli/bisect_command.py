"""`alignkit bisect`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from alignkit.cli.arguments import (
    Json,
    JsonOut,
    Overrides,
    ProgressOption,
    Quiet,
    Reports,
    display,
    json_paths,
)
from alignkit.errors import ConfigError
from alignkit.extras import require_libraries
from alignkit.progress import advancing


def bisect(
    file: Annotated[
        Path | None, typer.Argument(help="Experiment file; bisect one of its cells.")
    ] = None,
    cell: Annotated[
        str,
        typer.Option(
            metavar="TRAINED/EVALUATED/BACKEND/PRECISION",
            help="Cell of the experiment; by default the first in another runtime.",
        ),
    ] = "",
    model: Annotated[
        Path | None, typer.Option(metavar="FILE.onnx", help="Model to use without FILE.")
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.onnx",
            help="Compare --model with this graph, which has the same tensor names.",
        ),
    ] = None,
    images: Annotated[
        list[Path], typer.Option(metavar="DIR", help="Image folder or file; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    preprocess: Annotated[
        str, typer.Option(metavar="P", help="Preset or FILE.yaml:PATH for --images.")
    ] = "opencv-train",
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Side of the input in pixels, if the graph's is dynamic."),
    ] = None,
    reference: Annotated[
        str,
        typer.Option(
            metavar="RUNTIME",
            help="E.g. 'onnxruntime optimisation=disabled fp32'; by default the reference of the "
            "cell's row, or 'onnxruntime fp32' for --model.",
        ),
    ] = "",
    candidate: Annotated[
        str,
        typer.Option(
            metavar="RUNTIME",
            help="For --model; by default 'onnxruntime fp16', with --against 'onnxruntime fp32'.",
        ),
    ] = "",
    count: Annotated[int, typer.Option(min=1, help="Number of images.")] = 8,
    tolerance: Annotated[
        float,
        typer.Option(min=0, help="Limit for max |Δ| as a fraction of the layer's largest value."),
    ] = 1e-3,
    overrides: Overrides = [],  # noqa: B006
    reports: Reports = Path("reports"),
    as_json: Json = False,
    out: JsonOut = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Find the first layer at which two runtimes of a model, or two graphs, diverge.

    Exit codes: 0 compared, whatever the result · 2 usage · 4 a runtime is missing · 5 nothing was
    compared.
    """
    from alignkit.experiment import load_experiment
    from alignkit.stored_file import write_output
    from alignkit.studies.bisect import as_text
    from alignkit.studies.bisect import bisect as compare
    from alignkit.studies.bisect.bisect_inputs import (
        inputs_from_cell,
        inputs_from_files,
        runtime_named,
    )
    from alignkit.workspace import Context, Workspace

    files = json_paths(out)
    shown = display(progress, quiet=quiet)
    if (file is None) == (model is None):
        raise ConfigError("give an experiment file, or --model FILE.onnx with --images DIR")
    require_libraries("onnx", "onnxruntime")
    if file is not None:
        if against or candidate or images:
            raise ConfigError(
                "--against, --candidate and --images need --model, not an experiment file"
            )
        sides = inputs_from_cell(
            load_experiment(file, overrides),
            cell,
            reference=runtime_named(reference) if reference else None,
            count=count,
            context=Context(Workspace(reports), shown),
        )
    else:
        assert model is not None
        _check_files(model, against, images)
        # two graphs are compared in one runtime unless --candidate is given
        other = "onnxruntime fp32" if against else "onnxruntime fp16"
        sides = inputs_from_files(
            model,
            against,
            images,
            preprocess,
            reference=runtime_named(reference or "onnxruntime fp32"),
            candidate=runtime_named(candidate or other),
            count=count,
            size=size,
        )
    with shown.stage("bisect", len(sides.layers), sides.model) as stage:
        found = compare(
            sides.reference,
            sides.candidate,
            sides.layers,
            model=sides.model,
            images=sides.images,
            tolerance=tolerance,
            command=shlex.join(["alignkit", *sys.argv[1:]]),
            progress=advancing(stage),
        )
    document = found.model_dump_json(indent=1, by_alias=True)  # keys as in format 1
    print(document if as_json else as_text(found))
    for path in files:
        write_output(path, document + "\n")


def _check_files(model: Path, against: Path | None, images: Sequence[Path]) -> None:
    if not images:
        raise ConfigError("--model needs --images DIR: layers are compared on real images")
    for each in filter(None, (model, against)):
        if not each.is_file():
            raise ConfigError(f"{each} is not a file; give an exported model, FILE.onnx")
