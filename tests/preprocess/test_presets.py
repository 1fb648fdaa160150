"""What the presets claim of real stacks holds against those stacks."""

import io
import shutil
import subprocess
import sys

import cv2
import numpy as np
import omniback
import pytest
import torch
import torchpipe  # noqa: F401 - registers its backends with omniback
from PIL import Image
from torchvision.io import ImageReadMode, decode_image
from torchvision.models import ResNet18_Weights
from torchvision.transforms import InterpolationMode, v2

from alignkit.cli.list_command import _decoders
from alignkit.decoders import DECODERS
from alignkit.decoders.nvjpeg_model import NvjpegModelDecoder
from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.experiment.experiment import PreprocessOption
from alignkit.findings.provenance import path_facts
from alignkit.plugins import Plugin
from alignkit.preprocess import Preprocess
from alignkit.preprocess.presets import PRESETS, _measured, calibration, decoder_evidence
from alignkit.resizers import RESIZERS
from alignkit.studies.calibrate import SHIPPED, write_calibration
from alignkit.text.names import surrogate_note
from tests.photos import encoded, exif, photo

KINDS = ("420", "422", "444", "progressive", "grey", "exif-6", "exif-7")


def path_of(preset: str, size: int = 48) -> Preprocess:
    return PreprocessOption.model_validate({"preset": preset, "size": size}).build(preset)


def prepared(preset: str, encoded: bytes, size: int = 48) -> np.ndarray:
    return path_of(preset, size).taps(encoded).last


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_valid_path_of_the_size_asked_for(name):
    path = path_of(name, 96)
    assert path.size == (96, 96)
    assert path.surrogate_of == PRESETS[name].surrogate_of
    assert PRESETS[name].summary
    assert PRESETS[name].source


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_data_that_no_caller_can_change(name):
    stages = PRESETS[name].stages(64)
    stages["decode"]["name"] = "changed"
    stages["resize"]["name"] = "changed"
    for stage in stages.values():
        if isinstance(stage, dict):
            stage.clear()
    assert PRESETS[name].stages(64) != stages
    assert PRESETS[name].stages(64)["decode"]["name"] in DECODERS
    assert PRESETS[name].stages(64)["resize"]["name"] in RESIZERS


def test_importing_the_presets_imports_no_library():
    code = (
        "import sys, alignkit.preprocess.presets;"
        "print({'numpy', 'torch', 'cv2', 'PIL', 'torchpipe'} & set(sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    )
    assert printed.stdout.strip() == "set()"


@pytest.mark.parametrize("kind", KINDS)
def test_opencv_train_is_imread_and_resize(jpegs, kind, tmp_path):
    file = tmp_path / "image.jpg"
    file.write_bytes(jpegs[kind])
    direct = cv2.resize(cv2.imread(str(file)), (48, 48))[..., ::-1]
    assert np.array_equal(prepared("opencv-train", jpegs[kind]), direct)


@pytest.mark.parametrize("kind", KINDS)
def test_pillow_train_is_the_loader_and_resize_of_torchvision(jpegs, kind, tmp_path):
    file = tmp_path / "image.jpg"
    file.write_bytes(jpegs[kind])
    direct = v2.Resize((48, 48))(Image.open(file).convert("RGB"))
    assert np.array_equal(prepared("pillow-train", jpegs[kind]), np.asarray(direct))


@pytest.mark.parametrize("kind", KINDS)
def test_torchvision_eval_is_the_transform_of_published_weights(jpegs, kind):
    path = path_of("torchvision-eval", 224)
    data = torch.frombuffer(bytearray(jpegs[kind]), dtype=torch.uint8)
    transform = ResNet18_Weights.IMAGENET1K_V1.transforms()
    direct = transform(decode_image(data, mode=ImageReadMode.RGB)).numpy()
    ours = path.normalise(path.taps(jpegs[kind]).last)
    assert np.array_equal(ours, direct)


@pytest.mark.parametrize("kind", KINDS)
def test_torchpipe_cpu_is_the_pipeline_of_torchpipe(jpegs, kind):
    options = {"resize_h": "48", "resize_w": "48", "color": "rgb", "device": "cpu"}
    request = {"data": jpegs[kind]}
    omniback.init("S[DecodeMat,ResizeMat,CvtColorMat,Mat2Tensor]", options)(request)
    direct = torch.from_dlpack(request["result"]).numpy()
    assert np.array_equal(prepared("torchpipe-cpu", jpegs[kind]), direct)


@pytest.mark.parametrize("kind", KINDS)
def test_torchpipe_cpu_equals_opencv_train(jpegs, kind):
    assert np.array_equal(
        prepared("torchpipe-cpu", jpegs[kind]), prepared("opencv-train", jpegs[kind])
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_resize_of_torchpipe_gpu_surrogate_is_resize_tensor(jpegs, kind):
    taps = path_of("torchpipe-gpu-surrogate").taps(jpegs[kind])
    decoded = torch.tensor(taps.pixels["orient"]).permute(2, 0, 1)[None].contiguous()
    request = {"data": decoded}
    omniback.init("ResizeTensor", {"resize_h": "48", "resize_w": "48"})(request)
    direct = torch.from_dlpack(request["result"])[0].permute(1, 2, 0).numpy()
    assert taps.last.dtype == np.float32
    assert np.array_equal(taps.last, direct)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "preset", ["torchvision-cuda-surrogate", "torchvision-cuda-engine-surrogate"]
)
def test_the_resize_of_a_cuda_surrogate_is_torchvisions_of_floats_rounded(jpegs, kind, preset):
    """As on CUDA; with uint8 on a CPU, torchvision has another kernel."""
    taps = path_of(preset).taps(jpegs[kind])
    planes = torch.tensor(taps.pixels["orient"]).permute(2, 0, 1).contiguous().float()
    direct = v2.Resize((48, 48), InterpolationMode.BILINEAR, antialias=True)(planes)
    assert taps.last.dtype == np.uint8
    assert np.array_equal(taps.last, direct.round().permute(1, 2, 0).numpy())


def test_the_surrogates_of_nvjpeg_13_darken_nothing_and_the_engines_444_is_libjpegs(jpegs):
    for kind in ("420", "422", "444"):
        cpu = path_of("torchvision-eval").taps(jpegs[kind]).pixels["decode"].astype(int)
        cuda, engine = (
            path_of(f"torchvision-cuda{each}-surrogate").taps(jpegs[kind]).pixels["decode"] - cpu
            for each in ("", "-engine")
        )
        assert np.abs(cuda.mean(axis=(0, 1))).max() < 0.1
        assert cuda.any()
        assert (kind == "444") == (not engine.any())


@pytest.mark.parametrize("kind", KINDS)
def test_timm_eval_is_timms_transform(jpegs, kind):
    data = pytest.importorskip("timm.data", reason="needs the extra timm")
    transform = data.create_transform((3, 224, 224), interpolation="bicubic", crop_pct=0.875)
    path = path_of("timm-eval", 224)
    direct = transform(Image.open(io.BytesIO(jpegs[kind])).convert("RGB")).numpy()
    assert np.allclose(path.normalise(path.taps(jpegs[kind]).last), direct, atol=1e-6)


@pytest.mark.parametrize("size", [(61, 97), (375, 500), (500, 333), (64, 64)])
def test_mlperf_resnet50_is_what_its_reference_does(size):
    """Shorter side to input / 0.875, INTER_AREA, the middle from the pixel below, means off."""
    file = encoded(photo("flower", *size))
    image = cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    scale = int(100.0 * 224 / 87.5) / min(size)
    target = [256 if side == min(size) else int(side * scale) for side in size]
    image = cv2.resize(image, target[::-1], interpolation=cv2.INTER_AREA).astype(np.float32)
    top, left = (int((side - 224) / 2) for side in target)
    direct = image[top : top + 224, left : left + 224] - np.float32([123.68, 116.78, 103.94])
    path = path_of("mlperf-resnet50", 224)
    assert np.allclose(path.normalise(path.taps(file).last), np.moveaxis(direct, 2, 0), atol=1e-4)


def test_ultralytics_rectangle_is_the_letterbox_with_less_padding(jpegs):
    square, rect = (
        path_of(f"ultralytics-letterbox{end}", 64).taps(jpegs["420"]).last for end in ("", "-rect")
    )
    # 61x97: 40x64 in the letterbox, 12 rows of grey on either side
    assert square.shape == (64, 64, 3)
    assert rect.shape == (64, 64, 3)
    square, rect = (
        path_of(f"ultralytics-letterbox{end}", 128).taps(jpegs["420"]).last for end in ("", "-rect")
    )
    # 80x128: 24 rows of grey on either side, or 8
    assert rect.shape == (96, 128, 3)
    assert np.array_equal(rect, square[16:112])


def test_ultralytics_letterbox_gives_values_in_0_to_1_on_grey_114(jpegs):
    path = path_of("ultralytics-letterbox", 64)
    tensor = path.normalise(path.taps(jpegs["420"]).last)
    assert tensor.shape == (3, 64, 64)
    assert np.allclose(tensor[:, 0], 114 / 255)
    assert np.allclose(tensor, path.taps(jpegs["420"]).last.transpose(2, 0, 1) / 255)


def test_plsc_divides_by_128():
    face = encoded(photo("flower", 112, 112), subsampling="4:4:4")
    path = path_of("plsc", 112)
    direct = np.array(Image.open(io.BytesIO(face))).astype("float32").transpose(2, 0, 1)
    direct = (direct - 127.5) / 128.0
    assert np.allclose(path.normalise(path.taps(face).last), direct, atol=1e-6)


@pytest.mark.parametrize("size", [(61, 97), (416, 500), (375, 500), (500, 333), (64, 64)])
def test_dali_resnet_is_the_pipeline_of_dalis_example(size):
    pytest.importorskip("nvidia.dali", reason="needs the extra dali")
    from nvidia.dali import Pipeline, fn, types

    file = encoded(photo("flower", *size), exif=exif(6))
    with Pipeline(batch_size=1, num_threads=1, device_id=None) as pipeline:
        data = fn.external_source(source=[[np.frombuffer(file, np.uint8)]], cycle=True)
        images = fn.decoders.image(data, output_type=types.RGB)
        images = fn.resize(
            images, size=256, mode="not_smaller", interp_type=types.INTERP_TRIANGULAR
        )
        pipeline.set_outputs(fn.crop(images, crop=(224, 224)))
    direct = np.array(pipeline.run()[0].at(0))
    assert np.array_equal(prepared("dali-resnet", file, 224), direct)


def test_the_resize_parts_torchpipes_gpu_from_its_cpu_by_more_than_the_decode(shared_data):
    """The finding the presets exist to show, on real photographs at 224 px."""
    cpu, gpu = path_of("torchpipe-cpu", 224), path_of("torchpipe-gpu-surrogate", 224)
    for file in sorted((shared_data / "photos").glob("*"))[:6]:
        reference, candidate = cpu.taps(file.read_bytes()), gpu.taps(file.read_bytes())
        isolated = gpu.resize(reference.pixels["orient"])
        of_decode = np.abs(candidate.last - isolated).mean()
        of_resize = np.abs(isolated - reference.last).mean()
        assert of_resize > 1.5 * of_decode
        assert of_resize > 0.9


@pytest.mark.parametrize("name", PRESETS)
def test_only_surrogates_speak_of_calibration(name):
    assert bool(calibration(path_of(name, 64))) == bool(PRESETS[name].surrogate_of)


@pytest.mark.parametrize("name", ["torchpipe-gpu", "torchvision-cuda", "dali-gpu"])
def test_a_surrogate_says_what_each_of_its_stages_was_compared_with(name):
    decode, resize = calibration(path_of(f"{name}-surrogate")).split("; ")
    assert decode.startswith(
        "decode verified for 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:1:0 and grey"
    )
    assert "(nvJPEG 13.0.1 and 13.3.2, the cores of an H100)" in decode
    measured = {
        "torchpipe-gpu": "resize equal (against torchpipe 0.2.25 on NVIDIA H100",
        "torchvision-cuda": "resize within 1 level (against torchvision 0.26.0+cu130 on NVIDIA H100",
    }
    assert resize.startswith(measured.get(name, "resize not yet calibrated"))


def test_the_surrogate_of_the_engine_says_that_an_engine_was_compared():
    told = calibration(path_of("torchvision-cuda-engine-surrogate"))
    assert "the JPEG engine and the cores of an H100" in told


@pytest.fixture
def folder_of_calibration(tmp_path, monkeypatch):
    """A copy of the package's records, which the presets read instead."""
    folder = shutil.copytree(SHIPPED, tmp_path / "calibration")
    monkeypatch.setattr("importlib.resources.files", lambda _: tmp_path)
    _measured.cache_clear()
    yield folder
    _measured.cache_clear()


def test_a_decode_that_was_measured_on_a_gpu_comes_before_the_record_of_its_rule(
    folder_of_calibration,
):
    kind = {"images": 2, "not_compared": 0, "max_levels": 3.0, "share_within_1": 0.99}
    measured = {
        "real": "torchvision 0.26.0, nvJPEG",
        "device": "NVIDIA X",
        "kinds": {"4:2:0": kind},
    }
    name = "torchvision-cuda-surrogate"
    write_calibration(name, {"decode": measured}, folder_of_calibration)
    told = calibration(path_of(name)).replace("\N{NO-BREAK SPACE}", "")
    assert told.partition("; ")[0] == (
        "decode within 1 level on 99.00% of values, 3 at most "
        "(against torchvision 0.26.0 on NVIDIA X)"
    )
    # of another real stack, and of another rule, nothing was measured
    assert calibration(path_of("torchpipe-gpu-surrogate")).startswith("decode verified")
    assert "the JPEG engine and the cores of an H100" in calibration(
        path_of("torchvision-cuda-engine-surrogate")
    )


def test_a_resize_that_was_measured_for_one_preset_is_shown_for_another_that_has_it(
    folder_of_calibration,
):
    kind = {"images": 2, "not_compared": 0, "max_levels": 0.0, "share_within_1": 1.0}
    measured = {"real": "torchvision 0.26.0", "device": "NVIDIA X", "kinds": {"to 48 px": kind}}
    (folder_of_calibration / "torchvision-cuda-surrogate.json").unlink()
    write_calibration(
        "torchvision-cuda-engine-surrogate", {"resize": measured}, folder_of_calibration
    )
    told = calibration(path_of("torchvision-cuda-surrogate"))
    assert told.endswith("; resize equal (against torchvision 0.26.0 on NVIDIA X)")


def test_a_decoder_that_says_nothing_of_a_real_one_has_no_evidence(monkeypatch):
    assert decoder_evidence(OpenCVDecoder()) == ""
    assert decoder_evidence(NvjpegModelDecoder()).startswith("surrogate of nvJPEG, decode verified")
    smooth = decoder_evidence(NvjpegModelDecoder("interpolate"))
    assert smooth.startswith("surrogate of nvJPEG, decode unverified (a hypothesis)")
    plugin = Plugin("tests.preprocess.test_presets:OfAThirdParty")
    monkeypatch.setitem(DECODERS, "third", plugin)
    assert {each.note for each in _decoders() if each.name == "third"} == {""}


@pytest.mark.parametrize(
    ("entry", "replaced", "said"),
    [
        ({}, (), "surrogate of torchpipe-gpu, decode verified"),
        ({"resize": {"name": "opencv"}}, ("resize",), "torchpipe-gpu with another resize, decode"),
        ({"decode": "opencv", "orient": "exif"}, ("decode", "orient"),
         "torchpipe-gpu with another decode and orient, resize equal"),
        ({"orient": "none"}, (), "surrogate of torchpipe-gpu, decode verified"),
        ({"decode": "opencv", "resize": {"name": "opencv"}, "crop": 30},
         ("decode", "resize", "crop"),
         "torchpipe-gpu with another decode, resize and crop, not yet calibrated"),
    ],
)  # fmt: skip
def test_a_surrogate_says_which_of_its_stages_a_file_replaced(entry, replaced, said):
    given = {"preset": "torchpipe-gpu-surrogate", "size": 32, **entry}
    path = PreprocessOption.model_validate(given).build("gpu")
    assert path.replaced == replaced
    for brief in (True, False):
        assert said in surrogate_note(path_facts(path), brief=brief)


class OfAThirdParty:
    """A decoder that keeps the contract without deriving from its class."""

    def __init__(self, model):
        raise AssertionError("nothing has to construct it")


@pytest.mark.parametrize(
    ("stages", "surrogate_of", "told"),
    [
        ({"preset": "torchpipe-gpu-surrogate", "size": 9, "resize": {"name": "opencv"}},
         "torchpipe-gpu", "decode verified"),
        ({"preset": "torchpipe-gpu-surrogate", "size": 9, "decode": "opencv"},
         "torchpipe-gpu", "resize equal (against torchpipe 0.2.25 on NVIDIA H100 80GB HBM3, driver 580.159.04)"),
        ({"preset": "opencv-train", "size": 9, "decode": "nvjpeg-model"},
         "nvJPEG", "decode verified"),
        ({"preset": "opencv-train", "size": 9,
          "decode": {"name": "nvjpeg-model", "upsampling": "interpolate"}},
         "nvJPEG", "decode unverified (a hypothesis)"),
        ({"preset": "dali-gpu-surrogate", "size": 9, "decode": "opencv", "resize": {"name": "torch"}},
         "dali-gpu", "not yet calibrated"),
    ],
)  # fmt: skip
def test_evidence_is_that_of_the_stages_a_path_has(stages, surrogate_of, told):
    path = PreprocessOption.model_validate(stages).build("path")
    assert path.surrogate_of == surrogate_of
    assert calibration(path).startswith(told)
    assert ";" not in calibration(path)


@pytest.mark.parametrize("name", [name for name in PRESETS if name.endswith(("-gpu", "-cuda"))])
def test_a_preset_for_a_gpu_has_a_surrogate_that_differs_in_its_libraries_alone(name):
    twin = PRESETS[f"{name}-surrogate"]
    assert twin.surrogate_of == name
    real, standing_in = (preset.stages(64) for preset in (PRESETS[name], twin))
    for stage in (real.keys() | standing_in.keys()) - {"decode", "resize"}:
        assert real[stage] == standing_in[stage]
    for key in ("size", "fit", "rounding"):
        assert real["resize"].get(key) == standing_in["resize"].get(key)
