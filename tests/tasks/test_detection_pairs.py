"""Two sides' boxes: lost, won, renamed, crossed and shifted ones, and their drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.errors import DataError
from alignkit.record import Drift
from alignkit.tasks.detection.box_pairs import iou, match_boxes
from alignkit.tasks.detection.box_tables import FoundBoxes
from alignkit.tasks.detection.detection_answers import DetectionAnswers
from tests.tasks.boxes_at_random import random_answers
from tests.tasks.test_detection_metrics import answers_of, boxes, objects

HERE, MOVED, ELSEWHERE = (0, 0, 10, 10), (1, 0, 11, 10), (50, 50, 60, 60)
CAT, DOG = 0, 1


def compared(before: Sequence[tuple], after: Sequence[tuple]) -> tuple[dict[str, float], bool]:
    a, b = (answers_of(boxes([side]), objects([[]])) for side in (before, after))
    ones = np.ones((1, 1), np.float32)
    measures = {name: float(sums.of(ones)[0]) for name, sums in a.measures_of(b).items()}
    return measures, bool(a.changed(b)[0])


def test_an_answer_compared_with_itself_has_not_changed() -> None:
    answers = random_answers(20, levels=6)
    ones = np.ones((len(answers), 1), np.float32)
    measures = {name: sums.of(ones)[0] for name, sums in answers.measures_of(answers).items()}
    assert measures.pop("box.iou") == 1
    assert set(measures.values()) == {0}
    assert not answers.changed(answers).any()
    assert not answers.differs(answers).any()
    assert not answers.apart(answers).any()


def test_a_moved_box_is_a_match_with_its_shift_and_overlap() -> None:
    measures, changed = compared([(HERE, 0.9, CAT)], [(MOVED, 0.8, CAT)])
    assert measures["box.shift"] == 1
    assert measures["box.iou"] == pytest.approx(9 / 11)
    assert measures["boxes.lost"] == measures["boxes.won"] == 0
    assert not changed


def test_a_box_without_a_match_is_lost_and_its_inverse_won() -> None:
    measures, changed = compared([(HERE, 0.9, CAT), (ELSEWHERE, 0.9, CAT)], [(HERE, 0.9, CAT)])
    assert (measures["boxes.lost"], measures["boxes.won"], changed) == (0.5, 0, True)
    measures, changed = compared([(HERE, 0.9, CAT)], [(HERE, 0.9, CAT), (ELSEWHERE, 0.9, CAT)])
    assert (measures["boxes.lost"], measures["boxes.won"], changed) == (0, 0.5, True)
    assert measures["boxes.crossed"] == 0


def test_a_box_of_another_class_is_renamed_and_not_lost() -> None:
    measures, changed = compared([(HERE, 0.9, CAT)], [(MOVED, 0.9, DOG)])
    assert (measures["boxes.class_changed"], measures["boxes.lost"], changed) == (1, 0, True)


def test_the_same_class_is_matched_before_a_better_overlap_of_another() -> None:
    measures, _ = compared([(HERE, 0.9, CAT)], [(HERE, 0.9, DOG), (MOVED, 0.9, CAT)])
    assert (measures["boxes.class_changed"], measures["box.shift"]) == (0, 1)
    assert measures["boxes.won"] == 0.5


def test_a_box_that_falls_below_the_threshold_is_lost_and_crossed() -> None:
    measures, changed = compared([(HERE, 0.26, CAT)], [(MOVED, 0.24, CAT)])
    assert (measures["boxes.lost"], measures["boxes.crossed"], changed) == (1, 1, True)
    measures, _ = compared([(HERE, 0.24, CAT)], [(MOVED, 0.26, CAT), (ELSEWHERE, 0.9, CAT)])
    assert (measures["boxes.won"], measures["boxes.crossed"]) == (1, 0.5)
    assert np.isnan(measures["boxes.lost"])


def test_boxes_of_two_images_never_match() -> None:
    a = answers_of(boxes([[(HERE, 0.9, CAT)], []]), objects([[], []]))
    b = answers_of(boxes([[], [(HERE, 0.9, CAT)]]), objects([[], []]))
    np.testing.assert_array_equal(a.changed(b), [True, True])
    np.testing.assert_array_equal(a.apart(b), [1, 1])


def slow_matches(a: FoundBoxes, b: FoundBoxes, image: int, score: float) -> list[tuple[int, int]]:
    """Match one image's boxes one after the other, the same class first."""
    mine = [i for i in range(a.starts[image], a.starts[image + 1]) if a.scores[i] >= score]
    others = [i for i in range(b.starts[image], b.starts[image + 1]) if b.scores[i] >= score]
    found: list[tuple[int, int]] = []
    for same in (True, False):
        pairs = [
            (-float(iou(a.corners[[i]], b.corners[[j]])[0]), i, j)
            for i in mine
            for j in others
            if not same or a.classes[i] == b.classes[j]
        ]
        for overlap, i, j in sorted(pairs):
            free = i not in [each[0] for each in found] and j not in [each[1] for each in found]
            if -overlap >= 0.5 and free:
                found.append((i, j))
    return sorted(found)


def jittered(answers: DetectionAnswers, seed: int) -> DetectionAnswers:
    draw = np.random.default_rng(seed)
    found = answers.found
    corners = found.corners + draw.normal(0, 4, found.corners.shape).astype(np.float32).round()
    corners[:, 2:] = np.maximum(corners[:, 2:], corners[:, :2] + 1)
    classes = np.where(draw.random(len(found.classes)) < 0.1, 0, found.classes)
    return replace(answers, found=replace(found, corners=corners, classes=classes))


def test_matches_are_those_of_a_loop_over_boxes() -> None:
    for seed in range(6):
        a = random_answers(seed, images=6, found_a_image=20)
        b = jittered(a, seed)
        pairs = match_boxes(a.found, b.found, 0.25)
        expected = [m for image in range(6) for m in slow_matches(a.found, b.found, image, 0.25)]
        assert list(zip(pairs.first.tolist(), pairs.second.tolist(), strict=True)) == expected


def test_matches_do_not_depend_on_the_images_beside(monkeypatch: pytest.MonkeyPatch) -> None:
    a = random_answers(30, images=10)
    b = jittered(a, 30)
    whole = a.apart(b)
    alone = [a.rows(np.array([i])).apart(b.rows(np.array([i])))[0] for i in range(10)]
    np.testing.assert_array_equal(whole, alone)
    # in as small parts as there can be
    monkeypatch.setattr("alignkit.tasks.detection.box_pairs._CELLS", 1)
    np.testing.assert_array_equal(a.apart(b), whole)


def test_images_with_the_same_boxes_do_not_differ() -> None:
    a = random_answers(31, images=4)
    scores = a.found.scores.copy()
    scores[a.found.starts[2]] += 1e-6
    b = replace(a, found=replace(a.found, scores=scores))
    np.testing.assert_array_equal(a.differs(b), [False, False, True, False])
    fewer = replace(b, found=boxes([[], [], [], []]))
    assert a.differs(fewer).sum() == (np.diff(a.found.starts) > 0).sum()


def test_an_answer_says_its_boxes_and_those_that_were_left_out() -> None:
    found = boxes([[(HERE, 0.9, CAT), (MOVED, 0.8, CAT), (HERE, 0.7, DOG), (HERE, 0.1, DOG)], []])
    answers = answers_of(found, objects([[], []]))
    assert answers.said(0) == "2\N{MULTIPLICATION SIGN} cat, 1\N{MULTIPLICATION SIGN} dog"
    assert answers.said(1) == "no box"
    damaged = replace(answers, unusable=np.array([[1, 0], [0, 2]]))
    assert damaged.said(0) == f"{answers.said(0)} (1 not finite)"
    assert damaged.said(1) == "no box"
    assert (~damaged.finite()).sum() == 1
    np.testing.assert_array_equal(np.isnan(damaged.apart(answers)), [True, False])


def test_drawn_boxes_have_their_kind_beside_another_answer() -> None:
    truth = objects([[(HERE, CAT, False), (ELSEWHERE, DOG, True)]])
    a = answers_of(boxes([[(HERE, 0.75, CAT), (ELSEWHERE, 0.5, CAT)]]), truth)
    b = answers_of(boxes([[(MOVED, 0.75, DOG), (HERE, 0.1, DOG)]]), truth)
    drawn = a.drawn(0, b)
    here, elsewhere = drawn["boxes"]
    assert here == {"corners": [0, 0, 10, 10], "class": "cat", "score": 0.75,
                    "kind": "class changed", "shift": 1.0}  # fmt: skip
    assert elsewhere["kind"] == "alone"
    assert "shift" not in elsewhere
    assert drawn["truth"] == [
        {"corners": [0, 0, 10, 10], "class": "cat"},
        {"corners": [50, 50, 60, 60], "class": "dog", "kind": "crowd"},
    ]
    assert [set(each) for each in a.drawn(0)["boxes"]] == [{"corners", "class", "score"}] * 2


def test_a_file_holds_answers_bit_for_bit(tmp_path: Path) -> None:
    answers = replace(random_answers(32), unusable=np.full((30, 2), 3))
    answers.to_parquet(tmp_path / "a", width=np.full(30, np.nan))
    read = DetectionAnswers.from_parquet(tmp_path / "a")
    assert not read.unlike(answers)
    assert not read.differs(answers).any()
    assert read.found.corners.dtype == np.float32
    np.testing.assert_array_equal(read.unusable, answers.unusable)
    names = ("ids", "classes", "outside", "score")
    assert all(getattr(read, each) == getattr(answers, each) for each in names)
    for count in (0, 1):
        answers.rows(np.arange(count)).to_parquet(tmp_path / "b")
        assert len(DetectionAnswers.from_parquet(tmp_path / "b")) == count


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    answers = random_answers(33, images=3)
    answers.to_parquet(tmp_path / "a")
    table = parquet.read_table(tmp_path / "a")
    damages = {
        "no column 'left'": table.drop_columns("left"),
        "not of the same lengths": table.set_column(
            table.column_names.index("top"), "top",
            pa.array([[1.0]] * 3, pa.large_list(pa.float32())),
        ),
        "no answers of this task": table.replace_schema_metadata({}),
        "not finite": table.set_column(
            table.column_names.index("score"), "score",
            pa.array([[float("nan")] * n for n in np.diff(answers.found.starts)],
                     pa.large_list(pa.float32())),
        ),
        "not in 0..3": table.set_column(
            table.column_names.index("class"), "class",
            pa.array([[9] * n for n in np.diff(answers.found.starts)], pa.large_list(pa.int64())),
        ),
    }  # fmt: skip
    for message, damaged in damages.items():
        parquet.write_table(damaged, tmp_path / "b")
        with pytest.raises(DataError, match=message):
            DetectionAnswers.from_parquet(tmp_path / "b")


def test_answers_about_other_objects_or_thresholds_are_unlike() -> None:
    answers = random_answers(34)
    assert "objects" in answers.unlike(replace(answers, truth=random_answers(35).truth))
    assert "0.25" in answers.unlike(replace(answers, score=0.5))


def test_a_drift_of_boxes_has_every_metric_and_measure() -> None:
    a = random_answers(36, images=60)
    b = jittered(a, 1)
    found: Drift = drift([a], [b], draws=SharedDraws(200))
    for name in ("map50", "map", "recall.macro", "precision.micro"):
        assert found.metrics[name].value == pytest.approx(
            float((b.metrics_of(np.ones((60, 1), np.float32))[name]
                   - a.metrics_of(np.ones((60, 1), np.float32))[name])[0])
        )  # fmt: skip
        assert found.metrics[name].low <= found.metrics[name].value <= found.metrics[name].high
    assert found.measures["boxes.lost"].value > 0
    assert found.churn.value > 0.5
    assert {"ap", "ap50"} <= set(found.classes[0].others)
    assert found.logits.reason.startswith("boxes have no logits")
    same = drift([a], [a], draws=SharedDraws(200))
    assert {each.value for each in same.metrics.values()} == {0}
    assert same.churn.value == 0


def test_a_small_file_of_very_long_lists_is_refused(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rows = pa.array([np.zeros(40_000_000, np.float32)], pa.large_list(pa.float32()))
    parquet.write_table(pa.table({"id": pa.array(["a"]), "left": rows}), tmp_path / "a")
    with pytest.raises(DataError, match="would unpack to"):
        DetectionAnswers.from_parquet(tmp_path / "a")


def test_the_boxes_of_a_pair_are_matched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(*given: object) -> object:
        calls.append(given)
        return match_boxes(*given)  # type: ignore[arg-type]

    monkeypatch.setattr("alignkit.tasks.detection.detection_answers.match_boxes", counted)
    a, b = random_answers(5, levels=6), random_answers(5, levels=6)
    a.measures_of(b), a.changed(b), a.apart(b)
    assert len(calls) == 1
    b.changed(a)
    assert len(calls) == 2


GOOD, POOR = (0, 0, 10, 10), (3, 0, 13, 10)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # the two match at 0.54, and the object by the first alone: 7 / 13 and 4 / 16
        ([(GOOD, 0.9, CAT)], [(POOR, 0.9, CAT)], (0, 0, 0)),
        ([((2, 0, 12, 10), 0.9, CAT)], [((5, 0, 15, 10), 0.9, CAT)], (1, 0, 0)),
        ([((5, 0, 15, 10), 0.9, CAT)], [((2, 0, 12, 10), 0.9, CAT)], (0, 1, 0)),
        ([(GOOD, 0.9, CAT)], [], (1, 0, 0)),
        ([], [(GOOD, 0.9, CAT)], (0, 1, 0)),
        ([(ELSEWHERE, 0.9, CAT)], [(ELSEWHERE, 0.9, DOG)], (0, 0, 1)),
        ([(GOOD, 0.9, CAT)], [(GOOD, 0.7, CAT)], (0, 0, 0)),
    ],
    ids=["moved", "off the object", "onto the object", "lost", "won", "renamed", "score"],
)
def test_an_image_is_worse_or_better_by_its_ratio_of_right_boxes(before, after, expected) -> None:
    truth = objects([[(GOOD, CAT, False)], [(GOOD, CAT, False)]])
    same = [(GOOD, 0.9, CAT)]
    sides = [answers_of(boxes([each, same]), truth) for each in (before, after)]
    found = drift([sides[0]], [sides[1]], draws=SharedDraws(20))
    assert (found.right_to_wrong, found.wrong_to_right, found.wrong_to_wrong) == expected
    assert found.mcnemar_p == 1
