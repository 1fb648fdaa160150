"""What every piece of work depends on is in its key: change one part, and only that work is new."""

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
import torch

import alignkit
from alignkit import plugins, version
from alignkit.decoders.simplejpeg import SimpleJPEGDecoder
from alignkit.engines import build_engine, calibration_of, export
from alignkit.experiment import load_experiment
from alignkit.findings import environment
from alignkit.models.architectures import small_cnn
from alignkit.models.checkpoint import Checkpoint, EngineSource
from alignkit.plan import Plan, make_plan, preparations
from alignkit.plan.planned_attribution import planned_attributions
from alignkit.plan.work import PixelComparison
from alignkit.predict import cell_parts
from alignkit.predict.predict_cells import spread_stored
from alignkit.preprocess import Preprocess, Resize
from alignkit.progress import NoProgress
from alignkit.resizers.torch import TorchResizer
from alignkit.runner.advise import advise
from alignkit.tasks.embedding import Embedding
from alignkit.workspace import Context, Workspace

YAML = """\
name: keys
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {model: small-cnn, epochs: 1, seeds: [3]}
evaluate: {backends: [torch, {name: onnxruntime, precision: int8, builds: 2}]}
advise: {images: 20}
"""
RUN = {"torch cell", "cell", "attribution", "spread"}
TRAINED = RUN | {"training", "export", "engine"}
PREPARED = TRAINED | {"preparation", "comparison", "advice", "calibration"}
EXPORTED = {"cell", "attribution", "export", "engine", "spread"}
INT8 = {"cell", "attribution", "engine", "spread"}
PACKAGE = Path(alignkit.__file__).parent


class AskedError(Exception):
    """The key that a stage looks up."""


class Asked(Workspace):
    """A workspace that tells which key it was asked for."""

    def stored(self, kind: str, key: str) -> None:
        raise AskedError(key)


ASKED = Asked(Path("unused"))


def asked(work, *arguments) -> str:
    with pytest.raises(AskedError) as told:
        work(*arguments)
    return str(told.value)


def keys_of(plan: Plan, folder: Path) -> dict[str, str]:
    """Map each kind of work to the key of the reference path's model, pixels or engine."""
    training = plan.trainings[0]
    in_torch, cell = (
        next(e for e in plan.evaluations if e.training == training and e.runtime.name.startswith(n)
             and e.preprocess.name == training.preprocess.name)
        for n in ("torch", "onnxruntime")
    )  # fmt: skip
    checkpoint = Checkpoint("small-cnn", 10, 48, 48, Path("weights.pt"), training.key)
    exported = asked(export.export_onnx, checkpoint, ASKED, None)
    graph = folder / "model.onnx"
    graph.write_text(exported)  # another exporter writes other bytes
    runtime = cell.runtime
    calibration = None
    if wanted := runtime.backend.calibration(runtime.precision):
        images = plan.experiment.data.training()
        calibration = calibration_of(wanted, training.preprocess, images, ASKED)
    source = EngineSource(checkpoint, graph, calibration)
    (attribution,) = planned_attributions(plan)
    return {
        "preparation": next(e.key for e in preparations(plan) if e.split == "eval"),
        "training": training.key,
        "torch cell": in_torch.key,
        "cell": cell.key,
        "comparison": plan.comparisons[0].key,
        "attribution": attribution.key,
        "advice": asked(advise, plan, Context(ASKED, NoProgress())),
        "export": exported,
        "engine": asked(build_engine, runtime.backend, source, runtime.precision, ASKED)
        if calibration
        else "nothing is built",
        "calibration": calibration.key if calibration else "none",
        "spread": asked(
            spread_stored, cell_parts(cell, checkpoint), runtime.builds, ASKED, lambda: None
        ),
    }


@pytest.fixture
def keys(tmp_path):
    """Give the keys of the experiment with some overrides, or of another text."""

    def made(*overrides: str, text: str = YAML) -> dict[str, str]:
        file = tmp_path / "keys.yaml"
        file.write_text(text)
        return keys_of(make_plan(load_experiment(file, overrides)), tmp_path)

    return made


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {kind for kind in before if before[kind] != after[kind]}


def onnxruntime(options: str) -> str:
    return f"evaluate.backends=[torch, {{name: onnxruntime, {options}}}]"


@pytest.mark.parametrize(
    ("override", "kinds"),
    [
        ("data.seed=1", PREPARED),
        ("data.eval=21", PREPARED - {"advice", "calibration"}),
        ("preprocess.opencv.orient=none", PREPARED),
        ("preprocess.opencv.max_pixels=1000000", PREPARED),
        ("preprocess.opencv.normalise={mean: [0, 0, 0], std: [1, 1, 1]}", PREPARED - {"preparation"}),
        ("preprocess.pillow.orient=exif", {"comparison", "attribution", "advice"}),
        ("train.epochs=2", TRAINED),
        ("train.model=resnet18", TRAINED),
        ("train.augment.flip=0.5", TRAINED),
        ("train.seeds=[4]", TRAINED),
        (onnxruntime("precision: fp32, builds: 2"), INT8 | {"calibration"}),
        (onnxruntime("precision: int8, builds: 2, optimisation: basic"), INT8),
        (onnxruntime("precision: int8, builds: 2, calibration_images: 30"), INT8 | {"calibration"}),
        (onnxruntime("precision: int8, builds: 2, calibration_choice: first, calibration_images: 30"), INT8 | {"calibration"}),
        (onnxruntime("precision: int8, builds: 3"), {"spread"}),
        ("evaluate.batch_size=7", {"torch cell", "cell", "attribution", "spread"}),
        ("evaluate.resamples=300", {"attribution"}),
        ("advise.images=30", {"advice"}),
        ("advise.decoders=[opencv]", {"advice"}),
        ("name=other", set()),
        ("report.worst=3", set()),
        ("gate.informational=true", set()),
    ],
)  # fmt: skip
def test_an_option_changes_the_key_of_all_that_depends_on_it_and_no_other(keys, override, kinds):
    assert changed(keys(), keys(override)) == kinds


@pytest.mark.parametrize(
    ("libraries", "kinds"),
    [
        (("opencv-python", "opencv-python-headless"), PREPARED),
        (("torch",), TRAINED),
        (("torchvision",), TRAINED),
        (("onnx",), EXPORTED),
        (("onnxruntime", "onnxruntime-gpu"), INT8),
        (("openvino",), set()),
    ],
)
def test_another_version_of_a_library_makes_new_what_it_computed(
    keys, monkeypatch, libraries, kinds
):
    before, version = keys(), plugins._distribution_version

    def upgraded(name: str) -> str:
        return version(name) and ("99" if name in libraries else version(name))

    monkeypatch.setattr(plugins, "_distribution_version", upgraded)
    assert changed(before, keys()) == kinds


# of each library one that it reads (`strings` of its binaries), and some that change no number
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("OPENCV_IPP", PREPARED), ("OPENCV_CPU_DISABLE", PREPARED), ("JSIMD_FORCENONE", PREPARED),
        ("OPENCV_IO_MAX_IMAGE_PIXELS", PREPARED), ("AOM_SIMD_CAPS_MASK", PREPARED),
        ("NPY_DISABLE_CPU_FEATURES", PREPARED), ("OPENBLAS_CORETYPE", PREPARED),
        ("ONEDNN_MAX_CPU_ISA", PREPARED), ("DNNL_MAX_CPU_ISA", PREPARED), ("MKL_CBWR", PREPARED),
        ("MKL_ENABLE_INSTRUCTIONS", PREPARED), ("ATEN_CPU_CAPABILITY", PREPARED),
        ("FBGEMM_ENABLE_INSTRUCTIONS", PREPARED), ("GLIBC_TUNABLES", PREPARED),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", PREPARED), ("NVIDIA_TF32_OVERRIDE", PREPARED),
        ("ORT_TENSORRT_FP16_ENABLE", PREPARED), ("TORCH_CUDNN_V8_API_DISABLED", PREPARED),
        ("OMP_NUM_THREADS", set()), ("OPENCV_LOG_LEVEL", set()), ("TORCH_CPP_LOG_LEVEL", set()),
        ("ORT_DISABLE_TELEMETRY", set()), ("PYTORCH_CUDA_ALLOC_CONF", set()),
        ("OPENCV_FFMPEG_CAPTURE_OPTIONS", set()), ("TORCH_NCCL_BLOCKING_WAIT", set()),
        ("CUBLAS_WORKSPACE_CONFIG", set()), ("HOME", set()), ("LANG", set()),
    ],
)  # fmt: skip
def test_a_variable_that_libraries_read_makes_new_what_they_compute(keys, monkeypatch, name, kinds):
    monkeypatch.delenv(name, raising=False)
    before = keys()
    monkeypatch.setenv(name, "1")
    after = keys()
    assert changed(before, after) == kinds
    assert (name in environment.flags()) >= bool(kinds)
    monkeypatch.setenv(name, "2")
    assert changed(after, keys()) == kinds


@pytest.mark.parametrize(
    "libraries", [("opencv-python", "opencv-python-headless"), ("pillow", "Pillow"), ("numpy",)]
)
def test_a_comparison_depends_on_what_locates_its_differences(monkeypatch, libraries):
    paths = [Preprocess(name, SimpleJPEGDecoder(), Resize(TorchResizer(), (8, 8))) for name in "ab"]
    work, known = PixelComparison(*paths, "images"), metadata.version
    before = work.parts

    def upgraded(name: str) -> str:
        return known(name) and ("99" if name in libraries else known(name))

    monkeypatch.setattr(metadata, "version", upgraded)
    plugins._distribution_version.cache_clear()
    try:
        after = work.parts
    finally:
        plugins._distribution_version.cache_clear()
    assert {each for each in before if before[each] != after[each]} == {"libraries"}


def test_another_opset_makes_new_what_was_exported(keys, monkeypatch):
    before = keys()
    monkeypatch.setattr(export, "OPSET", 18)
    assert changed(before, keys()) == EXPORTED


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        ("torch_settings.py", PREPARED),
        ("samples.py", PREPARED),
        ("machine.py", PREPARED),
        ("decoders/opencv.py", PREPARED),
        ("preprocess/nv12.py", PREPARED),
        ("preprocess/stage_mixtures.py", PREPARED),
        ("isolation/worker.py", PREPARED),
        ("prepare/__init__.py", PREPARED),
        ("datasets/digits_on_photos.py", PREPARED),
        ("models/user_model.py", TRAINED | {"advice"}),
        ("train/fit.py", TRAINED),
        ("backends/onnxruntime/onnxruntime_int8.py", RUN | {"export", "engine", "advice"}),
        ("engines/__init__.py", RUN | {"export", "engine", "advice"}),
        ("engines/export.py", RUN | {"export", "engine", "advice"}),
        ("predict/session_inputs.py", RUN | {"advice"}),
        ("predict/rank_sessions.py", RUN | {"advice"}),
        ("compare/image_table.py", RUN | {"comparison", "advice"}),
        ("compare/statistics.py", RUN | {"comparison", "advice"}),
        ("attribute/shares.py", {"attribution"}),
        ("search/__init__.py", {"advice"}),
        ("runner/comparison_stage.py", {"comparison"}),
        ("runner/advise.py", {"advice"}),
        ("plan/outlooks.py", set()),
        ("report/table.py", set()),
    ],
)
def test_other_source_makes_new_what_it_computed(keys, monkeypatch, source, kinds):
    before, read, file = keys(), Path.read_bytes, PACKAGE / source
    assert file.exists()
    monkeypatch.setattr(Path, "read_bytes", lambda it: read(it) + b"\n" * (it == file))
    forget_sources()
    try:
        assert changed(before, keys()) == kinds
    finally:
        forget_sources()


def forget_sources():
    version.code_version.cache_clear()
    version._source.cache_clear()


def test_another_name_of_a_path_makes_new_only_what_tells_the_name(keys):
    text = YAML.replace("  opencv:", "  reader:")
    assert changed(keys(), keys(text=text)) == {"attribution"}
    text = YAML.replace("  pillow:", "  server:")
    assert changed(keys(), keys(text=text)) == {"attribution", "advice"}


def test_a_given_model_is_known_by_its_file_and_what_builds_it(keys, tmp_path, monkeypatch):
    weights, lines = tmp_path / "mine.pt", YAML.splitlines()
    given = f"models: [{{name: mine, weights: {weights}, model: small-cnn, preprocess: opencv}}]"
    lines[5:6], lines[7:] = [given], ["advise: {images: 20, change: serving}"]
    text = "\n".join(lines)
    torch.save(small_cnn(10).state_dict(), weights)
    before = keys(text=text)
    torch.save(small_cnn(10).state_dict(), weights)
    after = keys(text=text)
    assert changed(before, after) == TRAINED
    assert changed(after, keys("data.train=41", text=text)) == RUN | {
        "advice",
        "calibration",
        "engine",
    }
    monkeypatch.setattr(plugins, "_distribution_version", lambda name: "99")
    assert changed(after, keys(text=text)) >= TRAINED


def test_a_run_attributes_under_the_key_that_the_plan_tells(tmp_path):
    file = tmp_path / "keys.yaml"
    file.write_text(YAML)
    plan = make_plan(load_experiment(file))
    ran = [each for each in plan.evaluations if not each.skipped]
    assert planned_attributions(plan) == planned_attributions(plan, ran)
    (whole,) = planned_attributions(plan)
    (less,) = planned_attributions(plan, [e for e in ran if e.runtime.name == "torch"])
    assert whole.key != less.key
    served = [e for e in ran if e.preprocess.name == "pillow" and e.runtime.precision == "int8"]
    # the worst runtime is another one without it
    (failed,) = planned_attributions(plan, [e for e in ran if e not in served])
    assert whole.runtimes == failed.runtimes
    assert whole.key != failed.key
    without_reference = [replace(e, skipped="not here" if e.aligned else "") for e in ran]
    (none,) = planned_attributions(replace(plan, evaluations=tuple(without_reference)))
    assert none.skipped == "no cell that it begins from can run"
    assert not none.models


@pytest.mark.parametrize(
    ("before", "after"), [("name: first", "name: second"), ("preprocess: opencv}", "preprocess: pillow}")]
)  # fmt: skip
def test_the_record_of_a_given_model_is_that_of_its_name_and_path(tmp_path, before, after):
    weights = tmp_path / "mine.pt"
    torch.save(small_cnn(10).state_dict(), weights)
    given = f"{{name: first, weights: {weights}, model: small-cnn, preprocess: opencv}}"
    path = "decode: opencv, resize: {name: opencv, size: 48}"
    text = f"""\
name: keys
data: {{name: digits-on-photos, train: 40, eval: 20, seed: 0}}
preprocess: {{opencv: {{{path}}}, pillow: {{{path}, same: true}}}}
models: [{given}]
evaluate: {{backends: [torch]}}
"""
    file, keys = tmp_path / "keys.yaml", set()
    for written in (text, text.replace(before, after)):
        file.write_text(written)
        keys.add(make_plan(load_experiment(file)).key)
    assert len(keys) == 2


def test_an_option_of_advice_alone_predicts_nothing_again(tmp_path):
    def keys(options: str) -> tuple[set[str], Embedding]:
        file = tmp_path / "keys.yaml"
        file.write_text(f"""\
name: keys
task: {{name: embedding{options}}}
data: {{name: digit-identities, train: 4, eval: 4, images: 2}}
preprocess: {{a: {{preset: opencv-train, size: 48}}, b: {{preset: plsc, size: 48}}}}
train: {{model: small-cnn, embedding: 8, loss: arcface, epochs: 1, seeds: [3]}}
evaluate: {{backends: [torch]}}
""")
        plan = make_plan(load_experiment(file))
        return {each.key for each in (*plan.trainings, *plan.evaluations)}, plan.evaluations[0].task

    before, _ = keys("")
    after, task = keys(", margin: 0.05, index_size: 1000")
    assert after == before
    assert (task.margin, task.index_size) == (0.05, 1000)
    assert len(before & keys(", k: 5")[0]) == 2  # the trainings
