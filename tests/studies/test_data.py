"""What `alignkit data stats` finds: against its files, and moments against numpy over all pixels."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from alignkit.errors import ConfigError, DataError
from alignkit.progress import NoProgress
from alignkit.studies.data import described, mean_and_std, moments_of


def fill(root: Path, folder: str, count: int, size=(24, 16)) -> None:
    (root / folder).mkdir(parents=True)
    for index in range(count):
        colour = (40 * index, 10, 200)
        Image.new("RGB", size, colour).save(root / folder / f"{index}.png")


def look_at(root: Path, **options):
    options = {"preprocess": "", "decoder": "opencv", **options}
    return described(root, (), progress=NoProgress(), **options)


def test_a_divided_folder_has_two_sets_with_their_classes(tmp_path):
    for folder, count in (("train/a", 5), ("train/b", 3), ("val/a", 2), ("val/b", 1)):
        fill(tmp_path, folder, count)
    train, evaluation = look_at(tmp_path)["sets"]
    assert (train["name"], train["images"], train["classes"]) == ("train", 8, {"a": 5, "b": 3})
    assert (evaluation["name"], evaluation["classes"]) == ("eval", {"a": 2, "b": 1})
    assert train["bytes"] == sum(path.stat().st_size for path in tmp_path.glob("train/*/*"))


def test_class_folders_are_one_set_and_loose_images_have_no_classes(tmp_path):
    fill(tmp_path, "whole/a", 2)
    fill(tmp_path, "whole/b", 3, size=(10, 30))
    fill(tmp_path, "loose", 2)
    (whole,) = look_at(tmp_path / "whole")["sets"]
    assert (whole["name"], whole["classes"], whole["sizes"]) == ("all", {"a": 2, "b": 3}, 2)
    assert whole["width"] == {"least": 10, "median": 10, "greatest": 24}
    assert whole["height"] == {"least": 16, "median": 30, "greatest": 30}
    (loose,) = look_at(tmp_path / "loose")["sets"]
    assert (loose["images"], loose["classes"]) == (2, {})


def test_images_of_no_class_and_content_in_both_splits_are_noted(tmp_path):
    for folder in ("train/a", "train/b", "val/a", "val/b"):
        fill(tmp_path / "divided", folder, 1)
    for folder in ("a", "b"):
        fill(tmp_path / "whole", folder, 2)
    Image.new("RGB", (9, 9)).save(tmp_path / "whole" / "stray.png")
    shared, *copies = look_at(tmp_path / "divided")["notes"]
    assert [each.partition(":")[0] for each in copies] == ["train", "eval"]
    assert shared.startswith("evaluation images that are training images too: 2, ")
    assert look_at(tmp_path / "whole")["notes"] == [
        "images in whole that lie in no class folder, and are not used: 1",
        "all: 2 of 4 images have the pixels of another: 2 different images".replace(
            "4 images", "4\N{NO-BREAK SPACE}images"
        ).replace("2 different", "2\N{NO-BREAK SPACE}different"),
    ]


def test_images_that_cannot_be_decoded_are_named_and_not_measured(tmp_path):
    fill(tmp_path, "photos", 2)
    (tmp_path / "photos" / "broken.jpg").write_bytes(b"no image")
    (found,) = look_at(tmp_path / "photos")["sets"]
    assert (found["images"], found["measured"]) == (3, 2)
    assert [(each["id"], each["outcome"]) for each in found["remarked"]] == [
        ("broken.jpg", "failed")
    ]


def test_nothing_decoded_is_an_error_and_no_number(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"none of 1 images could be decoded; the first, broken"):
        look_at(tmp_path)


def test_an_experiment_is_measured_as_its_path_gives_images_to_be_normalised(tmp_path):
    fill(tmp_path, "data/a", 4)
    fill(tmp_path, "data/b", 4)
    file = tmp_path / "e.yaml"
    file.write_text(f"""\
name: e
data: {{name: folder, root: {tmp_path}/data}}
preprocess:
  one: {{decode: pillow, resize: {{name: opencv, size: 8}}, normalise: {{mean: [0.5, 0.5, 0.5], std: [1, 1, 1]}}}}
  bgr: {{decode: pillow, resize: {{name: opencv, size: 8}}, colour: bgr}}
""")
    one, bgr = (look_at(file, preprocess=name) for name in ("", "bgr"))
    assert (one["preprocess"], one["normalise"]["mean"]) == ("one", (0.5, 0.5, 0.5))
    assert [each["images"] for each in one["sets"]] == [6, 2]
    rgb, reversed_ = (each["sets"][0]["whole_set"]["mean"] for each in (one, bgr))
    np.testing.assert_allclose(rgb[1:], [10 / 255, 200 / 255])
    assert reversed_ == rgb[::-1]
    with pytest.raises(ConfigError, match=r"no path 'bgt' .*did you mean 'bgr'"):
        look_at(file, preprocess="bgt")


def test_memory_does_not_grow_with_the_number_of_images(tmp_path):
    def peak(count: int) -> int:
        fill(tmp_path, f"{count}", count, size=(400, 400))
        tracemalloc.start()
        look_at(tmp_path / f"{count}")
        _, highest = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return highest

    peak(2)  # imports
    assert peak(24) < peak(4) + 400 * 400 * 3


def images(dtype):
    rng = np.random.default_rng(3)
    sizes = [(7, 5), (1, 1), (40, 31), (16, 16)]
    drawn = [rng.normal(rng.uniform(40, 210), 25, (*size, 3)).clip(0, 255) for size in sizes]
    return [each.astype(dtype) for each in drawn]


def moments(all_):
    found = mean_and_std(sum(map(moments_of, all_)))
    return found["mean"], found["std"]


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_moments_are_those_of_all_pixels(dtype):
    mean, std = moments(images(dtype))
    scaled = [each.astype(np.float64) / 255 for each in images(dtype)]
    pooled = np.concatenate([each.reshape(-1, 3) for each in scaled])
    np.testing.assert_allclose(mean, pooled.mean(0), atol=1e-12)
    np.testing.assert_allclose(std, pooled.std(0), atol=1e-7)


def test_images_that_differ_only_from_one_another_deviate():
    mean, std = moments([np.full((4, 6, 3), level, np.uint8) for level in (0, 255)])
    np.testing.assert_allclose(std, 0.5)
    np.testing.assert_allclose(mean, 0.5)


def test_a_small_deviation_beside_a_large_mean_is_not_lost_over_many_images():
    flat = np.full((8, 8, 3), 250, np.uint8)
    flat[::2] = 251
    np.testing.assert_allclose(moments([flat] * 500)[1], 0.5 / 255, rtol=1e-9)


def test_pixels_in_bgr_order_are_measured_in_that_order():
    image = np.zeros((2, 2, 3), np.uint8)
    image[..., 0] = 255
    assert moments([image[..., ::-1]])[0] == [0.0, 0.0, 1.0]


def test_formats_are_counted_by_what_the_files_hold_and_not_by_their_names(tmp_path):
    fill(tmp_path, "photos", 2)
    shown = Image.new("RGB", (9, 9))
    for name, kind in (("a.png", "JPEG"), ("b.jpg", "WEBP"), ("c.jpg", "BMP"), ("d.jpg", "JPEG")):
        shown.save(tmp_path / "photos" / name, kind)
    (tmp_path / "photos" / "e.jpg").write_bytes(b"no image")
    (found,) = look_at(tmp_path / "photos")["sets"]
    assert found["formats"] == {"PNG": 2, "JPEG": 2, "WebP": 1, "BMP": 1, "other": 1}
