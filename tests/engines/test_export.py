import json
import warnings
from dataclasses import replace

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from alignkit.backends.torch import TorchBackend
from alignkit.engines.export import OPSET, export_onnx
from alignkit.errors import BackendError
from alignkit.models.architectures import build_model, load_model
from alignkit.models.checkpoint import Checkpoint
from alignkit.workspace import Workspace
from tests.backends.model import trained_model


@pytest.fixture(scope="module")
def model():
    return trained_model()


def test_the_graph_agrees_with_torch_in_onnxs_own_interpreter(model):
    expected = model.predict(TorchBackend(), "fp32", model.batch[:5])
    [logits] = ReferenceEvaluator(str(model.onnx)).run(None, {"images": model.batch[:5]})
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()


def test_the_graph_is_valid_with_a_free_batch_axis_and_fixed_names(model):
    graph = onnx.load(model.onnx)
    onnx.checker.check_model(graph, full_check=True)
    assert graph.opset_import[0].version == OPSET
    [images], [logits] = graph.graph.input, graph.graph.output
    assert (images.name, logits.name) == ("images", "logits")
    assert images.type.tensor_type.shape.dim[0].dim_param
    assert logits.type.tensor_type.shape.dim[0].dim_param
    assert [each.dim_value for each in images.type.tensor_type.shape.dim[1:]] == [3, 32, 32]


def test_the_check_on_real_images_is_stored(model):
    found = json.loads(model.onnx.with_name("check.json").read_text())
    assert found["images"] == 16
    assert 0 <= found["relative"] < 1e-5
    assert found["relative"] == pytest.approx(found["max_abs"] / found["largest_logit"])


def test_a_checkpoint_is_exported_once(model, tmp_path, monkeypatch):
    first = export_onnx(model.checkpoint, Workspace(tmp_path), model.batch[:2])
    monkeypatch.setattr(torch.onnx, "export", lambda *given, **options: pytest.fail("exported"))
    assert export_onnx(model.checkpoint, Workspace(tmp_path), model.batch[:2]) == first


def test_an_export_with_batch_norm_apart_is_another_file_that_agrees_with_torch(model, tmp_path):
    folded, apart = (
        export_onnx(model.checkpoint, Workspace(tmp_path), model.batch[:2], folded=each)
        for each in (True, False)
    )
    assert folded.parent != apart.parent
    expected = model.predict(TorchBackend(), "fp32", model.batch[:5])
    [logits] = ReferenceEvaluator(str(apart)).run(None, {"images": model.batch[:5]})
    assert np.abs(logits - expected).max() < 1e-5 * np.abs(expected).max()


def test_other_weights_are_another_export(model, tmp_path):
    other = replace(model.checkpoint, key="other")
    files = {
        export_onnx(each, Workspace(tmp_path), model.batch[:2])
        for each in (model.checkpoint, other)
    }
    assert len(files) == 2


def test_a_graph_that_differs_is_refused_and_not_stored(model, tmp_path, monkeypatch):
    export = torch.onnx.export

    def faulty(module, *given, **options):
        with torch.no_grad():
            module[-1].bias += 0.1
        export(module, *given, **options)

    monkeypatch.setattr(torch.onnx, "export", faulty)
    with pytest.raises(BackendError, match=r"differs from torch by 0\.1"):
        export_onnx(model.checkpoint, Workspace(tmp_path), model.batch[:4])
    assert not list(tmp_path.glob(".cache/exports/*/model.onnx"))


def test_a_model_whose_logits_are_all_zero_is_exported(tmp_path):
    module = build_model("small-cnn", 10, 32, 32)
    with torch.no_grad():
        module[-1].weight.zero_()
        module[-1].bias.zero_()
    file = tmp_path / "zero.pt"
    torch.save(module.state_dict(), file)
    zero = Checkpoint("small-cnn", 10, 32, 32, file, "zero")
    workspace = Workspace(tmp_path)
    assert export_onnx(zero, workspace, np.ones((2, 3, 32, 32), np.float32)).is_file()


def test_logits_that_are_not_finite_are_refused(model, tmp_path):
    batch = np.full((2, 3, 32, 32), np.nan, np.float32)
    with pytest.raises(BackendError, match="differs from torch by nan"):
        export_onnx(model.checkpoint, Workspace(tmp_path), batch)


def test_the_exporters_warnings_are_silenced_for_it_alone(model, tmp_path):
    filters = list(warnings.filters)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        export_onnx(model.checkpoint, Workspace(tmp_path), model.batch[:2])
        warnings.warn("still heard", DeprecationWarning, stacklevel=1)
    assert [str(each.message) for each in seen] == ["still heard"]
    assert warnings.filters == filters


def test_loading_a_model_leaves_torchs_generator_alone(model):
    before = torch.random.get_rng_state()
    assert not load_model(model.checkpoint).training
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "side"),
    [("resnet18", 32), ("shufflenet_v2_x0_5", 32), ("mobilenet_v3_small", 48), ("swin_t", 64)],
)
def test_torchvision_models_are_exported(name, side, tmp_path):
    torch.manual_seed(0)
    module = build_model(name, 5, side, side)
    with torch.no_grad():
        for each in module.parameters():  # some heads begin with zeros, others saturate
            each.copy_(torch.randn_like(each) * 0.1)
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    checkpoint = Checkpoint(name, 5, side, side, tmp_path / "weights.pt", name)
    batch = np.random.default_rng(0).normal(size=(3, 3, side, side)).astype(np.float32)
    assert export_onnx(checkpoint, Workspace(tmp_path), batch).exists()
