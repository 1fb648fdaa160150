"""Tolerances of outputs and of pixels, on made logits and against independent computations."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta, binom
from sklearn.metrics import recall_score
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from alignkit.compare.predictions import Predictions
from alignkit.errors import NothingCompared
from alignkit.progress import NoProgress
from alignkit.record.document import read_record, write_record
from alignkit.record.tolerance_facts import MOST_FACTOR, Limit, ToleranceDocument, is_open
from alignkit.report.page import page_html
from alignkit.report.tolerance_page import tolerance_page, tolerance_text
from alignkit.studies.tolerance import tolerance
from alignkit.studies.tolerance.pixel_curves import (
    CHECK_AT,
    checked_line,
    curve,
    limit_of,
    mean_levels,
    measured_limit,
    rounded_down,
)
from alignkit.tasks.detection import Detection
from tests.run_pair import artifact, write_small_run
from tests.task_case import ids
from tests.tasks.boxes_at_random import random_answers

METRICS = ("recall.macro", "churn")


def made(seed, n=800, classes=4):
    """A model's logits of images on two paths, of which the second is a little off."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, n)
    raw = rng.normal(size=(n, classes)) + 2 * np.eye(classes)[labels]
    moved = raw + rng.normal(scale=0.15, size=raw.shape)
    names = tuple(f"c{at}" for at in range(classes))
    return [
        Predictions(tuple(ids(n)), labels, each.astype(np.float32), names) for each in (raw, moved)
    ]


def network(reference, candidate, bend):
    """A network whose logits at t are linear, plus ``bend(t)`` times a fixed direction."""
    rng = np.random.default_rng(9)
    direction = rng.normal(size=reference.logits.shape)
    place = {name: at for at, name in enumerate(reference.ids)}

    def at(images, factor):
        rows = np.array([place[each] for each in images.ids])
        mixed = (1 - factor) * reference.logits[rows] + factor * candidate.logits[rows]
        bent = mixed + bend(factor) * direction[rows]
        return Predictions(images.ids, images.labels, bent.astype(np.float32), images.classes)

    return at


@pytest.mark.parametrize(("budget", "n"), [(0.005, 598), (0.005, 1000), (0.02, 400), (0.3, 37)])
def test_the_limit_is_the_image_after_the_last_that_may_change(budget, n):
    sizes = np.random.default_rng(n).permutation(n) + 0.5
    found = limit_of(sizes, budget)
    # the definition: the most images whose upper bound, a quantile of a beta, is in the budget
    most = max(k for k in range(n) if beta.ppf(0.95, k + 1, n - k) <= budget)
    assert (found.value, found.changed) == (sorted(sizes)[most], most)
    assert found.bound == pytest.approx(beta.ppf(0.95, most + 1, n - most))
    assert (sizes < found.value).sum() == most


def test_too_few_images_are_inconclusive_and_the_number_needed_is_named():
    found = limit_of(np.ones(597), 0.005)
    assert found.value is None
    assert found.reason == (
        "inconclusive: a budget of 0.5 % needs 598\xa0images, and 597\xa0images were compared"
    )
    assert limit_of(np.ones(598), 0.005).value == 1.0


def test_a_limit_holds_for_new_images_in_95_of_100_samples():
    """Of images drawn from a known law, the share that changes below the limit is the limit."""
    rng, budget, n = np.random.default_rng(1), 0.02, 400
    limits = np.array([limit_of(rng.random(n), budget).value for _ in range(3000)])
    exceeded = float((limits > budget).mean())
    most = max(k for k in range(n) if beta.ppf(0.95, k + 1, n - k) <= budget)
    assert exceeded <= 0.05 + 0.012  # three standard errors
    assert exceeded == pytest.approx(binom.cdf(most, n, budget), abs=0.012)


def test_a_limit_beyond_all_that_was_looked_at_is_open():
    found = limit_of(np.full(700, np.inf), 0.005, MOST_FACTOR)
    assert (found.value, found.more) == (MOST_FACTOR, True)
    none = limit_of(np.full(700, np.inf), 0.005)
    assert (none.value, none.reason) == (None, "no change of the outputs changes more")


def test_the_least_limit_is_open_only_if_none_was_found_there():
    open_end, found, more = Limit(2.0, 1, 0.01, more=True), Limit(2.0, 1, 0.01), Limit(2.5, 1, 0.01)
    assert is_open([open_end, more])
    assert not is_open([open_end, found])
    assert not is_open([Limit(3.0, 1, 0.01, more=True), more])
    assert not is_open([Limit(None, None, None)])


def test_rounding_down_stays_below_with_three_digits():
    rng = np.random.default_rng(2)
    for value in [*(10.0 ** rng.uniform(-12, 6, 3000)), 1e-3, 0.1, 1.0, 0.5, 250.0]:
        found = rounded_down(value)
        assert 0.99 * value < found < value
        assert float(f"{found:.3g}") == found
    assert rounded_down(0.0) == 0.0


def test_a_linear_network_is_predicted_to_the_image():
    sides = made(0)
    checked = checked_line(*sides, network(*sides, lambda t: 0.0), METRICS)
    assert [each.factor for each in checked.checks] == [*CHECK_AT]
    assert all(e.only_predicted == e.only_measured == 0 for e in checked.checks)
    assert checked.contradicted == ()
    found = curve(3, *sides, 0.05, checked, METRICS)
    assert (found.source, found.seed, found.images) == ("line, checked", 3, 800)
    assert {each.factor: each.changed for each in found.points}[1.0] == int(
        sides[0].changed(sides[1]).sum()
    )


def test_points_count_what_scikit_learn_and_statsmodels_count():
    before, after = made(1)
    found = curve(0, before, after, 0.05, "not asked", METRICS)
    point = next(each for each in found.points if each.factor == 0.5)
    mixed = (0.5 * before.logits.astype(np.float64) + 0.5 * after.logits).argmax(axis=1)
    was, now = before.logits.argmax(axis=1), mixed
    right = before.labels
    assert point.changed == (was != now).sum()
    assert (point.worse, point.better) == (
        ((was == right) & (now != right)).sum(),
        ((was != right) & (now == right)).sum(),
    )
    recalls = [recall_score(right, each, average="macro") for each in (was, now)]
    assert point.metrics == {"recall.macro": pytest.approx(recalls[1] - recalls[0])}
    interval = proportion_confint(point.changed, 800, method="beta")
    assert (point.low, point.high) == pytest.approx(interval)
    assert (found.source, found.reason) == ("line, not checked", "not asked")


def test_a_network_that_bends_between_the_paths_is_taken_at_its_measured_points_alone():
    sides = made(2)
    at = network(*sides, lambda t: abs(np.sin(2 * np.pi * t)) + 2 * (t == 0.5))
    checked = checked_line(*sides, at, METRICS)
    half = checked.checks[1]
    truth = sides[0].changed(at(sides[0], 0.5))
    assert (half.measured, half.images) == (int(truth.sum()), 800)
    table = [[0, half.only_predicted], [half.only_measured, 0]]
    assert half.p >= mcnemar(table, exact=True).pvalue  # adjusted for three
    assert 0.5 in checked.contradicted
    found = curve(0, *sides, 0.5, checked, METRICS)
    assert found.source == "measured points"
    assert [each.factor for each in found.points] == [0.25, 0.5, 1.0, 2.0]
    assert found.points[1].changed == half.measured
    assert found.limit.value in (None, 0.25, 0.5, 1.0, 2.0)


def test_a_network_that_bends_beyond_the_second_path_keeps_the_line_between_both():
    sides = made(3)
    checked = checked_line(*sides, network(*sides, lambda t: 2.0 * (t > 1)), METRICS)
    assert checked.contradicted == (2.0,)
    small, wide = (curve(0, *sides, each, checked, METRICS) for each in (0.01, 0.2))
    assert small.source == wide.source == "line to 1, measured beyond"
    assert small.limit == curve(0, *sides, 0.01, "", METRICS).limit
    assert small.limit.value < 1
    # twice the difference is measured to change more than the budget
    assert (wide.limit.value, wide.limit.more) == (1.0, False)
    assert [each.factor for each in wide.points] == [0.25, 0.5, 0.75, 1.0, 2.0]


def test_a_limit_never_lies_beyond_a_point_that_was_measured_to_exceed_the_budget():
    sides = made(3)
    checked = checked_line(*sides, network(*sides, lambda t: 0.0), METRICS)
    quarter, half, twice = checked.points
    # 25 % at half the difference, and no test that shows a contradiction
    bent = replace(checked, points=(quarter, replace(half, changed=200), twice))
    assert bent.contradicted == ()
    line = curve(0, *sides, 0.2, checked, METRICS)
    assert line.source == "line, checked"
    assert line.limit.value > 1
    found = curve(0, *sides, 0.2, bent, METRICS)
    assert (found.source, found.limit.value) == ("measured points", 0.25)
    # a limit before that point stays
    assert curve(0, *sides, 0.01, bent, METRICS).source == "line, checked"


def test_measured_points_end_at_the_first_that_exceeds_the_budget():
    sides = made(4)
    points = [
        each for each in curve(0, *sides, 0.05, "", METRICS).points if each.factor in (0.25, 0.5, 1)
    ]
    bounds = [beta.ppf(0.95, e.changed + 1, e.images - e.changed) for e in points]
    assert bounds == sorted(bounds)
    assert measured_limit(points, bounds[1]).value == 0.5
    assert measured_limit(points, bounds[1]).more is False
    assert measured_limit(points, bounds[2]).more is True
    none = measured_limit(points, 0.9 * bounds[0])
    assert none.reason == (
        f"at 0.25 of the difference {points[0].changed} of 800\xa0images changed, "
        "which does not show a share within the budget"
    )
    few = measured_limit(points, 0.0005)
    assert few.reason.startswith("inconclusive: a budget of 0.05 % needs 5\xa0990\xa0images")


def test_at_most_a_thousand_images_are_run():
    sides = made(5, n=1500)
    asked = []
    inner = network(*sides, lambda t: 0.0)

    def at(images, factor):
        asked.append(len(images))
        return inner(images, factor)

    assert {each.images for each in checked_line(*sides, at, METRICS).checks} == {1000}
    assert asked == [1000] * 3


def study(folder, **options) -> ToleranceDocument:
    options = {
        "budget": 0.05,
        "check": False,
        "command": "alignkit tolerance x",
        **options,
    }
    return tolerance(folder, progress=NoProgress(), **options)


def test_a_stored_run_gives_the_numbers_of_its_logits(tmp_path):
    folder = write_small_run(tmp_path / "run", flipped=range(7), silent=[50])
    found = study(folder)
    (row,) = found.logits
    # each logit is 0 or 1: half a margin is 0.5, and every image has it
    assert [each.limit.value for each in row.seeds] == [0.5, 0.5]
    assert row.atol == 0.499
    (cell,) = row.cells
    assert (cell.images, cell.changed, cell.could_change, cell.beyond) == (200, 16, 16, 16)
    assert (cell.max_abs, cell.reason) == (None, "an output is not finite")
    (pair,) = found.pixels
    assert (pair.reference, pair.candidate) == ("opencv", "torchpipe-gpu")
    # the flipped ones cross half way, and one that is not finite bears nothing
    changed = {each.factor: each.changed for each in pair.seeds[0].points}
    assert changed == {0.25: 1, 0.5: 1, 0.75: 8, 1.0: 8, 1.5: 8, 2.0: 8, 3.0: 8}
    # 100 images and 5 %: 1 may change
    assert (pair.factor, pair.seeds[0].limit.changed) == (0.5, 1)
    record = read_record(folder)
    mean, _ = mean_levels(record, "opencv", "torchpipe-gpu")
    assert pair.levels == pytest.approx(0.5 * mean)
    again = ToleranceDocument.model_validate_json(found.model_dump_json())
    assert again == found


def test_pixels_that_the_run_did_not_compare_have_a_reason(tmp_path):
    record = read_record(write_small_run(tmp_path / "run"))
    assert mean_levels(record, "torchpipe-gpu", "opencv")[0] is not None
    assert mean_levels(record, "a", "b") == (
        None,
        "the run compared pixels with those of opencv alone",
    )


def test_a_task_whose_answers_have_no_margins_is_refused_by_its_own_words(tmp_path):
    folder = write_small_run(tmp_path / "run")
    record = read_record(folder)
    boxes = random_answers()
    stored = artifact(folder, "predictions/boxes.parquet", boxes.to_parquet)
    cells = tuple(each.model_copy(update={"predictions": stored}) for each in record.cells)
    facts = {"cells": cells, "task": Detection().facts()}
    write_record(record.model_copy(update=facts), folder)
    with pytest.raises(NothingCompared, match="not defined for the task detection: no margin"):
        study(folder)


def test_a_run_without_models_has_nothing_to_look_at(tmp_path):
    folder = write_small_run(tmp_path / "run", cells=(), matrix=())
    with pytest.raises(NothingCompared, match="has no predictions of a model"):
        study(folder)


COPIED = {
    "each twice, side by side": [at // 2 for at in range(120)],
    "each twice, far apart": [at % 60 for at in range(120)],
    "one many times": [*range(60), *[7] * 60],
    "a few of the flipped": [*range(60), 0, 0, 1, 2],
    "the last of several": [*range(60), 59, 58, 59],
    "all one": [0] * 120,
    "none": [*range(60)],
}
"""Which of 60 files each image has."""


@pytest.mark.parametrize("files", COPIED.values(), ids=COPIED)
def test_a_run_with_copies_bears_what_the_run_of_its_files_does(files, tmp_path):
    first, copies, ids = {}, {}, []
    for at, file in enumerate(files):
        ids.append(f"eval/{at:04}.jpg")
        if first.setdefault(file, at) != at:
            copies[ids[-1]] = ids[first[file]]
    labels = np.array(files) % 10

    def run(name, rows, **data):
        def answers(aligned, seed):
            # the second seed is right less often; 5 files flip on the other path
            off = np.isin(np.array(files)[rows], range(5)) & (not aligned)
            return (labels[rows] + off + seed * (labels[rows] == 3)) % 10

        folder = tmp_path / name
        facts = read_record(write_small_run(tmp_path / "made")).data
        write_small_run(
            folder,
            ids=[ids[at] for at in rows],
            labels=labels[rows],
            answers=answers,
            data=facts.model_copy(update=data),
        )
        return study(folder, budget=0.2)

    every = run("all", [*range(len(files))], copies=copies, eval=len(files))
    once = run("once", [*first.values()], copies={}, eval=len(first))
    assert every.logits == once.logits
    assert every.pixels == once.pixels
    assert (every.images, every.copies) == (len(files), len(files) - len(first))
    for point in every.pixels[0].seeds[0].points:
        assert point.images == len(first)
        exact = proportion_confint(point.changed, len(first), method="beta")
        assert (point.low, point.high) == pytest.approx(exact)
    said = f"{len(first)}\xa0different image"
    for surface in (tolerance_text(every), page_html(tolerance_page(every))):
        assert (said in surface) is bool(copies)
