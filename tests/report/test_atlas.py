"""The atlas: a line for each swap of a stack or runtime, made of a record alone."""

import os
import re
from itertools import permutations
from pathlib import Path

import pytest

from alignkit.compare.statistics import rule_of_three
from alignkit.errors import RecordError
from alignkit.record.document import read_record, write_record
from alignkit.report.atlas_view import atlas_view
from alignkit.report.write_atlas import atlas_record, write_atlas
from alignkit.text.names import quick_words
from alignkit.text.numbers import count, plain
from tests.report.atlas_by_hand import STACKS, swapped
from tests.report.records import quickstart

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "reports" / "atlas"
MINUS = "\N{MINUS SIGN}"


@pytest.fixture(scope="module")
def atlas():
    return atlas_view(read_record(KEPT))


def texts(table):
    return [[cell.text for cell in row.cells] for row in table.rows]


def number(text):
    return float(text.split()[0].strip("≈<").replace(MINUS, "-"))


def test_the_committed_page_and_its_markdown_are_what_the_command_makes_of_the_record(tmp_path):
    write_atlas(KEPT, tmp_path / "atlas.md")
    write_atlas(KEPT, tmp_path / "atlas")
    assert (tmp_path / "atlas.md").read_text() == (ROOT / "docs" / "atlas.md").read_text()
    for name in ("index.html", "record.json"):
        assert (tmp_path / "atlas" / name).read_bytes() == (KEPT / name).read_bytes()


def test_what_is_committed_is_small_and_holds_no_image_and_nothing_of_the_machine():
    files = [each for each in KEPT.iterdir() if each.is_file()]
    assert {each.name for each in files} == {"index.html", "record.json"}
    texts = [each.read_text() for each in (*files, ROOT / "docs" / "atlas.md")]
    assert sum(map(len, texts)) < 400_000
    for text in texts:
        assert "data:image" not in text
        assert not re.search(r"/(?:home|root|tmp|work|Users)/", text)


def test_every_entry_of_the_run_that_swaps_one_thing_has_a_line_the_largest_churn_first(atlas):
    record = read_record(KEPT)
    (own,) = (each for each in record.matrix if each.aligned)
    swapped = [
        each
        for each in record.matrix
        if each.ran
        and (each.evaluated_with != own.evaluated_with)
        != (each.column.runtime != own.column.runtime)
    ]
    lines = texts(atlas["sections"][0].table)
    assert len(lines) == len(swapped) > 20
    churns = [number(line[1]) for line in lines]
    assert churns == sorted(churns, reverse=True)
    by_name = {line[0].removesuffix(" (surrogate)"): line for line in lines}
    for entry in swapped:
        same = entry.evaluated_with == own.evaluated_with
        line = by_name[entry.column.runtime if same else entry.evaluated_with]
        drift = entry.drift
        assert number(line[1]) == pytest.approx(100 * drift.churn.value, abs=0.006)
        assert number(line[2]) == pytest.approx(100 * drift.metrics["top1"].value, abs=0.006)
        assert line[3] == f"{drift.right_to_wrong} / {drift.wrong_to_right}"
        assert (drift.wrong_to_right - drift.right_to_wrong) / drift.n == pytest.approx(
            drift.metrics["top1"].value
        )


def test_a_line_says_whether_its_number_was_measured_simulated_or_is_a_surrogates(atlas):
    record = read_record(KEPT)
    table = atlas["sections"][0].table
    notes = {each.mark: each.text for each in table.notes}
    real = {each.name: each.surrogate_of for each in record.paths if each.surrogate_of}
    for row in table.rows:
        served, state = row.cells[0].text.removesuffix(" (surrogate)"), row.cells[7]
        if served.startswith("simulated"):
            assert state.text == "simulated"
            assert "not compared with hardware" in notes[state.mark]
        elif served in real:
            assert state.text == "surrogate"
            assert notes[state.mark].startswith(f"surrogate of {real[served]}")
        else:
            assert (state.text, state.mark) == ("measured", "")


def test_a_cause_names_only_stages_that_change_pixels(atlas):
    lines = {line[0]: line for line in texts(atlas["sections"][0].table)}
    assert lines["bgr"][4:7][0] == "0"
    assert lines["bgr"][8] == "colour: rgb → bgr"
    assert lines["onnxruntime fp32"][8].startswith(
        "the pixels are the same, and so is every class;"
    )
    assert lines["onnxruntime int8"][8].startswith(
        "the pixels are the same, so the runtime is the cause; float32 kernels: "
    )
    assert lines["decode-opencv"][8].startswith("decode: ")
    assert "resize" not in lines["decode-opencv"][8]


def test_the_table_of_any_stack_for_any_other_is_the_same_both_ways(atlas):
    rows = texts(atlas["sections"][1].table)
    assert len(rows) > 8
    assert all(rows[i][i + 1] == "–" for i in range(len(rows)))
    for i, j in permutations(range(len(rows)), 2):
        churn, change = rows[i][j + 1].split(" / ")
        back_churn, back = rows[j][i + 1].split(" / ")
        assert churn == back_churn
        assert number(change) == -number(back)
    listed = texts(atlas["sections"][2].table)
    assert len(listed) == len(rows) * (len(rows) - 1) / 2


def test_stacks_that_did_not_run_are_listed_with_their_reasons(atlas):
    missing = {line[0]: line[2] for line in texts(atlas["sections"][-1].table)}
    assert missing["torchpipe-gpu"] == "skipped: needs an NVIDIA GPU, and this machine has none"
    assert missing.pop("lite0-eval (surrogate)").startswith("failed: ONNX Runtime left out")
    assert set(missing) == {each.name for each in read_record(KEPT).paths if each.skipped}


def test_each_row_of_a_trained_run_is_a_reference_and_levels_are_those_of_its_own_pair(tmp_path):
    record = quickstart()
    view = atlas_view(record)
    titles = [each.title for each in view["sections"] if each.title.startswith("Instead of")]
    assert [title.partition(", models of ")[2] for title in titles] == list(
        dict.fromkeys(each.trained_with for each in record.matrix if each.aligned)
    )
    swaps = [each for each in view["sections"] if each.title.startswith("Instead of")]
    first, second = swaps[:2]
    assert texts(first.table)[0][4:7] != ["–"] * 3
    second_lines = {line[0]: line for line in texts(second.table)}
    assert second_lines["opencv"][4:7] == ["–"] * 3
    assert "compared pixels with its first stack alone" in second.table.notes[0].text
    write_record(record, tmp_path)
    write_atlas(tmp_path, tmp_path / "atlas")
    assert atlas_view(read_record(tmp_path / "atlas")) == atlas_view(atlas_record(record))


def test_an_atlas_needs_a_cell_to_compare_with():
    record = quickstart()
    kept = tuple(each for each in record.matrix if not each.aligned)
    with pytest.raises(RecordError, match="needs a row whose own stack was measured"):
        atlas_view(record.model_copy(update={"matrix": kept}))


@pytest.mark.slow
def test_the_largest_and_the_smallest_line_are_what_an_independent_script_computes(atlas):
    images, weights = (os.environ.get(f"ALIGNKIT_ATLAS_{each}") for each in ("IMAGES", "WEIGHTS"))
    if not images or not weights:
        pytest.skip(
            "ALIGNKIT_ATLAS_IMAGES and ALIGNKIT_ATLAS_WEIGHTS do not name the photographs and the "
            "weights of the atlas, which are not shipped"
        )
    lines = texts(atlas["sections"][0].table)
    known = {*STACKS, "onnxruntime fp32"}
    # several lines have no churn at all; the script knows one of them
    smallest = [line for line in lines if line[1].startswith(lines[-1][1].split()[0])]
    for line in (lines[0], next(each for each in smallest if each[0] in known)):
        changed, lost, gained = swapped(line[0], images, weights)
        assert number(line[1]) == pytest.approx(changed / 4, abs=0.006)  # in % of 400
        assert line[3] == f"{lost} / {gained}"


def test_an_atlas_of_a_quick_run_begins_by_saying_so():
    record = quickstart().model_copy(update={"quick": ("images 1,000 to 200",)})
    assert atlas_view(record)["question"].startswith(quick_words(record.quick))


def test_several_models_are_counted_and_images_are_not_counted_once_a_seed():
    record = quickstart()
    view = atlas_view(record)
    rows = {each.row for each in record.matrix if each.aligned}
    assert len(rows) > 1
    assert view["models_counted"] == f"{len(rows)}\N{NO-BREAK SPACE}models"
    seeds = {len(each.seeds) for each in record.matrix if each.ran}
    (n,) = {each.drift.n for each in record.matrix if each.ran and each.drift}
    assert view["images"].startswith(count(n // max(seeds), "image"))


def test_the_share_that_may_show_in_no_image_is_that_of_a_diff(atlas):
    assert atlas["unseen"] == plain(100 * rule_of_three(400), 2)


def test_a_cause_is_told_from_pixels_that_are_the_same_or_were_not_compared():
    record = read_record(KEPT)
    (own,) = (each for each in record.matrix if each.aligned)
    served = next(
        each for each in record.matrix
        if each.ran and each.evaluated_with == "decode-opencv"
        and each.column.runtime == own.column.runtime
    )  # fmt: skip

    def cause(pixels):
        view = atlas_view(record.model_copy(update={"pixels": tuple(pixels)}))
        lines = {line[0]: line for line in texts(view["sections"][0].table)}
        return lines[served.evaluated_with][8]

    others = [each for each in record.pixels if each.candidate != served.evaluated_with]
    mine = [each for each in record.pixels if each.candidate == served.evaluated_with]
    same = [
        each.model_copy(update={"max_abs": 0.0, "mean_abs": 0.0})
        for each in mine
        if each.mode == "cumulative"
    ]
    assert cause(record.pixels).startswith("decode: ")
    assert cause(others).startswith("not compared; options that differ: decode: ")
    assert cause([*others, *same]).startswith("the pixels are the same; options that differ: dec")


def test_stacks_that_are_left_out_are_named_and_paths_of_other_names_are_not(atlas):
    left = atlas["sections"][1].words.partition("Left out, because no preset is called so: ")[2]
    assert "decode-opencv" in left
    assert "bgr" in left
    titles = [each.title for each in atlas_view(renamed(quickstart()))["sections"]]
    assert any(title.startswith("Any stack for any other") for title in titles)


def renamed(record):
    """Return the record with paths whose names are no preset's."""
    text = record.model_dump_json()
    for path in record.paths:
        text = text.replace(f'"{path.name}"', f'"my {path.name}"')
    return type(record).model_validate_json(text)
