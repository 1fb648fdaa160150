"""`alignkit.diff` and `alignkit.match` against the commands of their names."""

import json
import shlex

import cv2
import numpy as np
import onnxruntime
import pytest

import alignkit
from alignkit.cli import app
from alignkit.errors import ConfigError, NothingCompared
from alignkit.experiment.yaml_argument import path_of
from alignkit.tap_recorder import Tap
from tests.cli.test_match import linear_model
from tests.photos import encoded, photo

AREA = {"decode": "opencv", "resize": {"name": "opencv", "interpolation": "area", "size": 32}}
LINEAR = {"name": "mine", **AREA, "resize": {"name": "opencv", "size": 32}}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    for place, name in enumerate(("china", "flower", "china", "flower", "china")):
        (folder / f"{place}.jpg").write_bytes(encoded(photo(name, 90 + place, 120), quality=90))
    return folder


@pytest.fixture(scope="module")
def found(images, tmp_path_factory):
    page = tmp_path_factory.mktemp("page")
    return alignkit.diff(images, AREA, LINEAR, "opencv-train", size=32, page=page)


def test_a_diff_is_that_of_its_command(found, images, tmp_path, monkeypatch):
    file = tmp_path / "diff.json"
    words = [*shlex.split(found.record.command)[1:], "--out", f"json={file}", "--quiet"]
    with pytest.raises(SystemExit) as ended:
        app(words)
    assert ended.value.code == 0
    told = json.loads(file.read_text())
    mine = json.loads(found.record.model_dump_json())
    assert told["pairs"] == mine["pairs"]
    assert told["coverage"] == mine["coverage"]
    assert told["data"] == mine["data"]


def test_pixels_of_a_diff_are_those_of_opencv(found, images):
    row = found.pixels.query("candidate == 'mine' and stage == 'resize' and mode == 'isolated'")
    sums = []
    for file in sorted(images.iterdir()):
        image = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
        area = cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA).astype(int)
        sums.append(np.abs(cv2.resize(image, (32, 32)) - area).mean())
    assert row.mean_abs.item() == pytest.approx(np.mean(sums))
    assert row.images.item() == 5
    assert found.coverage.ok.tolist() == [5, 5, 5]
    assert len(found.images.query("candidate == 'mine'")) == 5


def test_bytes_files_and_built_paths_give_the_same_numbers(found, images):
    files = sorted(images.iterdir())
    built = path_of(AREA, "built"), path_of(LINEAR, "mine")
    for given in (
        files,
        [each.read_bytes() for each in files],
        [files[0].read_bytes(), *files[1:]],
    ):
        other = alignkit.diff(given, *built)
        wanted = found.pixels.query("candidate == 'mine'").mean_abs.tolist()
        assert other.pixels.mean_abs.tolist() == wanted


def test_images_of_an_iterator_are_all_compared(images):
    files = sorted(images.iterdir())
    given = alignkit.diff(iter(files), AREA, LINEAR)
    assert given.record.pairs == alignkit.diff(files, AREA, LINEAR).record.pairs
    assert all(str(each) in given.record.command for each in files)
    mixed = alignkit.diff(iter([files[0].read_bytes(), files[1]]), AREA, LINEAR)
    assert mixed.pixels.images.max() == 2


def test_the_stored_command_has_every_option(images, tmp_path):
    given = {
        "limit": 2, "ssim": "none", "planes": "size", "stress": "420:q90", "max_pixels": 10**6,
        "timeout": 9.5, "max_memory": 2.0,
    }  # fmt: skip
    words = shlex.split(alignkit.diff(images, AREA, LINEAR, **given).record.command)
    for name, value in given.items():
        place = words.index(f"--{name.replace('_', '-')}")
        assert words[place + 1] == str(value)
    some = alignkit.diff(images, AREA, LINEAR, only=["0.jpg", "3.jpg"]).record.command
    assert some.endswith("--only 0.jpg --only 3.jpg")


def test_mistakes_are_said_in_the_words_of_the_function(images):
    with pytest.raises(ConfigError, match=r"there is no candidate; call diff\(images"):
        alignkit.diff(images, "opencv-train")
    with pytest.raises(ConfigError, match="path opencv-trian: no such preset; did you mean"):
        alignkit.diff(images, "opencv-trian", "pillow-train")
    with pytest.raises(ConfigError, match="decod: unknown key; did you mean 'decode'"):
        alignkit.diff(images, "opencv-train", {**AREA, "decod": "pillow"})
    with pytest.raises(ConfigError, match="pass a part of it"):
        alignkit.diff([b"x"], AREA, LINEAR, limit=1)
    with pytest.raises(NothingCompared):
        alignkit.diff([], AREA, LINEAR)


def test_match_finds_the_stack_behind_recorded_tensors(images, tmp_path):
    for file in images.iterdir():
        image = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)
        np.save(tmp_path / f"{file.stem}.npy", cv2.resize(image, (32, 32)).transpose(2, 0, 1))
    found = alignkit.match(tmp_path, images, decoders=["opencv"], resizers=["opencv", "pillow"])
    assert found.state == "found"
    assert found.preprocess is not None
    assert found.preprocess["colour"] == "bgr"
    assert found.ranking.configuration[0].startswith("opencv")
    assert found.ranking.mean_abs[0] == 0
    assert found.sentence in repr(found)
    assert "<table" in found._repr_html_()
    # the path that was found works in every other function
    assert "resize" in alignkit.diff(images, found.preprocess, AREA).pixels.stage.tolist()


def test_match_takes_a_preset_or_a_mapping_as_target(images):
    found = alignkit.match(LINEAR, images, decoders=["opencv"], resizers=["opencv"])
    assert found.match.winner.identical == found.match.images
    preset = alignkit.match(
        "opencv-train", images, size=32, decoders=["opencv"], resizers=["opencv"]
    )
    assert preset.state == "found"


def test_the_predictions_of_a_model_are_counted(images, tmp_path):
    model = tmp_path / "model.onnx"
    linear_model(model, 32)
    found = alignkit.diff(images, AREA, LINEAR, model=model)
    session = onnxruntime.InferenceSession(str(model))
    (entry,) = session.get_inputs()
    outputs = [
        session.run(None, {entry.name: np.stack([side.normalise(side.taps(data).last)
                                                 for data in sorted_bytes(images)])})[0]
        for side in (path_of(AREA, "a"), path_of(LINEAR, "b"))
    ]  # fmt: skip
    row = found.predictions.iloc[0]
    assert row.images == 5
    assert row.flips == (outputs[0].argmax(1) != outputs[1].argmax(1)).sum()
    assert row.churn == row.flips / 5
    assert row.logit_max_abs == pytest.approx(np.abs(outputs[1] - outputs[0]).max(), rel=1e-4)
    assert "predictions of model.onnx" in found._repr_html_().replace("\N{NO-BREAK SPACE}", " ")
    assert alignkit.diff(images, AREA, LINEAR).predictions.empty


def sorted_bytes(folder):
    return [file.read_bytes() for file in sorted(folder.iterdir())]


def test_recorded_stages_are_judged_as_by_the_command(images, tmp_path):
    tap = Tap()
    tap.to(tmp_path / "taps")
    for file in sorted(images.iterdir()):
        image = cv2.imdecode(np.fromfile(file, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        tap("decode", image, file.name)
        tap("resize", cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA), file.name)
    only = {"decoders": ["opencv"], "resizers": ["opencv"]}
    found = alignkit.match_taps(
        tmp_path / "taps", images, preprocess="opencv-train", size=32, **only
    )
    assert found.first == "resize"
    assert "interpolation=linear → area" in found.sentence
    assert found.stages.state.tolist() == ["same", "explained"]
    assert found.stages.isolated_mean_abs[0] == 0.0 < found.stages.isolated_mean_abs[1]
    mapped = alignkit.match_taps(tmp_path / "taps", images, preprocess=AREA, **only)
    assert (mapped.first, mapped.report.given) == (None, True)
    nearest = alignkit.match_taps(tmp_path / "taps", images, **only)
    assert (nearest.first, nearest.report.given) == (None, False)
    with pytest.raises(ConfigError, match="is no folder"):
        alignkit.match_taps(tmp_path / "absent", images)


def test_workers_of_an_engine_and_stored_lots_give_the_same_numbers(found, images, tmp_path):
    pytest.importorskip("distributed")
    options = {"engine": "dask", "workers": 2, "reports": tmp_path / "work"}
    files = sorted(images.iterdir())
    given = [files[0].read_bytes(), *files[1:]]  # one of them travels to its worker
    other = alignkit.diff(given, AREA, LINEAR, **options)
    assert (
        other.pixels.mean_abs.tolist()
        == found.pixels.query("candidate == 'mine'").mean_abs.tolist()
    )
    words = shlex.split(other.record.command)
    assert words[words.index("--engine") :] == ["--engine", "dask", "--workers", "2"]
    assert len(list((tmp_path / "work/.cache/lots").glob("[!.]*/key.json"))) == 1
    with pytest.raises(ConfigError, match="--workers belongs to --engine"):
        alignkit.diff(images, AREA, LINEAR, workers=2)


PICTURES = [encoded(photo("flower", 90, 120))]
CALLS = {
    # id: images, stacks, words
    "a function as a stack": (PICTURES, ("pillow-train", lambda data: data), "function is no stack"),
    "a function as the reference": (PICTURES, (bytes, "pillow-train"), "assert_preprocess_aligned"),
    "nothing as a stack": (PICTURES, ("pillow-train", None), "NoneType is no stack"),
    "a number as a stack": (PICTURES, ("pillow-train", 3), "int is no stack"),
    "nothing in the list": ([None], ("pillow-train", "opencv-train"), "entry 0 is NoneType"),
    "nothing beside an image": (
        [*PICTURES, None], ("pillow-train", "opencv-train"), "is NoneType, which is no image"),
    "nothing as images": (None, ("pillow-train", "opencv-train"), "NoneType is no images"),
    "a number as images": (7, ("pillow-train", "opencv-train"), "int is no images"),
    "pixels": ([np.zeros((8, 8, 3), np.uint8)], ("pillow-train", "opencv-train"), "ndarray"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_stack_or_no_image_is_said(name):
    images, stacks, words = CALLS[name]
    with pytest.raises(ConfigError, match=words):
        alignkit.diff(images, *stacks)


@pytest.mark.parametrize("given", [[None], None, [3.5], [[1]]], ids=repr)
def test_no_function_takes_what_is_no_image(given):
    with pytest.raises(ConfigError, match="image"):
        alignkit.match("pillow-train", given)
    with pytest.raises(ConfigError, match="image"):
        alignkit.assert_preprocess_aligned("pillow-train", "opencv-train", given)
