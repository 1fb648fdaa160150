"""The chart, table and sentences of drift against training-set size."""

import html5lib
import pytest

from alignkit.record import Estimate, SizeCurve, SizePoint
from alignkit.report.charts import spread_plot
from alignkit.report.training_data_view import size_sections
from alignkit.text.names import Names


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
    (section,) = size_sections(with_curves(record, *curves), Names(record.paths))
    return section


def test_amplification_is_claimed_where_the_difference_is_clear_of_zero(record):
    (sentence,) = told(record, curve()).sentences
    sentence = sentence.replace("\N{NO-BREAK SPACE}", " ")
    assert "3.10 % [2.70, 3.50] trained on 60 images, 0.80 % [0.40, 1.20] on 1 200" in sentence
    assert sentence.endswith("Fewer images amplify the drift: +2.30 pp [+1.50, +3.10].")
    assert "lessen" in told(record, curve(few=0.008, full=0.031)).sentences[0]


def test_a_difference_that_may_be_none_shows_no_amplification(record):
    (sentence,) = told(record, curve(few=0.01, half=0.02)).sentences
    assert sentence.endswith("may be none: no amplification is shown.")


def test_a_change_of_recall_is_amplified_by_its_size_not_by_its_sign(record):
    assert "amplify" in told(record, curve("recall.macro", few=-0.05, full=0.01)).sentences[0]


def test_the_chart_shows_other_paths_in_the_reference_runtime_and_the_table_everything(record):
    section = told(record, curve(), curve(precision="bf16"))
    assert len(section.chart.lines) == len(section.sentences) == 1
    assert len(section.table.rows) == 6
    assert told(record, curve(precision="bf16")).chart is None


def test_the_axis_of_images_is_logarithmic_and_zero_in_view():
    plot = spread_plot(
        [("a", [(10.0, 1.0, 0.5, 2.0), (100.0, 2.0, 1.0, 3.0), (1000.0, 3.0, 3.0, 3.0)])],
        id="a", title="b", names=("x", "y"),
    )  # fmt: skip
    first, second, third = plot.lines[0].whiskers
    assert second.x - first.x == pytest.approx(third.x - second.x, abs=0.2)
    assert first.low > first.y > first.high  # downwards in SVG
    assert third.low == third.y == third.high
    assert plot.zero == plot.frame.bottom


def test_the_page_and_the_summary_have_it_where_a_run_has_it(record, rendered):
    folder = rendered(with_curves(record, curve(), curve("recall.macro", few=-0.02)))
    page = (folder / "index.html").read_text()
    html5lib.HTMLParser(strict=True).parse(page)
    part = page[page.index('id="sizes"') :].partition("</section>")[0]
    assert part.count('role="img"') == 2
    assert part.count("<table") == 2
    assert "\n## Drift and training set size\n" in (folder / "summary.md").read_text()
    assert "training set" not in (rendered(record) / "summary.md").read_text()
