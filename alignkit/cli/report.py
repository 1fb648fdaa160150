"""`alignkit report RUN_DIR`, and `alignkit report merge FILE PARTS…`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from alignkit.cli.arguments import ImagesOption, MaxReportSize, Open, SingleFile, open_page
from alignkit.cli.group import DEFAULT, WithDefault
from alignkit.cli.report_merge import merge

if TYPE_CHECKING:
    from alignkit.report.write_report import WrittenReport


app = typer.Typer(name="report", cls=WithDefault, rich_markup_mode=None)
app.command()(merge)


@app.command(DEFAULT, hidden=True)
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="RUN_DIR", help="Folder of a run: reports/<experiment>/<run>.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR|FILE",
            help="Write a copy of the report here, without the run's arrays.",
            show_default=False,
        ),
    ] = None,
    single_file: SingleFile = False,
    images: ImagesOption = "",
    max_report_size: MaxReportSize = "",
    open_: Open = None,
) -> None:
    """Render the report of a run again from its record."""
    from alignkit.report.write_report import form, write_report

    wanted = form(single_file=single_file, images=images, max_report_size=max_report_size)
    written = write_report(folder, wanted, out)
    print(written.page)
    tell_left_out(written)
    open_page(written.page, wanted=open_)


def tell_left_out(written: WrittenReport) -> None:
    """Print on stderr how many image pairs a size limit removed."""
    from alignkit.report.write_report import megabytes

    if written.left_out:
        print(
            f"{written.left_out} image pairs were omitted: the report has "
            f"{megabytes(written.bytes)}; allow more with --max-report-size",
            file=sys.stderr,
        )
