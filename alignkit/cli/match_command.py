"""`alignkit match`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import JsonOut, Quiet, json_paths
from alignkit.errors import ConfigError, MissingDependency
from alignkit.progress import Progress, ProgressMode, advancing, progress_for

if TYPE_CHECKING:
    from rich.table import Table

    from alignkit.samples import Samples
    from alignkit.search.configurations import Configuration
    from alignkit.search.match_result import Match
    from alignkit.search.tap_report import TapReport
    from alignkit.search.target import Target

PluginNames = Annotated[
    list[str], typer.Option(metavar="NAME", help="Only this plugin; repeatable.")
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
            "the first stage that parts from --preprocess, and why.",
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
    stages: Annotated[
        list[str],
        typer.Option(
            "--stage",
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
        int | None, typer.Option(min=1, help="Side of the model's input for a preset.")
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
        Path | None,
        typer.Option(
            metavar="FILE.onnx", help="Also show the share of this model's predictions that change."
        ),
    ] = None,
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
    record: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Store an endpoint's tensors here for later searches."),
    ] = None,
    probe: Annotated[int, typer.Option(min=2, help="Number of images to search on.")] = 500,
    seed: Annotated[
        int, typer.Option(help="Seed that selects the images for the final check.")
    ] = 0,
    out: JsonOut = [],  # noqa: B006
    progress: Annotated[ProgressMode, typer.Option(help="auto, plain or none.")] = "auto",
    quiet: Quiet = False,
) -> None:
    """Find the configurations on this machine whose pixels are nearest to a serving stack's.

    With --taps, find the first stage of recorded serving code that parts from a reference.
    """
    if tap_source:
        _print_recorder(tap_source)
        return
    _require(target, images, taps, preprocess, stages)
    from alignkit.datasets.unlabelled_images import Images
    from alignkit.search import match as find_nearest
    from alignkit.search.configurations import configurations, serving_options
    from alignkit.search.match_text import as_json
    from alignkit.search.recorded_target import recorded_target
    from alignkit.search.tap_text import as_json as taps_as_json
    from alignkit.search.target import preprocess_of, preprocess_target
    from alignkit.stored_file import write_output

    files = json_paths(out)
    if model is not None and not model.is_file():
        raise ConfigError(f"{model} is not a file; give an exported model, FILE.onnx")
    samples = Images(tuple(images)).evaluation()
    display = progress_for("none" if quiet else progress)
    if taps is not None:
        named = dict(map(_named_stage, stages))
        asked = preprocess, size, {"decoders": decoders, "resizers": resizers}
        judged = _judge_taps(taps, samples, named, *asked, display)
        _show_taps(judged)
        for file in files:
            write_output(file, json.dumps(taps_as_json(judged), indent=1))
        return
    assert target is not None
    with ExitStack() as held:
        if "://" in target:
            # tensors of an endpoint that nobody wants to keep are searched in a folder as well
            folder = record or Path(held.enter_context(TemporaryDirectory()))
            of_endpoint = (tensor, header_env, folder)
            stack, rows = _endpoint(target, of_endpoint, samples, decoders, resizers, display)
        elif Path(target).is_dir():
            stack, rows = recorded_target(
                Path(target), samples, decoders=decoders, resizers=resizers
            )
        else:
            stack, rows = preprocess_target(preprocess_of(target, size)), range(len(samples))
        names = serving_options() if serving else {}
        chosen = list(names) or list(
            configurations(stack.geometry, decoders=decoders, resizers=resizers)
        )
        session = None
        if model is not None:  # before the search, which a model that does not fit would waste
            from alignkit.search.match_drift import onnx_session, with_churn

            session = held.enter_context(onnx_session(model, stack.geometry.size))
        with display.stage("match", len(rows), f"{len(chosen)} configurations") as stage:
            found = find_nearest(
                stack, samples, rows, chosen, probe=probe, seed=seed, progress=advancing(stage)
            )
        if session is not None:
            found = with_churn(found, stack, samples, rows, session)
    _show(found, names)
    for file in files:
        write_output(file, json.dumps(as_json(found, names), indent=1))


def _print_recorder(language: str) -> None:
    from importlib import resources

    file = {"python": "tap_recorder.py", "cpp": "tap_recorder.h"}[language]
    print(resources.files("alignkit").joinpath(file).read_text("utf-8"), end="")


def _require(
    target: str | None,
    images: Sequence[Path],
    taps: Path | None,
    preprocess: str,
    stages: Sequence[str],
) -> None:
    if not images:
        raise ConfigError("give the images that the stack prepared: --images DIR")
    if (target is None) == (taps is None):
        raise ConfigError("give --target T, or --taps DIR for several recorded stages")
    if taps is None and (preprocess or stages):
        raise ConfigError("--preprocess and --stage belong to --taps DIR; a stack is --target T")
    if taps is not None and not taps.is_dir():
        raise ConfigError(f"--taps {taps} is no folder; record with ALIGNKIT_TAPS={taps}")


def _named_stage(text: str) -> tuple[str, str]:
    name, sign, stage = text.rpartition("=")
    if not sign or not name:
        raise ConfigError(f"--stage {text}: give NAME=STAGE")
    return name, stage


def _judge_taps(
    folder: Path,
    samples: Samples,
    named: Mapping[str, str],
    preprocess: str,
    size: int | None,
    names: Mapping[str, Sequence[str]],
    display: Progress,
) -> TapReport:
    from alignkit.search.stored_taps import judged_stages, stored_taps
    from alignkit.search.tap_blame import blame, nearest_to_the_last
    from alignkit.search.target import preprocess_of

    taps = stored_taps(folder, samples, named)
    judged = judged_stages(taps)
    if preprocess:
        reference = preprocess_of(preprocess, size)
        if reason := reference.missing():
            raise MissingDependency(f"--preprocess {preprocess}: {reason}")
    else:
        with display.stage("match", len(taps.rows), judged[-1].name) as step:
            reference = nearest_to_the_last(taps, samples, advance=advancing(step), **names)
    with display.stage("judge", len(judged), f"{len(taps.rows)} images of each tap") as step:
        return blame(
            taps, samples, reference, given=bool(preprocess), advance=advancing(step), **names
        )


def _show_taps(report: TapReport) -> None:
    from alignkit.search.tap_text import HEADINGS, heading, rows, verdict
    from alignkit.text import columns

    print(heading(report))
    print(columns([HEADINGS, *rows(report)]))
    print(verdict(report))


def _endpoint(
    address: str,
    asked: tuple[str, str, Path],
    samples: Samples,
    decoders: Sequence[str],
    resizers: Sequence[str],
    display: Progress,
) -> tuple[Target, Sequence[int]]:
    from alignkit.search.endpoint_target import endpoint_of, endpoint_target

    tensor, header_env, folder = asked
    endpoint = endpoint_of(address, tensor, header_env)
    if folder.is_dir() and any(folder.iterdir()):
        raise ConfigError(
            f"--record {folder} is not empty; to search its tensors, pass it as --target"
        )
    with display.stage("ask", len(samples), f"{endpoint.at.url} for tensors") as stage:
        return endpoint_target(
            endpoint, samples, folder, decoders=decoders, resizers=resizers,
            progress=advancing(stage),
        )  # fmt: skip


def _show(found: Match, names: Mapping[Configuration, str]) -> None:
    from rich.console import Console

    from alignkit.search.match_text import fewer_changes, headline, paste, surrogates

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # wide enough that lines of a log are not folded
    for fact in found.facts:
        print(fact)
    print(headline(found, names))
    if fewer := fewer_changes(found, names):
        print(fewer)
    console.print(_table(found, names))
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


def _table(found: Match, names: Mapping[Configuration, str]) -> Table:
    from rich.table import Table

    from alignkit.search.match_text import alternatives, label

    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("configuration", overflow="fold", ratio=1)
    with_churn = found.winner.churn is not None
    for heading in ("mean |Δ|", "max |Δ|", "identical", "unseen", *["churn"] * with_churn):
        table.add_column(heading, justify="right", no_wrap=True)
    for place, each in enumerate(found.ranking, 1):
        same = alternatives(each, names)
        first = each.configurations[0]
        churn = each.churn.value if each.churn else None
        table.add_row(
            f"{place}",
            names.get(first, label(first)) + (f"\n[dim]same pixels: {same}[/]" if same else ""),
            f"{each.mean_abs.value:.3f}",
            f"{each.max_abs:.1f}",
            f"{each.identical}/{found.images}",
            "" if each.unseen is None else f"{each.unseen:.3f}",
            *([] if churn is None else [f"{100 * churn:.2f} %"]),
        )
    return table
