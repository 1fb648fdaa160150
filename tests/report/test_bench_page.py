"""The page of a bench, from a record made by hand."""

import math
import random
import re
from itertools import combinations
from pathlib import Path

import pytest

from alignkit.errors import DamagedRecord, RecordError
from alignkit.record import Estimate
from alignkit.record.bench_facts import BenchRecord
from alignkit.record.document import document_text
from alignkit.report.bench_page import PUBLISHED_ROWS, bench_page, read_bench, render_bench
from alignkit.report.bench_tables import BenchTables, frontier_plot
from alignkit.report.marks import Dot, Line
from alignkit.report.page import Paragraph
from alignkit.report.timed_page import bounded, gain_words
from alignkit.text.numbers import estimated
from tests.report.bench_records import rich_bench
from tests.report.drawn_chart import axis, found, values
from tests.report.gold import compare_gold, structure
from tests.report.test_report import check_whole, elements, parse, text_of

DOCS = Path(__file__).parents[2] / "docs/evidence.md"
RICH = rich_bench()
TIMED = [each for each in RICH.options if each.loads]
NUMBERS = {str(each.place): number for number, each in enumerate(TIMED, 1)}


def of(options):
    """The bench of these options."""
    return RICH.model_copy(update={"options": tuple(options)})


def under(clients, options=TIMED):
    """Options of one model under so many clients."""
    (group,) = (each for each in BenchTables(of(options)).groups
                if each[0].load.clients == clients)  # fmt: skip
    return group


def rendered(record, folder):
    (folder / "bench.json").write_text(document_text(record))
    return render_bench(folder).read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return rendered(RICH, tmp_path_factory.mktemp("bench"))


def alerts(record):
    """What a page warns of before its figures."""
    parts = bench_page(record).verdict.parts
    return [each.words for each in parts if isinstance(each, Paragraph) and each.style == "alert"]


def without_drift():
    unknown = {"drift": None, "drift_reason": "not measured: alignkit run x.yaml"}
    options = tuple(
        each.model_copy(
            update=(unknown if not each.reference else {})
            | {"loads": tuple(load.model_copy(update={"frontier": None}) for load in each.loads)}
        )
        for each in TIMED
    )
    return RICH.model_copy(update={"options": options})


def test_the_page_has_the_stored_structure(tmp_path):
    page = structure(rendered(rich_bench(clients=(5,)), tmp_path))
    compare_gold("bench.txt", page.replace("alignkit | 0.1.0", "alignkit | VERSION"))


@pytest.mark.parametrize(
    "record",
    [
        RICH,
        RICH.model_copy(update={"options": RICH.options[len(TIMED) :]}),
        without_drift(),
        RICH.model_copy(
            update={"options": RICH.options + rich_bench("pillow (5 %)", (1, 5)).options}
        ),
    ],
    ids=["rich", "nothing timed", "no drift", "two models"],
)
def test_every_bench_is_a_valid_page_that_loads_nothing_from_a_network(record, tmp_path):
    tree = parse(rendered(record, tmp_path))
    check_whole(tree)
    assert all((tmp_path / e.get("src")).exists() for e in elements(tree, "script"))


def test_the_tables_have_every_number_of_every_option(page):
    text = text_of(parse(page)).replace("\N{NO-BREAK SPACE}", " ")
    for option in TIMED:
        for load in option.loads:
            figures = [load.throughput, load.tp50_ms, load.tp90_ms, load.tp99_ms]
            assert all(bounded(each) in text for each in figures)
            gain = gain_words(load.gain).replace("\N{NO-BREAK SPACE}", " ") if load.gain else ""
            assert gain in text
        churn = estimated(option.drift.churn, share=True) if option.drift else "0 by definition"
        assert churn.replace("\N{NO-BREAK SPACE}", " ") in text
    for option in RICH.options[len(TIMED) :]:
        assert option.reason in text


def test_busy_rounds_are_said_before_any_figure(page):
    text = text_of(parse(page))
    said = "Contended, not to be used: 1 of 36 timings; "
    assert alerts(RICH)[0].replace("\N{NO-BREAK SPACE}", " ").startswith(said)
    assert text.index("Contended, not to be used") < text.index("The fastest option")


def test_unwatched_rounds_are_counted_by_their_reason():
    load = TIMED[0].loads[0].model_copy(update={"unwatched": "the system does not say"})
    record = RICH.model_copy(
        update={"options": (TIMED[0].model_copy(update={"loads": (load,)}), *TIMED[1:])}
    )
    said = "".join(alerts(record))
    assert "not known to be of a quiet machine: the system does not say." in said


def fastest(options):
    """The cells of the table of the fastest options, and its notes."""
    table = BenchTables(of(options)).fastest()
    rows = [
        [cell.said.replace("\N{NO-BREAK SPACE}", " ") for cell in row.cells] for row in table.rows
    ]
    return rows, [each.text for each in table.notes]


def test_the_fastest_option_is_shown_with_gain_drift_and_images_then_the_fastest_unchanged():
    rows, _ = fastest(TIMED)
    assert [row[:3] for row in rows] == [
        ["1", "11 torchpipe ▸ onnxruntime int8", rows[0][2]],
        ["1", "2 opencv ▸ onnxruntime fp32", rows[1][2]],
        ["5", "11 torchpipe ▸ onnxruntime int8", "366 [355, 382]"],
        ["5", "2 opencv ▸ onnxruntime fp32", "182 [177, 190]"],
        ["10", "11 torchpipe ▸ onnxruntime int8", rows[4][2]],
        ["10", "2 opencv ▸ onnxruntime fp32", rows[5][2]],
    ]
    assert rows[2][3:] == [
        "+205.0 % [+184.5, +235.7]", "18.20 % [15.80, 20.60]", "−6.07 [−15.80, +2.02]", "1 000",
    ]  # fmt: skip
    # 3.69 of 1,000: what so many images cannot show
    assert rows[3][4] == "0 % [0, 0.37]"


def test_a_gain_that_may_be_chance_is_called_so():
    one = TIMED[1].loads[0].model_copy(update={"gain": Estimate(0.04, -0.02, 0.1)})
    sides = [(TIMED[0], TIMED[0].loads[0]), (TIMED[1], one)]
    (row,), notes = fastest([each.model_copy(update={"loads": (load,)}) for each, load in sides])
    assert row[3] == "+4.0 % [−2.0, +10.0] (a)"
    assert notes[0] == "this sample does not show that it is faster than the reference"


def test_without_a_timed_reference_the_gain_is_not_known_and_nothing_is_said_of_chance():
    unknown = Estimate(None, None, None, "the reference was not timed: crashed")
    load = TIMED[1].loads[0].model_copy(update={"gain": unknown})
    (row,), notes = fastest([TIMED[1].model_copy(update={"loads": (load,)})])
    assert row[2:4] == ["113 [109, 118]", "– (a)"]
    assert notes == ["the reference was not timed: crashed"]


def test_where_the_reference_is_the_fastest_the_table_shows_it():
    rows, _ = fastest([TIMED[0], TIMED[6]])
    assert {(row[1], row[3]) for row in rows} == {
        ("1 opencv ▸ torch fp32 (reference)", "reference")
    }
    rows, _ = fastest([TIMED[0], TIMED[2]])
    assert [row[1] for row in rows[:2]] == [
        "2 opencv ▸ onnxruntime int8", "1 opencv ▸ torch fp32 (reference)",
    ]  # fmt: skip


def test_a_timing_of_a_busy_machine_is_the_fastest_only_where_all_are():
    busy = {"contended": "others took 9 %"}
    first, second = (each.model_copy(update={"loads": each.loads[:1]}) for each in TIMED[:2])
    slow = second.model_copy(update={"loads": (second.loads[0].model_copy(update=busy),)})
    rows, _ = fastest([first, slow])
    assert [row[1] for row in rows] == ["1 opencv ▸ torch fp32 (reference)"]
    both = first.model_copy(update={"loads": (first.loads[0].model_copy(update=busy),)})
    (row,), notes = fastest([both, slow])
    assert row[1] == "2 opencv ▸ onnxruntime fp32"
    assert (row[2], row[3]) == ("113 [109, 118] (contended) (a)", "– (b)")
    assert notes[:2] == ["contended: others took 9 %", "the machine was busy"]


def test_speed_without_drift_has_no_frontier_and_says_how_to_get_it(tmp_path):
    text = text_of(parse(rendered(without_drift(), tmp_path)))
    # a command is copied as it stands
    assert "Drift: not measured: alignkit run x.yaml " in text
    assert "No frontier, 10 clients: no two options have both speed and drift." in text
    assert "An option is dominated" not in text
    assert "dominated by" not in text


def crowded(seed):
    """The options at drawn places, some of which lie on each other, with few intervals."""
    draw = random.Random(seed)
    options = []
    for each in TIMED:
        churn = Estimate(draw.choice([0.0, 0.0, draw.random() ** 4]), None, None)
        drift = each.drift and each.drift.model_copy(update={"churn": churn})
        speed = draw.choice([100.0, 100.0, draw.uniform(90, 500)])
        (load,) = (load for load in each.loads if load.clients == 5)
        load = load.model_copy(update={"throughput": Estimate(speed, None, None)})
        options.append(each.model_copy(update={"drift": drift, "loads": (load,)}))
    return options


CHARTS = [(TIMED, 1), (TIMED, 5), (TIMED, 10), *((crowded(seed), 5) for seed in range(20))]


ROOT = (math.sqrt, lambda root: root**2)


def frontier(options, clients=5):
    return frontier_plot(under(clients, options), "")


@pytest.mark.parametrize(("options", "clients"), CHARTS)
def test_labels_do_not_cover_each_other_and_those_of_the_frontier_come_first(options, clients):
    plot = frontier(options, clients)
    labels = found(plot, "label")
    at = [(float(each.get("x")), float(each.get("y"))) for each in labels]
    # a number of two digits is 12.5 wide, and a line 14 high
    assert not [1 for (x, y), (a, b) in combinations(at, 2) if abs(x - a) < 6 and abs(y - b) < 14]
    dots = [each for each in plot.marks if isinstance(each, Dot)]
    assert len(labels) >= len(dots) / 2
    best = {each.label for each in dots if each.tone == "t0"}
    assert options is not TIMED or best <= {each.text for each in labels}


def test_dots_lie_where_their_values_are_and_intervals_around_them():
    plot = frontier(TIMED)
    dots = {each.label: each for each in plot.marks if isinstance(each, Dot)}
    drawn = zip(dots.values(), found(plot, "dot"), strict=True)
    corners = {dot.label: values(plot, each.get("d"), x=ROOT)[0] for dot, each in drawn}
    for _, _, option, load, _ in under(5):
        name = str(NUMBERS[str(option.place)])
        wanted = 100 * option.drift.churn.value if option.drift else 0.0
        assert corners[name][0] == pytest.approx(wanted, abs=0.1)
        assert corners[name][1] == pytest.approx(load.throughput.value, abs=1)
        dot = dots[name]
        assert load.frontier.standing in dot.key
        assert ("hollow" in dot.tone) == bool(load.contended)
        assert (dot.shape == "square") == option.reference
        assert dot.x.low <= dot.x.value <= dot.x.high
    assert dots["2"].x.high > dots["2"].x.low == 0  # none of 1,000 images is not none


def test_the_step_line_never_falls_and_passes_each_option_of_the_frontier():
    steps, *joins = (each for each in frontier(TIMED).marks if isinstance(each, Line))
    assert steps.points == sorted(steps.points)
    assert [y for _, y in steps.points] == sorted(y for _, y in steps.points)
    best = {(each.x.value, each.y.value) for each in dots_of(TIMED) if each.tone == "t0"}
    assert best <= {*steps.points}
    assert len(joins) == sum("not separable" in each.key for each in dots_of(TIMED))


def dots_of(options):
    return [each for each in frontier(options).marks if isinstance(each, Dot)]


def test_published_rows_are_those_of_the_documentation_and_agree_with_themselves():
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in DOCS.read_text().splitlines()
        if re.match(r"\| [CG]PU \|", line)
    ]
    documented = [[cell.replace("\N{NO-BREAK SPACE}", " ") for cell in row] for row in rows]
    assert documented == [[*row] for row in PUBLISHED_ROWS]
    rates = {(decode, clients): int(rate) for decode, clients, rate, *_ in PUBLISHED_ROWS}
    for decode, clients, rate, *_, stated in PUBLISHED_ROWS:
        if stated:
            gain = int(rate) / rates["CPU", clients] - 1
            assert (decode, stated) == ("GPU", f"{100 * gain:+.2f} %")


def test_published_figures_stand_alone_and_the_odd_one_is_marked(page):
    (section,) = [e for e in elements(parse(page), "section") if e.get("id") == "published"]
    (published,) = elements(section, "table")
    assert "published, torchpipe, ResNet50 on an RTX 3080 Ti" in text_of(published)
    assert "torchpipe ▸" not in text_of(published)
    tails = {row[:2]: float(row[5]) for row in PUBLISHED_ROWS}
    odd = [each for _, each in tails if tails["GPU", each] > tails["CPU", each]]
    assert {*odd} == {"5"}
    assert (tails["GPU", "5"], tails["CPU", "5"]) == (40.43, 38.87)
    assert "is worse than that of the CPU (40.43 and 38.87)" in text_of(section)


def test_a_copy_of_the_page_can_be_rendered_again(tmp_path):
    (tmp_path / "bench.json").write_text(document_text(RICH))
    page = render_bench(tmp_path, tmp_path / "copy")
    assert page == tmp_path / "copy/index.html"
    assert not (tmp_path / "index.html").exists()
    assert "requests.parquet" not in page.read_text()  # which is not copied
    assert read_bench(tmp_path / "copy") == RICH
    assert render_bench(tmp_path / "copy/bench.json") == page


def test_a_damaged_or_missing_bench_is_refused(tmp_path):
    with pytest.raises(RecordError, match=r"no bench\.json in"):
        render_bench(tmp_path)
    text = document_text(RICH)
    (tmp_path / "bench.json").write_text(text.replace('"value": 120.0', '"value": 170.0'))
    with pytest.raises(DamagedRecord, match=r"bench\.json is damaged"):
        render_bench(tmp_path)
    assert not (tmp_path / "index.html").exists()


def test_names_of_a_record_are_escaped(tmp_path):
    evil = "<img src=x onerror=alert(1)>"
    options = tuple(
        each.model_copy(update={"reason": evil, "state": "failed"}) for each in RICH.options[-1:]
    )
    found = rendered(RICH.model_copy(update={"name": evil, "options": options}), tmp_path)
    assert evil not in found
    assert "&lt;img src=x" in found
    assert isinstance(read_bench(tmp_path), BenchRecord)


def test_options_of_one_speed_and_no_churn_are_drawn():
    options = []
    for _, _, option, found_load, _ in under(5)[1:3]:
        load = found_load.model_copy(update={"throughput": Estimate(100, None, None)})
        zero = option.drift.model_copy(update={"churn": Estimate(0, None, None)})
        options.append(option.model_copy(update={"drift": zero, "loads": (load,)}))
    plot = frontier(options)
    assert len({each.get("d") for each in found(plot, "dot")}) == 1
    assert axis(plot, "end", "y")[0][1] == 0
    assert len(axis(plot, "middle", "x")) >= 2
