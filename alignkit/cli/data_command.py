"""`alignkit data`: `stats` and `split`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from alignkit.cli.arguments import Json, Overrides, ProgressOption, Quiet, display
from alignkit.text import columns

app = typer.Typer(name="data", rich_markup_mode=None, no_args_is_help=True)
_SHOWN = 3
"""Maximum number of images listed that did not decode as ok; the JSON lists all of them."""


@app.callback()
def data() -> None:
    """Describe a data set (`stats`), or divide it (`split`)."""


@app.command()
def stats(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="Experiment file, to describe its preprocessed data; or a folder, to describe its "
            "decoded images.",
        ),
    ],
    overrides: Overrides = [],  # noqa: B006 - typer copies it
    preprocess: Annotated[
        str,
        typer.Option(metavar="NAME", help="Preprocessing path of the file; by default the first."),
    ] = "",
    decoder: Annotated[
        str, typer.Option(metavar="NAME", help="Decoder for the images of a folder.")
    ] = "opencv",
    as_json: Json = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Print images, formats, classes, sizes, copies, faults, and mean and deviation."""
    from alignkit.studies.data import described

    # progress goes to stderr, so that --json stays readable by programs
    shown = display(progress, quiet=quiet)
    found = described(source, overrides, preprocess=preprocess, decoder=decoder, progress=shown)
    print(json.dumps(found, indent=1) if as_json else _as_text(found))


@app.command()
def split(
    root: Annotated[Path, typer.Argument(metavar="DIR", help="Folder with one folder a class.")],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Folder to write; must not exist.")],
    share: Annotated[float, typer.Option("--eval", help="Share of every class for eval.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    as_json: Json = False,
) -> None:
    """Copy class folders into NEW/train and NEW/eval; DIR is unchanged."""
    from alignkit.datasets.folder import Folder
    from alignkit.studies.data import write_division

    made = write_division(root, new, share=share, seed=seed)
    rows = [(each, f"{n}", f"{made['eval'][each]}") for each, n in made["train"].items()]
    notes = [*Folder(root, eval_share=share, seed=seed).notes()]
    if as_json:
        print(json.dumps({"folder": str(new), **made, "notes": notes}, indent=1))
        return
    print("\n".join([columns([("class", "train", "eval"), *rows]), *notes]))


def _as_text(found: dict[str, Any]) -> str:
    facts = [_facts(**each) for each in found["sets"]]
    if found["normalise"]:
        facts.append({"": f"{found['preprocess']} normalises with", **_moments(found["normalise"])})
    rows = [(name, *(each.get(name, "") for each in facts)) for name in facts[0]]
    lines = []
    for each in found["sets"]:
        remarked = each["remarked"]
        lines += ["{outcome}: {id}: {reason}".format(**one) for one in remarked[:_SHOWN]]
        if len(remarked) > _SHOWN:
            lines.append(f"and {len(remarked) - _SHOWN} more; use --json to list all")
    return "\n".join([f"{found['source']}: {found['how']}", columns(rows), *lines, *found["notes"]])


def _facts(**each: Any) -> dict[str, str]:
    counts = each["classes"].values()
    classes = {"least": min(counts, default=0), "greatest": max(counts, default=0)}
    return {
        "": each["name"],
        "images": f"{each['images']}, {each['bytes'] / 1e6:.1f} MB",
        "measured": f"{each['measured']}",
        "formats": ", ".join(f"{count} {name}" for name, count in each["formats"].items()),
        "classes": f"{len(counts)} of {_ends(**classes)}" if counts else "no labels",
        "width": _ends(**each["width"]),
        "height": _ends(**each["height"]),
        "sizes": f"{each['sizes']}",
        **_moments(each["whole_set"]),
    }


def _ends(least: int, greatest: int, median: int | None = None) -> str:
    middle = "" if median is None else f", median {median}"
    return f"{least}" if least == greatest else f"{least}..{greatest}{middle}"


def _moments(channels: dict[str, list[float]]) -> dict[str, str]:
    return {part: " ".join(f"{one:.4f}" for one in each) for part, each in channels.items()}
