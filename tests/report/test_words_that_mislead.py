"""What a page says first is of the images, the models and the timings that its numbers are of."""

from dataclasses import replace

import pytest

from alignkit.record import Estimate
from alignkit.report.cause_view import cause_parts
from alignkit.report.flipped_view import kinds_section
from alignkit.report.page import Heading
from alignkit.report.page_view import key_figures
from alignkit.report.stage_view import stage_sections
from alignkit.report.timed_page import loader_table
from alignkit.task_facts import CLASSIFICATION
from alignkit.tasks.multi_label import MultiLabel
from alignkit.text.measured import effect_words, of_first_models
from alignkit.text.names import Names
from alignkit.text.task_words import TaskWords
from tests.report import task_records
from tests.report.embedding_records import EMBEDDING
from tests.report.loader_records import BUSY, rich_loaders
from tests.report.records import quickstart

TASKS = {  # the tile of churn, and a sentence of it: one image has many boxes, and one prediction
    "classification": (CLASSIFICATION, "Predictions that changed", "6.00 % of predictions"),
    "detection": (
        task_records.DETECTION, "Images whose boxes changed", "the boxes of 6.00 % of images",
    ),
    "segmentation": (
        task_records.SEGMENTATION, "Images whose mask changed", "the mask of 6.00 % of images",
    ),
    "score": (task_records.SCORE, "Images whose score changed", "the score of 6.00 % of images"),
    "embedding": (
        EMBEDDING, "Images whose nearest neighbour changed", "the nearest neighbour of 6.00 % of images",
    ),
    "labels": (
        MultiLabel().facts(), "Images whose set of labels changed",
        "the set of labels of 6.00 % of images",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("task", "tile", "share"), TASKS.values(), ids=TASKS)
def test_a_share_of_images_is_called_so(task, tile, share):
    record = quickstart()
    record = record.model_copy(update={"task": replace(CLASSIFICATION, answer=task.answer,
        compared=task.compared, class_scores=task.class_scores)})  # fmt: skip
    names = [each.name for each in key_figures(record, Names(record.paths), ())]
    assert names[1] == tile
    entry = next(each for each in record.matrix if each.drift and each.drift.changed)
    drift = replace(entry.drift, n=100, churn=Estimate(0.06, 0.0, 0.1), moved=())
    said = effect_words(entry.model_copy(update={"drift": drift}), TaskWords(task))
    assert said.replace("\N{NO-BREAK SPACE}", " ").startswith(f"{share} change (6 of 100)")


def test_of_images_that_are_asked_nothing_none_counts_as_unchanged():
    entry = next(each for each in quickstart().matrix if each.drift and each.drift.changed)
    drift = replace(entry.drift, n=100, asked=50, churn=Estimate(0.06, 0.0, 0.1), moved=())
    assert "(3 of 50)" in effect_words(entry.model_copy(update={"drift": drift}), TaskWords())


@pytest.mark.parametrize(
    ("begins", "served", "value"),
    [
        ({"torchpipe-gpu": "decode", "pillow": "resize"}, "pillow", "resize"),
        ({"torchpipe-gpu": "resize", "pillow": "decode"}, "pillow", "decode"),
        ({"torchpipe-gpu": "decode", "pillow": ""}, "pillow", "nowhere"),
        # the runtime alone fails: every pair that differs is named, and none as "nowhere"
        ({"torchpipe-gpu": "decode", "pillow": ""}, "opencv", "decode"),
    ],
)
def test_the_tile_of_the_first_stage_is_of_the_pair_that_the_verdict_is_of(begins, served, value):
    record = quickstart()
    names = Names(record.paths)
    failed = next(each for each in record.verdict.rules if each.state == "fail")
    rule = failed.model_copy(update={"trained_with": "opencv", "evaluated_with": served})
    verdict = record.verdict.model_copy(update={"rules": (rule,), "headline": 0})
    stages = tuple(
        replace(each, first=begins[each.candidate.name])
        for each in stage_sections(record.pixels, names)
    )
    figures = key_figures(record.model_copy(update={"verdict": verdict}), names, stages)
    assert {each.name: each.value for each in figures}["Where drift starts"] == value


def timed(busy):
    """Three loaders, of which those at ``busy`` were disturbed; the first is the reference."""
    record = rich_loaders()
    kept = [each for each in record.loaders if each.rounds][:3]
    return record.model_copy(update={"loaders": tuple(
        each.model_copy(update={
            "contended": BUSY * (index in busy),
            # the rates of other moments say the contrary of the paired ones
            "gain": Estimate(-0.469, -0.6, -0.3) if index == 2 else each.gain,
            "throughput": Estimate(610.0, 600.0, 620.0) if index == 2 else each.throughput,
        })
        for index, each in enumerate(kept)
    )})  # fmt: skip


@pytest.mark.parametrize(
    ("busy", "gains"),
    # beside a disturbed reference no gain is known
    [((), 2), ((1,), 1), ((2,), 1), ((0,), 0), ((1, 2), 0), ((0, 1, 2), 0)],
)
def test_gains_of_loaders_are_those_of_timings_that_nothing_disturbed(busy, gains):
    table = loader_table(timed(busy))
    at = [each.text for each in table.columns].index("Gain")
    assert sum("%" in row.cells[at].text for row in table.rows) == gains


def with_rows(*rows):
    """The quickstart whose rows of the matrix have other names."""
    record = quickstart()
    own = [each for each in record.matrix if each.trained_with == "opencv"]
    found = [each.model_copy(update={"trained_with": row}) for row in rows for each in own]
    return record.model_copy(update={"matrix": tuple(found)})


@pytest.mark.parametrize(
    ("rows", "path", "said"),
    [
        (("opencv",), "opencv", ""),
        (("opencv (model a)",), "opencv", ""),
        (("opencv (model a)", "opencv (model b)"), "opencv", ", opencv (model a)"),
        (("opencv (model b)", "opencv (model a)"), "opencv", ", opencv (model b)"),
        (("pillow (model a)", "opencv (model b)", "opencv (model c)"), "opencv",
         ", opencv (model b)"),
        (("pillow (model a)", "opencv (model b)", "opencv (model c)"), "pillow", ""),
        # rows of a part of the images, and of mixes, have no shares
        (("opencv", "opencv (5 %)", "opencv+pillow (mix)"), "opencv", ""),
    ],
)  # fmt: skip
def test_shares_and_kinds_name_the_models_that_they_are_of(rows, path, said):
    record = with_rows(*rows)
    names = Names(record.paths)
    assert of_first_models(record, path, names) == said
    if path == "opencv":
        (heading, *_) = cause_parts(record, names)
        assert heading.words[-1].endswith(f"fp16{said}")
        parts = kinds_section(record, names, []).parts
        (title, *_) = [each for each in parts if isinstance(each, Heading)]
        assert title.words[-1].endswith(f"fp32{said}")
