"""YAML text → values with places, and what is wrong with it."""

import textwrap

import pytest
import yaml

from alignkit.experiment.yaml_source import CoreLoader, TextPlace, dotted, parse


def problems(text: str) -> list[str]:
    return [str(problem) for problem in parse(textwrap.dedent(text), "x.yaml").problems]


def test_values_equal_those_of_pyyaml_where_yaml_1_1_and_1_2_agree():
    text = "a: [1, -2.5, true, null, text, '7']\nb: {c: 0x10, d: ~}\n"
    assert parse(text, "x").value == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("no", "no"),
        ("on", "on"),
        ("1e-3", 0.001),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"),
        (".nan", ".nan"),
        (".inf", ".inf"),
        ("0o17", 15),
        ("017", "017"),
        (".5", 0.5),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(scalar, value):
    parsed = parse(f"a: {scalar}", "x").value["a"]
    assert parsed == value
    assert type(parsed) is type(value)


def test_every_key_and_value_knows_its_place():
    source = parse("a:\n  b: [10, {c: xyz}]\n", "x.yaml")
    assert source.keys["a", "b"].where == "x.yaml:2:3"
    assert source.values["a", "b", 0].where == "x.yaml:2:7"
    place = source.values["a", "b", 1, "c"]
    assert place.underlined() == "      b: [10, {c: xyz}]\n                  ^^^"


def test_a_missing_place_is_that_of_what_surrounds_it():
    source = parse("a:\n  b: {}\n", "x.yaml")
    assert source.place(("a", "b", "c", 3), of_key=False).where == "x.yaml:2:3"
    assert source.place(("z",), of_key=True).where == "x.yaml:1:1"


def test_a_syntax_error_shows_its_place():
    (told,) = problems(
        """\
        a: 1
        b: [1, 2
        c: 3
        """
    )
    assert told.startswith("x.yaml:3:")
    assert "not valid YAML" in told
    assert told.endswith("^")


@pytest.mark.parametrize("text", ["a: \tb: 1", "a: 'x", "a: *b", "- a\nb: 1", "a: 1\n---\nb: 1"])
def test_no_malformed_document_escapes_as_an_exception(text):
    (told,) = problems(text)
    assert told.startswith("x.yaml:")


def test_a_tag_that_makes_objects_is_refused():
    (told,) = problems("a: !!python/object:os.system {}")
    assert "x.yaml:1:4" in told


def test_a_control_character_is_located():
    (told,) = problems("a: 1\nb: x\x00y\n")
    assert told.startswith("x.yaml:2:5: character")


def test_every_duplicate_key_is_reported_with_the_first_ones_line():
    first, second = problems("a: 1\nb: {c: 1, c: 2}\na: 3\n")
    assert first.startswith("x.yaml:2:11: b.c: duplicate key; it stands in line 2 already")
    assert second.startswith("x.yaml:3:1: a: duplicate key; it stands in line 1 already")


def test_a_key_that_is_no_text_is_refused():
    (told,) = problems("a: {1: x}")
    assert told.startswith("x.yaml:1:5: a: a key must be text")


def test_anchors_and_merge_keys_are_resolved_without_counting_as_duplicates():
    source = parse("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\n", "x.yaml")
    assert not source.problems
    assert source.value["b"] == {"p": 1, "q": 3}
    assert source.keys["b", "q"].where == "x.yaml:2:13"
    assert source.keys["b", "p"].where == "x.yaml:1:8"


def test_an_alias_of_what_contains_it_is_refused():
    (told,) = problems("a: &x [1, *x]")
    assert "contains itself" in told


def test_an_empty_document_has_no_value_and_no_problem():
    source = parse("# nothing\n", "x.yaml")
    assert source.value is None
    assert not source.problems


def test_dotted_keys_read_as_set_takes_them():
    assert dotted(("a", 0, "b")) == "a.0.b"


def bomb(levels: int, first: str, inner: str) -> str:
    """Lines of which each holds nine aliases of the one above."""
    lines = [f"a0: &a0 {first}"]
    lines += [
        f"a{n}: &a{n} {inner.format(', '.join([f'*a{n - 1}'] * 9))}" for n in range(1, levels)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (bomb(9, "[x]", "[{}]"), 6, "more than 100,000 values, with aliases written out"),
        (bomb(9, "{k: v}", "{{<<: [{}]}}"), 6, "more than 100,000 values, with aliases written out"),
        ("a: &a " + "y" * 10_000 + "\nb: [" + "*a, " * 1_000 + "]", 2, "more than 100,000 values"),
        ("a: [" + "0, " * 100_000 + "]", 1, "more than 100,000 values"),
        ("a: " + "[" * 3_000 + "]" * 3_000, 1, "nested more than 40 levels deep"),
        ("\n".join(" " * n + "k:" for n in range(100)), 41, "nested more than 40 levels deep"),
        ("a0: &a0 [x]\n" + "\n".join(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 300)), 41,
         "nested more than 40 levels deep by aliases"),
        ("a: 1\nb: " + "1" * 2_000, 2, "int of more than 1,000 characters"),
        ("a: !!bool maybe", 1, "not a value of type bool"),
        ("a: !!timestamp 2001-99-99", 1, "not a value of type timestamp"),
        ("a: !!int ''", 1, "not a value of type int"),
    ],
)  # fmt: skip
def test_a_document_beyond_a_limit_is_refused_at_its_place(text, line, message):
    (problem,) = problems(text)
    assert problem.startswith(f"x.yaml:{line}:")
    assert f"not valid YAML: {message}" in problem
    assert len(problem) < 700


def test_a_document_of_many_values_and_levels_is_no_mistake():
    deep = "[" * 38 + "]" * 38
    source = parse(f"a: {deep}\nb: &b [{', '.join(map(str, range(9_000)))}]\nc: [*b, *b]\n", "x")
    assert not source.problems
    assert source.value["c"][1][-1] == 8_999


@pytest.mark.parametrize(
    ("scalar", "said"),
    [
        ("!!int 1" + ":1" * 300_000, "int of more than 1,000 characters"),
        ("!!float 1" + ":1" * 300_000, "float of more than 1,000 characters"),
        ("9" * 2000, "int of more than 1,000 characters"),
        ("!!timestamp foo", "not a value of type timestamp"),
    ],
    ids=["int", "float", "digits", "timestamp"],
)
def test_a_scalar_that_does_not_fit_its_tag_is_refused_at_once(scalar, said):
    with pytest.raises(yaml.MarkedYAMLError, match=said):
        yaml.load(f"a: {scalar}", CoreLoader)
    (told,) = problems(f"a: {scalar}")
    assert said in told


def test_the_mark_stands_below_its_word_behind_a_password_that_is_left_out():
    line = 'data: {root: "s3://user:a-long-password@bucket", bogus: 1}'
    shown, mark = TextPlace(1, line.index("bogus"), 5, "", line).underlined().splitlines()
    assert "password" not in shown
    assert mark.index("^") == shown.index("bogus")
