"""`alignkit plan`."""

import json

import pytest

from alignkit import machine as processor
from alignkit.experiment import load_experiment
from alignkit.plan import make_plan
from alignkit.workspace import Workspace
from tests.gate_case import PATHS, make_case


def store(reports, file, **parts) -> None:
    """Keep one finished training of the experiment."""
    training = make_plan(load_experiment(file)).trainings[0]
    with Workspace(reports).store("trainings", training.parts | parts, training.label) as folder:
        (folder / "log.json").write_text("{}")


def planned(alignkit, file, tmp_path) -> dict:
    told = alignkit("plan", file, "--reports", tmp_path / "reports", "--json")
    assert told.code == 0, told.err
    (document,) = json.loads(told.out)
    return document


def test_every_training_and_cell_is_listed_once(alignkit, file, tmp_path):
    document = planned(alignkit, file, tmp_path)
    assert [each["label"] for each in document["trainings"]] == [
        f"train {path} seed {seed}" for seed in (0, 1) for path in ("opencv", "pillow")
    ]
    assert len(document["cells"]) == len({each["key"] for each in document["cells"]}) == 8
    assert {each["state"] for each in document["trainings"] + document["cells"]} == {"to run"}


def test_finished_work_is_cached(alignkit, file, tmp_path):
    store(tmp_path / "reports", file)
    told = alignkit("plan", file, "--reports", tmp_path / "reports")
    assert "1 cached, 3 to run" in told.out


def test_what_changed_is_named(alignkit, file, tmp_path):
    store(tmp_path / "reports", file, code="of yesterday", library="torch 1.0")
    told = alignkit("plan", file, "--reports", tmp_path / "reports")
    assert "again" not in told.out  # the similar work is another file's
    (tmp_path / "reports" / load_experiment(file).name).mkdir()
    told = alignkit("plan", file, "--reports", tmp_path / "reports")
    assert "again: code, library changed" in told.out


def test_damaged_work_is_said_to_be_damaged(alignkit, file, tmp_path):
    reports = tmp_path / "reports"
    store(reports, file)
    (key,) = reports.glob(".cache/trainings/*/key.json")
    key.write_text("")
    told = alignkit("plan", file, "--reports", reports)
    assert told.code == 0
    assert "again: the stored work is damaged" in told.out
    assert "changed" not in told.out


def test_what_cannot_run_is_impossible_with_its_reason(alignkit, file, tmp_path):
    file.write_text(
        file.read_text() + "evaluate: {backends: [{name: torch, precision: [fp32, tf32]}]}\n"
    )
    document = planned(alignkit, file, tmp_path)
    impossible = [each for each in document["cells"] if each["state"] == "impossible"]
    assert len(impossible) == 8
    assert all("tf32" in each["label"] and each["reason"] for each in impossible)


BF16 = "evaluate: {backends: [{name: torch, precision: [fp32, bf16]}]}\n"


def processor_with(flags, tmp_path, monkeypatch):
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")


def test_a_precision_that_this_processor_emulates_is_named_with_its_cost(
    alignkit, file, tmp_path, monkeypatch
):
    processor_with("avx2", tmp_path, monkeypatch)
    file.write_text(file.read_text() + BF16)
    (said,) = planned(alignkit, file, tmp_path)["emulated"]
    assert said.startswith("torch bf16, 8 cells: this processor has no bf16 instructions")
    assert "not measured here" in said
    assert f"emulated   {said}" in alignkit("plan", file, "--reports", tmp_path / "reports").out


def test_a_native_precision_is_not_said_to_be_emulated(alignkit, file, tmp_path, monkeypatch):
    processor_with("avx2 avx512_bf16", tmp_path, monkeypatch)
    file.write_text(file.read_text() + BF16)
    assert planned(alignkit, file, tmp_path)["emulated"] == []
    assert "emulated" not in alignkit("plan", file).out


def test_a_gate_without_models_plans_its_comparisons(alignkit, tmp_path, monkeypatch):
    monkeypatch.setattr("alignkit.plugins.gpu_present", lambda: False)
    case = make_case(tmp_path)
    paths = PATHS + "  cuda: {decode: torchvision-cuda, resize: {name: opencv, size: 32}}\n"
    file = case.write("{preset: decode}", paths=paths, also="allow_missing: gpu")
    told = alignkit("plan", file, "--reports", case.reports)
    assert told.code == 0
    assert "compare pillow with opencv  to run" in told.out
    assert "compare pillow with cuda    impossible  needs an NVIDIA GPU" in told.out
    assert told.out.endswith("images     5\nrules      3\n")
    assert "training" not in told.out

    assert alignkit("gate", file, "--reports", case.reports, "-q", "--no-html").code == 0
    told = alignkit("plan", file, "--reports", case.reports)
    assert "compare pillow with opencv  cached" in told.out
    area = ("--set", "preprocess.opencv.resize.interpolation=area")
    (document,) = json.loads(alignkit("plan", file, *area, "--reports", case.reports, "--json").out)
    (changed, _) = document["comparisons"]
    assert (changed["state"], changed["reason"]) == ("to run", "candidate changed")


def test_several_files_are_planned_even_if_one_is_wrong(alignkit, file, tmp_path):
    broken = tmp_path / "broken.yaml"
    broken.write_text("nam: x")
    told = alignkit("plan", broken, file)
    assert told.code == 2
    assert f"{broken}:1:1: nam: unknown key; did you mean 'name'?" in told.err
    assert "train opencv seed 0" in told.out


def test_unusable_data_is_told_with_its_file_and_nothing_is_printed(alignkit, file):
    told = alignkit("plan", file, "--set", "data={name: folder, root: /nowhere}")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith(f"{file}: /nowhere does not exist")


def test_a_plan_makes_no_folder(alignkit, file, tmp_path):
    planned(alignkit, file, tmp_path)
    assert not (tmp_path / "reports").exists()


def test_surrogates_and_simulations_are_labelled(alignkit, tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(
        "name: x\ndata: {name: digits-on-photos, train: 40, eval: 20}\n"
        "preprocess:\n  cpu: {decode: opencv, resize: {name: opencv, size: 32}}\n"
        "  gpu: {preset: torchpipe-gpu-surrogate, size: 32, orient: exif}\n"
        "train: {model: small-cnn, epochs: 1}\n"
        "evaluate: {backends: [torch, {name: simulated, precision: [tf32]}]}\n"
    )
    document = planned(alignkit, file, tmp_path)
    surrogates, labels = document["surrogates"], document["simulations"]
    assert (list(surrogates), list(labels)) == (["gpu"], ["simulated tf32"])
    assert surrogates["gpu"].startswith("surrogate of torchpipe-gpu with another orient, decode")
    assert labels["simulated tf32"].endswith("not compared with hardware")
    told = alignkit("plan", file, "--reports", tmp_path / "reports").out
    lines = told.splitlines()
    for label in (
        "gpu: surrogate of torchpipe-gpu with ",
        f"simulated tf32: {labels['simulated tf32']}",
    ):
        # before the first table, which calls the path so too
        assert any(line.startswith(label) for line in lines[: lines.index("")])
    assert "  gpu (surrogate)" in told[told.index("evaluated with") :]


def test_a_plan_says_whether_a_gate_taps_images_for_its_baseline(alignkit, tmp_path):
    case = make_case(tmp_path)
    file = case.write("{preset: strict, against: baseline}")

    def gate():
        (planned,) = json.loads(alignkit("plan", file, "--json", "--reports", case.reports).out)
        told = alignkit("plan", file, "--reports", case.reports).out
        (line,) = planned["gate"]
        assert f"gate       {line}" in told
        return line.replace("\xa0", " ")

    assert "holds no baseline; record one outside CI" in gate()
    alignkit("baseline", "record", file, "--reports", case.reports)
    assert gate() == "taps 5 images on 2 paths for the baseline"
    alignkit("gate", file, "--no-html", "--reports", case.reports)
    assert gate() == "taps no image: those of the baseline are cached"
    (case.images / "420.jpg").unlink()
    assert gate().startswith("taps 4 images")


@pytest.mark.parametrize(
    ("options", "each", "both"),
    [
        ([], "120 s", "240 s"),
        (["--quick"], "25 s", "50 s"),
        (["--set", "train.epochs=2"], "", ""),
    ],
)
def test_the_time_that_a_file_states_is_said_and_summed(
    alignkit, file, tmp_path, options, each, both
):
    """Of the file as it is: an override changes the work, and no other number is known."""
    file.write_text("# Is it so?\n\n# CPU time: 120 s; 25 s with --quick.\n" + file.read_text())
    told = alignkit("plan", file, file, *options, "--reports", tmp_path / "reports")
    assert told.out.count(f"its comment says: {each} of CPU time") == (2 if each else 0)
    assert (f"\nby their comments: {both} of CPU time" in told.out) == bool(both)


def test_work_that_files_share_is_counted_once(alignkit, file, tmp_path):
    other = file.with_name("other.yaml")
    other.write_text(file.read_text())
    reports = ["--reports", tmp_path / "reports"]
    (one,) = json.loads(alignkit("plan", file, "--json", *reports).out)
    last = alignkit("plan", file, other, *reports).out.splitlines()[-1]
    kinds = ("trainings", "cells", "attributions", "comparisons")
    numbers = ", ".join(f"{kind} {len(one[kind])}" for kind in kinds)
    assert last == f"2 files, to run: models made by a script 0, {numbers}"
    assert "files, to run" not in alignkit("plan", file, *reports).out


def test_a_total_needs_a_time_of_every_file(alignkit, file, tmp_path):
    other = file.with_name("other.yaml")
    other.write_text(file.read_text())
    file.write_text("# CPU time: 25 s with --quick.\n" + file.read_text())
    told = alignkit("plan", file, other, "--quick", "--reports", tmp_path / "reports")
    assert told.out.count("its comment says: 25 s of CPU time") == 1
    assert "by their comments" not in told.out
    assert "its comment says" not in alignkit("plan", file, "--reports", tmp_path / "r").out
