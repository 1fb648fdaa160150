"""`alignkit match`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import Quiet
from alignkit.errors import ConfigError
from alignkit.progress import Progress, ProgressMode, advancing, progress_for

if TYPE_CHECKING:
    from rich.table import Table

    from alignkit.match import Match
    from alignkit.match.configurations import Configuration
    from alignkit.match.target import Target
    from alignkit.samples import Samples

PluginNames = Annotated[
    list[str],
    typer.Option(metavar="NAME", help="Only this plugin; repeatable.", show_default=False),
]


def match(
    target: Annotated[
        str,
        typer.Option(
            metavar="T",
            help="Serving stack: a preset, FILE.yaml[:PATH], a folder of recorded tensors (.npy, "
            ".npz), or a preprocessing model at a live endpoint, "
            "http://HOST:PORT/v2/models/NAME.",
        ),
    ],
    images: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Image folder or file; repeatable."),
    ],
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
        str,
        typer.Option(metavar="NAME", help="Endpoint output that is the preprocessed image."),
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
    out: Annotated[
        list[str],
        typer.Option(metavar="json=PATH", help="Also write the result.", show_default=False),
    ] = [],  # noqa: B006
    progress: Annotated[ProgressMode, typer.Option(help="auto, plain or none.")] = "auto",
    quiet: Quiet = False,
) -> None:
    """Find the configurations on this machine whose pixels are nearest to a serving stack's."""
    from alignkit.datasets.unlabelled_images import Images

    files = [_json_path(each) for each in out]
    if model is not None and not model.is_file():
        raise ConfigError(f"{model} is not a file; give an exported model, FILE.onnx")
    samples = Images(tuple(images)).evaluation()
    display = progress_for("none" if quiet else progress)
    with ExitStack() as held:
        if "://" in target:
            folder = record or Path(held.enter_context(TemporaryDirectory()))
            asked = (tensor, header_env, folder)
            stack, rows = _endpoint(target, asked, samples, decoders, resizers, display)
        else:
            stack, rows = _target(target, samples, size, decoders, resizers)
        names = _names(serving=serving)
        chosen = list(names) or _configurations(stack, decoders, resizers)
        found = _searched(stack, samples, rows, chosen, display, probe=probe, seed=seed)
        if model is not None:
            from alignkit.match.drift import onnx_session, with_churn

            with onnx_session(model, stack.geometry.size) as session:
                found = with_churn(found, stack, samples, rows, session)
    _show(found, names)
    for file in files:
        from alignkit.match.text import as_json
        from alignkit.workspace import write_atomically

        write_atomically(file, json.dumps(as_json(found, names), indent=1))


def _json_path(given: str) -> Path:
    kind, _, path = given.partition("=")
    if kind != "json" or not path:
        raise ConfigError(f"--out {given}: expected json=PATH")
    return Path(path)


def _target(
    given: str,
    samples: Samples,
    size: int | None,
    decoders: Sequence[str],
    resizers: Sequence[str],
) -> tuple[Target, Sequence[int]]:
    from alignkit.match.recorded_target import recorded_target
    from alignkit.match.target import preprocess_of, preprocess_target

    if Path(given).is_dir():
        return recorded_target(Path(given), samples, decoders=decoders, resizers=resizers)
    return preprocess_target(preprocess_of(given, size)), range(len(samples))


def _endpoint(
    address: str,
    asked: tuple[str, str, Path],
    samples: Samples,
    decoders: Sequence[str],
    resizers: Sequence[str],
    display: Progress,
) -> tuple[Target, Sequence[int]]:
    from alignkit.match.endpoint import endpoint_of, endpoint_target

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


def _names(*, serving: bool) -> Mapping[Configuration, str]:
    from alignkit.match.serving import serving_options

    return serving_options() if serving else {}


def _configurations(
    target: Target, decoders: Sequence[str], resizers: Sequence[str]
) -> list[Configuration]:
    from alignkit.match.configurations import configurations

    return list(configurations(target.geometry, decoders=decoders, resizers=resizers))


def _searched(
    target: Target,
    samples: Samples,
    rows: Sequence[int],
    chosen: Sequence[Configuration],
    display: Progress,
    *,
    probe: int,
    seed: int,
) -> Match:
    from alignkit.match import match as search

    with display.stage("match", len(rows), f"{len(chosen)} configurations") as stage:
        return search(
            target, samples, rows, chosen, probe=probe, seed=seed, progress=advancing(stage)
        )


def _show(found: Match, names: Mapping[Configuration, str]) -> None:
    from rich.console import Console

    from alignkit.match.text import fewer_changes, headline, yaml_block

    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # wide enough that lines of a log are not folded
    for fact in found.facts:
        print(fact)
    print(headline(found, names))
    if fewer := fewer_changes(found, names):
        print(fewer)
    console.print(_table(found, names))
    steps = ", ".join(f"{tried} on {images}" for images, tried in found.rungs)
    print(f"{found.tried} configurations: {steps} images; distances in grey levels 0..255")
    if found.left_out:
        first_out, reason = found.left_out[0]
        print(f"{len(found.left_out)} images skipped; the first, {first_out}: {reason}")
    if not names:
        print(f"\npreprocess:\n{_indented(yaml_block(found.preprocesses[0], 'matched'))}")


def _table(found: Match, names: Mapping[Configuration, str]) -> Table:
    from rich.table import Table

    from alignkit.match.text import alternatives, label

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


def _indented(lines: str) -> str:
    return "".join(f"  {line}\n" for line in lines.splitlines())
