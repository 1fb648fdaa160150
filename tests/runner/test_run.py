"""A whole run, small: from YAML to record, twice, killed, and with files that will not decode."""

from __future__ import annotations

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from alignkit.attribute.flipped_kinds import ALL_FLIPPED, NONE_FLIPPED
from alignkit.errors import AlignkitError, DataError, NothingCompared
from alignkit.experiment import load_experiment
from alignkit.outcome import Measured
from alignkit.plan import Plan, make_plan
from alignkit.plan.outlooks import outlooks
from alignkit.plan.plan_keys import keyed_plan
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.progress import NoProgress, PlainProgress
from alignkit.record import RunRecord
from alignkit.record.document import read_record
from alignkit.report.write_report import ReportOptions, kept_report
from alignkit.runner import carry_out, finished_record, forget, run_experiment
from alignkit.runner.advise import advise, advised_plan
from alignkit.runner.comparison_stage import compare_paths
from alignkit.runner.matrix_stage import measure_matrix
from alignkit.workspace import Context, Workspace
from tests.photos import encoded, photo
from tests.sealed import rewrite

SMALL = """
# Does a small run hold together?
name: small
data: {{name: digits-on-photos, train: 60, eval: 40, seed: 0}}
preprocess:
  opencv: {{decode: opencv, resize: {{name: opencv, size: 32}}}}
  other: {other}
train: {{model: small-cnn, epochs: {epochs}, seeds: {seeds}, batch_size: 20}}
evaluate: {{backends: [torch, onnxruntime], resamples: 200}}
report: {{changed: 0, worst: 2, random: 0}}
"""
IDENTICAL = "{same: true, decode: opencv, resize: {name: opencv, size: 32}}"
TORCH = ("evaluate.backends=[torch]",)
SURROGATE = "{preset: torchpipe-gpu-surrogate, size: 32}"
NUMERICAL = (
    "numpy",
    "torch",
    "cv2",
    "scipy",
    "pandas",
    "sklearn",
    "pyarrow",
    "onnxruntime",
    "jinja2",
)
CHANGING = {"started", "seconds", "command"}


def write_small(folder: Path, other: str = SURROGATE, epochs: int = 1, seeds: str = "[0]") -> Path:
    file = folder / "small.yaml"
    file.write_text(SMALL.format(other=other, epochs=epochs, seeds=seeds))
    return file


def run(file: Path, reports: Path, overrides: tuple[str, ...] = ()) -> tuple[RunRecord, Path]:
    experiment = load_experiment(file, overrides)
    return run_experiment(experiment, Context(Workspace(reports), NoProgress()))


def settled(record: RunRecord) -> dict[str, object]:
    """The record without what differs from one run to the next: times and speeds."""
    stored = record.model_dump(mode="json", exclude=CHANGING)
    for training in stored["trainings"]:
        for epoch in training["epochs"]:
            del epoch["images_per_second"]
        for file in training["files"]:
            if file["path"].endswith(".csv"):
                del file["sha256"]  # it holds the speeds too
    for step in stored["verdict"]["steps"]:
        del step["command"]  # it names the experiment's file, as the record's own command does
    return stored


def differences(left: object, right: object, where: str = "") -> list[str]:
    """Every place in which two nested values differ."""
    if isinstance(left, dict) and isinstance(right, dict):
        return [
            found
            for key in sorted(left.keys() | right.keys())
            for found in differences(left.get(key), right.get(key), f"{where}/{key}")
        ]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [
            found
            for index, both in enumerate(zip(left, right, strict=True))
            for found in differences(*both, f"{where}/{index}")
        ]
    return [] if left == right else [f"{where}: {left!r} != {right!r}"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunRecord, Path]:
    folder = tmp_path_factory.mktemp("finished")
    experiment = load_experiment(write_small(folder, seeds="[0, 1]"))
    with (folder / "shown.txt").open("w") as shown:
        context = Context(Workspace(folder / "reports"), PlainProgress(shown))
        return run_experiment(experiment, context)


def lines_shown(folder: Path) -> list[str]:
    """What the run of `finished` wrote to the terminal."""
    return (folder.parents[2] / "shown.txt").read_text().splitlines()


def test_every_cell_is_measured_and_every_control_holds(finished):
    record, _ = finished
    assert {cell.state for cell in record.cells} == {"measured"}
    assert len(record.cells) == 2 * 2 * 2 * 2  # paths × seeds × paths × runtimes
    learned = [each for each in record.controls if each.failing == "inconclusive"]
    assert [each.name for each in learned] == ["the reference models learned"]
    assert all(each.passed for each in record.controls if each not in learned), record.controls
    stages = {share.factor for each in record.attributions for share in each.shares}
    assert {"decode", "resize"} <= stages
    assert len(record.controls) >= 4


def test_a_model_is_trained_and_its_cells_are_shown_before_the_next_is_trained(finished):
    steps = [
        re.sub(r"^(train|predict) (.* seed \d): 0 of .*", r"\1 \2", line)
        for line in lines_shown(finished[1])
    ]
    models = [f"{path} seed {seed}" for seed in (0, 1) for path in ("opencv", "other (surrogate)")]
    cells = [[line for line in steps if line.startswith(f"cell {model.split(' seed ')[0]} →")
              and f"· seed {model[-1]}:" in line] for model in models]  # fmt: skip
    assert [len(each) for each in cells] == [4] * 4
    told = [
        each
        for each in steps
        if each.startswith("cell ") or each.split()[0] in ("train", "predict")
    ]
    expected = []
    for model, own in zip(models, cells, strict=True):
        expected += [f"train {model}", f"predict {model}", *own]
    assert [each for each in told if " in " not in each] == expected


def test_what_flipped_images_have_in_common_is_asked_for_every_other_path(finished):
    record, _ = finished
    (found,) = record.flipped
    assert (found.reference, found.candidate) == ("opencv", "other")
    assert (found.images, found.seeds) == (40, 2)
    entry = next(e for e in record.matrix if not e.aligned and e.evaluated_with == "other"
                 and (e.trained_with, e.backend, e.precision) == ("opencv", "torch", "fp32"))  # fmt: skip
    for kind in found.subgroups:
        both = kind.images * kind.churn + (40 - kind.images) * kind.elsewhere
        assert both / 40 == pytest.approx(entry.drift.churn.value)
    none_to_compare = {0: NONE_FLIPPED, 40: ALL_FLIPPED}.get(found.flipped, "")
    assert found.reason == none_to_compare
    assert bool(found.subgroups) is not bool(none_to_compare)  # a third of 40 images is enough


def test_the_record_reads_back_and_its_files_lie_beside_it(finished):
    record, folder = finished
    assert read_record(folder) == record
    for cell in record.cells:
        assert (folder / cell.predictions.path).exists()
    for image in record.shown:
        assert (folder / image.difference.path).exists()


def test_resize_and_not_decode_is_the_larger_difference_to_the_surrogate(finished):
    record, _ = finished
    isolated = {each.stage: each for each in record.pixels if each.mode == "isolated"}
    assert isolated["resize"].mean_abs > 3 * isolated["decode"].mean_abs > 0


def test_a_second_run_does_nothing_and_gives_the_same_record(finished, tmp_path):
    record, folder = finished
    file = write_small(tmp_path, seeds="[0, 1]")
    again, where = run(file, folder.parents[1])
    assert where == folder
    assert again == record


def test_a_run_that_finds_stored_work_says_how_much(finished, tmp_path):
    _, folder = finished
    reports = tmp_path / "reports"
    shutil.copytree(folder.parents[1], reports)
    next(reports.glob("small/*/record.json")).unlink()
    for cell in sorted(reports.glob(".cache/cells/*"))[:3]:
        shutil.rmtree(cell)
    shown = io.StringIO()
    experiment = load_experiment(write_small(tmp_path, seeds="[0, 1]"))
    record, _ = run_experiment(experiment, Context(Workspace(reports), PlainProgress(shown)))
    assert shown.getvalue().splitlines()[0] == (
        "continues: 4 of 4 preparations, 4 of 4 trainings, 13 of 16 cells, 1 of 1 pixel "
        "comparisons and 1 of 1 attributions are stored"
    )
    assert record.command.endswith(f" --reports {reports}")


def test_another_experiment_over_the_same_data_and_paths_preprocesses_nothing(
    finished, tmp_path, monkeypatch
):
    _, folder = finished
    workspace = Workspace(folder.parents[1])
    context = Context(workspace, NoProgress())
    recipe = ("name=second", "train.seeds=[7]", "train.optimiser=sgd", "train.learning_rate=0.1")
    plan = make_plan(load_experiment(write_small(tmp_path), recipe))
    expected = outlooks(plan, workspace)
    assert [each.state for each in expected.prepared] == ["cached"] * 4  # paths × splits
    assert {each.state for each in expected.comparisons} == {"cached"}
    assert {each.state for each in (*expected.trainings, *expected.cells)} == {"to run"}

    def refuse(*_: object) -> None:
        raise DataError("an image was decoded")

    for name in ("decode", "image_taps.run_isolated"):
        monkeypatch.setattr(f"alignkit.preprocess.{name}", refuse)
    train, evaluation = plan.experiment.data.training(), plan.experiment.data.evaluation()
    sets = prepare_sets(plan.experiment.paths, train, evaluation, context, trains=True)
    trained, predicted = measure_matrix(plan, sets, context, tmp_path)
    assert {type(each.ended) for each in (*trained, *predicted)} == {Measured}
    assert len(compare_paths(plan.experiment.paths, sets, context)) == 1


def test_what_a_run_attributed_is_cached_for_the_plan(finished, tmp_path):
    experiment = load_experiment(write_small(tmp_path, seeds="[0, 1]"))
    reports = finished[1].parents[1]
    found = outlooks(keyed_plan(experiment, Workspace(reports)), Workspace(reports)).attributions
    assert [each.state for each in found] == ["cached"]


def test_paths_that_cannot_be_mixed_leave_a_reason_and_the_rest_goes_on(tmp_path, monkeypatch):
    from alignkit.attribute import attribute_paths
    from alignkit.report import render

    def refuse(*_, **__):
        raise NothingCompared("no image could be prepared by every mixture of the paths")

    monkeypatch.setattr(attribute_paths, "attribute_stored", refuse)
    record, folder = run(write_small(tmp_path), tmp_path / "reports", TORCH)
    (row,) = record.attributions
    assert row.total.value is None
    assert row.reason == "no image could be prepared by every mixture of the paths"
    assert {cell.state for cell in record.cells} == {"measured"}
    render(folder)
    assert row.reason in (folder / "index.html").read_text()


def test_identical_paths_differ_in_nothing(tmp_path):
    record, _ = run(write_small(tmp_path, IDENTICAL), tmp_path / "reports", TORCH)
    for entry in record.matrix:
        if entry.aligned:
            continue
        assert entry.drift.churn.value == 0.0
        for metric, estimate in entry.drift.metrics.items():
            assert (estimate.value, estimate.low, estimate.high) in (
                (0.0, 0.0, 0.0),
                (None,) * 3,
            ), metric
        assert entry.drift.logits.max_abs == 0.0
    assert all(stage.identical == stage.images for stage in record.pixels)


def test_a_killed_run_continues_and_ends_with_the_same_record(tmp_path):
    file, reports = write_small(tmp_path, epochs=3), tmp_path / "killed"
    # only this run has a process of its own, as each would import torch for many seconds again
    words = ["run", file, "--reports", reports, "--set", *TORCH, "--quiet", "--no-open"]
    process = subprocess.Popen(
        [sys.executable, "-m", "alignkit", *map(str, words)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # the order of sums depends on the number of threads
        env={**os.environ, "OMP_NUM_THREADS": str(torch.get_num_threads())},
    )
    deadline = time.monotonic() + 300
    while not list(reports.glob(".cache/unfinished/trainings-*/state.pt")):
        assert process.poll() is None, "the run ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not list(reports.glob("small/*/record.json"))
    resumed, _ = run(file, reports, TORCH)
    straight, _ = run(file, tmp_path / "straight", TORCH)
    assert differences(settled(resumed), settled(straight)) == []


def test_a_cached_run_neither_renders_nor_imports_a_numerical_library(finished):
    _, folder = finished
    page = kept_report(folder, ReportOptions()).page
    before = page.stat().st_mtime_ns
    code = (
        "import sys; from alignkit.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(*[name for name in {NUMERICAL} if name in sys.modules], file=sys.stderr)"
    )
    file, reports = folder.parents[2] / "small.yaml", folder.parents[1]
    words = ("run", file, "--reports", reports, "--no-open", "-q")
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith(f"report  {page}\n")
    assert done.stderr.split() == []
    assert page.stat().st_mtime_ns == before


@pytest.fixture(scope="module")
def refused(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[RunRecord, Path, Workspace]:
    """A run over images of which one path decodes one less than the other, and its file."""
    tmp_path = tmp_path_factory.mktemp("refused")
    root = tmp_path / "images"
    for split, count in (("train", 10), ("eval", 6)):
        for label, name in enumerate(("china", "flower")):
            folder = root / split / name
            folder.mkdir(parents=True)
            for index in range(count):
                picture = photo(name, 60 + index, 80 + 3 * index)
                (folder / f"{index}.jpg").write_bytes(encoded(picture, quality=90 - label))
    png = encoded(photo("china", 70, 70), "PNG")
    (root / "train" / "china" / "really-a-png.jpg").write_bytes(png)
    (root / "eval" / "flower" / "broken.jpg").write_bytes(b"\\xff\\xd8\\xff not a picture")
    file = tmp_path / "folder.yaml"
    text = SMALL.format(other="{decode: simplejpeg, resize: {name: opencv, size: 32}}", epochs=1,
                        seeds="[0]")  # fmt: skip
    lines = [line for line in text.splitlines() if not line.startswith("data:")]
    file.write_text("\n".join([*lines, f"data: {{name: folder, root: {root}}}"]))
    record, _ = run(file, tmp_path / "reports")
    return record, file, Workspace(tmp_path / "reports")


def test_a_file_one_decoder_refuses_is_in_the_coverage_and_in_no_training(refused):
    record, *_ = refused
    rows = {(row.preprocess, row.split): row for row in record.coverage}
    assert rows["opencv", "train"].ok == 21
    assert rows["other", "train"].unsupported == 1
    assert rows["other", "train"].examples[0].id.endswith("really-a-png.jpg")
    assert (
        rows["opencv", "eval"].failed
        == rows["other", "eval"].failed + rows["other", "eval"].unsupported
        == 1
    )
    assert {training.images for training in record.trainings} == {20}
    assert {cell.n for cell in record.cells} == {12}


def test_what_was_trained_without_an_image_is_cached_for_the_plan_and_done_again_afresh(refused):
    _, file, workspace = refused
    plan = keyed_plan(load_experiment(file), workspace)
    assert states(plan, workspace) == {"cached"}
    forget(plan, workspace)
    for kind in ("prepared", "trainings", "cells", "comparisons"):
        assert workspace.finished(kind) == []
    assert states(plan, workspace) == {"to run"}


CHANGES = {
    "changed": lambda root: (root / "eval/a/0.jpg").write_bytes(encoded(photo("china", 50, 60))),
    "appeared": lambda root: (root / "train/a/new.jpg").write_bytes(
        encoded(photo("china", 50, 60))
    ),
    "vanished": lambda root: (root / "train/b/1.jpg").unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_images_that_change_after_the_plan_end_the_run_and_store_nothing(tmp_path, change):
    for name in ("train/a", "train/b", "eval/a", "eval/b"):
        (tmp_path / name).mkdir(parents=True)
        for index in range(3):
            picture = photo("flower", 60 + index, 80)
            (tmp_path / name / f"{index}.jpg").write_bytes(encoded(picture))
    file = tmp_path / "x.yaml"
    lines = [line for line in SMALL.splitlines() if not line.startswith("data:")]
    text = "\n".join([*lines, f"data: {{{{name: folder, root: {tmp_path}}}}}"])
    advised = "advise: {{decoders: [opencv], resizers: [opencv], images: 10}}"
    file.write_text(f"{text}\n{advised}".format(other=SURROGATE, epochs=1, seeds="[0]"))
    context = Context(Workspace(tmp_path / "reports"), NoProgress())
    plan = keyed_plan(load_experiment(file), context.workspace)
    advice = advise(plan, context)
    content = plan.experiment.content.model_copy(update={"advise": None})
    unadvised = replace(plan.experiment, content=content)
    CHANGES[change](tmp_path)
    again = "the images changed after they were listed; run the same command again"
    with pytest.raises(DataError, match=again):
        carry_out(replace(plan, experiment=unadvised), tmp_path / "reports" / "small", context)
    if change != "changed":  # of the other split: its images are searched
        with pytest.raises(DataError, match=again):
            advise(plan, context)
    with pytest.raises(DataError, match=again):
        advised_plan(plan, advice)
    assert not context.workspace.finished("prepared")


def states(plan: Plan, workspace: Workspace) -> set[str]:
    """Of all that a plan lists."""
    found = outlooks(plan, workspace)
    works = (found.prepared, found.trainings, found.cells, found.comparisons, found.attributions)
    assert all(works)
    return {each.state for kind in works for each in kind}


def test_a_second_run_in_the_same_folder_is_refused(finished, tmp_path):
    _, folder = finished
    workspace = Workspace(folder.parents[1])
    file = write_small(tmp_path, seeds="[0, 1]")
    with workspace.lock(folder), pytest.raises(AlignkitError) as told:
        run(file, workspace.root)
    assert told.value.exit_code == 3
    assert "another alignkit is running" in str(told.value)


def digit(folder: Path) -> Path:
    file = folder / "record.json"
    text = file.read_text()
    file.write_text(re.sub(r'("exit_code": ?)\d', r"\g<1>7", text))
    assert file.read_text() != text
    return file


def emptied(folder: Path) -> Path:
    (folder / "record.json").write_bytes(b"")
    return folder / "record.json"


def of_another_run(folder: Path) -> Path:
    rewrite(folder / "record.json", lambda stored: stored.update(key="0" * 64))
    return folder / "record.json"


def flipped(folder: Path) -> Path:
    file = min(folder.glob("predictions/*"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    return file


def missing(folder: Path) -> Path:
    file = min(folder.glob("img/*.png"))
    file.unlink()
    return file


@pytest.mark.parametrize("damage", [digit, emptied, of_another_run, flipped, missing])
def test_a_damaged_record_or_file_is_named_and_made_again(finished, tmp_path, caplog, damage):
    record, folder = finished
    file = write_small(tmp_path, seeds="[0, 1]")
    named = damage(folder)
    again, where = run(file, folder.parents[1])
    assert where == folder
    (said,) = [each.getMessage() for each in caplog.records]
    assert re.fullmatch(rf"small: {named} .*; the record is made again from stored work", said)
    assert "\n" not in said
    assert differences(settled(again), settled(record)) == []
    assert finished_record(keyed_plan(load_experiment(file), Workspace(folder.parents[1])), folder)
