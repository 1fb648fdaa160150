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
from alignkit.report.bench.bench_page import PUBLISHED_ROWS, bench_page
from alignkit.report.bench.frontier_view import frontier_plot
from alignkit.report.bench.headline import fastest_words
from alignkit.report.bench.write_bench import read_bench, render_bench
from alignkit.report.marks import Dot, Line
from alignkit.text.bench_words import (
    BenchWords,
    bounded,
    churn_words,
    gain_words,
    loads_by_clients,
)
from tests.report.bench_records import rich_bench
from tests.report.drawn_chart import axis, found, values
from tests.report.gold import compare_gold, structure
from tests.report.test_report import check_whole, elements, parse, text_of

DOCS = Path(__file__).parents[2] / "docs/evidence.md"
RICH = rich_bench()
WORDS = BenchWords(RICH)
TIMED = [each for each in RICH.options if each.loads]
NUMBERS = {str(each.place): number for number, each in enumerate(TIMED, 1)}


def rendered(record, folder):
    (folder / "bench.json").write_text(document_text(record))
    return render_bench(folder).read_text()


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    return rendered(RICH, tmp_path_factory.mktemp("bench"))


def alerts(record):
    """What a page warns of before its figures."""
    parts = bench_page(record).verdict.parts
    return [each.words for each in parts if each.style == "alert"]


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
        assert churn_words(option).replace("\N{NO-BREAK SPACE}", " ") in text
    for option in RICH.options[len(TIMED) :]:
        assert option.reason in text


def test_busy_rounds_are_said_before_any_figure(page):
    text = text_of(parse(page))
    said = "Contended, not to be used: 1 of 36 timings: pillow ▸ torch fp32 with 5 clients"
    assert alerts(RICH)[0].replace("\N{NO-BREAK SPACE}", " ").startswith(said)
    assert text.index("Contended, not to be used") < text.index("is the fastest")


def test_many_busy_timings_are_counted_and_not_listed():
    busy = {"contended": "busy"}
    options = [
        each.model_copy(
            update={"loads": tuple(load.model_copy(update=busy) for load in each.loads)}
        )
        for each in TIMED
    ]
    (said,) = alerts(RICH.model_copy(update={"options": tuple(options)}))
    assert said.replace("\N{NO-BREAK SPACE}", " ") == (
        "Contended, not to be used: 36 of 36 timings: the tables mark them with their reasons."
    )


def test_unwatched_rounds_are_counted_by_their_reason():
    load = TIMED[0].loads[0].model_copy(update={"unwatched": "the system does not say"})
    record = RICH.model_copy(
        update={"options": (TIMED[0].model_copy(update={"loads": (load,)}), *TIMED[1:])}
    )
    said = "".join(alerts(record))
    assert "not known to be of a quiet machine: the system does not say." in said


def said_of(options):
    return [each.replace("\N{NO-BREAK SPACE}", " ") for each in fastest_words(options, WORDS)]


def test_the_fastest_option_is_named_with_gain_drift_and_images_then_the_fastest_unchanged():
    fastest, unchanged = said_of(TIMED)
    assert fastest.startswith(
        "With 1, 5 and 10 clients torchpipe ▸ onnxruntime int8 is the fastest: 227, 366 and 381 "
        "requests/s, +205.0 % [+184.5, +235.7], "
    )
    assert fastest.endswith(
        "It changes 18.20 % [15.80, 20.60] of the answers on 1 000 images (churn); macro recall "
        "−6.07 pp [−15.80, +2.02]."
    )
    assert "opencv ▸ onnxruntime fp32 is the fastest of those that changed no answer" in unchanged
    assert "This sample does not separate it from opencv ▸ openvino fp32." in unchanged
    # 3.69 of 1,000: what so many images cannot show
    assert (
        "It changed no answer on 1 000 images, which shows a churn of at most 0.37 %" in unchanged
    )


def test_a_gain_that_may_be_chance_is_called_so():
    one = TIMED[1].loads[0].model_copy(update={"gain": Estimate(0.04, -0.02, 0.1)})
    sides = [(TIMED[0], TIMED[0].loads[0]), (TIMED[1], one)]
    (said,) = said_of([each.model_copy(update={"loads": (load,)}) for each, load in sides])
    assert "client this sample does not show that any option is faster than the ref" in said
    assert "fastest" not in said


def test_of_those_that_changed_no_answer_nothing_is_said_of_the_others():
    one = TIMED[1].loads[0].model_copy(update={"gain": Estimate(0.04, -0.02, 0.1)})
    sides = [(TIMED[0], TIMED[0].loads[0]), (TIMED[1], one), (TIMED[2], TIMED[2].loads[0])]
    every = [each.model_copy(update={"loads": (load,)}) for each, load in sides]
    faster, kept = said_of(every)
    assert "onnxruntime int8 is the fastest: " in faster
    assert kept.startswith(
        "With 1 client this sample does not show that any option that changed no answer is faster "
        "than the reference; the greatest throughput of those that changed no answer is that of "
        "opencv ▸ onnxruntime fp32: "
    )


def test_numbers_of_clients_without_a_shown_gain_are_named():
    faster, doubtful = Estimate(0.04, 0.02, 0.1), Estimate(0.04, -0.02, 0.1)
    gains = [faster, doubtful, doubtful]
    loads = [load.model_copy(update={"gain": gain})
             for load, gain in zip(TIMED[1].loads, gains, strict=True)]  # fmt: skip
    (said,) = said_of([TIMED[0], TIMED[1].model_copy(update={"loads": tuple(loads)})])
    assert said.startswith("With 1, 5 and 10 clients opencv ▸ onnxruntime fp32 is the fastest: ")
    assert "; with 5 and 10 clients this sample does not show that it is faster." in said


def test_without_a_timed_reference_the_gain_is_not_known_and_nothing_is_said_of_chance():
    unknown = Estimate(None, None, None, "the reference was not timed: crashed")
    load = TIMED[1].loads[0].model_copy(update={"gain": unknown})
    (said,) = said_of([TIMED[1].model_copy(update={"loads": (load,)})])
    assert "113 requests/s, – (the reference was not timed: crashed) over the reference." in said


def test_where_the_reference_is_the_fastest_the_page_says_so():
    slow = TIMED[6]  # pillow with torch
    (said,) = said_of([TIMED[0], slow])
    assert said.startswith(
        "With 1, 5 and 10 clients no option is faster than the reference, opencv ▸ torch fp32: "
    )
    faster, kept = said_of([TIMED[0], TIMED[2]])
    assert "onnxruntime int8 is the fastest" in faster
    assert "no option that changed no answer is faster than the reference" in kept


def test_speed_without_drift_has_no_frontier_and_says_how_to_get_it(tmp_path):
    text = text_of(parse(rendered(without_drift(), tmp_path)))
    assert "Its drift is not known." in text
    # a command is copied as it stands
    assert text.count("not measured: alignkit run x.yaml ") == 1
    assert "No frontier: no two options have both speed and drift." in text
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
    return frontier_plot(loads_by_clients(options)[clients], WORDS, NUMBERS)


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
    for option, load in loads_by_clients(TIMED)[5]:
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
    assert documented == [[str(cell) for cell in row] for row in PUBLISHED_ROWS]
    rates = {(each.decode, each.clients): int(each.rate) for each in PUBLISHED_ROWS}
    for each in PUBLISHED_ROWS:
        if each.gain:
            gain = rates[each.decode, each.clients] / rates["CPU", each.clients] - 1
            assert each.gain == f"{100 * gain:+.2f} %"


def test_published_figures_stand_alone_and_the_odd_one_is_marked(page):
    (section,) = [e for e in elements(parse(page), "section") if e.get("id") == "published"]
    (published,) = elements(section, "table")
    assert "published, torchpipe, ResNet50 on an RTX 3080 Ti" in text_of(published)
    assert "torchpipe ▸" not in text_of(published)
    cells = [c for c in elements(published, "td") if "warn" in (c.get("class") or "")]
    assert [text_of(each) for each in cells] == ["40.43a"]
    assert "Worse than on the CPU (38.87) with 5 clients" in text_of(section)


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
    ((option, load),) = loads_by_clients(TIMED)[5][1:2]
    load = load.model_copy(update={"throughput": Estimate(100, None, None)})
    zero = option.drift.model_copy(update={"churn": Estimate(0, None, None)})
    option = option.model_copy(update={"drift": zero})
    plot = frontier_plot([(option, load)] * 2, WORDS, NUMBERS)
    assert len({each.get("d") for each in found(plot, "dot")}) == 1
    assert axis(plot, "end", "y")[0][1] == 0
    assert len(axis(plot, "middle", "x")) >= 2
