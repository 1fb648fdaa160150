"""Images that one side alone decodes are listed with the side that decodes them."""

import numpy as np

from alignkit.record import CoverageDiff
from alignkit.record.path_facts import COVERAGE_EXAMPLES

MANY = 3 * COVERAGE_EXAMPLES


def test_each_direction_has_its_own_count_and_its_own_first_images():
    first = [(f"first-{number}", True, False) for number in range(MANY)]
    second = [(f"second-{number}", False, True) for number in range(2)]
    images = [*first, ("both", True, True), ("none", False, False), *second]
    found = CoverageDiff.of("a", "b", images)
    assert (found.images, found.only_reference, found.only_candidate) == (MANY + 4, MANY, 2)
    assert found.reference_examples == tuple(name for name, *_ in first[:COVERAGE_EXAMPLES])
    assert found.candidate_examples == ("second-0", "second-1")
    assert [(side.by, side.images) for side in found.one_sided] == [("a", MANY), ("b", 2)]


def test_a_direction_without_images_is_not_listed():
    found = CoverageDiff.of("a", "b", [("x", True, True), ("y", False, True)])
    assert [(side.by, side.examples) for side in found.one_sided] == [("b", ("y",))]


def test_counts_of_parts_add_up_to_that_of_all_images():
    rng = np.random.default_rng(0)
    images = [
        (f"{n}.jpg", bool(rng.integers(2)), [True, False, None][rng.integers(3)]) for n in range(60)
    ]
    parts = [CoverageDiff.of("a", "b", images[n : n + 7]) for n in range(0, 60, 7)]
    total = sum(parts[1:], parts[0])
    assert total == CoverageDiff.of("a", "b", images)
    assert total.decoded == sum(before and after is True for _, before, after in images)
