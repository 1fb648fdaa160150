"""What is read in a torchpipe TOML file is what the real torchpipe does with it."""

import uuid
import warnings

import numpy as np
import pytest
from torch.utils.dlpack import from_dlpack

from alignkit.errors import ConfigError
from alignkit.experiment.preprocess_option import PreprocessOption
from alignkit.experiment.torchpipe_toml import TORCHPIPE_BACKENDS, backends_of, stages_of_toml
from tests.photos import encoded, exif, make_jpegs, photo

CPU = """\
resize_h = 48
resize_w = 40
device = "cpu"

[NODE]
backend = "{chain}"
color = "{color}"
"""
CHAINS = {
    "mat": "S[DecodeMat,ResizeMat,cvtColorMat,Mat2Tensor]",
    "colour first": "Sequential[DecodeMat, CvtColorMat, ResizeMat, Mat2Tensor]",
    "as decoded": "S[DecodeMat,ResizeMat,Mat2Tensor]",
    "tensor": "S[DecodeMat,cvtColorMat,Mat2Tensor,ResizeTensor]",
    "colour of a tensor": "S[DecodeMat,Mat2Tensor,ResizeTensor,CvtColorTensor]",
    "letterbox": "S[DecodeMat,LetterBoxMat,CvtColorMat,Mat2Tensor]",
}
JPEGS = {
    **make_jpegs(),
    "half a pixel over": encoded(photo("china", 96, 61)),
    "turned": encoded(photo("flower", 50, 33), exif=exif(6)),
}
SERVING = """\
# what a service runs
color = "bgr"

[jpg]
backend = "S[DecodeTensor,ResizeTensor,cvtColorTensor,SyncTensor]"
resize_h = 224
resize_w = 192
instance_num = 4
next = "model"

[model]
backend = "S[TensorrtTensor, SyncTensor]"
model = "resnet.onnx"
"model::cache" = "resnet.trt"
precision = "fp32"
mean = "123.675,116.28,103.53"
std = "58.395,57.12,57.375"
"""


@pytest.fixture
def written(tmp_path):
    def write(text):
        file = tmp_path / f"n{uuid.uuid4().hex}.toml"
        file.write_text(text.replace("NODE", file.stem))  # a name is taken for a process's life
        return file

    return write


def imported(file, **others):
    given = {"torchpipe_toml": str(file), **others}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PreprocessOption.model_validate(given).build("serving")


def by_torchpipe(file, data):
    import torchpipe

    request = {"data": data}
    torchpipe.pipe(str(file))(request)
    return from_dlpack(request["result"]).numpy().copy()


@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("chain", CHAINS)
def test_the_path_is_bit_equal_to_the_pipeline_of_the_same_file(written, chain, color):
    file = written(CPU.format(chain=CHAINS[chain], color=color))
    path = imported(file)
    import torchpipe

    pipe = torchpipe.pipe(str(file))
    for kind, data in JPEGS.items():
        request = {"data": data}
        pipe(request)
        real = from_dlpack(request["result"]).numpy()
        ours = path.taps(data).last
        assert ours.dtype == real.dtype, kind
        assert np.array_equal(ours, real), kind


def test_the_letterbox_is_padded_with_the_files_grey(written):
    text = CPU.format(chain=CHAINS["letterbox"], color="rgb")
    file = written(text + "pad_val = 114\n")
    assert np.array_equal(imported(file).taps(JPEGS["420"]).last, by_torchpipe(file, JPEGS["420"]))


def test_a_key_that_is_said_to_be_ignored_changes_nothing(written):
    plain = CPU.format(chain=CHAINS["mat"], color="rgb")
    extra = 'filter = "or"\nmean = "9,9,9"\ndata_format = "nchw"\ninterpolation = "cubic"\n'
    file = written(plain + extra + "\n[global]\nresize_h = 7\n")
    stages = stages_of_toml(file)
    ignored = [each for each in stages.warnings if "ignores" in each]
    first = plain.count("\n") + 1
    assert ignored == [
        f"{file}:{first + index}: torchpipe 0.2.25 ignores {key!r}: "
        f"no backend of [{file.stem}] reads it"
        for index, key in enumerate(["filter", "mean", "data_format", "interpolation"])
    ] + [f"{file}:{first + 6}: torchpipe 0.2.25 ignores 'resize_h': it drops the section [global]"]
    data = JPEGS["420"]
    assert np.array_equal(by_torchpipe(file, data), by_torchpipe(written(plain), data))


def test_a_gpu_pipeline_up_to_its_model_is_read_without_a_gpu(written):
    file = written(SERVING)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # every key in it is read
        path = PreprocessOption.model_validate({"torchpipe_toml": str(file)}).build("serving")
    assert type(path.decode).__name__ == "TorchpipeCudaDecoder"
    assert type(path.resize.resizer).__name__ == "TorchpipeCudaResizer"
    assert path.size == (224, 192)
    assert path.colour.space == "bgr"
    assert np.allclose(path.normalise.mean, (0.485, 0.456, 0.406))
    assert np.allclose(path.normalise.std, (0.229, 0.224, 0.225))


def test_a_surrogate_stands_in_for_what_runs_on_a_gpu_and_is_called_so(written):
    path = imported(written(SERVING), surrogate=True)
    assert path.surrogate_of == "torchpipe-gpu"
    twin = PreprocessOption.model_validate({"preset": "torchpipe-gpu-surrogate", "size": 9})
    assert (path.decode, path.resize.resizer) == (twin.decode, twin.resize.resizer)


def test_without_mean_and_std_the_model_is_handed_0_to_255_and_the_user_told(written):
    file = written(CPU.format(chain=CHAINS["mat"], color="rgb"))
    with pytest.warns(UserWarning, match="say so with 'normalise'"):
        path = PreprocessOption.model_validate({"torchpipe_toml": str(file)}).build("x")
    pixels = path.taps(JPEGS["420"]).last
    assert np.allclose(path.normalise(pixels), np.moveaxis(pixels, 2, 0), atol=1e-4)


def test_stages_given_beside_the_file_stand_over_it(written):
    path = imported(written(SERVING), decode="opencv", resize={"name": "opencv"})
    assert type(path.decode).__name__ == "OpenCVDecoder"
    assert path.size == (224, 192)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("DecodeTensor", "DecodeTensr"), ":5: DecodeTensr: alignkit knows not .* 'DecodeTensor'"),
        (("DecodeTensor,", ""), ":5: ResizeTensor: is given bytes, which it refuses"),
        (("ResizeTensor,", ""), "no backend that resizes the image"),
        (("ResizeTensor,", "ResizeTensor,ResizeTensor,"), "a second resize"),
        (("ResizeTensor", "ResizeMat"), "ResizeMat: is given a tensor, which it refuses"),
        (("ResizeTensor", "PillowResizeTensor"), "no longer has the backend 'PillowResizeTensor'"),
        (("DecodeTensor", "(or)S[DecodeMat]"), "a fallback decoder"),
        (("ResizeTensor", "ResizeTensor(resize_h=3)"), "write it as a key"),
        (("S[DecodeTensor", "[DecodeTensor"), ":5: backend: .* is no backend"),
        (("SyncTensor]", "SyncTensor"), "is no backend; write a sequence as"),
        (("resize_h = 224\n", ""), "ResizeTensor: needs the key 'resize_h'"),
        (("resize_h = 224", "resize_h = 1"), "must be a whole number from 2, not '1'"),
        (("resize_w = 192", "resize_w = 3.5"), "must be a whole number from 2, not '3.5'"),
        (('color = "bgr"\n', ""), "cvtColorTensor: needs the key 'color'"),
        (('"bgr"', '"yuv"'), "'color' must be rgb or bgr, not 'yuv'"),
        (('"model"\n\n', '"modl"\n\n'), "an image must enter at one node, not at 2"),
        (('next = "model"', 'next = "model,other"'), "an image must enter at one node"),
        (('next = "model"', 'next = "model"\nor = 1'), ":10: 'or': alignkit follows one way"),
        (("instance_num = 4", "device_id = 1"), ":8: 'device_id': SyncTensor refuses it"),
        (('"123.675,116.28,103.53"', '"0.485,0.456,0.406"'), "three levels of 0..255, each over 1"),
        (('"58.395,57.12,57.375"', "[58, 57, 57]"), "must be three numbers"),
        (("[model]", "[model"), "not valid TOML"),
    ],
)
def test_what_cannot_be_expressed_is_refused_where_it_stands(written, change, message):
    old, new = change
    assert old in SERVING
    with pytest.raises(ConfigError, match=message):
        stages_of_toml(written(SERVING.replace(old, new, 1)))


def test_nodes_that_lead_back_are_refused(written):
    circle = SERVING.replace('precision = "fp32"', 'precision = "fp32"\nnext = "middle"')
    with pytest.raises(ConfigError, match="next = 'model': back to a node before it"):
        stages_of_toml(written(circle + '\n[middle]\nbackend = "Identity"\nnext = "model"\n'))


def test_a_file_that_is_missing_or_has_nothing_to_surrogate_is_told(tmp_path, written):
    with pytest.raises(ConfigError, match="cannot be read"):
        stages_of_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match="nothing here runs on a GPU"):
        stages_of_toml(written(CPU.format(chain=CHAINS["mat"], color="rgb")), surrogate=True)


def test_a_flat_file_is_one_node(written):
    text = CPU.format(chain=CHAINS["mat"], color="rgb").replace("[NODE]\n", "")
    assert stages_of_toml(written(text)).block["resize"]["size"] == [48, 40]


def test_every_backend_for_the_cpu_is_one_that_torchpipe_has():
    import omniback
    import torchpipe  # noqa: F401 - registers its backends with omniback

    options = {"resize_h": "8", "resize_w": "8", "color": "rgb", "device": "cpu"}
    compiled_with_cuda = {"DecodeTensor", "TensorrtTensor"}
    for name in TORCHPIPE_BACKENDS.keys() - compiled_with_cuda:
        assert isinstance(omniback.init(name, options), omniback.Backend)


def test_nesting_is_flattened():
    chain = "With[StreamPool,S[A,SyncTensor[Sequential[B,C]]]]"
    assert backends_of(chain) == ("A", "B", "C")
