"""`alignkit data stats FILE|DIR` and `data split DIR NEW`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import Json, Overrides, ProgressOption, Quiet, display
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.studies.data import ChannelMoments, Described, Divided, SetDescription

app = typer.Typer(name="data", rich_markup_mode=None, no_args_is_help=True)
_SHOWN = 3
"""Maximum number of images listed that did not decode as ok; the JSON lists all of them."""


@app.callback()
def data() -> None:
    """Describe a data set (`stats`), or split it (`split`)."""


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
    """Print counts, classes, sizes, and mean and standard deviation, whole-set and per-image."""
    from alignkit.studies.data import described

    # progress goes to stderr, so that --json stays readable by programs
    shown = display(progress, quiet=quiet)
    found = described(source, overrides, preprocess=preprocess, decoder=decoder, progress=shown)
    print(json.dumps(asdict(found), indent=1) if as_json else _as_text(found))


@app.command()
def split(
    root: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder with one subfolder per class.")
    ],
    new: Annotated[Path, typer.Argument(metavar="NEW", help="Folder to write; must not exist.")],
    share: Annotated[
        float, typer.Option("--eval", help="Fraction of every class for eval.")
    ] = 0.25,
    seed: Annotated[
        int, typer.Option(help="Seed of the draw; the same files give the same split.")
    ] = 0,
    by: Annotated[
        Literal["copy", "hardlink", "symlink"], typer.Option(help="How each image is placed.")
    ] = "copy",
    as_json: Json = False,
) -> None:
    """Split images into train/ and eval/ in a new folder, class by class; DIR is unchanged."""
    from alignkit.studies.data import write_division

    made = write_division(root, new, share=share, seed=seed, by=by)
    if as_json:
        print(json.dumps({**asdict(made), "folder": str(made.folder)}, indent=1))
    else:
        print(_division(made))


def _as_text(found: Described) -> str:
    rows: list[tuple[str, ...]] = [
        ("", "images", "classes", "per class", "width", "height", "sizes", "MB")
    ]
    values, lines = [("", "mean", "std")], []
    for each in found.sets:
        rows.append(_counts(each))
        values.append((f"{each.name}, whole set: all pixels equally", *_written(each.whole_set)))
        values.append((f"{each.name}, per image, averaged", *_written(each.per_image)))
        if each.measured < each.images:
            lines.append(f"{each.name}: {each.measured} of {each.images} images were measured")
        lines += ["{outcome}: {id}: {reason}".format(**one) for one in each.remarked[:_SHOWN]]
        if len(each.remarked) > _SHOWN:
            lines.append(f"and {len(each.remarked) - _SHOWN} more; use --json to list all")
    if found.normalise is not None:
        values.append((f"{found.preprocess} normalises with", *_written(found.normalise)))
    head = f"{found.source}: {found.how}"
    return "\n".join([head, columns(rows), "", columns(values), *lines, *found.notes])


def _counts(each: SetDescription) -> tuple[str, ...]:
    numbers = each.classes.values()
    # one number where all classes have as many images
    ends = dict.fromkeys((min(numbers), max(numbers))) if numbers else ()
    spread = "..".join(map(str, ends)) or "not labelled"
    counts = f"{each.images}", f"{len(each.classes)}", spread
    sides = _side(**each.width), _side(**each.height), f"{each.sizes}"
    return each.name, *counts, *sides, f"{each.bytes / 1e6:.1f}"


def _side(least: int, median: int, greatest: int) -> str:
    return f"{least}" if least == greatest else f"{least}..{greatest}, median {median}"


def _written(channels: ChannelMoments) -> tuple[str, str]:
    mean, std = (" ".join(f"{each:.4f}" for each in part) for part in (channels.mean, channels.std))
    return mean, std


def _division(made: Divided) -> str:
    rows = [("class", "train", "eval")]
    rows += [(name, f"{count}", f"{made.eval[name]}") for name, count in made.train.items()]
    rows.append(("all", f"{sum(made.train.values())}", f"{sum(made.eval.values())}"))
    return "\n".join([columns(rows), *made.notes, str(made.folder)])
