import pytest

from alignkit.record import Estimate, Subgroup
from alignkit.text.kind_words import kind_words, said_kinds


def kind(dimension, name, churn, elsewhere, p=0.01):
    difference = Estimate(churn - elsewhere, churn - elsewhere - 0.01, churn - elsewhere + 0.01)
    return Subgroup(dimension, name, 100, churn, elsewhere, difference, p, p)


MARGIN = "margin of the reference"


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


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (
            kind("class", "4", 0.143, 0.069),
            "Class 4 flips 2.1 times as often: 14.3 % against 6.9 %",
        ),
        (kind("class", "4", 0.14, 0.07), "Class 4 flips twice as often: 14.0 % against 7.0 %"),
        (kind("class", "1", 0.01, 0.072), "Class 1 flips less often: 1.0 % against 7.2 %"),
        (kind("quality", "60", 0.02, 0), "Quality 60 alone flips: 2.0 % against 0 %"),
        (kind("quality", "60", 0, 0.02), "Quality 60 never flips: 0 % against 2.0 %"),
        (
            kind(MARGIN, "lowest third", 0.1, 0.01),
            "Unsure images flip most: margin in the lowest third 10.0 % against 1.0 %.",
        ),
    ],
)
def test_a_kind_is_said_as_how_often_it_flips(made, words):
    assert kind_words(made).replace("\N{NO-BREAK SPACE}", " ").startswith(words)


def test_answers_that_are_no_classes_change():
    words = kind_words(kind("objects", "highest third", 0.14, 0.07), "change")
    assert words.startswith("Objects highest third changes twice as often: ")
