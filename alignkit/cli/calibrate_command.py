"""`alignkit calibrate`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import Quiet
from alignkit.errors import ConfigError, ExitCode
from alignkit.progress import progress_for

if TYPE_CHECKING:
    from alignkit.isolation.worker import Encoded
    from alignkit.studies.calibrate.surrogate_stages import Surrogate


def calibrate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PRESET…]", help="Surrogates to measure; by default all."),
    ] = None,
    images: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Images to add to the built-in ones; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the JSON files; by default the package, which displays them.",
        ),
    ] = None,
    residuals: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="Also write real minus surrogate decode of every image, as .npz."
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Measure the distance from surrogates to the real stacks, stage by stage.

    Writes <PRESET>.json for every surrogate with a stage that runs here. Exit codes: 0 all
    measured · 2 usage · 4 a real stage cannot run here; the output names it and the reason.
    """
    from alignkit.studies.calibrate import SHIPPED, calibrate, summary, write_calibration
    from alignkit.studies.calibrate.surrogate_stages import surrogates

    chosen = _chosen(surrogates(), names or [])
    progress = progress_for("none" if quiet else "auto")
    probe = _probe(images)
    for surrogate in chosen:
        if measured := calibrate(surrogate, probe, progress):
            print(f"{surrogate.name}: {summary(measured)}")
            written = write_calibration(surrogate.name, measured, out or SHIPPED)
            print(f"written {written}", file=sys.stderr)
        for pair in surrogate.pairs:
            if pair.missing:
                print(f"{surrogate.name}: {pair.stage} not measured, {pair.missing}")
        if residuals:
            _keep_residuals(surrogate, probe, residuals)
    # a table with gaps is written all the same, but must not look complete to CI
    whole = not any(pair.missing for surrogate in chosen for pair in surrogate.pairs)
    raise typer.Exit(ExitCode.PASS if whole else ExitCode.MISSING)


def _chosen(known: Sequence[Surrogate], names: Sequence[str]) -> list[Surrogate]:
    from alignkit.plugins import did_you_mean

    by_name = {each.name: each for each in known}
    for name in names:
        if name not in by_name:
            raise ConfigError(f"unknown surrogate {name!r}{did_you_mean(name, by_name)}")
    return [by_name[name] for name in dict.fromkeys(names or by_name)]


def _probe(folders: Sequence[Path]) -> tuple[Encoded, ...]:
    from alignkit.datasets.unlabelled_images import Images
    from alignkit.preprocess.image_taps import encoded_images
    from alignkit.studies.calibrate import probe_images

    if not folders:
        return probe_images()
    return (*probe_images(), *encoded_images(Images(tuple(folders)).evaluation()))


def _keep_residuals(surrogate: Surrogate, images: Sequence[Encoded], folder: Path) -> None:
    import numpy as np

    from alignkit.studies.calibrate import residuals

    decode = next(pair for pair in surrogate.pairs if pair.stage == "decode")
    if decode.missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{surrogate.name}.npz"
    np.savez_compressed(path, **residuals(decode, images))  # type: ignore[arg-type]
    print(f"written {path}", file=sys.stderr)
