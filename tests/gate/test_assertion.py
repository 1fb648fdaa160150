"""`assert_preprocess_aligned` for stacks, mappings and functions."""

import cv2
import numpy as np
import pytest

import alignkit
from alignkit import PreprocessDriftError, assert_preprocess_aligned
from alignkit.errors import ConfigError, MissingDependency, NothingCompared
from alignkit.experiment.rule_option import Rule
from alignkit.gate import assertion
from alignkit.preprocess.normalise import Normalise
from tests.photos import encoded, exif, make_jpegs, photo

PILLOW = {"decode": "pillow", "resize": {"name": "opencv", "size": 32}}
OPENCV = {**PILLOW, "decode": "opencv"}
NEAREST = {**PILLOW, "decode": {"name": "simplejpeg", "chroma": "nearest"}}


@pytest.fixture(scope="module")
def images():
    jpegs = make_jpegs()
    return [jpegs["420"], jpegs["444"], jpegs["low-quality"]]


def serve(encoded: bytes) -> np.ndarray:
    """What a serving stack's own code does."""
    image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
    return cv2.resize(cv2.cvtColor(image, cv2.COLOR_BGR2RGB), (32, 32))


def test_stacks_that_agree_pass_and_give_the_verdict(images):
    verdict = assert_preprocess_aligned(PILLOW, OPENCV, images)
    assert verdict.state == "pass"
    assert len(verdict.rules) == 8


def test_drift_raises_and_names_the_stage_and_the_cause(images):
    with pytest.raises(
        PreprocessDriftError, match="Decode images that are not bit-identical"
    ) as caught:
        assert_preprocess_aligned(PILLOW, NEAREST, images)
    assert isinstance(caught.value, AssertionError)
    assert "chroma=nearest" in str(caught.value)
    assert caught.value.verdict.exit_code == 1


def test_rules_can_be_presets_and_mappings(images):
    rules = [{"metric": "decode.max_abs", "fail": 200}, {"metric": "coverage", "fail": 0}]
    assert assert_preprocess_aligned(PILLOW, NEAREST, images, rules=rules).state == "pass"
    with pytest.raises(PreprocessDriftError):
        assert_preprocess_aligned(PILLOW, NEAREST, images, rules=["decode"])


def test_the_same_stack_twice_is_no_comparison_unless_that_is_meant(images):
    for other in (PILLOW, {**PILLOW, "decode": {"name": "pillow"}, "orient": "none"}):
        with pytest.raises(NothingCompared, match="'same': True"):
            assert_preprocess_aligned(PILLOW, other, images)
    with pytest.raises(NothingCompared):
        assert_preprocess_aligned(serve, serve, images)
    assert assert_preprocess_aligned(PILLOW, {**PILLOW, "same": True}, images).state == "pass"
    with pytest.raises(ConfigError, match="same is not true"):
        assert_preprocess_aligned(PILLOW, {**OPENCV, "same": True}, images)


def test_a_rule_about_what_both_stacks_share_compares_nothing(images):
    area = {**PILLOW, "resize": {"name": "opencv", "size": 32, "interpolation": "area"}}
    with pytest.raises(PreprocessDriftError, match="candidate differs in resize"):
        assert_preprocess_aligned(PILLOW, area, images, rules=["decode"])


def test_files_and_folders_are_images(images, tmp_path):
    for index, image in enumerate(images):
        (tmp_path / f"{index}.jpg").write_bytes(image)
    assert assert_preprocess_aligned(PILLOW, OPENCV, tmp_path).state == "pass"
    assert assert_preprocess_aligned(PILLOW, OPENCV, [tmp_path / "0.jpg"]).state == "pass"


def test_a_function_that_gives_nan_is_not_aligned(images):
    def broken(encoded: bytes) -> np.ndarray:
        image = serve(encoded).astype(np.float32)
        image[16:] = np.nan
        return image

    rules = [{"metric": "colour.max_abs", "fail": 200}, {"metric": "colour.mean_abs", "fail": 100}]
    for images_of in (images, images[:1]):
        with pytest.raises(PreprocessDriftError, match="values are NaN or infinite"):
            assert_preprocess_aligned(OPENCV, broken, images_of, rules=rules)
    with pytest.raises(PreprocessDriftError, match="values are NaN or infinite"):
        assert_preprocess_aligned(
            OPENCV, lambda encoded: np.full((32, 32, 3), np.nan), images, rules=rules
        )


def test_a_function_is_compared_by_its_result(images):
    assert assert_preprocess_aligned(OPENCV, serve, images).state == "pass"
    with pytest.raises(PreprocessDriftError, match="Colour images that are not bit-identical"):
        assert_preprocess_aligned(OPENCV, lambda encoded: serve(encoded)[..., ::-1], images)


def test_a_function_may_give_a_tensor(images):
    def tensor(encoded):
        return Normalise()(serve(encoded))[None]

    assert assert_preprocess_aligned(OPENCV, tensor, images).state == "pass"
    rules = [{"metric": "normalise.max_abs", "fail": 0.01}]
    assert assert_preprocess_aligned(tensor, OPENCV, images, rules=rules).state == "pass"
    with pytest.raises(PreprocessDriftError, match="another shape"):
        assert_preprocess_aligned(OPENCV, lambda e: tensor(e)[..., 1:], images, rules=rules)


def test_a_function_that_gives_no_image_is_a_mistake(images):
    with pytest.raises(ConfigError, match=r"must be \(h, w, 3\)"):
        assert_preprocess_aligned(OPENCV, lambda _: np.zeros((4, 4)), images)


@pytest.mark.parametrize(
    "rule",
    [
        {"metric": "resize.changed", "fail": 0, "where": {"subsampling": "4:4:4"}},
        {"metric": "resize.changed", "fail": 0, "against": "baseline"},
        {"preset": "strict", "against": "baseline"},
    ],
)
def test_a_rule_that_an_assertion_cannot_measure_passes_nothing(images, rule):
    """Undecided rules raised nothing, although every stage differed."""
    with pytest.raises(ConfigError, match="rules: "):
        assert_preprocess_aligned(PILLOW, OPENCV, images, rules=[rule])


def test_a_mistake_in_a_mapping_or_a_rule_is_said(images):
    with pytest.raises(ConfigError, match="did you mean 'pillow'"):
        assert_preprocess_aligned({**PILLOW, "decode": "pilow"}, OPENCV, images)
    with pytest.raises(ConfigError, match="can never fire"):
        assert_preprocess_aligned(
            PILLOW, OPENCV, images, rules=[{"metric": "decode.max_abs", "fail": 255}]
        )


def test_a_preset_is_a_stack_by_its_name(images):
    small = {"preset": "opencv-train", "size": 32}
    assert assert_preprocess_aligned("opencv-train", {**small, "same": True}, images, size=32)
    with pytest.raises(ConfigError, match="candidate pillow-trian: no such preset; did you mean"):
        assert_preprocess_aligned("opencv-train", "pillow-trian", images)
    with pytest.raises(ConfigError, match="candidate: int is no stack"):
        assert_preprocess_aligned("opencv-train", 3, images)


def test_the_verdict_says_which_stages_no_rule_checked(images):
    area = {**NEAREST, "resize": {"name": "opencv", "size": 32, "interpolation": "area"}}
    rules = [{"metric": "decode.max_abs", "fail": 200}]
    verdict = assert_preprocess_aligned(PILLOW, area, images, rules=rules)
    assert verdict.sentence.endswith(
        "Decode is within its limits; resize and normalise were not checked (resize has other "
        "options)."
    )


def test_a_limit_on_all_stages_together_calls_none_of_them_aligned(images):
    area = {**NEAREST, "resize": {"name": "opencv", "size": 32, "interpolation": "area"}}
    whole = {"metric": "colour.max_abs", "mode": "cumulative", "fail": 254}
    verdict = assert_preprocess_aligned(PILLOW, {**area, "colour": "bgr"}, images, rules=[whole])
    assert verdict.sentence.endswith(
        "All up to colour is within its limits; normalise was not checked (decode, resize and "
        "colour have other options)."
    )
    rules = [{**whole, "fail": 1}]
    with pytest.raises(PreprocessDriftError, match="All up to colour is beyond its limits, which"):
        assert_preprocess_aligned(PILLOW, {**area, "colour": "bgr"}, images, rules=rules)


def test_a_failure_of_strict_names_the_stages(images):
    area = {**NEAREST, "resize": {"name": "opencv", "size": 32, "interpolation": "area"}}
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(PILLOW, {**area, "orient": "exif"}, images)
    assert "Orient and normalise are aligned; decode and resize are not" in str(caught.value)
    assert caught.value.verdict.sentence in str(caught.value)


def test_a_failure_names_amounts_and_the_worst_image_with_its_pixel(images):
    def edited(encoded: bytes) -> np.ndarray:
        image = serve(encoded)
        if encoded == images[1]:
            image[5, 7, 1] = image[5, 7, 1] + 60 if image[5, 7, 1] < 128 else image[5, 7, 1] - 60
        return image

    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, edited, images)
    told = str(caught.value)
    mean = 60 / (3 * 32 * 32 * 3)  # of three images
    assert f"33.33 %, mean {mean:.3g}, max 60 grey levels" in told
    assert "The worst image is image 1: mean 0.0195, max 60 levels" in told
    assert "at row 5, column 7." in told


def test_the_worst_image_of_two_stacks_is_named_with_its_greatest_difference(images):
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(PILLOW, NEAREST, images)
    (worst,) = caught.value.verdict.notes
    sides = [assertion.path_of(each, "side") for each in (PILLOW, NEAREST)]
    changes = [
        np.subtract(*(side.taps(each).last.astype(float) for side in sides)) for each in images
    ]
    place = int(np.argmax([np.abs(each).mean() for each in changes]))
    greatest = np.abs(changes[place])
    row, column = np.argwhere(greatest.max(axis=2) == greatest.max())[0]
    assert worst.startswith(f"The worst image is image {place}: mean {greatest.mean():.3g}, max")
    assert worst.endswith(f"at row {row}, column {column}.")


def tensor_of(image: np.ndarray) -> np.ndarray:
    return Normalise()(np.ascontiguousarray(image))


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        (lambda image: tensor_of(image[..., ::-1]), "the channels are reversed (BGR): this"),
        (
            lambda image: tensor_of(image)[::-1],
            "the channels are reversed (BGR) after normalisation: this",
        ),
        (lambda image: tensor_of(image) * 255, "the values are scaled by 255: this"),
        (
            lambda image: image.transpose(2, 0, 1) / 255,
            "the normalisation is 0..1 instead of ImageNet mean and std: this",
        ),
        (
            lambda image: image[..., ::-1].transpose(2, 0, 1) / 255,
            "the channels are reversed (BGR), and the normalisation is 0..1",
        ),
        (
            lambda image: (image.transpose(2, 0, 1) - 10.0) / 77,
            "the normalisation is mean 0.03922/0.03922/0.03922, std 0.302/0.302/0.302 instead",
        ),
    ],
)
def test_a_hypothesis_that_explains_most_of_a_failure_is_said(images, change, explanation):
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, lambda encoded: change(serve(encoded)), images)
    assert f"In the function's result {explanation}" in str(caught.value)
    assert "this explains" in str(caught.value)
    assert "grey levels remain, root mean square" in str(caught.value)


def test_another_geometry_is_said(images):
    def cropped(encoded: bytes) -> np.ndarray:
        image = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
        height, width = image.shape[:2]
        scale = 37 / min(height, width)
        size = (int(width * scale), int(height * scale))
        image = cv2.resize(np.ascontiguousarray(image), size)
        top, left = (image.shape[0] - 32) // 2, (image.shape[1] - 32) // 2
        return tensor_of(image[top : top + 32, left : left + 32])

    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, cropped, images)
    assert "the geometry is shorter side to" in str(caught.value)
    assert "centre crop 32x32 instead of squash to 32x32" in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda image: cv2.GaussianBlur(image, (5, 5), 2),
        lambda image: (255 * (image / 255) ** 1.6).astype(np.uint8),
        lambda image: np.clip(
            image.astype(int) + 40 * (np.indices(image.shape[:2]).sum(0) % 2)[..., None], 0, 255
        ).astype(np.uint8),
    ],
    ids=["blur", "gamma", "pattern"],
)
def test_what_no_hypothesis_explains_is_not_named(images, change):
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, lambda encoded: tensor_of(change(serve(encoded))), images)
    assert "No channel order, normalisation or geometry explains most of it" in str(caught.value)


def test_levels_that_wrap_are_no_geometry_and_no_order_of_channels(images):
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, lambda encoded: serve(encoded).astype(np.int8), images)
    assert "this explains" not in str(caught.value)


def test_a_difference_of_rounding_is_called_so(images):
    def doubled(encoded: bytes) -> np.ndarray:
        return tensor_of(serve(encoded)).astype(np.float16)

    with pytest.raises(PreprocessDriftError, match="no more than rounding"):
        assert_preprocess_aligned(OPENCV, doubled, images)
    rules = [{"metric": "normalise.mean_abs", "fail": 0.01}]
    assert assert_preprocess_aligned(OPENCV, doubled, images, rules=rules).state == "pass"


@pytest.mark.parametrize(
    "scale",
    [
        lambda image: image / np.float32(255),
        lambda image: image.astype(np.float64) / 255,
        lambda image: image / np.float32(127.5) - 1,
        lambda image: image.astype(np.uint16) * 257,
        lambda image: (image / 255).astype(np.float16),
    ],
)
def test_two_functions_of_another_scale_than_grey_levels_are_refused(images, scale):
    rules = [{"metric": "colour.mean_abs", "fail": 0.05}]
    sides = (lambda data: scale(serve(data)), lambda data: scale(serve(data)[::-1].copy()))
    with pytest.raises(ConfigError, match=r"grey levels 0\.\.255"):
        assert_preprocess_aligned(*sides, images, rules=rules)
    dark = [lambda data, top=top: serve(data).astype(np.float32) - top for top in (0, 40)]
    with pytest.raises(PreprocessDriftError):  # floats that are grey levels
        assert_preprocess_aligned(*dark, images, rules=rules)


def test_an_image_that_is_a_normalised_tensor_is_refused(images):
    for given in (lambda e: tensor_of(serve(e)).transpose(1, 2, 0), lambda e: serve(e) / 255):
        with pytest.raises(ConfigError, match=r"looks normalised .*return \(3, h, w\)"):
            assert_preprocess_aligned(OPENCV, given, images)


def test_a_function_of_a_path_is_said_to_get_bytes(images):
    with pytest.raises(ConfigError, match="NoneType, no array; it is called with the file's bytes"):
        assert_preprocess_aligned(OPENCV, lambda path: None, images)
    with pytest.raises(TypeError) as caught:
        assert_preprocess_aligned(OPENCV, lambda path: path / "image", images)
    assert (
        "raised by the function on image 0; it is called with the file's bytes"
        in (caught.value.__notes__[0])
    )


@pytest.mark.parametrize(
    ("rule", "advice"),
    [
        ("decode", "'decode' asks for decode.mean_abs: .*use colour.mean_abs, in grey levels"),
        ({"metric": "resize.max_abs", "fail": 2}, "resize.max_abs: .*use colour.max_abs"),
        ({"metric": "normalise.max_abs", "fail": 0.1}, "use colour.max_abs, in grey levels"),
        ({"metric": "churn", "fail": 0.1}, "churn: .*use a rule about colour"),
    ],
)
def test_a_rule_about_a_stage_that_a_function_lacks_says_which_rule_to_use(images, rule, advice):
    with pytest.raises(ConfigError, match=advice):
        assert_preprocess_aligned(OPENCV, serve, images, rules=[rule])


def test_rules_and_libraries_are_checked_before_a_function_has_seen_every_image(images):
    calls = []

    def counted(encoded: bytes) -> np.ndarray:
        calls.append(encoded)
        return serve(encoded)

    for rules in ([{"metric": "decode.max_abs", "fail": 2}], ["strickt"]):
        with pytest.raises(ConfigError):
            assert_preprocess_aligned(OPENCV, counted, images, rules=rules)
    assert len(calls) == 1  # the first image's result says which stage it is
    with pytest.raises(MissingDependency, match="NVIDIA GPU"):
        assert_preprocess_aligned({**OPENCV, "decode": "dali-gpu"}, counted, images)
    assert len(calls) == 1


@pytest.mark.parametrize("strict", ["strict", {"preset": "strict"}, Rule(preset="strict")])
def test_strict_is_the_same_rule_however_it_is_written(images, strict):
    assert assert_preprocess_aligned(OPENCV, serve, images, rules=[strict]).state == "pass"
    with pytest.raises(PreprocessDriftError, match="Colour images that are not bit-identical"):
        assert_preprocess_aligned(
            OPENCV, lambda encoded: serve(encoded)[..., ::-1], images, rules=[strict]
        )


def test_functions_may_reuse_a_buffer(images):
    buffer = np.empty((32, 32, 3), np.uint8)

    def reusing(encoded: bytes, order: int = -1) -> np.ndarray:
        buffer[:] = serve(encoded)[..., ::order]
        return buffer

    with pytest.raises(PreprocessDriftError, match=r"the channels are reversed \(BGR\): this"):
        assert_preprocess_aligned(OPENCV, reusing, images)
    with pytest.raises(PreprocessDriftError, match="Colour images that are not bit-identical"):
        assert_preprocess_aligned(lambda encoded: reusing(encoded, 1), reusing, images)


def test_a_result_of_another_size_is_said(images):
    with pytest.raises(PreprocessDriftError, match="image 0 is 32x32 by the reference, 40x32 by"):
        assert_preprocess_aligned(OPENCV, lambda e: cv2.resize(serve(e), (32, 40)), images)


def test_no_images_is_no_pass():
    with pytest.raises(NothingCompared):
        assert_preprocess_aligned(PILLOW, OPENCV, [])


def test_the_package_names_what_it_has():
    assert alignkit.assert_preprocess_aligned is assert_preprocess_aligned
    with pytest.raises(AttributeError, match="nothing_such"):
        alignkit.nothing_such  # noqa: B018 - the access is what is tested


@pytest.fixture(scope="module")
def many():
    """Twelve images, each of its own content and size."""
    return [encoded(photo(height=60 + at, width=80 + 2 * at), quality=90) for at in range(12)]


def on_some(change, images):
    """What serves three of the images otherwise: the last ones, of which a start shows nothing."""
    return lambda data: change(serve(data)) if data in images[-3:] else serve(data)


@pytest.mark.parametrize(
    ("change", "explanation"),
    [
        (
            lambda image: image[..., ::-1],
            "In the function's result the channels are reversed (BGR)",
        ),
        (lambda image: np.roll(image, 1, axis=1), "No channel order, normalisation or geometry"),
        (lambda image: image[:, ::-1], "No channel order, normalisation or geometry"),
        (lambda image: np.repeat(image[..., :1], 3, axis=2), "No channel order, normalisation"),
        (lambda image: cv2.GaussianBlur(image, (5, 5), 2), "No channel order, normalisation"),
    ],
    ids=["reversed", "shifted", "mirrored", "grey", "blurred"],
)
@pytest.mark.parametrize("tensors", [True, False])
def test_what_a_few_images_show_is_explained_by_those(many, change, explanation, tensors):
    served = on_some(change, many)
    function = (lambda data: tensor_of(served(data)).astype(np.float16)) if tensors else served
    apart = [
        float(np.sqrt(((served(data).astype(float) - serve(data)) ** 2).mean())) for data in many
    ]
    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, function, many)
    told = str(caught.value)
    equal = "within" if tensors else "equal"  # halves are rounded
    least, most = (f"{each:.2g}" for each in (min(apart[-3:]), max(apart)))
    assert f"Of 12\xa0images, 9 are {equal}" in told
    by = most if least == most else f"{least} to {most}"
    worst = int(np.argmax(apart))
    assert f"3 differ by {by} grey levels, root mean square (most: image {worst})" in told
    assert explanation in told
    assert "on 3\xa0images" in told
    assert "no more than rounding" not in told


def test_a_mean_that_a_rule_allows_says_which_images_it_hides(many):
    shifted = on_some(lambda image: np.roll(image, 1, axis=1), many)
    rules = [{"metric": "colour.mean_abs", "fail": 100}]
    verdict = assert_preprocess_aligned(OPENCV, shifted, many, rules=rules)
    assert "Of 12\xa0images, 9 are equal, 3 differ by" in verdict.sentence
    both = assert_preprocess_aligned(serve, shifted, many, rules=rules)
    assert "Of 12\xa0images, 9 are equal, 3 differ by" in both.sentence
    turned = [*many[:-1], encoded(photo(), exif=exif(3))]
    rules = [{"metric": "colour.mean_abs", "mode": "cumulative", "fail": 100}]
    verdict = assert_preprocess_aligned(PILLOW, {**PILLOW, "orient": "exif"}, turned, rules=rules)
    assert "Of 12\xa0images, 11 are equal, 1 differs by" in verdict.sentence
    assert "levels before normalisation (image 11)." in verdict.sentence


def test_rounding_is_said_of_all_images_with_their_number(many):
    def halved(data: bytes) -> np.ndarray:
        return tensor_of(serve(data)).astype(np.float16)

    with pytest.raises(
        PreprocessDriftError, match=r"no more than rounding on all of 12\simages \(at most 0\.0"
    ):
        assert_preprocess_aligned(OPENCV, halved, many)


def test_images_with_nan_are_named_before_any_other_difference(many):
    def broken(data: bytes) -> np.ndarray:
        tensor = tensor_of(serve(data)).copy()
        if data in many[-3:]:
            tensor[0, 3, 3] = np.nan
        return tensor

    with pytest.raises(PreprocessDriftError) as caught:
        assert_preprocess_aligned(OPENCV, broken, many)
    assert "A result for 3 of 12\xa0images holds NaN or infinity, such as image 9." in str(
        caught.value
    )
    assert "no more than rounding" not in str(caught.value)
