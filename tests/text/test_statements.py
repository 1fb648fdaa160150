"""Statements in words: a template for each kind, whose parts stand where their values are known."""

import pytest

from alignkit.record.verdict_facts import stated
from alignkit.text.statements import filled, statement_words

LOST = {"images": 3, "of": 60, "names": ("x", "y")}
STAGE = {"stage": "resize", "images": 1, "of": 20}
AMOUNT = {"mean": 0.5, "max": 9.0, "unit": "grey levels"}
NO_RULE = "no rule looks at a stage in which the paths differ, so that nothing was compared"
SAID = [
    (stated("shapes", images=2), "2 images have another shape"),
    (stated("no answer", images=3), "3 images without a value: NaN or infinite"),
    (stated("at least", value=3.25), "at least 3.25"),
    (stated("amount", **AMOUNT), "mean 0.5, max 9 grey levels"),
    (stated("unseen", share=0.0123, unit="pp"), "changes not seen are less than ±1.23 pp"),
    (stated("no rule"), NO_RULE),
    (stated("no rule", path="b", stages=("decode", "crop")), f"{NO_RULE}; b differs in decode, crop"),
    (stated("differs", part="", **STAGE), "resize, which differs on 1 of 20 images"),
    (stated("differs", part="all of ", **STAGE, **AMOUNT),
     "all of resize, which differs on 1 of 20 images (mean 0.5, max 9 grey levels)"),
    (stated("blind", part="", **STAGE, **AMOUNT, rules=("resize.bias", "resize.p99")),
     ("resize, which differs on 1 of 20 images (mean 0.5, max 9 grey levels), in a way that no limit "
     "of resize.bias and resize.p99 shows")),
    (stated("answers", part="", share=0.1), "the answers, of which 10.00 % change"),
    (stated("class", name="dog", share=0.3, more=1),
     "the other classes, of which dog changes most, by 30.0 %"),
    (stated("undecoded", by=("a",), **LOST),
     "3 of 60 images not decoded by a, and so in no comparison: x, y"),
    (stated("by neither", by=("a", "b"), **LOST),
     "3 of 60 images decoded by neither a nor b, and so in no comparison: x, y"),
    (stated("not by both", by=("a", "b"), **LOST),
     "3 of 60 images not decoded by both a and b, and so in no comparison: x, y"),
    (stated("allows", share=0.05), "{metric: coverage, fail: 0.05} allows as many"),
    (stated("tap unknown", tap="t", folder="F", known="there are u"),
     "no tap 't' in F: there are u"),
    (stated("earlier change", stage="resize", change="a → b"), "it comes from resize, a → b"),
    (stated("one-sided", images=3, of=60, by="a", names=("x", "y")), "3 of 60 only a decodes: x, y"),
    (stated("below floor", share=0.136), "the limit is less than retraining changes (13.6 %)"),
]  # fmt: skip


@pytest.mark.parametrize(("found", "words"), SAID, ids=lambda each: getattr(each, "kind", ""))
def test_a_statement_is_filled_in_with_its_values(found, words):
    assert statement_words(found).replace("\N{NO-BREAK SPACE}", " ") == words


@pytest.mark.parametrize(
    ("values", "words"),
    [({}, "a"), ({"b": ""}, "a"), ({"b": ()}, "a"), ({"b": 0}, "a of 0"), ({"b": "c"}, "a of c")],
)
def test_a_part_in_brackets_needs_its_value(values, words):
    assert filled("a[ of {b}]", values) == words
