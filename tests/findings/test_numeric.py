"""int8 divided into quantisation and kernel, and simulated cells, from the cells of a small run."""

from pathlib import Path

import numpy as np
import pytest

from alignkit.backends.simulated import SimulatedBackend
from alignkit.compare.predictions import Predictions
from alignkit.record import RunRecord
from tests.runner.test_run import run, write_small

pytestmark = pytest.mark.slow  # it trains two models, quantises each twice and attributes
LABELLED = "not compared with hardware"
BACKENDS = (
    "evaluate.backends=[torch, {name: simulated, precision: [tf32, int8]}, "
    "{name: simulated, precision: int8, quantised_for: tensorrt}, "
    "{name: onnxruntime, precision: int8}]"
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path]:
    folder = tmp_path_factory.mktemp("simulated")
    return run(write_small(folder, seeds="[0]"), folder / "reports", (BACKENDS,))


def test_simulated_cells_have_a_state_of_their_own_and_the_label(finished):
    record, _ = finished
    for each in (*record.cells, *record.matrix):
        simulates = each.backend.startswith("simulated")
        assert each.state == ("simulated" if simulates else "measured")
        library = "tensorrt" if "tensorrt" in each.backend else "onnxruntime"
        backend = SimulatedBackend(quantised_for=library)
        assert each.simulation == (backend.simulation(each.precision) if simulates else "")
    assert all(LABELLED in cell.simulation for cell in record.cells if cell.precision == "tf32")


def test_a_runtimes_int8_is_divided_at_the_same_graph_executed_unfused(finished):
    record, folder = finished
    kernels = [each for each in record.cells if each.column.runtime == "onnxruntime int8"]
    assert len(kernels) == 4
    for cell in kernels:
        reference, unfused, fused = (
            next(
                Predictions.from_parquet(folder / each.predictions.path).logits
                for each in record.cells
                if each.column.runtime == runtime
                and (each.trained_with, each.evaluated_with)
                == (cell.trained_with, cell.evaluated_with)
            )
            for runtime in ("torch fp32", "simulated int8", "onnxruntime int8")
        )
        divided = cell.quantised
        assert divided.unfused == "simulated int8"
        for drift, one, other in (
            (divided.quantisation, reference, unfused),
            (divided.kernel, unfused, fused),
        ):
            assert drift.n == len(one)
            assert drift.flips == (one.argmax(1) != other.argmax(1)).sum()
            apart = np.abs(one.astype(float) - other).max()
            assert drift.logits.max_abs == pytest.approx(apart, abs=1e-9)
    others = [each for each in record.cells if each.column.runtime != "onnxruntime int8"]
    assert not any(each.quantised for each in others)


def test_entries_join_what_their_cells_divide(finished):
    record, _ = finished
    cells = {each.place: each for each in record.cells}
    for entry in record.matrix:
        assert entry.quantised == cells[entry.place].quantised  # of one seed
