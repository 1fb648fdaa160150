"""Changes between two runs: against scikit-learn, and a bootstrap and a permutation in plain NumPy."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score

from alignkit.compare.predictions import Predictions
from alignkit.errors import NotComparable
from alignkit.record.document import read_record, write_record
from alignkit.stored_file import file_sha256
from alignkit.studies.compare_runs import compare_runs
from alignkit.tasks.detection import Detection
from tests.run_pair import write_small_run

N = 300
IDS = tuple(f"eval/{index:04}.jpg" for index in range(N))
TRUTH = np.arange(N) % 10


def answers(wrong, key):
    """Predictions of which some are wrong: more of them in the cell that is served elsewhere."""

    def predicted(aligned, seed):
        rng = np.random.default_rng([key, seed])
        # the same hard images in every cell, so that pairing matters
        hard = rng.random(N)
        flips = hard < (0.15 if aligned else 0.15 + wrong)
        return np.where(flips, (TRUTH + 1 + (hard * 1000).astype(int) % 3) % 10, TRUTH)

    return predicted


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    sides = [answers(0.03, 1), answers(0.15, 2)]
    for name, side in zip("ab", sides, strict=True):
        write_small_run(folder / name, answers=side, ids=IDS)
    return compare_runs(folder / "a", folder / "b", force=False, command="compare"), sides


def of(compared, *, aligned):
    return next(each for each in compared[0].entries if each.aligned is aligned)


def drift(side, seed, metric, chosen=slice(None)):
    """One seed's drift, from scikit-learn or, for churn, by hand."""
    home, cell = (side(aligned, seed)[chosen] for aligned in (True, False))
    if metric == "churn":
        return (home != cell).mean()
    score = {"recall.macro": recall_score, "precision.macro": precision_score}[metric]
    truth = TRUTH[chosen]
    # as alignkit: a class that is not defined is left out
    was, now = (score(truth, p, average=None, labels=range(10), zero_division=np.nan)
                for p in (home, cell))  # fmt: skip
    return np.nanmean(now) - np.nanmean(was)


@pytest.mark.parametrize("metric", ["recall.macro", "precision.macro", "churn"])
def test_drifts_and_their_change_are_those_of_scikit_learn(compared, metric):
    found = of(compared, aligned=False).metrics[metric]
    was, now = (np.mean([drift(side, seed, metric) for seed in (0, 1)]) for side in compared[1])
    assert found.before.value == pytest.approx(was)
    assert found.after.value == pytest.approx(now)
    assert found.change.value == pytest.approx(now - was)


def test_a_baseline_shows_the_change_of_its_own_value(compared):
    found = of(compared, aligned=True).metrics["recall.macro"]
    was, now = (
        np.mean([recall_score(TRUTH, side(True, seed), average="macro") for seed in (0, 1)])
        for side in compared[1]
    )
    assert (found.before.value, found.after.value) == pytest.approx((was, now))
    assert found.change.value == pytest.approx(now - was)
    assert "churn" not in of(compared, aligned=True).metrics


@pytest.fixture(scope="module")
def one_seed(tmp_path_factory):
    """Two runs of one seed, whose intervals and tests are of images alone."""
    folder = tmp_path_factory.mktemp("runs")
    sides = [answers(0.03, 1), answers(0.065, 2)]
    for name, side in zip("ab", sides, strict=True):
        keep_first_seed(write_small_run(folder / name, answers=side, ids=IDS))
    return compare_runs(folder / "a", folder / "b", force=False, command="compare"), sides


def keep_first_seed(folder: Path):
    from alignkit.record.document import read_record, write_record

    record = read_record(folder)
    entries = tuple(each.model_copy(update={"seeds": (0,)}) for each in record.matrix)
    write_record(record.model_copy(update={"matrix": entries}), folder)


@pytest.mark.parametrize("metric", ["recall.macro", "churn"])
def test_the_interval_of_a_change_is_that_of_a_plain_bootstrap(one_seed, metric):
    found = of(one_seed, aligned=False).metrics[metric]
    homes, cells = ([side(aligned, 0) for side in one_seed[1]] for aligned in (True, False))
    rng = np.random.default_rng(5)
    draws = []
    for _ in range(4_000):
        chosen = rng.integers(0, N, N)
        values = []
        for home, cell in zip(homes, cells, strict=True):
            if metric == "churn":
                values.append((home[chosen] != cell[chosen]).mean())
                continue
            right = (cell == TRUTH) * 1.0 - (home == TRUTH)
            values.append(np.mean([right[chosen][TRUTH[chosen] == k].mean() for k in range(10)]))
        draws.append(values[1] - values[0])
    low, high = np.percentile(draws, [2.5, 97.5])
    assert found.change.low == pytest.approx(low, abs=0.08 * (high - low))
    assert found.change.high == pytest.approx(high, abs=0.08 * (high - low))


def test_the_test_of_a_change_agrees_with_a_permutation(one_seed):
    """Under no change an image's flip of one run might as well be of the other."""
    found = of(one_seed, aligned=False).metrics["churn"]
    was, now = ((side(True, 0) != side(False, 0)) * 1.0 for side in one_seed[1])
    differences = now - was
    signs = np.random.default_rng(7).choice([-1, 1], (20_000, N))
    p = np.mean(np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9)
    assert 0.0005 < p < 0.2
    # one of one non-baseline cell: Holm leaves it as it is
    assert found.p == pytest.approx(p, rel=0.6)


def test_equal_predictions_are_unchanged_and_nothing_is_significant(tmp_path):
    side = answers(0.1, 3)
    for name in "ab":
        write_small_run(tmp_path / name, answers=side, ids=IDS)
    made = compare_runs(tmp_path / "a", tmp_path / "b", force=False, command="compare")
    assert {each.change for each in made.entries} == {"unchanged"}
    changes = [change for each in made.entries for change in each.metrics.values()]
    assert {(c.change.value, c.change.low, c.change.high, c.p) for c in changes} == {(0, 0, 0, 1)}


def test_of_other_images_the_shared_ones_are_compared(tmp_path):
    side = answers(0.1, 3)
    write_small_run(tmp_path / "a", answers=side, ids=IDS)
    few = tuple(IDS[50:])

    def rest(aligned, seed):
        return side(aligned, seed)[50:]

    write_small_run(tmp_path / "b", answers=rest, ids=few)
    made = compare_runs(tmp_path / "a", tmp_path / "b", force=True, command="compare")
    assert {each.n for each in made.entries} == {250 * 2}
    assert {each.change for each in made.entries} == {"unchanged"}


def test_a_model_with_other_outputs_is_not_compared_and_the_comparison_goes_on(tmp_path):
    for name in "ab":
        write_small_run(tmp_path / name, ids=IDS)
    record = read_record(tmp_path / "b")
    cells = []
    for cell in record.cells:
        if cell.aligned:
            cells.append(cell)
            continue
        file = tmp_path / "b" / cell.predictions.path
        found = Predictions.from_parquet(file)
        wider = np.pad(found.logits, ((0, 0), (0, 1)))
        replace(found, logits=wider, outside=("more",)).to_parquet(file)
        stored = cell.predictions.model_copy(update={"sha256": file_sha256(file)})
        cells.append(cell.model_copy(update={"predictions": stored}))
    write_record(record.model_copy(update={"cells": tuple(cells)}), tmp_path / "b")
    made = compare_runs(tmp_path / "a", tmp_path / "b", force=False, command="compare")
    found = {each.aligned: each for each in made.entries}
    assert found[False].change == "not compared"
    assert found[False].reason == "the models of the two runs have other outputs"
    assert found[True].change == "unchanged"


def test_runs_of_two_tasks_are_refused_with_both_names(tmp_path):
    folders = [write_small_run(tmp_path / name) for name in ("a", "b")]
    record = read_record(folders[1])
    write_record(record.model_copy(update={"task": Detection().facts()}), folders[1])
    with pytest.raises(NotComparable, match=r"different tasks \(classification and detection\)"):
        compare_runs(*folders, force=True, command="")
