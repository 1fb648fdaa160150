"""The causes of a drift: sentences, waterfalls and numbers of the attributions."""

import pytest

from alignkit.record import AttributionFacts, Estimate, FactorShare
from alignkit.report.cause_view import cause_parts, waterfall
from alignkit.report.marks import Dot, Line
from alignkit.report.page import Beside, Details, Heading, Paragraph
from alignkit.report.plot import facets
from alignkit.text.names import Names
from alignkit.text.numbers import MINUS
from alignkit.text.task_words import TaskWords
from tests.report.drawn_chart import axis
from tests.report.records import quickstart


def parts(*attributions):
    record = quickstart()
    record = record.model_copy(update={"attributions": attributions or record.attributions})
    return [*cause_parts(record, Names(record.paths))]


def sentences(found):
    return [each.words for each in found if isinstance(each, Paragraph)]


def plots(found):
    return [plot for each in found if isinstance(each, Beside) for (plot,) in each.columns]


def numbers(found):
    """The table of shares, and the remarks below it."""
    (fold,) = [each for each in found if isinstance(each, Details)]
    table, *remarks = fold.parts
    return table, [each.words for each in remarks]


def recall():
    return next(each for each in quickstart().attributions if each.metric == "recall.macro")


def with_shares(each, **effects):
    changed = {
        share.factor: Estimate(value, value - 0.001, value + 0.001)
        for share, value in zip(each.shares, effects.values(), strict=False)
    }
    shares = tuple(
        type(share)(share.factor, changed.get(share.factor, share.effect), share.alone)
        for share in each.shares
    )
    return each.model_copy(update={"shares": shares})


def test_the_sentence_names_what_causes_the_drift_and_what_adds_nothing():
    (said,) = sentences(parts())
    assert said == (
        f"Cause of macro recall: resize ({MINUS}3.1 pp) and decode ({MINUS}0.3 pp); "
        "precision adds nothing."
    )


def test_what_the_decoder_does_is_said_where_decoding_adds_to_the_drift():
    inside = recall().model_copy(update={"metric": "recall.macro.decode", "shares": (
        FactorShare("decode.colour", Estimate(-0.004, -0.005, -0.003), Estimate(-0.004, None, None)),
    )})  # fmt: skip
    assert sentences(parts(recall(), inside))[1] == f"Cause inside decode: colour ({MINUS}0.4 pp)."
    table, _ = numbers(parts(recall(), inside))
    assert "Macro recall, inside decode, pp" in [row.cells[0].text for row in table.rows]


def test_where_no_change_of_the_model_is_clear_the_pixels_are_named():
    pixels = next(each for each in quickstart().attributions if each.metric == "pixels")
    found = parts(
        recall().model_copy(update={"total": Estimate(-0.001, -0.004, 0.002)}),
        pixels.model_copy(update={"backend": "", "precision": ""}),
    )
    (said,) = sentences(found)
    assert said.startswith("Cause of mean |Δpixel|: ")


def test_the_waterfall_begins_at_the_value_of_the_models_on_their_own_path():
    record = quickstart()
    own = next(e for e in record.matrix if e.aligned and e.row.is_only(recall().reference))
    rows = plots(parts())[0].y
    assert rows.beside[0] == f"{100 * own.metrics['recall.macro']:.2f}"
    assert rows.rows[1:-1] == ("decode", "resize", "precision")


def test_shares_of_other_images_than_the_cells_begin_at_zero():
    (plot,) = plots(parts(recall().model_copy(update={"drawn_from": 5000})))
    assert plot.y.beside[0] == "0"
    assert plot.caption == "Change of macro recall, %"


def test_an_interaction_beside_the_shares_is_a_step_of_its_own():
    between = Estimate(-0.002, -0.003, -0.001)
    changes = {"method": "one-at-a-time", "interaction": between}
    found = parts(recall().model_copy(update=changes))
    assert plots(found)[0].y.rows[-2] == "interaction"
    assert f"interaction ({MINUS}0.2 pp)" in sentences(found)[0]


def test_without_a_model_the_pixels_are_drawn():
    pixels = next(each for each in quickstart().attributions if each.metric == "pixels")
    heading, sentence, *rest = parts(pixels.model_copy(update={"backend": "", "precision": ""}))
    assert len(heading.words) == 3  # without a runtime
    assert plots(rest)[0].caption == "Mean |Δpixel|, grey levels"
    assert sentence.words.startswith("Cause of mean |Δpixel|: resize (+2.62 grey levels)")


def test_each_runtime_has_its_sentence_and_its_rows_and_the_first_is_drawn():
    other = with_shares(recall(), decode=-0.02).model_copy(update={"precision": "fp32"})
    found = parts(recall(), other)
    (heading,) = [each for each in found if isinstance(each, Heading)]
    assert heading.words[-1] == ", onnxruntime fp16"
    assert [each.partition(":")[0] for each in sentences(found)] == [
        "Cause of macro recall in onnxruntime fp16",
        "Cause of macro recall in onnxruntime fp32",
    ]
    assert len(plots(found)) == 1
    table, _ = numbers(found)
    assert [row.cells[1].text for row in table.rows] == [
        *["onnxruntime fp16"] * 5,
        *["onnxruntime fp32"] * 5,
    ]


def test_a_metric_without_shares_has_its_reason_below_the_table():
    logits = recall().model_copy(update={
        "metric": "logits", "unit": "logits", "shares": (), "reason": "five are kept",
        "total": Estimate(None, None, None),
    })  # fmt: skip
    table, _ = numbers(parts(recall(), logits))
    *_, last = table.rows
    assert [cell.text for cell in last.cells][2:] == ["total", "–", ""]
    assert "five are kept" in [each.text for each in table.notes]


STEPS = {"decode": (0, 0, 0), "resize": (-4, -5, -3), "precision": (1, 0.5, 1.5)}


def drawn(metric="recall.macro", start=93, steps=STEPS, total=(-3, -4, -2)):
    """A waterfall in percent of these changes, each with both ends of its interval."""
    shares = [FactorShare(name, percent(*ends), percent(*ends)) for name, ends in steps.items()]
    found = AttributionFacts(
        reference="a", candidate="b", metric=metric, unit="fraction", method="shapley", images=9,
        shares=tuple(shares), interaction=percent(0, 0, 0), total=percent(*total),
    )  # fmt: skip
    return waterfall(found, start / 100, TaskWords(), "b against a")


def percent(*ends):
    return Estimate(*(each / 100 for each in ends))


def bars(plot):
    return [each for each in plot.marks if isinstance(each, Line) and "bar" in each.tone]


def test_each_step_begins_where_the_last_one_ends():
    plot = drawn()
    assert plot.y.rows == ("baseline", "decode", "resize", "precision", "served")
    assert [(each.points, each.tone) for each in bars(plot)] == [
        (((93, 2), (89, 2)), "t1 bar"),  # a loss
        (((89, 3), (90, 3)), "t0 bar"),  # a gain
    ]
    dots = [each for each in plot.marks if isinstance(each, Dot)]
    assert [(each.y, each.shape) for each in dots] == [
        (0, "level"), (1, "tick"), (2, "tick"), (3, "tick"), (4, "level"),
    ]  # fmt: skip
    ends = [(each.x.value, each.x.low, each.x.high) for each in dots[1:]]
    assert ends == [(93, 93, 93), (89, 88, 90), (90, 89.5, 90.5), (90, 89, 91)]


def test_each_row_has_its_number_and_interval():
    assert drawn().y.beside == (
        "93.00",
        "0 (none seen)",
        f"{MINUS}4.00 [{MINUS}5.00, {MINUS}3.00]",
        "+1.00 [+0.50, +1.50]",
        "90.00 [89.00, 91.00]",
    )


def test_waterfalls_of_one_metric_share_an_axis_and_those_of_others_do_not():
    small = drawn(steps={"resize": (-0.1, -0.2, 0)}, total=(-0.1, -0.2, 0))
    churn = drawn("churn", 0, {"resize": (3, 2, 4)}, (3, 2, 4))
    ends = [
        [value for _, value in axis(each, "middle", "x")]
        for each in facets([drawn(), small, churn])
    ]
    assert ends[0] == ends[1] != ends[2]


def test_a_value_that_no_stage_changes_has_round_marks_around_it():
    plot = drawn(start=0.526316, steps={"decode": (0, 0, 0)}, total=(0, 0, 0))
    assert [value for _, value in axis(plot, "middle", "x")] == [0.45, 0.5, 0.55, 0.6]


@pytest.mark.parametrize(("metric", "tone"), [("churn", "t1"), ("recall.macro", "t0")])
def test_a_rise_is_for_the_worse_where_the_metric_says_so(metric, tone):
    plot = drawn(metric, 0, {"resize": (6.5, 5, 8)}, (6.5, 5, 8))
    (bar,) = bars(plot)
    assert (bar.tone, plot.y.beside[1]) == (f"{tone} bar", "+6.50 [+5.00, +8.00]")


def test_a_share_that_is_not_known_leaves_nothing_to_draw():
    unknown = FactorShare(
        "resize", Estimate(None, None, None, "x"), Estimate(None, None, None, "x")
    )
    changed = recall().model_copy(update={"shares": (unknown,)})
    assert waterfall(changed, 0.9, TaskWords(), "b against a") is None
