"""A run's record → its atlas on disk, with the part of the record that it is made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from alignkit.record import Cell, MatrixEntry, PixelStage, RunRecord
from alignkit.record.artifacts import write_inside
from alignkit.record.document import document_text, read_record
from alignkit.report.atlas_view import SHOWN_STAGES, atlas_view, exchanged
from alignkit.report.entries_view import UNMEASURED
from alignkit.report.templates import asset, html, markdown, trusted
from alignkit.stored_file import write_output

_NO_NUMERIC = {"numeric": None, "quantised": None, "batch": None, "builds": None}


def write_atlas(folder: Path, target: Path) -> Path:
    """Write the atlas of the run in a folder as Markdown (``.md``), or into a folder.

    A folder receives the page and the part of the record that it is made of, so that it can be
    made again. Return the Markdown or the page. Raise `RecordError` if the run has no record, or
    no cell that the others could be compared with.
    """
    record = atlas_record(read_record(folder))
    if target.suffix == ".md":
        write_output(target, markdown("atlas.md.j2", atlas=atlas_view(record)).encode())
        return target
    style = trusted(asset("report.css").decode())
    write_inside(target, "record.json", document_text(record, indent=None))
    view = atlas_view(record)
    write_inside(target, "index.html", html("atlas.html.j2", report=view, style=style))
    return target / "index.html"


def atlas_record(record: RunRecord) -> RunRecord:
    """Return what an atlas shows of a record: no images, classes, predictions or other metrics."""
    reference = {(each.backend, each.precision) for each in record.matrix if each.aligned}
    own = {each.evaluated_with for each in record.matrix if each.aligned}
    stacks = {path for each in record.matrix if each.aligned for path in exchanged(record, each)[0]}
    return record.model_copy(
        update={
            # of the other cells all that is shown is in the matrix
            "cells": tuple(_cell(each) for each in record.cells if each.column.preprocess in own),
            "trainings": (),
            "cell_table": None,
            "stages": None,
            "shown": (),
            "images": (),
            "flipped": (),
            "advice": (),
            "noise_floor": (),
            "verdict": record.verdict.model_copy(update={"rules": ()}),
            "matrix": tuple(map(_entry, record.matrix)),
            "row_pairs": tuple(
                _pair(each)
                for each in record.row_pairs
                if each.reference[1:] == each.candidate[1:]
                and each.reference[1:] in reference
                and {each.reference[0], each.candidate[0]} <= stacks
            ),
            "pixels": tuple(filter(_is_shown, record.pixels)),
            "attributions": (),
        }
    )


def _cell(cell: Cell) -> Cell:
    left_out: dict[str, Any] = {"counts": (), "metrics": {}, "drift": None, "predictions": None}
    return cell.model_copy(update=left_out | _NO_NUMERIC)


def _entry(entry: MatrixEntry) -> MatrixEntry:
    drift = entry.drift and replace(_pair(entry.drift), classes=(), errors={})
    if drift is not None:
        drift = replace(drift, holm={"top1": drift.holm["top1"]} if "top1" in drift.holm else {})
    metrics = {"top1": entry.metrics["top1"]} if "top1" in entry.metrics else {}
    return entry.model_copy(update={"drift": drift, "metrics": metrics, **_NO_NUMERIC})


def _pair(pair: Any) -> Any:
    return replace(pair, metrics={"top1": pair.metrics.get("top1", UNMEASURED)}, p_values={})


def _is_shown(stage: PixelStage) -> bool:
    if stage.mode == "cumulative":
        return stage.stage in SHOWN_STAGES
    return bool(stage.max_abs or stage.shape_mismatches)
