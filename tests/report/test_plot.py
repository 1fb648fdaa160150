"""Marks of charts lie where their values are, in every kind of axis; words never meet."""

import math
from itertools import combinations, pairwise

import pytest

from alignkit.report.axis import Axis, Interval, nice_ticks, root_ticks
from alignkit.report.marks import Dot, Line, RuleLine
from alignkit.report.plot import Plot, dot_rows, facets
from tests.report.drawn_chart import axis, classes, figure, found, keys, same, spots, values

LOG = (math.log10, lambda value: 10**value)
ROOT = (math.sqrt, lambda value: value**2)
LINES = [
    [(0.0, 0.0), (0.5, 2.0), (1.0, 1.0)],
    [(-3.0, -7.0), (950.0, 12.0)],
    [(1.0, 0.9501), (2.0, 0.9902), (3.0, 0.9803)],
    [(0.0, 4e-5), (1e-4, -2e-5)],
    [(1.0, 1000.0), (8.0, 25_000.0), (3.0, 3.0)],
]


def plot(*marks, x=None, y=None, **options):
    return Plot(title="t", x=x or Axis(), y=y or Axis(), marks=marks, **options)


def line(made, at=0, **axes):
    return values(made, found(made, "line")[at].get("d"), **axes)


def size(made):
    """Return the length of both axes in their own units, to which a tenth of a pixel is little."""
    return [
        abs(ends[-1][1] - ends[0][1])
        for ends in (axis(made, "middle", "x"), axis(made, "end", "y"))
    ]


@pytest.mark.parametrize("points", LINES)
@pytest.mark.parametrize("width", ["small", "middle", "wide"])
def test_a_line_goes_through_its_values(points, width):
    made = plot(Line(points), size=width)
    wide, high = size(made)
    for (x, y), (a, b) in zip(line(made), points, strict=True):
        assert x == pytest.approx(a, abs=wide / 1000)
        assert y == pytest.approx(b, abs=high / 1000)


@pytest.mark.parametrize(("kind", "bent"), [("log", LOG), ("root", ROOT), ("linear", (same, same))])
def test_values_of_a_bent_axis_lie_where_its_marks_say(kind, bent):
    points = [(0.002, 1.0), (0.03, 2.0), (0.4, 4.0), (7.0, 3.0)]
    made = plot(Line(points), x=Axis(kind=kind))
    assert [x for x, _ in line(made, x=bent)] == pytest.approx(
        [x for x, _ in points], rel=0.03, abs=0.03
    )


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (-0.3, 0.02), (-21.6, 0), (0, 1e-4), (3, 3), (-7, 950)]
)
def test_ticks_are_round_and_cover_the_values(low, high):
    ticks = nice_ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high
    assert len({round(b - a, 9) for a, b in pairwise(ticks)}) <= 1
    assert 1 <= len(ticks) <= 8


@pytest.mark.parametrize("most", [0.0, 0.003, 0.37, 1.0, 4.4, 23.6, 100.0])
def test_marks_of_a_root_begin_at_zero_and_keep_apart(most):
    ticks = root_ticks(most)
    assert ticks[0] == 0
    assert ticks[-1] >= most
    roots = [math.sqrt(each / ticks[-1]) for each in ticks]
    assert min(b - a for a, b in pairwise(roots)) >= 0.09
    assert len(ticks) >= 4


@pytest.mark.parametrize(("points", "first"), [
    ([(0, 0.95), (1, 0.99)], 0.95), ([(0, 0.2), (1, 0.9)], 0.0), ([(0, -0.2), (1, 0.9)], -0.5),
    ([(0, 5.0)], 0.0),
])  # fmt: skip
def test_an_axis_begins_at_zero_unless_all_lies_far_from_it(points, first):
    made = plot(Line(points), x=Axis())
    assert axis(made, "end", "y")[0][1] == first


def test_of_many_decades_not_every_one_has_its_text():
    made = plot(Line([(1e-12, 0.0), (1.0, 1.0)]), x=Axis(kind="log"))
    assert [value for _, value in axis(made, "middle", "x")] == [
        10.0**power for power in range(-12, 1, 2)
    ]


def test_a_place_is_drawn_once_and_one_alone_is_seen():
    for points, corners in ([(0, 0), (0, 0), (1, 1), (0, 0)], 3), ([(1, 1)], 1), ([], 0):
        (made,) = found(plot(Line(points), x=Axis(holds=(0, 1)), y=Axis(holds=(0, 1))), "line")
        assert len(spots(made.get("d", ""))) == corners


def test_a_band_reaches_to_both_ends_of_the_intervals():
    points = [
        (0.0, Interval(1.0, 0.5, 2.0)),
        (1.0, Interval(3.0, 3.0, 3.0)),
        (2.0, Interval(2.0, 0.0, 4.0)),
    ]
    made = plot(Line(points))
    (band,) = found(made, "band")
    assert [round(y, 1) for _, y in values(made, band.get("d"))] == [0.5, 3.0, 0.0, 4.0, 3.0, 2.0]
    assert not found(plot(Line([(x, y.value) for x, y in points])), "band")


def test_a_dot_lies_at_its_value_with_intervals_of_both_axes():
    made = plot(Dot(Interval(2.0, 1.0, 4.0), Interval(30.0, 10.0, 40.0), "t1 faded", title="words"))
    ((at,), whiskers) = (values(made, found(made, kind)[0].get("d")) for kind in ("dot", "whisker"))
    assert at == pytest.approx((2.0, 30.0), rel=0.02)
    assert whiskers[0] == pytest.approx((1.0, 30.0), rel=0.02)
    assert whiskers[1] == pytest.approx((4.0, 30.0), rel=0.02)
    assert [y for _, y in whiskers[2:]] == pytest.approx([10.0, 40.0], rel=0.02)
    group = found(made, "t1")[0]
    assert (classes(group), group[0].text) == (["t1", "faded"], "words")


def test_rows_keep_their_order_with_zero_in_view():
    rows = [
        ("cat", Interval(-3.0, -4.0, -2.0), None),
        ("dog", Interval(-1.0, -2.0, 0.5), Interval(-2, -2, -2)),
    ]
    made = dot_rows(rows, ("a", "b"), title="t", x=Axis())
    dots = [spots(each.get("d"))[0] for each in found(made, "dot")]
    assert [round(values_x(made, x), 1) for x, _ in dots] == [-3.0, -1.0, -2.0]
    assert [y for _, y in dots] == sorted(y for _, y in dots)
    (rule,) = found(made, "rule")
    assert values_x(made, spots(rule.get("d"))[0][0]) == pytest.approx(0.0, abs=0.01)
    assert keys(made) == ["a", "b"]
    assert [each.text for each in figure(made).iter("text") if classes(each)] == ["cat", "dog"]


def values_x(made, position):
    (start, low), *_, (end, high) = axis(made, "middle", "x")
    return low + (position - start) / (end - start) * (high - low)


def test_plots_of_one_caption_share_an_axis_and_others_do_not():
    marks = [[Line([(0, 0), (top, 1)])] for top in (1.0, 40.0, 3.0)]
    made = [plot(*each, caption=caption) for each, caption in zip(marks, "aab", strict=True)]
    ends = [axis(each, "middle", "x")[-1][1] for each in facets(made)]
    assert ends == [40.0, 40.0, 3.0]


def labels(made):
    return [each for each in figure(made).iter("text") if "label" in classes(each)]


def boxes(made):
    for each in labels(made):
        wide = 6.25 * len(each.text)
        left = (
            float(each.get("x"))
            - {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor")] * wide
        )
        yield left, left + wide, float(each.get("y"))


@pytest.mark.parametrize("at", [(0.5, 0.51, 0.52, 0.98), (0.0,), (0.3, 0.3001, 0.7)])
def test_labels_of_rules_keep_apart_above_the_chart(at):
    rules = [RuleLine(x=x, dashed=True, label=f"threshold {x} that was kept") for x in at]
    made = plot(Line([(0, 0), (1, 1)]), *rules)
    assert [
        round(values_x(made, spots(each.get("d"))[0][0]), 2) for each in found(made, "rule")
    ] == [round(x, 2) for x in at]
    top = min(y for y, _ in axis(made, "end", "y"))
    for (left, right, y), (start, end, other) in combinations(boxes(made), 2):
        assert abs(y - other) >= 14 or right <= start or end <= left
    assert all(y < top and left >= 0 and right <= made.width for left, right, y in boxes(made))
    # more room above makes the chart higher, not its lines flatter
    heights = [axis(each, "end", "y") for each in (made, plot(Line([(0, 0), (1, 1)])))]
    assert len({round(each[0][0] - each[-1][0], 1) for each in heights}) == 1


def test_a_dot_without_room_has_no_label():
    crowd = plot(*(Dot(1.0, 1.0, label=str(at)) for at in range(6)))
    assert [each.text for each in labels(crowd)] == ["0", "1", "2", "3"]


def test_names_are_escaped_and_said_once_in_the_legend():
    evil = "<img src=x onerror=alert(1)>\u202e"
    made = plot(
        Line([(0, 0), (1, 1)], "t0", evil), Dot(0, 0, key=evil + "!", href="#/image/a", title=evil),
        Dot(1, 1, "t1", key=evil + "!"), Line([(0, 1)], key="others", loose=True), RuleLine(x=0.5, label=evil),
        caption=evil, note=evil,
    )  # fmt: skip
    text = made.__html__()
    assert "<img" not in text
    assert "\u202e" not in text
    assert len(keys(made)) == 3
    chart = figure(made).find("div/svg")
    assert chart.get("role") == "group"  # for its links
    ids = [each.get("id") for each in chart if each.get("id")]
    assert chart.get("aria-labelledby").split() == ids
