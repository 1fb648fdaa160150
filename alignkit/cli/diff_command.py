"""`alignkit diff`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from alignkit.cli.arguments import (
    ClusterAddress,
    EngineNames,
    EngineWorkers,
    Json,
    Overrides,
    PageOut,
    ProgressOption,
    Quiet,
    ShardOption,
    display,
    listed,
    refuse_outputs,
    tell_stored,
)
from alignkit.errors import ConfigError
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment

YAML = ([".yaml"], [".yml"])
Extent = Literal["none", "size", "full"]


def diff(
    images: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders, image files, .txt lists of files, or one experiment file (same as "
            "--config); by default the data of --config."
        ),
    ] = None,
    preprocess: Annotated[
        list[str],
        typer.Option(
            "--preprocess",
            "-p",
            metavar="A",
            help="Preset (see alignkit list presets), entry of --config, torchpipe .toml, "
            "preprocessor_config.json or its folder, timm:MODEL, or mapping such as "
            "'{preset: opencv-train}'; repeatable, or names with commas; the reference first.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also count the predictions that change: a file of ONNX, TorchScript or "
            "torch.export, timm:NAME, or '{weights: FILE.pt, model: timm:resnet18}'.",
        ),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="Task of --model (see alignkit list tasks), such as detection or '{name: "
            "detection, score: 0.4}'; by default that of --config, or classification.",
        ),
    ] = "",
    size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Side of the model's input for presets; by default --model's own, or 224."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE.yaml", help="Experiment file with paths or data.")
    ] = None,
    overrides: Overrides = [],  # noqa: B006
    only: Annotated[
        list[str],
        typer.Option(metavar="IMAGE", help="Only this image, named as in the output; repeatable."),
    ] = [],  # noqa: B006
    as_json: Json = False,
    out: PageOut = [],  # noqa: B006
    fail_on_coverage: Annotated[
        bool,
        typer.Option("--fail-on-coverage", help="Exit 1 if the paths decode different images."),
    ] = False,
    ssim: Annotated[
        Extent,
        typer.Option(help="SSIM: none, size (the model's input) or full (also the decoded image)."),
    ] = "size",
    planes: Annotated[
        Extent, typer.Option(help="Luma and chroma (Y'CbCr): none, size or full, as for --ssim.")
    ] = "none",
    stress: Annotated[
        str, typer.Option(metavar="420:q90,…", help="Also compare re-encoded images, e.g. 420:q90.")
    ] = "",
    threads: Annotated[
        int | None,
        typer.Option(
            min=1, help="Processes that decode; by default one per CPU. Of an engine: per worker."
        ),
    ] = None,
    engine: EngineNames = "local",
    address: ClusterAddress = "",
    workers: EngineWorkers = None,
    shard: ShardOption = None,
    reports: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Store finished lots below this folder, so that the same command goes on where a "
            "killed one stopped, with any engine; by default none is stored.",
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Draw so many of the images; the same ones every time."),
    ] = None,
    max_pixels: Annotated[
        int | None,
        typer.Option(
            min=1, help="Do not decode images with more pixels than this; by default 180000000."
        ),
    ] = None,
    timeout: Annotated[
        float, typer.Option(min=0.1, help="Seconds allowed per image and path.")
    ] = 60.0,
    max_memory: Annotated[
        float, typer.Option(min=0.1, help="Memory in GiB allowed per image and path.")
    ] = 4.0,
    progress: ProgressOption = "auto",
    quiet: Quiet = False,
) -> None:
    """Compare preprocessing stacks on any images, stage by stage, without labels.

    Prints the first stage that differs and the largest difference, the options that cause it, and
    with --model how many predictions change. Exit codes: 0 compared · 1 the
    paths decode different images, with --fail-on-coverage · 2 usage · 4 a path cannot run here ·
    5 nothing was compared.
    """
    from alignkit.experiment.yaml_argument import named_paths
    from alignkit.isolation import Limits
    from alignkit.lots import Shard
    from alignkit.lots.engines import EngineOption
    from alignkit.lots.kept_lots import KeptLots
    from alignkit.preprocess.stress import parse_stress
    from alignkit.record.document import document_text
    from alignkit.stored_file import output_paths
    from alignkit.studies.diff import DiffRequest, diff_shard, exit_code
    from alignkit.studies.diff import diff as compare
    from alignkit.studies.diff.diff_arguments import model_and_side, samples_of, write_outputs
    from alignkit.studies.diff.diff_summary import diff_summary

    outputs = output_paths(out, ("json", "html"), folders=("html",))
    part = Shard.parse(shard) if shard else None
    if part:
        refuse_outputs(outputs, as_json=as_json)
    chosen = EngineOption(engine, address, workers, threads)
    # `alignkit diff experiment.yaml` should do what every other command does with a file
    if config is None and images and [path.suffix for path in images] in YAML:
        config, images = images[0], None
    experiment = _experiment(config, overrides)
    entries = experiment.entries if experiment else {}
    given, own = model_and_side(model, task, experiment)
    size = size or own
    paths = named_paths(listed(preprocess), size=size, entries=entries, max_pixels=max_pixels)
    samples, source = samples_of(images or [], experiment, limit, only)
    request = DiffRequest(
        paths=paths,
        samples=samples,
        source=source,
        model=given,
        command=shlex.join(["alignkit", *sys.argv[1:]]),
        ssim=ssim,
        planes=planes,
        stress=parse_stress(stress),
        threads=threads,
        limits=Limits(timeout, int(max_memory * 2**30), lossy=True),
        engine=chosen,
        store=KeptLots(Workspace(reports)) if reports else None,
    )
    if part:
        lots = diff_shard(request, part, display(progress, quiet=quiet))
        tell_stored(lots, len(samples), reports)
        return
    record = compare(request, display(progress, quiet=quiet))
    written = write_outputs(outputs, record, request)
    print(document_text(record) if as_json else diff_summary(record))
    for path in written:
        print(f"written {path}", file=sys.stderr)
    raise typer.Exit(exit_code(record, fail_on_coverage=fail_on_coverage))


def _experiment(config: Path | None, overrides: list[str]) -> Experiment | None:
    if config is None:
        if overrides:
            raise ConfigError("--set changes values of a --config file; add --config FILE.yaml")
        return None
    from alignkit.experiment import load_experiment

    return load_experiment(config, overrides)
