"""`alignkit data stats FILE|DIR`, `data split DIR NEW` and `data convert FROM TO`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import Json, Overrides, ProgressOption, Quiet, display
from alignkit.datasets.identities import IdentityForm, ListColumn
from alignkit.studies.data import By
from alignkit.text import columns

if TYPE_CHECKING:
    from alignkit.studies.data import Divided
    from alignkit.studies.data.conversion import Converted
    from alignkit.studies.data.data_statistics import (
        ChannelMoments,
        Described,
        SetDescription,
        SideLengths,
    )

ColumnOrder = Literal["image,label", "label,image"]
_ORDERS: dict[ColumnOrder, tuple[ListColumn, ListColumn]] = {
    "image,label": ("image", "label"),
    "label,image": ("label", "image"),
}
app = typer.Typer(name="data", rich_markup_mode=None, no_args_is_help=True)
_SHOWN = 3
"""Maximum number of images listed that did not decode as ok; the JSON lists all of them."""


@app.callback()
def data() -> None:
    """Describe a data set (`stats`), split it (`split`), or change its form (`convert`)."""


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
    from alignkit.studies.data.data_statistics import described

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
    by: Annotated[By, typer.Option(help="How each image is placed.")] = "copy",
    as_json: Json = False,
) -> None:
    """Split images into train/ and eval/ in a new folder, class by class; DIR is unchanged."""
    from alignkit.studies.data import write_division

    made = write_division(root, new, share=share, seed=seed, by=by)
    if as_json:
        print(json.dumps({**asdict(made), "folder": str(made.folder)}, indent=1))
    else:
        print(_division(made))


@app.command()
def convert(
    source: Annotated[
        Path,
        typer.Argument(metavar="FROM", help="Images of identities, as data: {name: identities}."),
    ],
    target: Annotated[
        Path, typer.Argument(metavar="TO", help="Folder or .bin file to write; must not exist.")
    ],
    to: Annotated[
        IdentityForm | None,
        typer.Option("--to", help="Form to write; by default bin, where TO is called so."),
    ] = None,
    read_as: Annotated[
        IdentityForm | None,
        typer.Option("--from", help="Form of FROM; by default it follows from its name."),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder at which the paths of a list begin."),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Pairs to verify; by default FROM/pairs.txt, if any."),
    ] = None,
    order: Annotated[
        ColumnOrder | None,
        typer.Option("--columns", help="Order in the lines of FROM; by default image,label."),
    ] = None,
    shards: Annotated[
        int | None, typer.Option(min=1, help="Number of Base64 shards to write; by default 1.")
    ] = None,
    leave_out: Annotated[
        bool,
        typer.Option("--leave-out-unreadable", help="Leave out images that cannot be read."),
    ] = False,
    as_json: Json = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Write images of identities in another form, byte for byte; FROM is unchanged."""
    from alignkit.studies.data.conversion import ConversionSource, convert

    columns_of = _ORDERS[order] if order else None
    made = convert(
        ConversionSource(source, read_as, images, pairs, columns_of), target, to,
        shards=shards, leave_out=leave_out, progress=display(progress, quiet=quiet),
    )  # fmt: skip
    print(json.dumps(asdict(made), indent=1) if as_json else _conversion(made))


def _as_text(found: Described) -> str:
    head = ("", "images", "classes", "per class", "width", "height", "sizes", "MB")
    rows = [head, *(_counts(each) for each in found.sets)]
    lines = [f"{found.source}: {found.how}", columns(rows), ""]
    values = [("", "mean", "std")]
    for each in found.sets:
        values.append((f"{each.name}, whole set: all pixels equally", *_written(each.whole_set)))
        values.append((f"{each.name}, per image, averaged", *_written(each.per_image)))
    if found.normalise is not None:
        values.append((f"{found.preprocess} normalises with", *_written(found.normalise)))
    lines.append(columns(values))
    lines += [line for each in found.sets for line in _remarks(each)]
    return "\n".join([*lines, *found.notes])


def _counts(each: SetDescription) -> tuple[str, ...]:
    numbers = each.classes.values()
    # one number where all classes have as many images
    ends = dict.fromkeys((min(numbers), max(numbers))) if numbers else ()
    spread = "..".join(map(str, ends)) or "not labelled"
    counts = f"{each.images}", f"{len(each.classes)}", spread
    sides = _sides(each.width), _sides(each.height), f"{each.sizes}"
    return each.name, *counts, *sides, f"{each.bytes / 1e6:.1f}"


def _sides(sides: SideLengths) -> str:
    if sides.least == sides.greatest:
        return f"{sides.least}"
    return f"{sides.least}..{sides.greatest}, median {sides.median}"


def _written(channels: ChannelMoments) -> tuple[str, str]:
    mean, std = (" ".join(f"{each:.4f}" for each in part) for part in (channels.mean, channels.std))
    return mean, std


def _remarks(each: SetDescription) -> list[str]:
    lines = []
    if each.measured < each.images:
        lines.append(f"{each.name}: {each.measured} of {each.images} images were measured")
    lines += [f"{one.outcome}: {one.id}: {one.reason}" for one in each.remarked[:_SHOWN]]
    if len(each.remarked) > _SHOWN:
        lines.append(f"and {len(each.remarked) - _SHOWN} more; use --json to list all")
    return lines


def _division(made: Divided) -> str:
    rows = [("class", "train", "eval")]
    rows += [(name, f"{count}", f"{made.eval[name]}") for name, count in made.train.items()]
    rows.append(("all", f"{sum(made.train.values())}", f"{sum(made.eval.values())}"))
    return "\n".join([columns(rows), *made.notes, str(made.folder)])


def _conversion(made: Converted) -> str:
    import yaml

    from alignkit.text.numbers import count

    facts = [count(made.images, "image"), f"{made.bytes:,} bytes of images"]
    if made.identities is not None:
        facts.insert(1, count(made.identities, "identity", "identities"))
    if made.pairs:
        facts.append(count(made.pairs, "pair"))
    lines = [
        f"{made.source} ({made.source_form}) → {made.target} ({made.form}): {', '.join(facts)}",
        "every image was read back and has the SHA-256 of the source's",
        *made.notes,
    ]
    if made.left_out:
        lines.append(f"left out, as they cannot be read: {count(len(made.left_out), 'image')}")
    lines += [f"  {name}: {reason}" for name, reason in [*made.left_out.items()][:_SHOWN]]
    if len(made.left_out) > _SHOWN:
        lines.append(f"  and {len(made.left_out) - _SHOWN} more; use --json to list all")
    block = yaml.safe_dump({"data": made.data}, sort_keys=False, allow_unicode=True, width=10_000)
    return "\n".join([*lines, "", block.rstrip()])
