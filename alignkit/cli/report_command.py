"""`alignkit report RUN_DIR` and `alignkit compare-runs A B`: pages of runs that are stored."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import (
    ImagesOption,
    Json,
    MaxReportSize,
    Open,
    SingleFile,
    open_page,
)
from alignkit.errors import ConfigError
from alignkit.stored_file import output_paths, write_output

if TYPE_CHECKING:
    from alignkit.report.write_report import WrittenReport


def report(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN_DIR",
            help="Folder of a run, reports/<experiment>/<run>, or of a bench of it.",
        ),
    ],
    out: Annotated[
        list[str],
        typer.Option(
            metavar="KIND=PATH",
            help="html=DIR|FILE: a copy of the report, without the run's arrays; repeatable.",
        ),
    ] = [],  # noqa: B006 - typer copies it
    single_file: SingleFile = False,
    images: ImagesOption = "",
    max_report_size: MaxReportSize = "",
    as_json: Json = False,
    open_: Open = None,
) -> None:
    """Render the report of a run or bench again from its record."""
    from alignkit.report.bench_page import bench_file
    from alignkit.report.write_report import form, write_report

    if not (folder / "record.json").exists() and bench_file(folder):
        if single_file or images or max_report_size:
            raise ConfigError("the page of a bench has no images and no other form; use --out html")
        _bench_page(folder, out, as_json=as_json, open_=open_)
        return

    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    # a single file may be printed
    targets = output_paths(out, ("html",), folders=() if single_file else ("html",))
    documents: list[dict[str, str | int]] = []
    copies: list[Path | None] = [path for _, path in targets]
    for copy in copies or [None]:
        written = write_report(folder, wanted, copy)
        documents.append({
            "kind": "html", "file": str(written.page), "bytes": written.bytes,
            "omitted_image_pairs": written.left_out,
        })  # fmt: skip
        if not as_json:
            print(written.page, flush=True)
        tell_left_out(written)
        open_page(written.page, wanted=open_)
    if as_json:
        print(json.dumps(documents, indent=1))


def _bench_page(folder: Path, out: list[str], *, as_json: bool, open_: bool | None) -> None:
    from alignkit.report.bench_page import render_bench

    targets = output_paths(out, ("html",), folders=("html",))
    copies: list[Path | None] = [path for _, path in targets]
    pages = [render_bench(folder, copy) for copy in copies or [None]]
    if as_json:
        print(json.dumps([{"kind": "html", "file": str(page)} for page in pages], indent=1))
        return
    for page in pages:
        print(page, flush=True)
        open_page(page, wanted=open_)


def tell_left_out(written: WrittenReport) -> None:
    """Print on stderr how many image pairs a size limit removed."""
    from alignkit.text.numbers import megabytes

    if written.left_out:
        print(
            f"{written.left_out} image pairs were omitted: the report has "
            f"{megabytes(written.bytes)}; allow more with --max-report-size",
            file=sys.stderr,
        )


def compare(
    before: Annotated[Path, typer.Argument(metavar="A", help="The earlier run's folder.")],
    after: Annotated[Path, typer.Argument(metavar="B", help="The later run's folder.")],
    as_json: Json = False,
    out: Annotated[
        list[str],
        typer.Option(
            metavar="KIND=PATH",
            help="Write html=DIR, by default a folder next to B, or json=FILE; repeatable.",
        ),
    ] = [],  # noqa: B006
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Compare even if the runs differ; the report lists the reasons against it.",
        ),
    ] = False,
    open_: Open = None,
) -> None:
    """Compare two runs: verdict, drift of recall, precision and churn, images, pixels.

    Exit codes: 0 compared · 2 a folder contains no run · 5 the runs have nothing in common, or are
    one · 6 the images, classes or environments differ, without --force.
    """
    from alignkit.report.comparison.compare_page import comparison_headline, render_comparison
    from alignkit.report.page_text import headline_lines
    from alignkit.studies.compare_runs import compare_runs

    files = output_paths(out, ("html", "json"), folders=("html",), once=("html",))
    # printed on the page, so that whoever reads it can repeat the comparison
    words = ["alignkit", "compare-runs", str(before), str(after), *(["--force"] if force else [])]
    made = compare_runs(before, after, force=force, command=shlex.join(words))
    beside = after.resolve().parent / f"{made.before.folder}-to-{made.after.folder}"
    page = render_comparison(made, (before, after), dict(files).get("html", beside))
    document = made.model_dump_json(indent=1) + "\n"
    for kind, path in files:
        if kind == "json":
            write_output(path, document)
    if as_json:
        print(document, end="")
    else:
        print(*headline_lines(comparison_headline(made)), page, sep="\n")
    open_page(page, wanted=open_)
