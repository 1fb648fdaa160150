"""`alignkit match`."""

import json

import cv2
import numpy as np
import pytest

from alignkit.experiment import load_experiment
from alignkit.search.target import preprocess_of
from alignkit.tap_recorder import Tap
from tests.photos import encoded, photo
from tests.search.preprocessing_server import preprocessing
from tests.search.test_search import photographs

ONLY = ("--decoders", "opencv", "--decoders", "simplejpeg", "--resizers", "opencv", "--quiet")


@pytest.fixture
def images(tmp_path):
    samples = photographs()
    folder = tmp_path / "images"
    folder.mkdir()
    for row, name in enumerate(samples.ids):
        (folder / name).write_bytes(samples.read(row))
    return folder


def test_what_is_printed_can_be_pasted_and_is_the_matched_path(alignkit, images, tmp_path):
    told = alignkit("match", "--target", "opencv-train", "--size", 96, "--images", images, *ONLY)
    assert told.code == 0
    assert "opencv gives opencv-train's pixels on all 12 images" in told.out
    printed = told.out[told.out.index("preprocess:") :]
    file = tmp_path / "pasted.yaml"
    head = "name: pasted\ndata: {name: digits-on-photos, train: 40, eval: 20}\n"
    file.write_text(f"{head}{printed}  other: {{preset: pillow-train, size: 96}}\n")
    assert alignkit("check", file).code == 0
    built = load_experiment(file).paths[0]
    assert built.identity() == preprocess_of("opencv-train", 96).identity()


def test_the_result_is_written_as_json(alignkit, images, tmp_path):
    out = tmp_path / "deep" / "match.json"
    told = alignkit(
        "match", "--target", "pillow-train", "--size", 96, "--images", images, *ONLY,
        "--out", f"json={out}", "--json",
    )  # fmt: skip
    assert told.code == 0
    stored = json.loads(out.read_text())
    assert json.loads(told.out) == stored
    assert stored["target"] == "pillow-train"
    assert stored["ranking"][0]["preprocess"]["resize"]["interpolation"] == "area"
    assert 0 < stored["ranking"][0]["mean_abs"]["value"] < 5


def test_serving_options_are_named_as_they_are_set(alignkit, images):
    out = images.parent / "match.json"
    told = alignkit(
        "match", "--target", "opencv-train", "--size", 96, "--images", images, "--serving", "-q",
        "--out", f"json={out}",
    )  # fmt: skip
    assert told.code == 0
    stored = json.loads(out.read_text())
    options = {each for ranked in stored["ranking"] for each in ranked["labels"]}
    surrogates = {each for each in options if "(surrogate of" in each}
    assert stored["surrogates"].keys() == surrogates
    assert surrogates
    for option, evidence in stored["surrogates"].items():
        assert f"({evidence})" in option
    assert "decode on the CPU" in told.out
    assert "(surrogate of" in " ".join(told.out.split())
    assert "preprocess:" not in told.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "opencv-trian", "--size", 96), "did you mean 'opencv-train'"),
        (("--target", "http://localhost:8000"), "names no model; give http://HOST:PORT"),
        (("--target", "opencv-train", "--size", 96, "--out", "html=x"), "no kind 'html'"),
    ],
)
def test_mistakes_end_with_the_next_step_and_code_2(alignkit, images, arguments, message):
    told = alignkit("match", "--images", images, *arguments)
    assert told.code == 2
    assert message in told.err


def linear_model(path, size: int, classes: int = 40) -> None:
    """An ONNX file that projects the pixels' deviations on random weights."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = np.random.default_rng(0).normal(size=(3 * size * size, classes)).astype(np.float32)
    shapes = {"images": ["n", 3, size, size], "logits": ["n", classes]}
    given, found = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    )
    nodes = [
        helper.make_node("Flatten", ["images"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes, "linear", [given], [found], [numpy_helper.from_array(weights, "weights")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)


def test_with_a_model_the_table_shows_how_many_predictions_change(alignkit, images, tmp_path):
    linear_model(tmp_path / "model.onnx", 96)
    out = tmp_path / "match.json"
    told = alignkit(
        "match", "--target", "opencv-train", "--size", 96, "--images", images, *ONLY,
        "--model", tmp_path / "model.onnx", "--out", f"json={out}",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert "churn" in told.out
    ranking = json.loads(out.read_text())["ranking"]
    assert ranking[0]["churn"]["value"] == 0.0
    means = [each["mean_abs"]["value"] for each in ranking]
    assert means == sorted(means)


def test_a_model_that_is_not_there_is_refused_before_the_search(alignkit, images, tmp_path):
    told = alignkit(
        "match", "--target", "opencv-train", "--size", 96, "--images", images, *ONLY,
        "--model", tmp_path / "absent.onnx",
    )  # fmt: skip
    assert told.code == 2
    assert "no such file; give a file of ONNX" in told.err
    assert "grey levels" not in told.out


def test_the_serving_stack_is_found_and_checked_on_images_the_search_did_not_see(
    alignkit, images, tmp_path
):
    pytest.importorskip("tritonclient.http.aio", reason="needs the extra kserve")
    only = ("--decoders", "pillow", "--resizers", "pillow", "--resizers", "opencv", "--quiet")
    kept, out = tmp_path / "kept", tmp_path / "found.json"
    with preprocessing() as served:
        address = f"{served.url}/v2/models/prepare"
        told = alignkit(
            "match", "--target", address, "--images", images, *only,
            "--out", f"tensors={kept}", "--out", f"json={out}",
        )  # fmt: skip
    assert told.code == 0, told.err
    assert f"endpoint: {served.url}, prepare answered for 15 of 15" in told.out
    assert "ImageNet mean and std" in told.out
    found = json.loads(out.read_text())
    best = found["ranking"][0]
    assert best["labels"][0] == "pillow ▸ pillow"
    assert (best["identical"], best["unseen_identical"]) == (12, 3)
    again = alignkit("match", "--target", kept, "--images", images, *only, "--out", f"json={out}")
    assert again.code == 0
    assert json.loads(out.read_text())["ranking"] == found["ranking"]
    refused = alignkit("match", "--target", address, "--images", images, "--out", f"tensors={kept}")
    assert refused.code == 2
    assert "is not empty; to search its tensors, pass it as the target" in refused.err


def test_a_stack_that_is_not_found_gives_no_block_anywhere(alignkit, images, tmp_path):
    folder, out = tmp_path / "tensors", tmp_path / "match.json"
    folder.mkdir()
    for file in sorted(images.iterdir())[:6]:
        pixels = cv2.resize(cv2.imread(str(file))[..., ::-1], (64, 64))
        darker = 255 * (cv2.GaussianBlur(pixels, (0, 0), 2) / 255.0) ** 2.2
        np.save(folder / f"{file.stem}.npy", darker.astype(np.float32))
    told = alignkit("match", "--target", folder, "--images", images, *ONLY, "--out", f"json={out}")
    assert told.code == 0
    assert "not found: no configuration explains tensors" in told.out
    assert " The nearest is " in told.out
    assert "levels remain in the mean" in told.out
    assert "preprocess:" not in told.out
    assert "correct it" not in told.out
    stored = json.loads(out.read_text())
    assert stored["state"] == "not found"
    assert {each["preprocess"] for each in stored["ranking"]} == {None}


def test_taps_are_judged_and_their_recorder_is_printed(alignkit, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    tap = Tap()
    tap.to(tmp_path / "taps")
    for number in range(2):
        data = encoded(photo(width=90 + number))
        (folder / f"{number}.jpg").write_bytes(data)
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        tap("after_decode", image, f"{number}.jpg")
    taps = ("match", "--taps", str(tmp_path / "taps"), "--images", str(folder))
    told = alignkit(*taps, "--preprocess", "opencv-train", "--size", "32")
    assert told.code == 0
    assert "First difference: decode (tap after_decode)" in told.out
    assert "channels are in reverse order" in told.out
    told = alignkit(*taps, "--preprocess", "opencv-train", "--size", "32", "--json")
    assert json.loads(told.out)["first"] == "decode"
    assert alignkit("match", "--tap-source", "python").out.startswith('"""Record arrays')
    assert "namespace alignkit" in alignkit("match", "--tap-source", "cpp").out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--images", "x"], "give --target T, or --taps DIR"),
        (["--taps", "x"], "give the images"),
        (["--images", "x", "--taps", "x", "--serving"], "belong to --target"),
        (["--images", "x", "--target", "x", "--stage", "a=b"], "belong to --taps DIR"),
    ],
)
def test_options_of_the_other_question_are_refused(alignkit, words, says):
    told = alignkit("match", *words)
    assert told.code == 2
    assert says in told.err
