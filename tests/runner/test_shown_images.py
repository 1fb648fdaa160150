"""The images whose pixels a run keeps: which, how many bytes, and no file that nothing names."""

import shutil

import numpy as np
import pytest

from alignkit.compare.predictions import Predictions
from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.runner import run_experiment
from alignkit.runner.shown_images import drawn_by_chance
from alignkit.workspace import Context, Workspace

SLOW = pytest.mark.slow
EXPERIMENT = """
# Does preprocessing matter?
name: kept
data: {name: digits-on-photos, train: 60, eval: 40, seed: 0}
preprocess:
  opencv: {decode: opencv, resize: {name: opencv, size: 32}}
  torchpipe: {preset: torchpipe-gpu-surrogate, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {model: small-cnn, epochs: 2, seeds: [0, 1], batch_size: 20}
evaluate: {backends: [torch], resamples: 200}
attribute: {images: 2}
report: {worst: 2, random: 3}
"""


def made(folder, *overrides):
    file = folder / "kept.yaml"
    file.write_text(EXPERIMENT)
    experiment = load_experiment(file, overrides)
    return run_experiment(experiment, Context(Workspace(folder / "reports"), NoProgress()))


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return made(tmp_path_factory.mktemp("kept"))


def of(record, pair, why):
    return [e for e in record.shown if (e.reference, e.candidate) == pair and e.why == why]


def changes(record, folder, pair):
    """Image → (models in which it changes, of these from right to wrong), read from the files."""
    found = {}
    cells = {(c.trained_with, c.evaluated_with, c.seed): c.predictions.path for c in record.cells}
    for (trained, evaluated, seed), path in cells.items():
        if trained == evaluated or {trained, evaluated} != set(pair):
            continue
        was = Predictions.from_parquet(folder / cells[trained, trained, seed])
        now = Predictions.from_parquet(folder / path)
        for name, label, a, b in zip(
            was.ids, was.labels, was.predicted, now.predicted, strict=True
        ):
            if a != b:
                models, lost = found.get(name, (0, 0))
                found[name] = models + 1, lost + int(a == label)
    return found


PAIRS = [("opencv", "torchpipe"), ("opencv", "pillow"), ("torchpipe", "pillow")]


@SLOW
@pytest.mark.parametrize("pair", PAIRS)
def test_all_that_changed_are_kept_where_they_fit_in_the_order_of_the_rule(run, pair):
    record, folder = run
    expected = changes(record, folder, pair)
    kept = [each.id for each in of(record, pair, "changed")]
    assert set(kept) == set(expected)
    ranks = [expected[name] for name in kept]
    assert ranks == sorted(ranks, reverse=True)
    (facts,) = (e for e in record.shown_pairs if (e.reference, e.candidate) == pair)
    assert (facts.images, facts.changed, facts.limit) == (40, len(expected), 2_000_000)


@SLOW
@pytest.mark.parametrize("pair", PAIRS)
def test_the_random_ones_kept_their_prediction_and_the_worst_are_of_compared_pairs(run, pair):
    record, folder = run
    drawn = [each.id for each in of(record, pair, "random")]
    worst = [each.id for each in of(record, pair, "pixels")]
    assert len(drawn) == len(set(drawn)) == 3
    assert not {*drawn} & {*changes(record, folder, pair), *worst}
    assert len(worst) == (2 if pair[0] == "opencv" else 0)


@SLOW
def test_every_shown_image_tells_the_predictions_of_both_directions(run):
    record, _ = run
    for image in record.shown:
        assert [(e.trained_with, e.evaluated_with, e.seeds) for e in image.predictions] == [
            (image.reference, image.candidate, (0, 1)),
            (image.candidate, image.reference, (0, 1)),
        ]
        changed = any(each.before != each.after for each in image.predictions)
        assert changed is (image.why == "changed") or image.why == "pixels"


@SLOW
def test_a_limit_keeps_the_first_ones_and_leaves_no_other_file(run, tmp_path):
    record, folder = run
    shutil.copytree(folder.parents[1], tmp_path / "reports")
    smaller, where = made(tmp_path, "report.changed=60KB")
    pair = max(PAIRS, key=lambda each: len(of(record, each, "changed")))
    whole, some = (of(each, pair, "changed") for each in (record, smaller))
    assert 0 < len(some) < len(whole)
    assert [each.id for each in some] == [each.id for each in whole[: len(some)]]

    def size(image):
        files = {each.path for each in (image.a, image.b, image.difference, image.pixels)}
        return sum((folder / path).stat().st_size for path in files)

    assert sum(map(size, some)) <= 60_000 < sum(map(size, whole[: len(some) + 1]))
    # the stages before the last have as much room again
    final = {each.pixels.path for each in smaller.shown}
    for stages in ({s.pixels.path for e in smaller.shown if (e.reference, e.candidate) == each
                    for s in e.stages if s.pixels} - final for each in PAIRS):  # fmt: skip
        assert sum((where / path).stat().st_size for path in stages) <= 60_000
    named = {file.path for image in smaller.shown for file in image.artifacts}
    assert {f"img/{each.name}" for each in (where / "img").iterdir()} <= named
    scripts = {f"data/{each.name}" for each in (where / "data").glob("*.js")}
    assert scripts - {"data/run.js"} <= named


def test_chance_follows_its_seed_alone():
    images = [str(number) for number in range(100)]
    first = drawn_by_chance(images, 5, "key", "a", "b")
    assert first == drawn_by_chance(images, 5, "key", "a", "b")
    assert len(set(first)) == 5
    others = [("other", "a", "b"), ("key", "c", "b"), ("key", "a", "c")]
    assert all(drawn_by_chance(images, 5, *seed) != first for seed in others)
    assert drawn_by_chance(images[:2], 5, "key") == ["0", "1"]
    assert drawn_by_chance([], 5, "key") == []
    counts = np.zeros(100)
    for number in range(400):
        counts[[int(each) for each in drawn_by_chance(images, 5, str(number))]] += 1
    assert counts.min() > 0
