"""Rows, columns and places: their names are read back as what they name, or refused."""

from itertools import product

import pytest

from alignkit.place import Column, Place, Row
from alignkit.record.stored import Placed

ODD = ("a+b", "(a", "a)", "a (b)", "5 %", "a (x %)", "mix", "model m", "torch/fp32", "a|b", "é, ü")
FRACTIONS = (1.0, 0.5, 0.05, 0.07, 0.125, 1 / 3, 0.9999999, 1e-7)


@pytest.mark.parametrize("preprocesses", [("a",), ("a", "b.c"), ("b", "a", "c_d-e"), ("a)", "%")])
@pytest.mark.parametrize("model", ["", "mine", "a (b)", "mix", "m+n"])
def test_a_row_is_read_back_from_its_name(preprocesses, model):
    rows = [Row(preprocesses, fraction, model) for fraction in FRACTIONS]
    assert [Row.parse(str(row)) for row in rows] == rows
    assert len({str(row) for row in rows}) == len(rows)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_name_of_a_preprocess_is_a_row_of_its_own(name):
    assert Row.parse(name) == Row((name,))
    assert str(Row((name,))) == name


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("opencv (5 %)", Row(("opencv",), 0.05)),
        ("opencv+pillow (mix)", Row(("opencv", "pillow"))),
        ("opencv+pillow (mix, 50 %)", Row(("opencv", "pillow"), 0.5)),
        ("opencv (model mine)", Row(("opencv",), model="mine")),
    ],
)
def test_names_are_written_as_records_hold_them(name, row):
    assert (str(row), Row.parse(name)) == (name, row)


@pytest.mark.parametrize(
    "name",
    ["", "a (100 %)", "a (05 %)", "a (5.0 %)", "a (mix)", "a+b", "a (5 %, mix)", "a (model )"],
)
def test_a_text_that_no_row_would_write_names_one_preprocess(name):
    assert Row.parse(name).preprocesses == (name,)
    assert str(Row.parse(name)) == name


@pytest.mark.parametrize(
    "parts",
    [
        (("a (5 %)",),),
        (("a+b (mix)",),),
        (("a+b", "c"),),
        (("a",), 1.0, "m, 5 %"),
        (("a+b",), 0.5),
        ((),),
        (("a",), float("nan")),
        (("a",), -0.5),
    ],
)
def test_a_row_that_its_name_would_confuse_with_another_is_refused(parts):
    with pytest.raises(ValueError, match="reads like the name of another"):
        Row(*parts)


def test_no_two_rows_have_one_name():
    names = ("a", "b", *ODD)
    written = {}
    for preprocesses, fraction, model in product(
        [(a,) for a in names] + [*product(names, names)], FRACTIONS, ("", "m", *ODD)
    ):
        try:
            row = Row(preprocesses, fraction, model)
        except ValueError:
            continue
        assert written.setdefault(str(row), row) == row
        assert Row.parse(str(row)) == row


def test_rows_are_ordered_as_their_names_are():
    rows = [Row(("a",), 0.5), Row(("a", "b")), Row(("a",)), Row(("b",)), Row(("a",), model="m")]
    assert [str(row) for row in sorted(rows)] == sorted(str(row) for row in rows)


def test_a_row_of_one_path_alone_may_have_a_model_and_no_share():
    assert Row(("a",)).is_only("a")
    assert Row(("a",), model="m").is_only("a")
    assert not Row(("a",), 0.5).is_only("a")
    assert not Row(("a", "b")).is_only("a")


def test_what_is_stored_flat_comes_back_as_its_place():
    place = Place(Row(("a", "b"), 0.5), Column("c", "torch threads=2", "bf16"))
    stored = Placed(**place.fields)
    assert stored.model_dump() == {
        "trained_with": "a+b (mix, 50 %)",
        "evaluated_with": "c",
        "backend": "torch threads=2",
        "precision": "bf16",
    }
    assert (stored.row, stored.column, stored.place) == (place.row, place.column, place)
    assert str(place) == "a+b (mix, 50 %)/c/torch threads=2/bf16"
    assert place.json_key == "a+b (mix, 50 %)|c|torch threads=2|bf16"
