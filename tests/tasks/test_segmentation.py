"""Masks: outputs → classes of the image's pixels, their metrics, and how two masks differ."""

from dataclasses import replace

import cv2
import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    jaccard_score,
    precision_score,
    recall_score,
)

from alignkit.annotations import IGNORED, Mask
from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.tasks import ClassMap, OutputShape
from alignkit.tasks.segmentation import Segmentation
from alignkit.tasks.segmentation.class_maps import (
    NO_CLASS,
    boundary_shift,
    from_png,
    map_change,
    to_png,
)
from alignkit.tasks.segmentation.segmentation_answers import SegmentationAnswers
from alignkit.text.numbers import significant
from tests.task_case import (
    CLASSES,
    NAMES,
    ids,
    masks_of,
    ones,
    resamples,
    samples_of,
    shifted,
    squash,
)  # fmt: skip

SIDES = (11, 7)


def logits(seed: int, count: int, classes: int = 3, height: int = 7, width: int = 11):
    shape = (count, classes, height, width)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def masks(seed: int, count: int, height: int = 7, width: int = 11, classes: int = 3):
    found = np.random.default_rng(seed).integers(0, classes, (count, height, width), np.uint8)
    found[:, 0, :3] = IGNORED
    return found


def answered(outputs, truth=None, places=None, task=None, classes=CLASSES) -> SegmentationAnswers:
    task = task or Segmentation()
    count = len(outputs)
    places = places or [squash(*SIDES, *SIDES)] * count
    records = task.decode((outputs,), places, classes)
    samples = samples_of(ids(count), () if truth is None else masks_of(truth), classes.classes)
    return task.answers(ids(count), records, samples, classes)


def maps(answers) -> list[np.ndarray]:
    return [from_png(each) for each in answers.maps]


def pixels(answers, truth, which=None):
    """True and predicted classes of all pixels that count."""
    chosen = range(len(answers)) if which is None else which
    found = maps(answers)
    true = np.concatenate([truth[each].ravel() for each in chosen])
    predicted = np.concatenate([found[each].ravel() for each in chosen])
    known = true != IGNORED
    return true[known], predicted[known]


def test_metrics_are_those_of_scikit_learn_on_all_pixels():
    truth = masks(1, 6)
    answers = answered(logits(0, 6), truth)
    true, predicted = pixels(answers, truth)
    found = {name: value[..., 0] for name, value in answers.metrics_of(ones(answers)).items()}
    options = {"average": "macro"}
    assert found["miou"] == jaccard_score(true, predicted, **options)
    assert found["recall.macro"] == recall_score(true, predicted, **options)
    assert found["precision.macro"] == precision_score(true, predicted, **options)
    assert found["pixel_accuracy"] == accuracy_score(true, predicted)
    np.testing.assert_array_equal(found["iou"], jaccard_score(true, predicted, average=None))
    np.testing.assert_array_equal(found["recall"], recall_score(true, predicted, average=None))
    np.testing.assert_array_equal(
        found["precision"], precision_score(true, predicted, average=None)
    )
    assert {*answers.metric_names} <= {*found}


def test_weights_of_a_resample_give_the_metrics_of_the_images_it_drew():
    truth = masks(1, 6)
    answers = answered(logits(0, 6), truth)
    weights, drawn = resamples(6, 20)
    found = answers.metrics_of(weights)
    for draw, which in enumerate(drawn):
        true, predicted = pixels(answers, truth, which)
        assert found["miou"][draw] == jaccard_score(true, predicted, average="macro")
        assert found["recall.macro"][draw] == recall_score(true, predicted, average="macro")


def test_an_answer_is_above_a_constant_one_by_the_balanced_accuracy_of_its_image():
    truth = masks(1, 6)
    truth[0], truth[1] = 2, IGNORED
    answers = answered(logits(0, 6), truth)
    wanted = [balanced_accuracy_score(*pixels(answers, truth, [at])) for at in (2, 3, 4, 5)]
    above = answers.above_constant()
    # three classes in each mask
    np.testing.assert_allclose(above[2:], np.array(wanted) - 1 / 3)
    assert above[0] == (maps(answers)[0] == 2).mean() - 1
    assert above[1] == 0
    constant = answered(
        np.eye(3, dtype=np.float32)[[1] * 6][:, :, None, None].repeat(7, 2).repeat(11, 3), truth
    )
    assert not constant.above_constant()[2:].any()
    assert answered(logits(0, 6)).above_constant() is None


def test_a_class_that_neither_masks_nor_predictions_have_is_left_out_of_the_mean():
    truth = np.zeros((1, 7, 11), np.uint8)
    scores = np.zeros((1, 3, 7, 11), np.float32)
    scores[:, 0] = 1
    found = answered(scores, truth).metrics_of(np.ones((1, 1), np.float32))
    assert found["miou"] == 1
    np.testing.assert_array_equal(found["iou"][:, 0], [1, np.nan, np.nan])


def test_the_greatest_logit_wins_and_the_first_if_tied():
    scores = np.zeros((1, 3, 7, 11), np.float32)
    scores[0, 2, 3, 4] = 1
    expected = np.zeros((7, 11), np.uint8)
    expected[3, 4] = 2
    np.testing.assert_array_equal(maps(answered(scores))[0], expected)


def test_the_models_order_of_classes_is_turned_into_that_of_the_data():
    classes = ClassMap(("sky", "road"), ("car",), order=(2, 0, 1))
    scores = logits(0, 2)
    found = answered(scores, classes=classes)
    inverse = np.array([1, 2, 0])  # the model's 2 is the data's 0
    np.testing.assert_array_equal(np.stack(maps(found)), inverse[scores.argmax(axis=1)])
    indices = scores.argmax(axis=1).astype(np.float32)
    np.testing.assert_array_equal(
        np.stack(maps(answered(indices, classes=classes))), inverse[scores.argmax(axis=1)]
    )


@pytest.mark.parametrize("scores", ["sigmoid", "as-is"])
def test_one_channel_of_two_classes_is_the_second_above_the_threshold(scores):
    values = logits(0, 2, classes=1)
    given = values if scores == "sigmoid" else 1 / (1 + np.exp(-values))
    task = Segmentation(scores=scores, threshold=0.7)
    found = np.stack(maps(answered(given, task=task, classes=ClassMap(("back", "front")))))
    expected = torch.sigmoid(torch.from_numpy(values)[:, 0]).numpy() > 0.7
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("channel", [False, True])
def test_whole_numbers_in_one_channel_are_the_classes(channel):
    expected = masks(3, 2)
    expected[expected == IGNORED] = 1
    given = expected.astype(np.float32)
    found = answered(given[:, None] if channel else given)
    np.testing.assert_array_equal(np.stack(maps(found)), expected)


@pytest.mark.parametrize("value", [0.5, -1, 3, np.inf])
def test_a_value_that_is_no_class_is_refused_with_the_value(value):
    given = np.zeros((1, 7, 11), np.float32)
    given[0, 2, 2] = value
    with pytest.raises(
        BackendError, match=f"holds {significant(value)}, and the index of one of 3 classes"
    ):
        answered(given)


@pytest.mark.parametrize("shape", [(2, 3), (2, 4, 7, 11), (3, 3, 7, 11), (2, 3, 2, 7, 11)])
def test_outputs_of_another_shape_are_refused_with_the_forms_that_fit(shape):
    places = [squash(*SIDES, *SIDES)] * 2
    with pytest.raises(BackendError, match=r"expected logits \(n, classes, h, w\), one channel"):
        Segmentation().decode((np.zeros(shape, np.float32),), places, CLASSES)


def test_the_output_is_recognised_by_its_shape():
    task = Segmentation()
    box, mask = OutputShape("boxes", (1, 100)), OutputShape("masks", (None, 3, 64, 64))
    assert task.wanted([box, mask]) == ("masks",)
    assert task.recognise([box, mask], 3) == "masks: logits of 3 classes; the greatest is the class"
    one = OutputShape("y", (1, 1, 64, 64))
    assert "one channel, the second class above 0.5" in task.recognise([one], 2)
    assert task.recognise([one], 3) == "y: the class of each pixel, as whole numbers"
    assert task.recognise([OutputShape("y", None)], 3).startswith("y, of unknown shape")


@pytest.mark.parametrize(
    ("outputs", "classes", "reason"),
    [
        ([OutputShape("y", (1, 4, 8, 8))], 3, r"y has the shape \(1, 4, 8, 8\) for 3 classes"),
        ([OutputShape("y", (1, 8, 8, 4))], 3, r"for 3 classes; expected logits"),
        ([OutputShape("y", (1, 300, 8, 8))], 300, "at most 254 classes"),
        ([OutputShape("y", (1, 10))], 3, r"no output fits \(y \(1, 10\)\); expected logits"),
        ([OutputShape("a", (1, 3, 8, 8)), OutputShape("b", (1, 3, 8, None))], 3,
         r"2 outputs fit \(a \(1, 3, 8, 8\), b \(1, 3, 8, \?\)\); name one in the task: output: a"),
        ([], 3, "no output fits"),
    ],
)  # fmt: skip
def test_outputs_that_do_not_fit_are_refused_before_anything_runs(outputs, classes, reason):
    with pytest.raises(ConfigError, match=reason):
        Segmentation().recognise(outputs, classes)


def test_a_name_chooses_among_several_outputs():
    two = [OutputShape("out", (1, 3, 8, 8)), OutputShape("aux", (1, 3, 8, 8))]
    assert Segmentation(output="aux").wanted(two) == ("aux",)
    with pytest.raises(ConfigError, match="no output 'ux'; did you mean 'aux'"):
        Segmentation(output="ux").wanted(two)


def test_a_smaller_output_is_mapped_back_as_torch_resamples_it():
    small = logits(0, 2, height=5, width=4)
    places = [squash(13, 17, 32, 40)] * 2
    whole = torch.from_numpy(small)
    near = torch.nn.functional.interpolate(whole, (17, 13), mode="nearest-exact")
    found = np.stack(maps(answered(small, places=places)))
    np.testing.assert_array_equal(found, near.argmax(dim=1))
    smooth = torch.nn.functional.interpolate(whole, (17, 13), mode="bilinear")
    found = np.stack(maps(answered(small, places=places, task=Segmentation(resize="bilinear"))))
    # the mapping is the same; a tie within rounding may fall either way
    assert (found == smooth.argmax(dim=1).numpy()).mean() > 0.99


def test_padding_is_cut_off_and_pixels_outside_a_crop_are_unknown():
    outputs = np.zeros((2, 3, 20, 20), np.float32)
    outputs[:, 2] = 1  # padding
    outputs[0, 1, 3:10, 5:16] = 2  # the image of 11x7 pixels inside it
    padded, cropped = shifted(11, 7, 20, 20, 5.0, 3.0), shifted(24, 22, 20, 20, -2.0, -1.0)
    found = answered(outputs, places=[padded, cropped])
    first, second = maps(found)
    np.testing.assert_array_equal(first, np.ones((7, 11)))
    inside = np.full((22, 24), IGNORED)
    inside[1:21, 2:22] = 2
    np.testing.assert_array_equal(second, inside)
    np.testing.assert_array_equal(found.pixels, [77, 400])


def test_pixels_of_the_mask_that_the_model_did_not_see_are_missed():
    outputs = np.zeros((1, 3, 20, 20), np.float32)
    outputs[:, 1] = 1
    truth = np.full((1, 22, 24), 2, np.uint8)
    truth[0, 1:21, 2:22] = 1
    found = answered(outputs, truth, [shifted(24, 22, 20, 20, -2.0, -1.0)])
    assert found.counts().support == (0, 400, 22 * 24 - 400)
    assert found.counts().predicted == (0, 400, 0)
    assert found.quality() == 400 / (22 * 24)


def test_a_path_that_crops_away_where_the_reference_is_wrong_is_not_better():
    outputs = np.zeros((1, 3, 20, 20), np.float32)
    outputs[:, 0] = 1
    truth = np.ones((1, 20, 20), np.uint8)
    truth[0, 5:15, 5:15] = 0  # all that the crop below keeps
    whole = answered(outputs, truth, [shifted(20, 20, 20, 20, 0.0, 0.0)])
    cropped = answered(outputs, truth, [shifted(20, 20, 10, 10, -5.0, -5.0)])
    before, after = (each.metrics_of(ones(each)) for each in (whole, cropped))
    assert after["pixel_accuracy"] == before["pixel_accuracy"] == 0.25
    assert after["recall.macro"] == before["recall.macro"] == 0.5
    # road is missed either way; the crop took the false pixels of sky only
    np.testing.assert_array_equal(after["iou"][:2, 0], [1, 0])
    np.testing.assert_array_equal(whole.apart(cropped), [0.75])
    assert whole.changed(cropped).all()
    assert cropped.changed(whole).all()


def test_an_answer_that_knows_no_pixel_has_changed_beside_one_that_does():
    outputs = np.ones((1, 3, 7, 11), np.float32)
    seen = answered(outputs)
    unseen = answered(outputs, places=[shifted(11, 7, 7, 11, -50.0, -50.0)])
    np.testing.assert_array_equal(unseen.pixels, [0])
    assert seen.changed(unseen).all()
    assert unseen.changed(seen).all()
    np.testing.assert_array_equal(seen.apart(unseen), [1])
    # neither knows any: nothing changed, and nothing is unknown
    again = answered(outputs, places=[shifted(11, 7, 7, 11, -60.0, -60.0)])
    np.testing.assert_array_equal(unseen.apart(again), [0])


def test_maps_that_another_library_wrote_otherwise_are_the_same():
    truth = masks(0, 2)
    a = answered(logits(0, 2), truth)

    def packed(each: bytes) -> bytes:
        options = [cv2.IMWRITE_PNG_COMPRESSION, 0]
        return cv2.imencode(".png", from_png(each), options)[1].tobytes()

    b = replace(a, maps=tuple(map(packed, a.maps)), truths=tuple(map(packed, a.truths)))
    assert a.maps[0] != b.maps[0]
    assert a.unlike(b) == ""
    assert not a.differs(b).any()
    assert not a.changed(b).any()


def test_an_image_with_nan_is_counted_and_its_pixels_are_wrong():
    truth = np.zeros((2, 7, 11), np.uint8)
    scores = np.zeros((2, 3, 7, 11), np.float32)
    scores[1, 1, 2, 3] = np.nan
    found = answered(scores, truth)
    np.testing.assert_array_equal(found.finite(), [True, False])
    assert maps(found)[1][2, 3] == NO_CLASS
    assert found.counts().support == (154, 0, 0)
    assert found.counts().predicted == (153, 0, 0)
    assert found.said(1) == "99 % sky, 1 % no prediction"


def test_an_infinite_logit_competes_and_is_counted():
    scores = np.zeros((1, 3, 7, 11), np.float32)
    scores[0, 1] = np.inf
    found = answered(scores)
    assert not found.finite().any()
    assert (maps(found)[0] == 1).all()


def test_a_mask_of_another_size_is_refused_with_both_sizes():
    with pytest.raises(
        DataError, match=r"0\.jpg: mask and image have different sizes, 7x11 and 11x7"
    ):
        answered(logits(0, 1), np.zeros((1, 11, 7), np.uint8))


def test_a_class_that_the_data_does_not_name_is_refused():
    truth = masks(0, 1)
    truth[0, 4, 4] = 3
    with pytest.raises(DataError, match=r"0\.jpg: its mask has the class 3, and the data names 3"):
        answered(logits(0, 1), truth)


def test_images_without_masks_have_changes_but_no_metrics():
    a, b = answered(logits(0, 3)), answered(logits(1, 3))
    assert not a.labelled
    assert a.metrics_of(ones(a)) == {}
    assert np.isnan(a.quality()).all()
    assert a.outputs == NAMES
    assert a.changed(b).all()


def test_an_empty_data_set_has_no_metric_and_no_crash():
    empty = answered(logits(0, 0), masks(0, 0))
    assert len(empty) == 0
    found = empty.metrics_of(np.ones((0, 1), np.float32))
    assert found == {}


def test_changed_pixels_are_shares_of_those_that_either_knows():
    before = np.zeros((2, 3, 7, 11), np.float32)
    before[:, 0] = 1
    after = before.copy()
    after[1, 1, 2, :4] = 2
    a, b = answered(before), answered(after)
    np.testing.assert_array_equal(a.apart(b), [0, 4 / 77])
    np.testing.assert_array_equal(a.changed(b), [False, True])
    np.testing.assert_array_equal(a.differs(b), [False, True])
    assert a.measures_of(b)["pixel_churn"].of(ones(a)) == 4 / 154
    few = replace(a, limit=0.1), replace(b, limit=0.1)
    assert not few[0].changed(few[1]).any()


def brute_shift(before, after) -> float:
    """The definition, pixel by pixel."""

    def boundary(found, index):
        padded = np.pad(found, 1, constant_values=IGNORED)
        places = []
        for y, x in np.argwhere(found == index):
            beside = padded[[y, y + 2, y + 1, y + 1], [x + 1, x + 1, x, x + 2]]
            if ((beside != index) & (beside != IGNORED)).any():
                places.append((y, x))
        return np.array(places, float).reshape(-1, 2)

    unknown = (before == IGNORED) | (after == IGNORED)
    both = [np.where(unknown, IGNORED, each) for each in (before, after)]
    changed = both[0] != both[1]
    distances = []
    for index in {*both[0][changed], *both[1][changed]}:
        edges = [boundary(each, index) for each in both]
        if all(map(len, edges)):
            apart = cdist(*edges)
            distances += [*apart.min(axis=0), *apart.min(axis=1)]
    return float(np.mean(distances)) if distances else float("nan")


@pytest.mark.parametrize("seed", range(12))
def test_boundary_shift_is_the_mean_distance_to_the_nearest_pixel_of_the_other_boundary(seed):
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 4, (4, 5), np.uint8).repeat(6, 0).repeat(7, 1)
    after = np.roll(blocks, tuple(rng.integers(-3, 4, 2)), (0, 1))
    if seed % 2:
        blocks[:3], after[:, -4:] = IGNORED, IGNORED
    assert boundary_shift(blocks, after) == pytest.approx(brute_shift(blocks, after), rel=1e-6)


def test_boundary_shift_of_an_edge_that_moves_is_the_distance_it_moves():
    before, after = np.zeros((30, 30), np.uint8), np.zeros((30, 30), np.uint8)
    before[:, 10:], after[:, 13:] = 1, 1
    assert boundary_shift(before, after) == 3
    assert boundary_shift(before, before) == 0


def test_a_map_without_a_boundary_has_no_shift():
    plain, other = np.zeros((9, 9), np.uint8), np.ones((9, 9), np.uint8)
    spot = plain.copy()
    spot[4, 4] = 1
    assert np.isnan(boundary_shift(plain, plain))
    assert np.isnan(boundary_shift(plain, other))
    # the spot's boundary has no counterpart
    assert np.isnan(boundary_shift(plain, spot))
    unknown = np.full((9, 9), IGNORED, np.uint8)
    assert map_change(plain, unknown)[:2] == (81, 81)
    assert map_change(unknown, unknown)[:2] == (0, 0)


def test_boundary_shift_is_averaged_over_the_images_that_have_one():
    before = np.zeros((3, 7, 11), np.float32)
    before[0, :, 5:] = before[1, :, 5:] = 1
    after = before.copy()
    after[1, :, 5:7] = 0
    shift = answered(before).measures_of(answered(after))["boundary.shift"]
    np.testing.assert_array_equal(shift.of(np.ones((3, 1), np.float32)), [1.0])
    only_plain = np.array([[0], [0], [1]], np.float32)
    assert np.isnan(shift.of(only_plain)).all()


def test_equal_maps_need_no_decoding_and_give_the_same_as_decoding():
    a, b = answered(logits(0, 4)), answered(logits(0, 4))
    decoded = [map_change(*pair) for pair in zip(maps(a), maps(b), strict=True)]
    assert a._changes_to(b) == decoded


def test_answers_disagree_if_their_masks_or_sizes_do():
    a, b = answered(logits(0, 2), masks(0, 2)), answered(logits(0, 2), masks(1, 2))
    assert a.unlike(b) == "the masks of 2 of 2 images disagree, first '0.jpg'"
    assert a.unlike(a) == ""
    turned = answered(logits(0, 2), places=[squash(7, 11, *SIDES)] * 2)
    assert "sizes of 2 of 2" in answered(logits(0, 2)).unlike(turned)
    assert "shares of pixels" in a.unlike(replace(a, limit=0.5))


def test_a_drift_of_masks_has_metrics_measures_and_classes():
    truth = masks(1, 12)
    a, b = answered(logits(0, 12), truth), answered(logits(1, 12), truth)
    found = drift([a], [b], draws=SharedDraws(50))
    assert found.churn.value == 1
    expected = (each.metrics_of(ones(a))["miou"][0] for each in (b, a))
    assert found.metrics["miou"].value == pytest.approx(next(expected) - next(expected))
    assert {*found.measures} == {"pixel_churn", "boundary.shift"}
    assert [each.name for each in found.classes] == [*NAMES]
    assert {*found.classes[0].others} == {"iou"}
    assert found.right_to_wrong + found.wrong_to_right + found.wrong_to_wrong == 12


def test_drawn_masks_are_pngs_of_the_classes():
    import base64

    truth = masks(1, 1)
    answers = answered(logits(0, 1), truth)
    drawn = answers.drawn(0)
    assert drawn["classes"] == [*NAMES]
    np.testing.assert_array_equal(from_png(base64.b64decode(drawn["truth"])), truth[0])
    np.testing.assert_array_equal(from_png(base64.b64decode(drawn["mask"])), maps(answers)[0])


def test_a_damaged_map_or_another_file_is_refused(tmp_path):
    answers = answered(logits(0, 2), masks(1, 2))
    file = tmp_path / "answers.parquet"
    answers.to_parquet(file)
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(DataError):
        SegmentationAnswers.from_parquet(file)
    broken = replace(answers, maps=(b"", to_png(masks(1, 1)[0])))
    with pytest.raises(DataError, match="no PNG"):
        broken.said(0)


def test_options_outside_their_range_are_refused():
    with pytest.raises(ConfigError, match="changed: 2; from 0 to 1"):
        Segmentation(changed=2)
    assert Segmentation().refuses("mask") == Segmentation().refuses("none") == ""
    assert "has boxes" in Segmentation().refuses("boxes")


def test_a_mask_is_read_when_it_is_needed_and_its_error_reaches_the_user():
    def read():
        raise DataError("mask.png cannot be read")

    task = Segmentation()
    records = task.decode((logits(0, 1),), [squash(*SIDES, *SIDES)], CLASSES)
    with pytest.raises(DataError, match=r"mask\.png cannot be read"):
        task.answers(ids(1), records, samples_of(ids(1), [Mask(read)]), CLASSES)


@pytest.mark.parametrize("shape", [(1, 84, 8400), (None, 300, 6)])
def test_the_list_of_a_detector_is_no_map_of_class_indices(shape):
    outputs = [OutputShape("output0", shape)]
    with pytest.raises(ConfigError) as caught:
        Segmentation().recognise(outputs, 3)
    said = str(caught.value)
    assert said.startswith("no output fits (output0 (")
    assert "; expected logits (n, classes, h, w), one channel" in said
    assert said.endswith(
        "output0 looks like a list of boxes: if it is a map of unlike sides, write "
        "'output: output0' in the task, else take the task of the model"
    )
    named = Segmentation(output="output0")
    assert named.recognise(outputs, 3).startswith("output0: the class of each pixel")
    assert Segmentation().recognise([OutputShape("map", (1, 64, 512))], 3).startswith("map: the")
