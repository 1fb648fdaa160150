"""The chart, table and sentences of drift against training-set size."""

import math

import html5lib
import pytest

from alignkit.record import Estimate, SizeCurve, SizePoint
from alignkit.report.page import Details, Paragraph
from alignkit.report.plot import Plot
from alignkit.report.training_view import sizes_section
from alignkit.text.names import Names
from tests.report.drawn_chart import found, keys, values


def around(value, half):
    return Estimate(value=value, low=value - half, high=value + half)


def curve(metric="churn", *, few=0.031, full=0.008, half=0.004, precision="fp32"):
    return SizeCurve(
        metric=metric,
        trained_with="opencv",
        evaluated_with="pillow",
        backend="torch",
        precision=precision,
        points=(
            SizePoint(fraction=0.05, images=60, seeds=3, drift=around(few, half)),
            SizePoint(fraction=1.0, images=1200, seeds=3, drift=around(full, half)),
        ),
        change=around(few - full, 2 * half),
    )


def with_curves(record, *curves):
    return record.model_copy(update={"training_sizes": curves})


def told(record, *curves):
    """The sentences, the charts and the table of one metric."""
    section = sizes_section(with_curves(record, *curves), Names(record.paths), "")
    _, _, *parts = section.parts
    (table,) = [table for each in parts if isinstance(each, Details) for table in each.parts]
    said = [each.words for each in parts if isinstance(each, Paragraph)]
    return said, [each for each in parts if isinstance(each, Plot)], table


def test_amplification_is_claimed_where_the_difference_is_clear_of_zero(record):
    ((sentence,), _, _) = told(record, curve())
    sentence = sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert "3.10 % [2.70, 3.50] trained on 60 images, 0.80 % [0.40, 1.20] on 1 200" in sentence
    assert sentence.endswith("Fewer images amplify the drift: +2.30 pp [+1.50, +3.10].")
    assert "lessen" in told(record, curve(few=0.008, full=0.031))[0][0]


def test_a_difference_that_may_be_none_shows_no_amplification(record):
    ((sentence,), _, _) = told(record, curve(few=0.01, half=0.02))
    assert sentence.endswith("may be none: no amplification is shown.")


def test_a_change_of_recall_is_amplified_by_its_size_not_by_its_sign(record):
    assert "amplify" in told(record, curve("recall.macro", few=-0.05, full=0.01))[0][0]


def test_the_chart_shows_other_paths_in_the_reference_runtime_and_the_table_everything(record):
    said, (chart,), table = told(record, curve(), curve(precision="bf16"))
    assert len(keys(chart)) == len(said) == 1
    assert len(table.rows) == 6
    assert told(record, curve(precision="bf16"))[:2] == ([], [])


def test_the_axis_of_images_is_logarithmic_and_zero_in_view(record):
    _, (chart,), _ = told(record, curve(), curve("churn", few=0.5, full=0.4))
    log = (math.log10, lambda power: 10**power)
    for line, drifts in zip(found(chart, "line"), ((3.1, 0.8), (50, 40)), strict=True):
        spots = values(chart, line.get("d"), x=log)
        assert [x for x, _ in spots] == pytest.approx([60, 1200], rel=0.01)
        assert [y for _, y in spots] == pytest.approx(drifts, abs=0.2)
    (zero,) = found(chart, "rule")
    assert [y for _, y in values(chart, zero.get("d"))] == pytest.approx([0, 0], abs=0.1)


def test_the_page_and_the_summary_have_it_where_a_run_has_it(record, rendered):
    folder = rendered(with_curves(record, curve(), curve("recall.macro", few=-0.02)))
    page = (folder / "index.html").read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    part = page[page.index('id="sizes"') :].partition("</section>")[0]
    assert part.count('role="img"') == 2
    assert part.count("<table") == 2
    assert "\n## Drift and training set size\n" in (folder / "summary.md").read_text()
    assert "training set" not in (rendered(record) / "summary.md").read_text()
