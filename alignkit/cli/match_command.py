"""`alignkit match`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import (
    Json,
    ProgressOption,
    Quiet,
    display,
    listed,
)
from alignkit.errors import ConfigError

if TYPE_CHECKING:
    from alignkit.search.configurations import Configuration
    from alignkit.search.match_result import Match
    from alignkit.search.tap_report import TapReport

_SOURCES = {"python": "tap_recorder.py", "cpp": "tap_recorder.h"}


def print_recorder(language: str) -> None:
    """Print the file to copy beside serving code."""
    from importlib import resources

    print(resources.files("alignkit").joinpath(_SOURCES[language]).read_text("utf-8"), end="")


def named_stage(text: str) -> tuple[str, str]:
    """Read ``NAME=STAGE``."""
    name, sign, stage = text.rpartition("=")
    if not sign or not name:
        raise ConfigError(f"--stage {text}: give NAME=STAGE")
    return name, stage


def taps_text(report: TapReport) -> str:
    """Return what was recorded, a line for each stage, and the first that differs."""
    from alignkit.search.tap_text import HEADINGS, heading, rows, verdict
    from alignkit.text import columns

    return "\n".join([heading(report), columns([HEADINGS, *rows(report)]), verdict(report)])


PluginNames = Annotated[
    list[str], typer.Option(metavar="NAME", help="Only these plugins; repeatable, or with commas.")
]


def match(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="T",
            help="Serving stack: a preset, FILE.yaml[:PATH], a folder of recorded tensors (.npy, "
            ".npz), or a preprocessing model at a live endpoint, "
            "http://HOST:PORT/v2/models/NAME.",
        ),
    ] = None,
    images: Annotated[
        list[Path], typer.Option(metavar="DIR", help="Image folder or file; repeatable.")
    ] = [],  # noqa: B006 - typer copies it
    taps: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead of --target: arrays of several stages that alignkit.tap recorded; name "
            "the first stage that differs from --preprocess, and why.",
        ),
    ] = None,
    preprocess: Annotated[
        str,
        typer.Option(
            metavar="TRAINING",
            help="With --taps: the reference, as --target; by default the configuration nearest "
            "to the last tap.",
        ),
    ] = "",
    stage: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=STAGE",
            help="With --taps: the stage of a tap whose name does not say it, or none; repeatable.",
        ),
    ] = [],  # noqa: B006
    tap_source: Annotated[
        Literal["python", "cpp"] | None,
        typer.Option(
            help="Print the recorder, one file for your serving code: alignkit_tap.py or .h."
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Side of the model's input for a preset; by default 224."),
    ] = None,
    decoders: PluginNames = [],  # noqa: B006 - typer copies it
    resizers: PluginNames = [],  # noqa: B006
    serving: Annotated[
        bool,
        typer.Option(
            "--serving", help="Search serving options that reproduce T, the training preprocessing."
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also show the share of this model's predictions that change: FILE.onnx, or as "
            "for alignkit diff.",
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="Task of --model, as for alignkit diff; by default classification.",
        ),
    ] = "",
    tensor: Annotated[
        str, typer.Option(metavar="NAME", help="Endpoint output that is the preprocessed image.")
    ] = "",
    header_env: Annotated[
        str,
        typer.Option(
            metavar="VARIABLE",
            help="Environment variable with the endpoint's Authorization header.",
        ),
    ] = "",
    probe: Annotated[int, typer.Option(min=2, help="Number of images to search on.")] = 500,
    seed: Annotated[
        int, typer.Option(help="Seed that selects the images for the final check.")
    ] = 0,
    as_json: Json = False,
    out: Annotated[
        list[str],
        typer.Option(
            metavar="KIND=PATH",
            help="Also write json=FILE, the result, or tensors=DIR, an endpoint's tensors for "
            "later searches; repeatable.",
        ),
    ] = [],  # noqa: B006
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Find the configurations on this machine whose pixels are nearest to a serving stack's.

    With --taps, find the first stage of recorded serving code that differs from a reference.
    """
    if tap_source:
        print_recorder(tap_source)
        return
    of_target = bool(serving or model or task or tensor or header_env)
    _require(target, images, taps, of_taps=bool(preprocess or stage), of_target=of_target)
    from alignkit.datasets.unlabelled_images import Images
    from alignkit.search.match_request import MatchRequest, answer
    from alignkit.search.match_text import as_json as document_of
    from alignkit.stored_file import output_paths, write_output

    files = output_paths(out, ("json", "tensors"), folders=("tensors",), once=("tensors",))
    record = dict(files).get("tensors")
    if record and (target is None or "://" not in target):
        raise ConfigError("--out tensors=DIR stores the tensors of a live endpoint, http://…")
    samples = Images(tuple(images)).evaluation()
    shown = display(progress, quiet=quiet)
    if target is None:
        assert taps is not None
        from alignkit.search.tap_request import TapRequest, judge_taps
        from alignkit.search.tap_text import as_json as taps_document

        asked = TapRequest(
            taps, samples, preprocess or None, size, dict(map(named_stage, stage)),
            listed(decoders), listed(resizers),
        )  # fmt: skip
        report = judge_taps(asked, shown)
        document = json.dumps(taps_document(report), indent=1)
        print(document if as_json else taps_text(report))
    else:
        request = MatchRequest(
            target=target,
            samples=samples,
            size=size,
            decoders=listed(decoders),
            resizers=listed(resizers),
            serving=serving,
            model=model,
            task=task,
            tensor=tensor,
            header_env=header_env,
            record=record,
            probe=probe,
            seed=seed,
        )
        found = answer(request, shown)
        document = json.dumps(document_of(found.match, found.names), indent=1)
        if as_json:
            print(document)
        else:
            _show(found.match, found.names)
    for kind, file in files:
        if kind == "json":
            write_output(file, document)


def _require(
    target: str | None, images: Sequence[Path], taps: Path | None, *, of_taps: bool, of_target: bool
) -> None:
    """Refuse a question without images, and options of another one."""
    if not images:
        raise ConfigError("give the images that the stack prepared: --images DIR")
    if (target is None) == (taps is None):
        raise ConfigError("give --target T, or --taps DIR for several recorded stages")
    if taps is None and of_taps:
        raise ConfigError("--preprocess and --stage belong to --taps DIR; a stack is --target T")
    if taps is not None and of_target:
        raise ConfigError(
            "--serving, --model, --task, --tensor and --header-env belong to --target"
        )


def _show(found: Match, names: Mapping[Configuration, str]) -> None:
    from alignkit.report.notebook import match_columns
    from alignkit.report.table import Table
    from alignkit.search.match_text import (
        fewer_changes,
        headline,
        paste,
        surrogates,
    )

    for fact in found.facts:
        print(fact)
    print(headline(found, names))
    if fewer := fewer_changes(found, names):
        print(fewer)
    print(*Table.made("", match_columns(found, names), found.ranking).text(), sep="\n")
    if not names:  # a serving option's name says it
        for decoder, evidence in surrogates(found, names).items():
            print(f"{decoder} is a {evidence}")
    steps = ", ".join(f"{tried} on {images}" for images, tried in found.rungs)
    print(f"{found.tried} configurations: {steps} images; distances in grey levels 0..255")
    if found.left_out:
        first_out, reason = found.left_out[0]
        print(f"{len(found.left_out)} images skipped; the first, {first_out}: {reason}")
    if not names and (block := paste(found, "matched")):
        print(f"\npreprocess:\n{indent(block, '  ')}")
