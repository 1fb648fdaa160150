"""The options in which a stage differs, in words."""

from alignkit.experiment.yaml_argument import named_paths
from alignkit.findings.provenance import path_facts
from alignkit.text.stage_changes import option_changes, stage_change


def changed(one: str, other: str, stage: str) -> str:
    paths = named_paths([one, other], size=48)
    return stage_change(*(path_facts(each.preprocess) for each in paths), stage)


def test_of_one_library_only_the_options_that_differ_are_named():
    area = "{preset: opencv-train, resize: {interpolation: area}}"
    assert changed("opencv-train", area, "resize") == "resizer.interpolation: linear → area"
    assert changed("opencv-train", area, "decode") == ""


def test_two_libraries_are_named_with_their_options_and_without_a_size_they_share():
    assert changed("pillow-train", "torchpipe-gpu-surrogate", "resize") == (
        "Pillow filter=bilinear → Torch mode=bilinear align_corners=True antialias=False"
    )
    assert changed("opencv-train", "timm-eval", "resize") == (
        "OpenCV interpolation=linear 48x48 → Pillow filter=bicubic 54x54 shorter"
    )


def test_a_letterbox_in_steps_names_its_steps():
    rect = "{preset: ultralytics-letterbox-rect, size: 96}"
    square = "{preset: ultralytics-letterbox, size: 96}"
    assert changed(square, rect, "resize") == "auto: False → True"
    assert changed(rect, square, "resize") == "auto: True → False"
    assert changed(rect, "{preset: pillow-train, size: 96}", "resize") == (
        "OpenCV interpolation=linear 96x96 letterbox auto=True → Pillow filter=bilinear 96x96"
    )


def test_short_stages_are_named_in_full():
    assert changed("opencv-train", "{preset: opencv-train, colour: bgr}", "colour") == "rgb → bgr"


def test_an_option_that_one_side_lacks_is_none_there():
    assert option_changes({"a": 1}, {"a": 1, "b": {"c": None, "d": 2}}) == ["b.d: none → 2"]
    assert option_changes(None, None) == []
