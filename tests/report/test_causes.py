"""The causes of a drift: sentences, waterfalls and numbers of the attributions."""

from alignkit.record import Estimate
from alignkit.report.cause_view import attribution_sections
from alignkit.text.names import Names
from alignkit.text.numbers import MINUS
from tests.report.records import quickstart


def sections(*attributions):
    record = quickstart()
    record = record.model_copy(update={"attributions": attributions or record.attributions})
    return attribution_sections(record, Names(record.paths))


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
    (section,) = sections()
    (sentence,) = section.sentences
    assert sentence == (
        f"Cause of macro recall: resize ({MINUS}3.1 pp) and decode ({MINUS}0.3 pp); "
        "precision adds nothing."
    )


def test_the_waterfall_begins_at_the_value_of_the_models_on_their_own_path():
    (section,) = sections()
    record = quickstart()
    own = next(e for e in record.matrix if e.aligned and e.row.is_only(recall().reference))
    rows = section.waterfalls[0].y
    assert rows.beside[0] == f"{100 * own.metrics['recall.macro']:.2f}"
    assert rows.rows[1:-1] == ("decode", "resize", "precision")


def test_shares_of_other_images_than_the_cells_begin_at_zero():
    (section,) = sections(recall().model_copy(update={"drawn_from": 5000}))
    (waterfall,) = section.waterfalls
    assert waterfall.y.beside[0] == "0"
    assert waterfall.caption == "Change of macro recall, %"


def test_an_interaction_beside_the_shares_is_a_step_of_its_own():
    between = Estimate(-0.002, -0.003, -0.001)
    changes = {"method": "one-at-a-time", "interaction": between}
    (section,) = sections(recall().model_copy(update=changes))
    assert section.waterfalls[0].y.rows[-2] == "interaction"
    assert f"interaction ({MINUS}0.2 pp)" in section.sentences[0]


def test_without_a_model_the_pixels_are_drawn():
    pixels = next(each for each in quickstart().attributions if each.metric == "pixels")
    alone = pixels.model_copy(update={"backend": "", "precision": ""})
    (section,) = sections(alone)
    assert section.runtime == ""
    assert section.waterfalls[0].caption == "Mean |Δpixel|, grey levels"
    assert section.sentences[0].startswith("Cause of mean |Δpixel|: resize (2.62 of 255)")


def test_runtimes_that_agree_to_a_tenth_of_a_point_are_one():
    near = with_shares(recall(), decode=-0.00312).model_copy(update={"precision": "fp32"})
    (section,) = sections(recall(), near)
    assert section.runtime == "onnxruntime fp16; the same in onnxruntime fp32"
    far = with_shares(recall(), decode=-0.02).model_copy(update={"precision": "fp32"})
    assert [each.again for each in sections(recall(), far)] == [False, True]


def test_a_metric_without_shares_has_its_reason_below_the_table():
    logits = recall().model_copy(
        update={"metric": "logits", "unit": "logits", "shares": (), "reason": "five are kept"}
    )
    (section,) = sections(recall(), logits)
    assert section.table
    assert "no shares of Mean |Δlogit|: five are kept" in section.remarks
