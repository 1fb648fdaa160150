"""`alignkit calibrate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import Json, ProgressOption, Quiet, display, listed
from alignkit.errors import ConfigError, ExitCode
from alignkit.stored_file import output_paths

if TYPE_CHECKING:
    from alignkit.isolation.worker import Encoded
    from alignkit.progress import Progress
    from alignkit.studies.calibrate.surrogate_stages import Surrogate


def calibrate(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PRESET", help="Surrogates to measure; by default all."),
    ] = None,
    images: Annotated[
        list[Path],
        typer.Option(metavar="DIR", help="Images to add to the built-in ones; repeatable."),
    ] = [],  # noqa: B006 - typer copies it
    as_json: Json = False,
    out: Annotated[
        list[str],
        typer.Option(
            metavar="KIND=DIR",
            help="json=DIR: folder for the JSON files; by default the package, which displays "
            "them, and none with --pairs. residuals=DIR: also write real minus surrogate decode of "
            "every image, as .npz.",
        ),
    ] = [],  # noqa: B006
    pairs: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Instead, find the decoder and rule of this machine that reproduce pixels made "
            "elsewhere: JPEG files beside a .ppm, .bmp, .png or .npy of the same stem.",
        ),
    ] = None,
    rows: Annotated[
        list[str],
        typer.Option(
            metavar="STEM=N",
            help="With --pairs: only N rows of this pair are valid; repeatable, or with commas.",
        ),
    ] = [],  # noqa: B006
    by: Annotated[
        Literal["kind", "pair"], typer.Option(help="With --pairs: the rows of the table.")
    ] = "kind",
    recorder: Annotated[
        bool,
        typer.Option(
            "--recorder",
            help="Instead, print a Python file that makes such pairs on any machine with torch and "
            "torchvision.",
        ),
    ] = False,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Measure surrogates against the real stacks, or find the rule that made given pixels.

    With presets, or alone: compares each surrogate's stages with the real ones, where both run, and
    writes <PRESET>.json. With --pairs DIR: compares stored pixels with every decoder here, writes
    the record only with --out. With --recorder: prints the file that makes such pairs. Exit codes:
    0 all measured, whatever the result · 2 usage · 4 a real stage cannot run here; the output
    names it and the reason · 5 no pair could be compared.
    """
    kinds = ("json", "residuals")
    folders = dict(output_paths(out, kinds, folders=kinds, once=kinds))
    names = listed(names or [])
    if recorder or pairs:
        presets = bool(names or images or "residuals" in folders)
        _refuse_mixed(presets=presets, pairs=pairs is not None, recorder=recorder, out=bool(out))
    if pairs is None and (rows or by != "kind"):
        raise ConfigError("--rows and --by belong to --pairs DIR")
    if recorder:
        from alignkit.studies.calibrate.recorder_file import recorder_file

        print(recorder_file(), end="")
        return
    shown = display(progress, quiet=quiet)
    if pairs:
        code = _pairs(pairs, listed(rows), by, folders.get("json"), shown, as_json=as_json)
        raise typer.Exit(code)
    _surrogates(names, images, folders, shown, as_json=as_json)


def _refuse_mixed(*, presets: bool, pairs: bool, recorder: bool, out: bool) -> None:
    if pairs and recorder:
        raise ConfigError("--recorder prints a file and --pairs reads its output; use one of them")
    if recorder and out:
        raise ConfigError("--recorder prints to stdout; write > record.py and leave out --out")
    if presets:
        option = "--pairs" if pairs else "--recorder"
        raise ConfigError(
            f"{option} takes no preset, --images or --out residuals: they measure surrogates"
        )


def _pairs(
    folder: Path,
    rows: Sequence[str],
    by: Literal["kind", "pair"],
    out: Path | None,
    shown: Progress,
    *,
    as_json: bool,
) -> ExitCode:
    from alignkit.studies.calibrate.pair_fits import fits_of
    from alignkit.studies.calibrate.pair_record import pairs_record, write_pairs
    from alignkit.studies.calibrate.pair_rules import compare_pairs, rules_here
    from alignkit.studies.calibrate.pair_summary import pairs_summary
    from alignkit.studies.calibrate.stored_pairs import stored_pairs

    stored = stored_pairs(folder, dict(map(_valid_rows, rows)))
    rules = rules_here()
    outcomes = compare_pairs(stored, rules, shown)
    if as_json:
        print(json.dumps(pairs_record(stored, outcomes, rules), indent=1, allow_nan=False))
    else:
        print(pairs_summary(str(folder), stored, outcomes, fits_of(stored, outcomes, rules, by)))
    if out:
        print(f"written {write_pairs(stored, outcomes, rules, out)}", file=sys.stderr)
    compared = any(not each.reason for each in outcomes)
    return ExitCode.PASS if compared else ExitCode.NOTHING_COMPARED


def _valid_rows(text: str) -> tuple[str, int]:
    stem, equals, number = text.rpartition("=")
    if not equals or not stem or not number.isdecimal() or not int(number):
        raise ConfigError(f"--rows {text}: write it as STEM=N, for example --rows P5=168")
    return stem, int(number)


def _surrogates(
    names: Sequence[str],
    images: Sequence[Path],
    out: Mapping[str, Path],
    shown: Progress,
    *,
    as_json: bool,
) -> None:
    from alignkit.preprocess.presets import calibration
    from alignkit.studies.calibrate import SHIPPED, calibrate, summary, write_calibration
    from alignkit.studies.calibrate.surrogate_stages import surrogates

    chosen = _chosen(surrogates(), names)
    probe = _probe(images)
    lines, documents = [], {}
    for surrogate in chosen:
        if measured := calibrate(surrogate, probe, shown):
            lines.append(f"{surrogate.name}: measured here: {summary(measured)}")
            written = write_calibration(surrogate.name, measured, out.get("json", SHIPPED))
            print(f"written {written}", file=sys.stderr)
        absent = {pair.stage: pair.missing for pair in surrogate.pairs if pair.missing}
        documents[surrogate.name] = {"measured": measured, "missing": absent}
        for stage, reason in absent.items():
            lines.append(f"{surrogate.name}: {stage} not measured here, {reason}")
        if absent:
            stored = calibration(surrogate.path)
            lines.append(f"{surrogate.name}: evidence that is stored: {stored}")
        if "residuals" in out:
            _keep_residuals(surrogate, probe, out["residuals"])
    print(json.dumps(documents, indent=1, allow_nan=False) if as_json else "\n".join(lines))
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
