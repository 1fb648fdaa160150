"""Scores of the user's own: the function is found, called for each image, and checked."""

import sys
import tracemalloc
from dataclasses import replace
from itertools import combinations

import numpy as np
import pyarrow.parquet as pq
import pytest

from alignkit.annotations import LabelSet
from alignkit.compare import drift
from alignkit.compare.answers import noise_floor, plain_metrics
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.idle_answers import nothing_answered
from alignkit.errors import BackendError, ConfigError
from alignkit.experiment.option import plugin_from
from alignkit.predict.decoder import KeptRecords
from alignkit.tasks import TASKS, ClassMap, OutputShape
from alignkit.tasks.score import OwnScore
from alignkit.tasks.score.score_answers import ScoreAnswers
from tests.task_case import ids, ones, resamples, samples_of, squash

CODE = """
import numpy as np

def error(outputs, sample):
    return abs(float(outputs["output"][0]) - len(sample.id))

def several(outputs, sample):
    given = outputs["output"]
    return {"first": given[0], "size": None if given[0] < 0 else given.sum()}

def moved(a, b):
    return abs(a["output"][0] - b["output"][0]) > 1

def asks(outputs, sample):
    assert sample.read() == b"bytes 1"
    assert sample.label is None and sample.annotation.labels == (1,)
    assert sample.classes == ("sky", "road", "car")
    corners = sample.geometry.to_image(outputs["box"][None].astype(float))
    return corners[0, 2]

def raises(outputs, sample):
    raise IndexError("no such keypoint")

def words(outputs, sample):
    return {"first": "three"}

def changing(outputs, sample):
    return {"first": 1} if sample.id == "0.jpg" else {"second": 2}

def writes(outputs, sample):
    outputs["output"][:] = 0
    return 0

def breaks(a, b):
    return a["boxes"] != b["boxes"]

def huge(outputs, sample):
    return {"int": 10**400, "float": 1e200, "text": "3", "many": np.ones(2), "odd": Odd()}[
        sample.classes[0]
    ]

class Odd:
    def __float__(self):
        raise RuntimeError("no number")

number = 3
"""
PLACE = squash(16, 8, 8, 4)


@pytest.fixture(autouse=True)
def _code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text(CODE)
    (tmp_path / "own_module.py").write_text(CODE)
    yield
    for name in [each for each in sys.modules if "own_module" in each or "own.py" in each]:
        del sys.modules[name]


def answered(task, *outputs, annotations=()):
    arrays = tuple(np.asarray(each, np.float32) for each in outputs)
    count = len(arrays[0])
    return joined(task, arrays, samples_of(ids(count), annotations))


def joined(task, arrays, samples):
    records = task.decode(arrays, [PLACE] * len(samples), ClassMap(()))
    return task.answers(samples.ids, task.keep(records, samples), samples, ClassMap(()))


@pytest.mark.parametrize("place", ["own.py", "own_module"])
def test_a_function_of_a_file_or_a_module_rates_each_image(place):
    answers = answered(OwnScore(f"{place}:error"), [[1.0], [7.0]])
    np.testing.assert_array_equal(answers.scores.values[:, 0], [4, 2])
    assert plain_metrics(answers) == {"score.error": 3}
    assert answers.said(0) == "error 4"
    below = answered(OwnScore(f"{place}:several", names=("first", "size")), [[-1.5, 1.0]])
    assert below.said(0) == "first −1.5, no size"


def test_it_may_return_several_numbers_or_none():
    task = OwnScore("own.py:several", names=("size", "first"))
    answers = answered(task, [[1.0, 2.0], [-1.0, 5.0], [3.0, 0.5]])
    assert plain_metrics(answers) == {"score.size": 3.25, "score.first": 1}
    assert answers.said(1) == "no size, first −1"
    assert answers.finite().all()


def test_the_function_sees_the_sample_and_the_outputs_that_it_names():
    task = OwnScore("own.py:asks", outputs=("box",))
    boxes = np.array([[0, 0, 4, 2], [0, 0, 8, 4]])
    samples = samples_of(ids(2), [LabelSet(()), LabelSet((1,))]).take([1])
    answers = joined(task, (boxes[1:].astype(np.float32),), samples)
    np.testing.assert_array_equal(answers.scores.values, [[16]])


def test_weights_of_a_resample_give_the_mean_of_the_images_it_drew():
    task = OwnScore("own.py:several", names=("size", "first"))
    values = np.random.default_rng(0).normal(size=(40, 2))
    answers = answered(task, values)
    weights, drawn = resamples(40, 30)
    found = answers.metrics_of(weights)
    for name, column in zip(("size", "first"), answers.scores.values.T, strict=True):
        expected = [np.nanmean(column[each]) for each in drawn]
        np.testing.assert_allclose(found[f"score.{name}"], expected, rtol=1e-14)


def test_a_score_of_nan_is_counted_and_the_mean_is_unknown():
    answers = answered(OwnScore("own.py:error"), [[1.0], [np.nan], [np.inf]])
    np.testing.assert_array_equal(answers.finite(), [True, False, False])
    assert plain_metrics(answers) == {"score.error": None}
    assert not answers.changed(answers).any()


@pytest.mark.parametrize(
    ("function", "options", "reason"),
    [
        (
            "raises",
            {},
            r"own.py:raises raised IndexError: no such keypoint \(.*/own.py:22\) for the image '0",
        ),
        ("words", {"names": ("first",)}, "gives str as first of '0.jpg'; return a number, or None"),
        ("changing", {"names": ("first",)}, "gives second for '1.jpg', and first is expected"),
        ("several", {}, r"gives first, size for '0.jpg', .* write 'names: \[first, size\]'"),
        ("error", {"names": ("a", "b")}, "gives float for '0.jpg', and a mapping of a, b to"),
    ],
)
def test_a_function_that_fails_is_named_with_the_image(function, options, reason):
    with pytest.raises(ConfigError, match=reason):
        answered(OwnScore(f"own.py:{function}", **options), [[1.0, 2.0], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("int", r"gives int as huge of '0.jpg' that is beyond ±1e\+100; give it a larger unit"),
        ("float", r"gives float as huge of '0.jpg' that is beyond ±1e\+100"),
        ("text", "gives str as huge of '0.jpg'; return a number"),
        ("many", "gives ndarray as huge of '0.jpg'; return a number"),
        ("odd", r"gives Odd as huge .*; return .* \(RuntimeError: no number \(.*own.py:\d+\)\)"),
    ],
)
def test_a_score_that_is_no_number_that_can_be_summed_is_named(kind, reason):
    samples = replace(samples_of(ids(2), ()), classes=(kind,))
    with pytest.raises(ConfigError, match=reason):
        joined(OwnScore("own.py:huge"), (np.ones((2, 1), np.float32),), samples)


@pytest.mark.parametrize(
    ("score", "reason"),
    [
        ("__main__:f", "__main__ is the program that was started, .* name it FILE.py:FUNCTION"),
        (".own:f", "'.own' is no module's name"),
        ("own..module:f", "'own..module' is no module's name"),
        (
            "nowhere.py:f",
            "score 'nowhere.py:f': no file 'nowhere.py'; start alignkit in the folder",
        ),
        ("nowhere_at_all:f", "no module named 'nowhere_at_all'; start alignkit"),
        ("error", "score: 'error' names no function; write module:function"),
    ],
)
def test_a_function_that_is_not_there_is_refused_when_the_file_is_read(score, reason):
    with pytest.raises(ConfigError, match=reason):
        OwnScore(score)


def test_a_name_that_is_no_function_is_refused():
    with pytest.raises(ConfigError, match=r"'own.py:number': number is no function"):
        answered(OwnScore("own.py:number"), [[1.0]])


def test_an_edit_of_the_code_changes_the_task_and_so_its_keys(tmp_path):
    before = OwnScore("own.py:error")
    (tmp_path / "own.py").write_text(CODE + "\n# edited\n")
    assert OwnScore("own.py:error") != before
    assert OwnScore("own.py:error", changed="own_module:moved").source.count(" ") == 1


def test_the_options_of_a_file_give_the_task():
    given = {"name": "score", "score": "own.py:error", "better": "less", "names": ["error"]}
    assert plugin_from(TASKS, given) == OwnScore("own.py:error", ("error",), better="less")


def test_an_answer_changed_if_a_score_moved_beyond_the_tolerance():
    before, after = [[1.0], [1.0], [1.0]], [[1.0], [1.25], [3.0]]
    for tolerance, expected in ((0, [False, True, True]), (0.5, [False, False, True])):
        task = OwnScore("own.py:error", tolerance=tolerance)
        a, b = answered(task, before), answered(task, after)
        np.testing.assert_array_equal(a.changed(b), expected)
    assert a.measures_of(b)["score.error.apart"].of(ones(a)) == 0.75
    np.testing.assert_array_equal(a.apart(b), [0, 0.25, 2])


def test_a_score_beside_none_or_nan_is_a_change():
    task = OwnScore("own.py:several", names=("first", "size"), tolerance=1e9)
    a, b = answered(task, [[1.0, 1.0], [1.0, 1.0]]), answered(task, [[-1.0, 1.0], [1.0, np.nan]])
    np.testing.assert_array_equal(a.changed(b), [True, True])
    apart = a.measures_of(b)["score.size.apart"].of(np.array([[1, 0], [0, 1]], np.float32))
    assert np.isnan(apart).all()  # of none, and of NaN


def test_the_users_function_decides_about_a_change():
    task = OwnScore("own.py:error", changed="own.py:moved")
    a, b = answered(task, [[1.0], [1.0], [1.0]]), answered(task, [[1.0], [1.5], [3.0]])
    np.testing.assert_array_equal(a.changed(b), [False, False, True])
    np.testing.assert_array_equal(a.differs(b), [False, True, True])


def test_outputs_that_are_too_large_to_be_compared_are_refused_early():
    task = OwnScore("own.py:error", changed="own.py:moved")
    heat = OutputShape("heat", (1, 17, 64, 48))
    with pytest.raises(ConfigError, match="52224 values an image, and up to 4096 are kept"):
        task.recognise([heat], None)
    with pytest.raises(ConfigError, match="5000 values"):
        task.decode((np.zeros((1, 5000), np.float32),), [PLACE], ClassMap(()))
    plain = answered(OwnScore("own.py:error"), np.ones((2, 5000)))
    assert plain.kept == ()
    assert not plain.changed(plain).any()


def test_outputs_are_named_or_there_is_one():
    two = [OutputShape("a", (1, 3)), OutputShape("b", (None, 4))]
    task = OwnScore("own.py:error")
    assert task.wanted(two[:1]) == ("a",)
    assert task.recognise(two[1:], None) == "b (?, 4), given to own.py:error"
    with pytest.raises(ConfigError, match=r"2 outputs \(a .*\); .*: outputs: \[a\]"):
        task.wanted(two)
    assert replace(task, outputs=("b",)).wanted(two) == ("b",)
    with pytest.raises(ConfigError, match="no output 'c'"):
        replace(task, outputs=("c",)).wanted(two)
    with pytest.raises(BackendError, match="first axis is the image"):
        task.decode((np.zeros((3, 2), np.float32),), [PLACE], ClassMap(()))


def test_a_function_that_writes_into_its_arrays_does_not_change_what_is_kept():
    answers = answered(OwnScore("own.py:writes", changed="own.py:moved"), [[1.0], [2.0]])
    assert [each[0][0] for each in answers.kept] == [1, 2]


def test_outputs_that_nothing_compares_are_not_kept(tmp_path):
    for changed in ("", "own.py:moved"):
        answers = answered(OwnScore("own.py:error", changed=changed), [[1.0], [2.0]])
        assert len(answers.kept) == (2 if changed else 0)
        answers.to_parquet(tmp_path / "scores.parquet")
        columns = pq.read_schema(tmp_path / "scores.parquet").names
        assert ("outputs" in columns) is bool(changed)
        again = ScoreAnswers.from_parquet(tmp_path / "scores.parquet")
        assert [each[0][0] for each in again.kept] == ([1, 2] if changed else [])


def test_a_mistake_in_changed_is_found_with_the_first_batch():
    task = OwnScore("own.py:error", changed="own.py:breaks")
    with pytest.raises(ConfigError, match=r"own.py:breaks raised KeyError: 'boxes' \(.*own.py:35"):
        answered(task, [[1.0], [1.0]])


def test_large_outputs_are_not_kept_until_the_end():
    task, count, values = OwnScore("own.py:error"), 64, 100_000
    records, samples = KeptRecords(count), samples_of(ids(count))
    most = 0
    tracemalloc.start()
    for start in range(0, count, 4):
        batch = np.full((4, values), start, np.float32)
        decoded = task.decode((batch,), [PLACE] * 4, ClassMap(()))
        records.put(start, task.keep(decoded, samples.take(range(start, start + 4))))
        del batch, decoded
        most = max(most, tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert most < 4 * values  # bytes: not even one image of float32
    answers = task.answers(samples.ids, records.all, samples, ClassMap(()))
    expected = [abs(index // 4 * 4 - len(each)) for index, each in enumerate(samples.ids)]
    np.testing.assert_array_equal(answers.scores.values[:, 0], expected)


def test_less_is_better_where_the_task_says_so():
    less = OwnScore("own.py:error", better="less")
    assert less.facts().metrics[0].better == "less"
    np.testing.assert_array_equal(answered(less, [[1.0], [7.0]]).quality(), [-4, -2])
    assert not less.facts().needs_labels


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"tolerance": -1}, "tolerance: -1; a number, 0 or more"),
        ({"tolerance": float("inf")}, "tolerance: inf; a number"),
        ({"tolerance": float("nan")}, "tolerance: nan; a number"),
        ({"names": ("x", "x.apart")}, "'x.apart' is a measure of 'x'; rename it"),
        ({"names": ("a", "a")}, "names: a, a; names that differ"),
        ({"changed": "moved"}, "changed: 'moved' names no function"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, reason):
    with pytest.raises(ConfigError, match=reason):
        OwnScore("own.py:error", **options)


def test_a_drift_of_scores_has_metrics_and_measures():
    task = OwnScore("own.py:error", better="less")
    a, b = answered(task, np.arange(8.0)[:, None]), answered(task, np.arange(8.0)[:, None] + 1)
    found = drift([a], [b], draws=SharedDraws(50))
    before, after = a.scores.values, b.scores.values
    expected = after.mean() - before.mean()
    assert found.metrics["score.error"].value == pytest.approx(expected)
    assert found.measures["score.error.apart"].value == 1
    assert found.churn.value == 1
    assert found.classes == ()
    worse = int((after > before).sum())
    assert (found.right_to_wrong, found.wrong_to_right) == (worse, 8 - worse)


def test_a_score_that_one_side_lacks_makes_no_change_better():
    task = OwnScore("own.py:several", names=("first", "size"), better="less")
    # the second image is the worst; the candidate has no size for it, and 1 more elsewhere
    a = answered(task, [[1.0, 1.0], [8.0, 8.0], [2.0, 2.0]])
    b = answered(task, [[1.0, 2.0], [-8.0, 8.0], [2.0, 3.0]])
    before, after = (plain_metrics(each)["score.size"] for each in (a, b))
    assert after < before
    found = drift([a], [b], draws=SharedDraws(20))
    assert found.metrics["score.size"].value == 1
    assert found.metrics["score.first"].value == pytest.approx(-16 / 3)
    assert found.measures["score.size.missing"].value == pytest.approx(1 / 3)
    assert found.measures["score.first.missing"].value == 0


def test_a_noise_floor_compares_the_images_that_have_a_score_in_both_seeds():
    task = OwnScore("own.py:several", names=("first", "size"))
    # without a size: the second image in the second seed, and the third in the third one
    seeds = {
        0: answered(task, [[1.0, 1.0], [8.0, 8.0], [2.0, 2.0]]),
        1: answered(task, [[1.0, 2.0], [-8.0, 8.0], [2.0, 4.0]]),
        2: answered(task, [[1.0, 1.5], [8.0, 8.5], [-2.0, 4.0]]),
    }
    found = noise_floor("opencv", seeds)
    sizes = [{0: 2.0, 1: 16.0, 2: 4.0}, {0: 3.0, 2: 6.0}, {0: 2.5, 1: 16.5}]
    expected = max(
        abs(np.mean([b[image] - a[image] for image in a.keys() & b.keys()]))
        for a, b in combinations(sizes, 2)
    )
    assert found.metrics["score.size"] == pytest.approx(expected) == 1.5
    assert found.metrics["score.first"] == pytest.approx(16 / 3)
    nowhere = {0: answered(task, [[1.0], [-1.0]]), 1: answered(task, [[-1.0], [1.0]])}
    assert noise_floor("opencv", nowhere).metrics.keys() == {"score.first"}


def test_a_score_whose_name_ends_like_a_measure_says_why_it_has_no_value():
    task = OwnScore("own.py:error", names=(), changed="")
    answers = answered(task, [[np.nan]])
    answers = replace(answers, scores=replace(answers.scores, names=("x.apart",)))
    assert "are not finite" in answers.undefined("score.x.apart")
    assert "are not finite" in answers.undefined("score.x.apart.apart")


UNREAD = """
import numpy as np

def of_the_id(outputs, sample):
    return float(len(sample.id))

def of_the_bytes(outputs, sample):
    return float(len(sample.read()))

def of_the_shape(outputs, sample):
    return float(outputs["output"].size + len(sample.id))

def times_nothing(outputs, sample):
    return float((outputs["output"] * 0).sum() + len(sample.id))

def looked_at_and_dropped(outputs, sample):
    outputs["output"].argmax()
    return {"some": len(sample.id)}["some"]

def clipped(outputs, sample):
    return float(np.clip(outputs["output"][0], 1e6, 1e7) + len(sample.id))

def right(outputs, sample):
    return float(outputs["output"].argmax() == len(sample.id) % 3)

def at_least(outputs, sample):
    return float(outputs["output"][0] > 6)

def first(outputs, sample):
    return float(outputs["output"][0])

def refuses_others(outputs, sample):
    if not outputs["output"].any():
        raise ValueError("nothing was found")
    return 3.0

def none_of_them(a, b):
    return False

def far(a, b):
    return abs(a["output"][0] - b["output"][0]) > 1
"""
ROWS = np.array([[at % 4 * 2 + 1, at % 3, 1.5] for at in range(12)])


@pytest.mark.parametrize(
    ("function", "reads"),
    [
        *dict.fromkeys(
            ("of_the_id", "of_the_bytes", "of_the_shape", "times_nothing",
             "looked_at_and_dropped", "clipped"), False
        ).items(),
        *dict.fromkeys(("right", "at_least", "first"), True).items(),
    ],
)  # fmt: skip
def test_scores_that_follow_from_no_output_have_compared_nothing(tmp_path, function, reads):
    (tmp_path / "own.py").write_text(UNREAD)
    task = OwnScore(f"own.py:{function}")
    pair = answered(task, ROWS), answered(task, ROWS + 0.001)
    assert pair[0].read.all() == reads
    said = nothing_answered([pair])
    assert ("the same for any outputs" in said) == (not reads)
    pair[0].to_parquet(tmp_path / "kept.parquet")
    assert ScoreAnswers.from_parquet(tmp_path / "kept.parquet").read.tolist() == [reads] * 12
    # the difference of a function that reads them is shown, whatever was asked before
    if function == "first":
        assert nothing_answered([(pair[0], answered(task, ROWS + 1))]) == ""


def test_a_function_that_refuses_other_outputs_reads_them(tmp_path):
    (tmp_path / "own.py").write_text(UNREAD)
    assert answered(OwnScore("own.py:refuses_others"), ROWS).read.all()


@pytest.mark.parametrize(("function", "blind"), [("none_of_them", True), ("far", False)])
def test_a_function_that_tells_no_two_images_apart_has_compared_nothing(tmp_path, function, blind):
    (tmp_path / "own.py").write_text(UNREAD)
    task = OwnScore("own.py:first", changed=f"own.py:{function}")
    pair = answered(task, ROWS), answered(task, ROWS + 0.001)
    assert ("no two of 12 images" in nothing_answered([pair])) == blind
