from alignkit.record import Estimate
from alignkit.record.drift_facts import ClassDrift
from alignkit.text.class_words import far_stronger_class, strongest_class
from alignkit.text.numbers import MINUS
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
        f"Other images are now called 1: precision {MINUS}19.1 pp [{MINUS}22.1, {MINUS}16.1] "
        "(largest of 4 changes by class)"
    )


def test_a_change_whose_interval_contains_zero_is_no_fact():
    assert strongest_class(drift(("7", -0.02, 0.01))) is None


def test_a_class_is_far_stronger_only_if_it_moves_twice_as_much_as_the_mean():
    hit = ("7", -0.05, 0.0)
    assert far_stronger_class(drift(hit, mean=-0.02)).name == "7"
    assert far_stronger_class(drift(hit, mean=-0.03)) is None
