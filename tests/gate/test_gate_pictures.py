"""A gate whose rules about pixels fail shows the images that break them most."""

import re

import numpy as np
import pytest

from alignkit.compare.image_table import read_image_table
from alignkit.experiment import load_experiment
from alignkit.gate.gate_check import check
from alignkit.gate.gate_pictures import WORST
from alignkit.preprocess.image_kinds import kinds_of_file
from alignkit.progress import NoProgress
from alignkit.record.document import read_record, verify_artifacts
from alignkit.report import render
from alignkit.text.outcome import said
from alignkit.workspace import Context, Workspace
from tests.gate_case import PATHS, make_case
from tests.photos import encoded, photo

NEAREST = PATHS.replace(
    "opencv: {decode: opencv", "opencv: {decode: {name: simplejpeg, chroma: nearest}"
)


@pytest.fixture
def case(tmp_path):
    case = make_case(tmp_path)
    for index in range(8):
        file = encoded(photo("flower", 70 + index, 90), quality=60 + 4 * index)
        (case.images / f"more-{index}.jpg").write_bytes(file)
    return case


def checked(case, *rules, paths=NEAREST, **options):
    experiment = load_experiment(case.write(*rules, paths=paths), [])
    return check(
        experiment, Context(Workspace(case.reports), NoProgress()), baselines=None, **options
    )


def ranked(case, column):
    """Names of the images, the greatest value of the stored table first."""
    (file,) = case.reports.glob(".cache/*/*/images.parquet")
    table = read_image_table(file)
    values = getattr(table, column)["decode"]
    return [table.ids[index] for index in np.argsort(-values, kind="stable") if values[index] > 0]


@pytest.mark.parametrize(
    ("metric", "column"), [("decode.mean_abs", "mean_abs"), ("decode.max_abs", "max_abs")]
)
def test_the_worst_images_of_a_failed_rule_are_shown_with_their_stages(case, metric, column):
    found = checked(case, f"{{metric: {metric}, fail: 0.001}}")
    assert [each.id for each in found.record.shown] == ranked(case, column)[:WORST]
    for each in found.record.shown:
        assert [stage.stage for stage in each.stages] == ["decode", "resize"]
        assert each.stages[0].state == "whole"
    assert read_record(found.folder).shown == found.record.shown
    verify_artifacts(found.folder, found.record)


def test_a_failed_rule_leads_to_its_images_and_each_image_names_its_rules(case):
    found = checked(case, "{metric: decode.mean_abs, fail: 0.001}")
    (limit,) = {said(each, "rule") for each in found.record.verdict.rules if each.state == "fail"}
    assert {each.rules for each in found.record.shown} == {(limit,)}
    page = render(found.folder).read_text()
    (link,) = re.findall('<a href="#(pixels-[0-9]+)">[0-9.]+ grey levels</a>', page)
    assert f'<h3 id="{link}">' in page
    assert page.count(f"Among the worst of a failed rule: {limit}") == WORST


def test_a_rule_about_some_images_shows_those(case):
    found = checked(case, "{metric: decode.changed, fail: 0, where: {quality: 80 to 89}}")
    shown = [(case.images / each.id).read_bytes() for each in found.record.shown]
    assert {kinds_of_file(each).quality for each in shown} == {"80 to 89"}


def test_rules_that_pass_show_nothing_and_write_nothing_for_a_viewer(case):
    found = checked(case, "{metric: decode.max_abs, fail: 254}")
    assert found.record.shown == ()
    page = render(found.folder)
    assert not (found.folder / "data").exists()
    assert "run.js" not in page.read_text()


def test_the_page_of_a_failed_gate_has_the_viewer_and_no_empty_list(case):
    found = checked(case, "{metric: decode.mean_abs, fail: 0.001}")
    page = render(found.folder).read_text()
    assert '<script src="data/run.js" defer></script>' in page
    assert page.count('class="card"') == WORST
    assert 'id="images"' not in page


def test_a_gate_that_stops_early_shows_them_too(case):
    found = checked(case, "{metric: decode.changed, fail: 0}", fail_fast=True)
    assert len(found.record.shown) == WORST


def test_images_without_pixels_take_no_place_of_others(case):
    for index in range(WORST):
        (case.images / f"broken-{index}.jpg").write_bytes(b"no image")
    found = checked(case, "{metric: decode.mean_abs, fail: 0.001}")
    assert [each.id for each in found.record.shown] == ranked(case, "mean_abs")[:WORST]


def test_a_rule_about_ssim_shows_the_least_similar_images(case):
    found = checked(case, "{metric: colour.ssim, fail: 0.9999}")
    (file,) = case.reports.glob(".cache/*/*/images.parquet")
    table = read_image_table(file)
    order = [table.ids[index] for index in np.argsort(table.ssim, kind="stable")][:WORST]
    by_mean = np.argsort(-table.mean_abs["colour"], kind="stable")[:WORST]
    assert order != [table.ids[index] for index in by_mean]
    assert [each.id for each in found.record.shown] == order
