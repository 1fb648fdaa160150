"""Tables of engines that were built and not run."""

from alignkit.record import Cell, EngineFacts
from alignkit.report.entries_view import engines_table
from alignkit.text.names import Names
from tests.report.records import quickstart

ENGINE = EngineFacts(
    library="tensorrt-rtx 1.7.1", sha256="ab" * 32, size=1_000_000,
    layers={"float16": {"correlation": 4}}, moving=2, fingerprint="f",
)  # fmt: skip


def test_equal_engines_of_several_models_have_a_row_each_and_paths_share_it():
    cells = [
        Cell(
            trained_with=trained, evaluated_with=evaluated, backend="tensorrt-rtx",
            precision="fp16", aligned=False, state="built", reason="", seed=seed, key="",
            engine=ENGINE,
        )
        for trained in ("opencv", "pillow")
        for evaluated in ("opencv", "pillow")
        for seed in (0, 1)
    ]  # fmt: skip
    record = quickstart().model_copy(update={"cells": tuple(cells)})
    table = engines_table(record.cells, Names(record.paths))
    assert table is not None
    shown = [(row.cells[0].text, row.cells[2].text) for row in table.rows]
    assert shown == [("opencv", "0"), ("opencv", "1"), ("pillow", "0"), ("pillow", "1")]
