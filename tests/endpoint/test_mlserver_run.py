"""A whole run with a real server of the protocol: over HTTP and gRPC, killed and stopped in it."""

from __future__ import annotations

import os

import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.runner import run_experiment
from alignkit.workspace import Context, Workspace
from tests.backends.model import trained_model
from tests.endpoint.mlserver import serving

MLSERVER = os.environ.get("ALIGNKIT_MLSERVER", "")
pytestmark = [
    pytest.mark.endpoint,
    pytest.mark.skipif(
        not MLSERVER, reason="ALIGNKIT_MLSERVER names no mlserver: see nox -s endpoint"
    ),
]
pytest.importorskip("tritonclient", reason="tritonclient is not installed: alignkit[kserve]")
OWN = "the server's own"
YAML = """
name: served
data: {{name: digits-on-photos, train: 10, eval: 30, seed: 0}}
preprocess:
  pillow: {{preset: pillow-train, size: 32}}
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
models: [{{name: mine, onnx: {onnx}, preprocess: pillow}}]
evaluate:
  backends:
    - onnxruntime
    - {{name: kserve, url: "{http}", model: by-file, {patience}}}
    - {{name: kserve, url: "{http}", model: by-tensor, sends: tensors, {patience}}}
    - {{name: kserve, url: "{grpc}", model: by-file, {patience}}}
    - {{name: kserve, url: "{grpc}", model: by-tensor, sends: tensors, {patience}}}
    - {{name: onnxruntime, optimisation: basic}}
  resamples: 200
report: {{worst: 1}}
"""


def run(tmp_path, patience="retries: 1", **ends):
    """(cells, folder) of a run of every way to ask one server."""
    (tmp_path / "server").mkdir()
    model = trained_model().onnx
    with serving(MLSERVER, tmp_path / "server", model, size=32, classes=10, **ends) as served:
        file = tmp_path / "served.yaml"
        file.write_text(
            YAML.format(onnx=model, http=served.http, grpc=served.grpc, patience=patience)
        )
        found = load_experiment(file)
        record, folder = run_experiment(
            found, Context(Workspace(tmp_path / "reports"), NoProgress())
        )
    return record.cells, folder


def named(cells, protocol, model):
    return [c for c in cells if f"model={model}" in c.backend and f"{protocol}://" in c.backend]


def test_http_and_grpc_are_two_columns_of_one_run_with_the_same_answers(tmp_path):
    cells, folder = run(tmp_path)
    assert {cell.state for cell in cells} == {"measured"}
    logits = {
        (cell.backend, cell.evaluated_with): Predictions.from_parquet(
            folder / cell.predictions.path
        ).logits
        for cell in cells
    }
    for protocol in ("http", "grpc"):
        (files,) = named(cells, protocol, "by-file")
        assert files.evaluated_with == OWN
        assert files.effective["server"] == "mlserver 1.7.1"
        # the server's Pillow and arithmetic are those of the row's own path
        own = logits["onnxruntime", "pillow"]
        assert np.abs(logits[files.backend, OWN] - own).max() < 1e-3
        tensors = named(cells, protocol, "by-tensor")
        assert [each.evaluated_with for each in tensors] == ["pillow", "opencv"]
        for each in tensors:
            expected = logits["onnxruntime", each.evaluated_with]
            assert np.abs(logits[each.backend, each.evaluated_with] - expected).max() < 1e-4
            assert each.numeric.flips == 0


@pytest.mark.parametrize(
    ("ends", "patience", "http", "grpc"),
    [
        ((5, "SIGKILL"), "retries: 1", "in 2 tries: no connection", "in 2 tries: UNAVAILABLE"),
        ((5, "SIGSTOP"), "retries: 0, timeout: 1", *["in one try: nothing came within 1 s"] * 2),
    ],
)
def test_a_server_that_ends_or_hangs_in_mid_run_fails_its_cells_alone(
    tmp_path, ends, patience, http, grpc
):
    cells, _ = run(tmp_path, patience, ends=ends)
    own = [cell for cell in cells if cell.backend.startswith("onnxruntime")]
    assert [cell.state for cell in own] == ["measured"] * 4  # those before and those after
    asked = [cell for cell in cells if cell not in own]
    assert [cell.state for cell in asked] == ["failed"] * 6
    for cell in asked:
        assert (http if "http://" in cell.backend else grpc) in cell.reason
        assert cell.traceback == ""
        assert "\n" not in cell.reason
