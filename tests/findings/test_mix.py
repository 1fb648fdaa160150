"""Whether a mix removes the drift: its facts from the cells of a small run, and its sentences."""

import pytest

from alignkit.compare import drift
from alignkit.compare.bootstrap import SharedDraws
from alignkit.compare.predictions import Predictions
from alignkit.record import Estimate, MixFacts
from alignkit.report.results import results_from_record
from alignkit.report.training_view import mix_sentence
from alignkit.text.names import Names
from tests.report.records import quickstart
from tests.runner.test_run import run, write_small


def test_the_mix_is_compared_with_its_first_path_alone_on_the_same_seeds_and_images(tmp_path):
    overrides = ("train.mix=[opencv, other]", "evaluate.backends=[torch]")
    record, folder = run(write_small(tmp_path, seeds="[0, 1]"), tmp_path / "reports", overrides)
    assert {each.metric for each in record.mixes} == {"churn", "recall.macro", "precision.macro"}
    (found,) = [each for each in record.mixes if each.metric == "churn"]
    assert (found.mix, found.alone, found.evaluated_with, found.in_mix) == (
        "opencv+other (mix)", "opencv", "other", True,
    )  # fmt: skip
    rows = {name: churn_of(record, folder, name) for name in (found.mix, found.alone)}
    assert found.mixed.value == pytest.approx(rows[found.mix])
    assert found.single.value == pytest.approx(rows[found.alone])
    assert found.change.value == pytest.approx(rows[found.mix] - rows[found.alone])
    assert found.change.low <= found.change.value <= found.change.high
    assert results_from_record(record).mixes == record.mixes


def churn_of(record, folder, row):
    """Served with the other path, from the stored predictions."""

    def read(cell):
        return Predictions.from_parquet(folder / cell.predictions.path)

    cells = [each for each in record.cells if each.trained_with == row]
    home = [read(each) for each in cells if each.aligned]
    away = [read(each) for each in cells if each.evaluated_with == "other"]
    return drift(reference=home, candidate=away, draws=SharedDraws(200)).churn.value


def around(value, half):
    return Estimate(value=value, low=max(value - half, -1), high=value + half)


def facts(mixed, single, half=0.004, **changes):
    return MixFacts(
        metric="churn", mix="opencv+pillow (mix)", alone="opencv", evaluated_with="pillow",
        in_mix=True, backend="torch", precision="fp32", mixed=mixed, single=around(single, half),
        change=around(mixed.value - single, 2 * half),
    ).model_copy(update=changes)  # fmt: skip


def told(*mixes):
    record = quickstart().model_copy(update={"mixes": mixes})
    return mix_sentence(record.mixes[0], Names(record.paths)).replace("\N{NO-BREAK SPACE}", " ")


def test_the_answer_follows_the_interval_of_the_difference():
    assert told(facts(around(0.01, 0.002), 0.04)).endswith(
        "1.00 % [0.80, 1.20] of the predictions of models trained on opencv+pillow (mix) change, "
        "4.00 % [3.60, 4.40] of those trained with opencv alone. "
        "The mix lessens the drift, not to nothing: \N{MINUS SIGN}3.00 pp "
        "[\N{MINUS SIGN}3.80, \N{MINUS SIGN}2.20]."
    )
    assert "removes the drift" in told(facts(Estimate(value=0, low=0, high=0), 0.04))
    assert "makes it worse" in told(facts(around(0.05, 0.002), 0.01))
    assert "not shown to help" in told(facts(around(0.03, 0.002), 0.031))
    assert "no training image of the mix" in told(facts(around(0.01, 0.1), 0.04, in_mix=False))
