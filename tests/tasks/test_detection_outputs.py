"""Formats of outputs: recognised by their declared shapes, decoded as the libraries do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch

from alignkit.annotations import Boxes, LabelSet
from alignkit.errors import BackendError, ConfigError, DataError
from alignkit.preprocess.geometry import Geometry
from alignkit.samples import Samples
from alignkit.tasks import ClassMap, OutputShape
from alignkit.tasks.detection import Detection
from alignkit.tasks.detection.box_decoding import BoxRecord

SIDE = 320
SAME = Geometry(SIDE, SIDE, SIDE, SIDE, 1.0, 1.0, 0.0, 0.0)
CLASSES = ClassMap(("cat", "dog", "bird"))
KEEP_ALL = Detection(least=0, score=0.25)


def shapes(**sides: tuple[int | None, ...] | None) -> list[OutputShape]:
    return [OutputShape(name, each) for name, each in sides.items()]


RECOGNISED = {
    "ultralytics": (shapes(output0=(1, 84, 8400)), ("output0",)),
    "ultralytics of two classes": (shapes(output0=(1, 6, 8400)), ("output0",)),
    "ultralytics of any size": (shapes(output0=(None, 84, None)), ("output0",)),
    "ultralytics with dynamic=True": (shapes(output0=(None, None, None)), ("output0",)),
    "end-to-end": (shapes(output0=(1, 300, 6)), ("output0",)),
    "torchvision": (
        shapes(scores=(None,), boxes=(None, 4), labels=(None,)), ("boxes", "labels", "scores"),
    ),
    "torchvision in batches": (
        shapes(boxes=(2, None, 4), labels=(2, None), scores=(2, None)),
        ("boxes", "labels", "scores"),
    ),
    "torchvision of unknown shapes": (
        shapes(boxes=None, labels=None, scores=None), ("boxes", "labels", "scores"),
    ),
    "detr": (
        shapes(logits=(1, 100, 92), pred_boxes=(1, 100, 4), last_hidden_state=(1, 100, 256)),
        ("logits", "pred_boxes"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RECOGNISED)
def test_outputs_are_recognised_by_names_and_shapes(case: str) -> None:
    given, names = RECOGNISED[case]
    assert Detection().wanted(given) == names
    assert f"{case.partition(' ')[0]}" in Detection().recognise(given, None).lower()
    # asked for by its name too
    assert Detection(outputs=case.partition(" ")[0]).wanted(given) == names


REFUSED = {
    "a classifier": shapes(logits=(1, 1000)),
    "YOLOv5, which YOLOX resembles": shapes(output0=(1, 25200, 85)),
    "two outputs of boxes alone": shapes(a=(1, 100, 4), b=(1, 100)),
    "torchvision's without names": [OutputShape(n, s) for n, s in
                                    (("1", (None, 4)), ("2", (None,)), ("3", (None,)))],
    "no output": [],
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_outputs_of_no_format_are_refused_with_all_that_is_known(case: str) -> None:
    with pytest.raises(ConfigError, match=r"torchvision.*detr.*end-to-end.*ultralytics"):
        Detection().wanted(REFUSED[case])


def test_yolov5_is_decoded_where_it_is_asked_for() -> None:
    given, task = shapes(output0=(1, 25200, 85)), Detection(outputs="yolov5")
    with pytest.raises(ConfigError, match="if it is YOLOv5's, write the task's 'outputs: yolov5'"):
        Detection().wanted(given)
    assert task.wanted(given) == ("output0",)
    assert "objectness" in task.recognise(given, 80)
    assert task.counted(given) == 80
    with pytest.raises(ConfigError, match="80 classes, and 3 are named"):
        task.recognise(given, 3)
    # with dynamic axes
    assert task.wanted(shapes(output0=(None, None, 85))) == ("output0",)
    assert task.wanted(shapes(output0=(None, None, None))) == ("output0",)
    for other in ((1, 84, 8400), (1, 25200, 5), (25200, 85)):
        with pytest.raises(ConfigError, match="none that detection can decode"):
            task.wanted(shapes(output0=other))


# the anchors of inputs of 640, 320 and 96 pixels, and of 1280 with a fourth scale
@pytest.mark.parametrize("rows", [25200, 6300, 567, 102000])
def test_six_numbers_a_row_may_be_yolov5_of_one_class(rows: int) -> None:
    given = shapes(output0=(1, rows, 6))
    with pytest.raises(ConfigError, match="'outputs': end-to-end or yolov5"):
        Detection().wanted(given)
    assert Detection(outputs="yolov5").counted(given) == 1
    assert Detection(outputs="end-to-end").wanted(given) == ("output0",)
    # a file may leave the rows open, and a batch shows them
    assert Detection().wanted(shapes(output0=(1, None, 6)))
    with pytest.raises(BackendError, match="'outputs': end-to-end or yolov5"):
        decode(Detection(), np.zeros((1, rows, 6)))


def test_a_format_that_was_asked_for_and_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"output0 \(1, 84, 8400\).*pred|DETR"):
        Detection(outputs="detr").wanted(shapes(output0=(1, 84, 8400)))


def test_another_number_of_classes_is_refused_before_it_runs() -> None:
    with pytest.raises(ConfigError, match="80 classes, and 3 are named"):
        Detection().recognise(shapes(output0=(1, 84, 8400)), 3)
    logits = shapes(logits=(1, 100, 92), pred_boxes=(1, 100, 4))
    assert Detection().recognise(logits, 91)
    assert Detection().recognise(logits, 92)
    with pytest.raises(ConfigError, match="92 logits a box, and 80"):
        Detection().recognise(logits, 80)


@pytest.mark.parametrize(
    "options", [{"score": 1.5}, {"least": 0.5}, {"iou": -1}, {"most": 0}], ids=str
)
def test_options_out_of_range_are_refused(options: dict) -> None:
    with pytest.raises(ConfigError):
        Detection(**options)


def decode(
    task: Detection, *outputs: np.ndarray, places: Sequence[Geometry] = (SAME,),
    classes: ClassMap = CLASSES,
) -> list[BoxRecord]:  # fmt: skip
    return task.decode(tuple(np.asarray(e, np.float32) for e in outputs), places, classes)


@pytest.mark.slow  # a network is made and run
def test_torchvision_detectors_give_the_boxes_that_they_return() -> None:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    torch.manual_seed(0)
    model = ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=4, detections_per_img=20
    ).eval()
    with torch.no_grad():
        returned = model([torch.rand(3, SIDE, SIDE), torch.rand(3, SIDE, SIDE)])
    assert len(returned[0]["scores"]) == 20
    returned[1] = {name: each[:7] for name, each in returned[1].items()}
    names = Detection().wanted(
        [OutputShape(name, (None, None, 4)[: each.ndim + 1]) for name, each in returned[0].items()]
    )
    padded = [np.full((2, 20, 4)[: returned[0][n].ndim + 1], np.nan, np.float32) for n in names]
    for index, image in enumerate(returned):
        for array, name in zip(padded, names, strict=True):
            array[index, : len(image[name])] = image[name]
    found = decode(KEEP_ALL, *padded, places=[SAME, SAME])
    for record, image in zip(found, returned, strict=True):
        order = np.argsort(-image["scores"].numpy(), kind="stable")
        area = (image["boxes"].numpy()[order, 2:] > image["boxes"].numpy()[order, :2]).all(axis=1)
        np.testing.assert_array_equal(record.corners, image["boxes"].numpy()[order][area])
        np.testing.assert_array_equal(record.scores, image["scores"].numpy()[order][area])
        np.testing.assert_array_equal(record.classes, image["labels"].numpy()[order][area] - 1)
        assert record.unusable == (0, (~area).sum())


def test_lists_without_an_axis_of_images_are_refused() -> None:
    with pytest.raises(BackendError, match="for one image"):
        decode(KEEP_ALL, [[1, 2, 3, 4]], [1], [0.5], places=[SAME, SAME])
    # as many boxes as images
    with pytest.raises(BackendError, match="expected"):
        decode(KEEP_ALL, [[1, 2, 3, 4]] * 2, [1, 2], [0.5, 0.4], places=[SAME, SAME])


def test_labels_begin_at_the_background_where_the_classes_do() -> None:
    boxes = [[[1, 2, 3, 4]]], [[2]], [[0.5]]
    assert decode(KEEP_ALL, *boxes)[0].classes == 1
    named = ClassMap(("dog", "cat"), ("__background__",), (2, 1, 0))
    assert decode(KEEP_ALL, *boxes, classes=named)[0].classes == 0
    assert decode(Detection(first_label=0), *boxes)[0].classes == 2


def suppressed(boxes: np.ndarray, scores: np.ndarray, iou: float) -> list[int]:
    """Suppress one class's boxes one by one, the best first."""
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        a = boxes[index].astype(np.float64)
        for other in kept:
            b = boxes[other].astype(np.float64)
            sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
            shared = np.prod(sides.clip(0))
            union = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - shared
            if shared / union > iou:
                break
        else:
            kept.append(int(index))
    return kept


@pytest.mark.parametrize("agnostic", [False, True])
def test_ultralytics_outputs_are_suppressed_box_by_box(agnostic: bool) -> None:
    draw = np.random.default_rng(0)
    anchors = 400
    centres = draw.uniform(60, 260, (2, anchors))
    sides = draw.uniform(20, 90, (2, anchors))
    scores = draw.uniform(0, 1, (3, anchors)) ** 3
    output = np.vstack([centres, sides, scores]).astype(np.float32)[None]
    task = Detection(iou=0.5, least=0.1, agnostic=agnostic)
    (record,) = decode(task, output)
    corners = np.vstack([centres - sides / 2, centres + sides / 2]).T
    best, of_class = scores.max(axis=0), scores.argmax(axis=0)
    expected = []
    for index in range(1 if agnostic else 3):
        own = np.flatnonzero((best > 0.1) & (agnostic | (of_class == index)))
        expected += [own[at] for at in suppressed(corners[own], best[own], 0.5)]
    expected.sort(key=lambda at: -best[at])
    assert 20 < len(expected) < 300
    np.testing.assert_allclose(record.corners, corners[expected], atol=1e-4)
    np.testing.assert_array_equal(record.scores, best[expected].astype(np.float32))
    np.testing.assert_array_equal(record.classes, of_class[expected])


@pytest.mark.parametrize("scores", ["auto", "sigmoid"])
def test_yolov5_boxes_have_the_product_of_objectness_and_score(scores: str) -> None:
    draw = np.random.default_rng(1)
    anchors = 400
    centres, sides = draw.uniform(60, 260, (anchors, 2)), draw.uniform(20, 90, (anchors, 2))
    shares = draw.uniform(0.01, 0.99, (anchors, 4))
    given = np.log(shares / (1 - shares)) if scores == "sigmoid" else shares
    output = np.hstack([centres, sides, given]).astype(np.float32)[None]
    task = Detection(outputs="yolov5", iou=0.5, least=0.1, scores=scores)
    (record,) = decode(task, output)
    corners = np.hstack([centres - sides / 2, centres + sides / 2])
    products = shares[:, :1] * shares[:, 1:]
    best, of_class = products.max(axis=1), products.argmax(axis=1)
    expected = []
    for index in range(3):
        own = np.flatnonzero((best > 0.1) & (of_class == index))
        expected += [own[at] for at in suppressed(corners[own], best[own], 0.5)]
    expected.sort(key=lambda at: -best[at])
    assert 20 < len(expected) < 300
    np.testing.assert_allclose(record.corners, corners[expected], atol=1e-4)
    np.testing.assert_allclose(record.scores, best[expected], rtol=1e-6)
    np.testing.assert_array_equal(record.classes, of_class[expected])


def test_a_sure_class_without_an_object_is_no_box() -> None:
    rows = np.zeros((1, 63, 8))
    rows[0, :, :4] = [[20 + index * 4, 20, 3, 3] for index in range(63)]
    rows[0, 0, 4:] = 0.1, 0.9, 0.2, 0.3
    rows[0, 1, 4:] = 0.9, 0.2, 0.9, 0.3
    rows[0, 2, 4:] = np.nan, 0.2, 0.9, 0.3
    (record,) = decode(Detection(outputs="yolov5", least=0.1), rows)
    np.testing.assert_allclose(record.scores, [0.81], rtol=1e-6)
    np.testing.assert_array_equal(record.corners, [[22.5, 18.5, 25.5, 21.5]])
    np.testing.assert_array_equal(record.classes, [1])
    assert record.unusable[0] == 1
    with pytest.raises(BackendError, match="scores of 4 classes"):
        decode(Detection(outputs="yolov5"), np.zeros((1, 63, 9)))


def test_end_to_end_outputs_are_taken_as_they_are() -> None:
    rows = [[10, 10, 20, 20, 0.9, 2], [10, 10, 20, 21, 0.8, 2], [0, 0, 0, 0, 0, 0]]
    (record,) = decode(Detection(), [rows])
    np.testing.assert_array_equal(record.corners, [rows[0][:4], rows[1][:4]])
    np.testing.assert_array_equal(record.classes, [2, 2])


@pytest.mark.slow  # the library takes some seconds to import
def test_detr_outputs_are_those_of_transformers() -> None:
    from types import SimpleNamespace

    from transformers.models.detr.image_processing_detr import DetrImageProcessor
    from transformers.models.rt_detr.image_processing_rt_detr import RTDetrImageProcessor

    draw = torch.Generator().manual_seed(0)
    boxes = torch.rand(2, 50, 4, generator=draw) * 0.4 + 0.25
    for processor, classes in ((DetrImageProcessor(), 4), (RTDetrImageProcessor(), 3)):
        logits = torch.randn(2, 50, classes, generator=draw) * 3
        theirs = processor.post_process_object_detection(
            SimpleNamespace(logits=logits, pred_boxes=boxes), threshold=0.1,
            target_sizes=[(SIDE, SIDE)] * 2,
        )  # fmt: skip
        ours = decode(Detection(least=0.1), logits, boxes, places=[SAME, SAME])
        for record, image in zip(ours, theirs, strict=True):
            order = np.argsort(-image["scores"].numpy(), kind="stable")
            inside = image["boxes"].numpy()[order].clip(0, SIDE)
            assert len(order) > 10
            np.testing.assert_allclose(record.corners, inside, rtol=1e-6, atol=1e-4)
            np.testing.assert_allclose(record.scores, image["scores"].numpy()[order], rtol=1e-6)
            np.testing.assert_array_equal(record.classes, image["labels"].numpy()[order])


def test_boxes_go_back_to_the_image_and_are_cut_at_its_edges() -> None:
    # 640 x 320 halved into a square, with 80 rows of padding above and below
    place = Geometry(640, 320, SIDE, SIDE, 0.5, 0.5, 0.0, 80.0)
    rows = [[10, 90, 60, 130, 0.9, 0], [300, 70, 330, 100, 0.8, 0], [10, 10, 60, 70, 0.7, 0]]
    (record,) = decode(Detection(), [rows], places=[place])
    np.testing.assert_array_equal(record.corners, [[20, 20, 120, 100], [600, 0, 640, 40]])
    # the third lies in the padding
    assert record.unusable == (0, 1)


def test_boxes_that_cannot_be_used_are_counted() -> None:
    nan, inf = np.nan, np.inf
    rows = [
        [10, 10, 20, 20, 0.9, 0],
        [nan, 10, 20, 20, 0.8, 0],
        [10, 10, 20, 20, nan, 0],
        [10, 10, inf, 20, 0.7, 0],
        [nan, nan, nan, nan, 0.0001, 0],
        [20, 10, 20, 20, 0.6, 0],
        [30, 10, 20, 20, 0.6, 0],
    ]
    (record,) = decode(Detection(), [rows])
    np.testing.assert_array_equal(record.corners, [[10, 10, 20, 20]])
    assert record.unusable == (3, 2)


def test_scores_of_nan_are_counted_in_every_format() -> None:
    yolo = np.full((1, 7, 20), 10.0)
    yolo[0, 4:] = 0.1
    yolo[0, 5, 3] = np.nan
    assert decode(Detection(), yolo)[0].unusable[0] == 1
    logits, boxes = np.zeros((1, 5, 4)), np.full((1, 5, 4), 0.5)
    logits[0, 2, 1] = np.nan
    assert decode(Detection(), logits, boxes)[0].unusable[0] == 1
    assert decode(Detection(), logits[..., :3], boxes)[0].unusable[0] == 1
    lists = np.array([[[1, 2, 3, 4.0]] * 2]), np.ones((1, 2)), np.array([[0.5, np.nan]])
    assert decode(Detection(), *lists)[0].unusable[0] == 1


def test_classes_that_the_model_does_not_have_are_refused() -> None:
    for unknown, said in ((3, "and the model has 3"), (-1, "has 3"), (0.5, "a whole number")):
        with pytest.raises(BackendError, match=said):
            decode(Detection(), [[[10, 10, 20, 20, 0.9, unknown]]])
    with pytest.raises(BackendError, match="scores of 4 classes"):
        decode(Detection(), np.zeros((1, 8, 20)))


def test_outputs_of_another_shape_than_promised_are_refused() -> None:
    with pytest.raises(BackendError, match=r"\(1, 5, 4\).*expected"):
        decode(Detection(), np.zeros((1, 5, 4)), np.zeros((1, 6, 4)))
    with pytest.raises(BackendError, match="for 1 images"):
        decode(Detection(), np.zeros((2, 7, 20)))


def test_an_image_has_the_same_boxes_alone_as_in_a_batch() -> None:
    draw = np.random.default_rng(3)
    batch = draw.random((3, 7, 500)).astype(np.float32) * 100
    batch[:, 4:] /= 100
    detr = draw.normal(size=(3, 40, 3)), draw.random((3, 40, 4))
    for outputs in ((batch,), detr):
        together = decode(Detection(), *outputs, places=[SAME] * 3)
        for index, record in enumerate(together):
            (alone,) = decode(Detection(), *(each[index : index + 1] for each in outputs))
            for name in ("corners", "scores", "classes"):
                assert getattr(alone, name).tobytes() == getattr(record, name).tobytes()


def test_only_the_best_boxes_are_kept() -> None:
    rows = [[10, 10, 20, 20, score, 0] for score in (0.3, 0.9, 0.5, 0.9)]
    (record,) = decode(Detection(most=3), [rows])
    np.testing.assert_array_equal(record.scores, np.array([0.9, 0.9, 0.5], np.float32))


def samples(*annotations: object, classes: tuple[str, ...] = CLASSES.classes) -> Samples:
    ids = tuple(map(str, range(len(annotations))))
    return Samples(ids, (), classes, lambda _: b"", "x", annotations)  # type: ignore[arg-type]


def test_records_are_joined_with_the_truth_by_id() -> None:
    one = Boxes(np.array([[1, 2, 3, 4.0]]), np.array([2]), np.array([False]))
    none = Boxes(np.zeros((0, 4)), np.zeros(0, np.int64), np.zeros(0, np.bool_))
    rows = [[10, 10, 20, 20, 0.9, 0]]
    order = ClassMap(CLASSES.classes, ("newt",), (1, 2, 3, 0))
    records = decode(Detection(), [rows], classes=order)
    task = Detection()
    answers = task.answers(["1", "0"], [records[0], records[0]], samples(one, none), order)
    np.testing.assert_array_equal(answers.truth.starts, [0, 0, 1])
    assert answers.said(0) == "1\N{MULTIPLICATION SIGN} newt"
    unlabelled = task.answers(["1"], records, Samples(("1",), (), (), bytes, "x"), order)
    assert not unlabelled.labelled
    assert unlabelled.outputs == (*CLASSES.classes, "newt")
    with pytest.raises(DataError, match="LabelSet"):
        task.answers(["0"], records, samples(LabelSet((0,))), order)
    wrong = Boxes(one.corners, np.array([7]), one.crowd)
    with pytest.raises(DataError, match="class 7"):
        task.answers(["0"], records, samples(wrong), order)


def test_no_image_is_no_answer() -> None:
    answers = Detection().answers([], [], samples(), CLASSES)
    assert len(answers) == 0


def test_one_output_of_no_stated_shape_needs_its_format_by_name() -> None:
    with pytest.raises(ConfigError, match="'outputs': ultralytics, end-to-end, yolov5"):
        Detection().wanted(shapes(output0=None))
    for name in ("ultralytics", "end-to-end", "yolov5"):
        for sides in (None, (None, None, None)):
            assert Detection(outputs=name).wanted(shapes(output0=sides)) == ("output0",)
            assert Detection(outputs=name).recognise(shapes(output0=sides), 10)
