from alignkit.record import Estimate, Subgroup
from alignkit.record.drift_facts import ClassDrift
from alignkit.text.class_words import (
    far_stronger_class,
    kind_words,
    said_kinds,
    strongest_class,
)
from alignkit.text.numbers import MINUS, NBSP
from tests.report.records import quickstart


def estimate(value, half=0.03):
    return Estimate(value, value - half, value + half)


def drift(*classes, mean=-0.02):
    from dataclasses import replace

    found = next(entry.drift for entry in quickstart().matrix if entry.drift)
    whole = {"recall.macro": estimate(mean), "precision.macro": estimate(mean)}
    made = tuple(ClassDrift(name, 100, estimate(r), estimate(p)) for name, r, p in classes)
    return replace(found, classes=made, metrics=whole)


def test_the_class_with_the_largest_change_of_either_metric_is_named():
    fact = strongest_class(drift(("7", -0.05, 0.01), ("1", 0.01, -0.191)))
    assert fact.words == (
        f"class 1, precision {MINUS}19.1 pp [{MINUS}22.1, {MINUS}16.1] (largest of 4 changes by "
        "class)"
    )


def test_a_change_whose_interval_contains_zero_is_no_fact():
    assert strongest_class(drift(("7", -0.02, 0.01))) is None


def test_a_class_is_far_stronger_only_if_it_moves_twice_as_much_as_the_mean():
    hit = ("7", -0.05, 0.0)
    assert far_stronger_class(drift(hit, mean=-0.02)).name == "7"
    assert far_stronger_class(drift(hit, mean=-0.03)) is None


MARGIN = "margin of the reference"


def kind(dimension, name, churn, elsewhere, p=0.01):
    difference = Estimate(churn - elsewhere, churn - elsewhere - 0.01, churn - elsewhere + 0.01)
    return Subgroup(dimension, name, 100, churn, elsewhere, difference, p, p)


def test_classes_and_files_come_first_and_of_thirds_only_the_one_that_differs_most():
    found = [
        kind(MARGIN, "lowest third", 0.1, 0.01),
        kind(MARGIN, "highest third", 0.0, 0.06),
        kind("edge energy", "highest third", 0.09, 0.05),
        kind("class", "4", 0.143, 0.069),
        kind("subsampling", "4:2:0", 0.06, 0.01),
        kind("class", "1", 0.01, 0.072),
    ]
    said = [(each.dimension, each.kind) for each in said_kinds(found)]
    assert said == [
        ("class", "4"),
        ("subsampling", "4:2:0"),
        ("class", "1"),
        ("edge energy", "highest third"),
        (MARGIN, "lowest third"),
    ]


def test_a_kind_is_said_as_how_often_it_flips():
    assert kind_words(kind("class", "4", 0.143, 0.069)).replace(NBSP, " ") == (
        "Class 4 flips more often: 14.3 % against 6.9 % (difference [+6.4, +8.4] pp, p = 0.010 "
        "after Holm)."
    )
    less = kind_words(kind(MARGIN, "highest third", 0.0, 0.06), "change").replace(NBSP, " ")
    assert less.startswith("Margin of the reference highest third changes less often: 0 % against")
