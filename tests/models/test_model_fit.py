"""Outputs of given models, counted by their files; code runs for it only where a run begins."""

import sys

import numpy as np
import onnx
import pytest
import torch

from alignkit.errors import DataError
from alignkit.models import model_fit
from alignkit.models.architectures import quiet_torchscript
from alignkit.models.model_fit import faults_of, output_names, require_own_code
from alignkit.models.user_model import UserModel
from tests.cli.test_given_models import write_graph

SIZE = (16, 16)
PIXELS = 3 * 16 * 16


def messages(given, classes=()):
    return [(each.key, each.message) for each in faults_of(given, classes, SIZE)]


def linear(outputs):
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(PIXELS, outputs))


def traced(file, outputs):
    with quiet_torchscript():
        torch.jit.trace(linear(outputs), torch.zeros(2, 3, 16, 16)).save(file)
    return file


@pytest.fixture
def function(tmp_path, monkeypatch):
    """Write ``own_code:build`` that takes no number of classes, and its weights."""

    def written(outputs, begin=""):
        network = f"nn.Sequential(nn.Flatten(), nn.Linear({PIXELS}, {outputs}))"
        text = f"from torch import nn\n{begin}\ndef build():\n    return {network}\n"
        (tmp_path / "own_code.py").write_text(text)
        torch.save(linear(outputs).state_dict(), tmp_path / "own.pt")
        return UserModel("mine", "path", weights=tmp_path / "own.pt", model="own_code:build")

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_code", raising=False)
    yield written
    sys.modules.pop("own_code", None)


def test_a_graph_that_fails_on_its_input_is_refused_without_a_traceback(tmp_path):
    file = traced(tmp_path / "a.ts", 5)
    with pytest.raises(DataError, match=r"a\.ts does not run on inputs of 8x8"):
        output_names(UserModel("mine", "path", torchscript=file), (8, 8))


def test_a_function_without_a_number_of_classes_has_as_many_outputs_as_it_gives(function):
    given, state = function(5), torch.get_rng_state()
    assert len(output_names(given, SIZE)) == 5
    assert torch.equal(torch.get_rng_state(), state)


def test_no_code_runs_before_a_run_begins(function, tmp_path):
    write_graph(tmp_path / "four.onnx", np.zeros((4, 3, 16, 16), np.float32))
    given = function(5, "raise SystemExit('imported')")
    beside = UserModel(
        "mine", "path", weights=given.file, model=given.model, onnx=tmp_path / "four.onnx"
    )
    assert not messages(beside)


def test_a_graph_is_loaded_once_until_its_file_changes(tmp_path, monkeypatch):
    loaded, load = [], model_fit.load_graph
    monkeypatch.setattr(
        model_fit, "load_graph", lambda *given: loaded.append(given) or load(*given)
    )
    file = traced(tmp_path / "a.ts", 5)
    for _ in range(2):
        given = UserModel("mine", "path", torchscript=file)
        names = output_names(given, SIZE)
        require_own_code(given, names, SIZE)
    assert (len(names), len(loaded)) == (5, 1)
    traced(file, 6)
    assert len(output_names(UserModel("mine", "path", torchscript=file), SIZE)) == 6


@pytest.mark.parametrize("code", [True, False])
def test_two_files_of_other_outputs_are_named_and_no_class_of_the_data(tmp_path, code):
    exported = tmp_path / "four.onnx"
    write_graph(exported, np.zeros((4, 3, 16, 16), np.float32))
    if code:  # known when a run begins
        given = UserModel("mine", "path", torchscript=traced(tmp_path / "a.ts", 5), onnx=exported)
        assert not messages(given)
        with pytest.raises(DataError, match=r"four.onnx has 4 outputs, and .*a\.ts has 5; export"):
            output_names(given, SIZE)
    else:
        given = UserModel(
            "mine", "path", model="resnet18", pretrained="IMAGENET1K_V1", onnx=exported
        )
        found = dict(messages(given))
        assert "has 4 outputs, and resnet18 IMAGENET1K_V1 has 1000; export" in found["onnx"]


def test_each_file_of_weights_that_is_not_beside_a_graph_is_a_fault(tmp_path):
    file = tmp_path / "a.onnx"
    write_graph(tmp_path / "whole.onnx", np.zeros((4, 3, 16, 16), np.float32))
    onnx.save(
        onnx.load(tmp_path / "whole.onnx"), file, save_as_external_data=True,
        all_tensors_to_one_file=False, size_threshold=0,
    )  # fmt: skip
    beside = [each for each in tmp_path.iterdir() if each.suffix != ".onnx"]
    given = UserModel("mine", "path", onnx=file)
    assert beside
    assert not messages(given)
    for each in beside:
        each.unlink()
    found = messages(given)
    assert len(found) == len(beside)
    assert all("which is not beside it; move both together" in text for _, text in found)
