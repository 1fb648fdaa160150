"""`alignkit run --quick`: a first look, which is called so on every surface and is no evidence."""

import json
import shutil
from pathlib import Path

import pytest

from alignkit.errors import BaselineError, NotComparable
from alignkit.experiment import load_experiment
from alignkit.gate.gate_check import check
from alignkit.plan import make_plan
from alignkit.progress import NoProgress
from alignkit.record.document import read_record, write_record
from alignkit.studies.compare_runs import compare_runs
from alignkit.workspace import Context, Workspace

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
LARGE = """\
name: large
data: {name: digits-on-photos, train: 500, eval: 320, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {epochs: 40, seeds: [4, 0, 1], fractions: [0.1, 1.0]}
evaluate: {backends: [torch, {name: onnxruntime, precision: [fp32, fp16], builds: 3}]}
attribute: {images: all, runtimes: all}
advise: {images: 200}
"""
CHANGES = (
    "data.train: 500 → 300", "data.eval: 320 → 300", "evaluate.resamples: 2000 → 200",
    "train.epochs: 40 → 10",
    "train.seeds: [4, 0, 1] → [4]", "train.fractions: [0.1, 1.0] → [1.0]",
    "evaluate.backends.1.builds: 3 → 1", "attribute.images: all → 100",
    "attribute.runtimes: all → worst", "report.changed: 2000000 → 500000",
    "advise.images: 200 → 50", "gate.informational: false → true",
)  # fmt: skip
SMALL = """\
# Is it so?
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {epochs: 1, seeds: [0, 1]}
evaluate: {resamples: 200}
"""
ALREADY = """\
attribute: {images: 50, decode: false}
report: {worst: 2, changed: 500000}
gate: {informational: true}
"""


def test_it_changes_what_is_larger_and_lists_it(tmp_path):
    (tmp_path / "large.yaml").write_text(LARGE)
    experiment = load_experiment(tmp_path / "large.yaml", quick=True)
    assert experiment.quick == CHANGES
    assert experiment.overrides == ()
    content = experiment.content
    assert (content.data.train, content.train.seeds, content.advise.images) == (300, (4,), 50)
    assert [each.builds for each in content.evaluate.backends] == [1, 1]
    # only decoders that differ in switches are divided
    nvjpeg = ["preprocess.pillow.decode=nvjpeg-model"]
    divided = load_experiment(tmp_path / "large.yaml", nvjpeg, quick=True)
    assert "attribute.decode: none → false" in divided.quick
    whole = load_experiment(tmp_path / "large.yaml")
    assert whole.quick == ()
    assert [each.name for each in experiment.paths] == [each.name for each in whole.paths]


@pytest.mark.parametrize(("file", "change"), [
    ("detection", ": 300 → 150"), ("segmentation", ": 300 → 150"), ("embeddings", ": 250 → 100"),
])  # fmt: skip
def test_images_with_boxes_or_masks_and_identities_are_fewer(file, change):
    whole = load_experiment(EXPERIMENTS / f"{file}.yaml")
    value = f"data.eval{change}".replace("300", f"{whole.content.data.eval}")
    assert value in load_experiment(whole.file, quick=True).quick


def test_decoders_that_are_not_compared_with_the_reference_are_not_divided(tmp_path):
    (tmp_path / "large.yaml").write_text(LARGE)
    # PyAV has no switches, so that neither pair with it is divided
    overrides = [
        "preprocess.opencv.decode=pyav",
        'preprocess.third={"preset": "pillow-train", "size": 32, "decode": "nvjpeg-model"}',
    ]
    experiment = load_experiment(tmp_path / "large.yaml", overrides, quick=True)
    assert [type(each.decode).__name__ for each in experiment.paths] == [
        "PyAVDecoder", "PillowDecoder", "NvjpegModelDecoder",
    ]  # fmt: skip
    assert not any("attribute.decode" in each for each in experiment.quick)


def test_an_override_comes_first_and_a_smaller_value_stays(tmp_path):
    (tmp_path / "large.yaml").write_text(LARGE)
    overrides = ["train.epochs=2", "data.eval=60"]
    experiment = load_experiment(tmp_path / "large.yaml", overrides, quick=True)
    assert experiment.overrides == tuple(overrides)
    assert experiment.content.train.epochs == 2
    kept = [each for each in CHANGES if each.split(":")[0] not in {"train.epochs", "data.eval", "attribute.images"}]  # fmt: skip
    assert experiment.quick == tuple(kept)


def test_an_experiment_that_is_small_already_is_run_as_it_is(tmp_path):
    (tmp_path / "small.yaml").write_text(
        SMALL.replace("[0, 1]", "[0]") + ALREADY.partition("gate:")[0]
    )
    quick = load_experiment(tmp_path / "small.yaml", quick=True)
    assert quick.quick == ()
    assert make_plan(quick).key == make_plan(load_experiment(tmp_path / "small.yaml")).key


def test_a_folder_is_limited_but_never_below_one_image_a_class(tmp_path, monkeypatch):
    for name in "abc":
        (tmp_path / "photos" / name).mkdir(parents=True)
        for index in range(8):
            (tmp_path / "photos" / name / f"{index}.png").write_bytes(b"")
    (tmp_path / "own.yaml").write_text(
        SMALL.replace("{name: digits-on-photos, train: 40, eval: 20, seed: 0}",
                      f"{{name: folder, root: {tmp_path}/photos}}")
    )  # fmt: skip
    assert "data.limit" not in str(load_experiment(tmp_path / "own.yaml", quick=True).quick)
    monkeypatch.setattr("alignkit.experiment.experiment._IMAGES", 2)
    assert load_experiment(tmp_path / "own.yaml", quick=True).quick[0] == "data.limit: none → 3"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A whole run and a quick one of an experiment, by the command line."""
    from alignkit import cli

    folder = tmp_path_factory.mktemp("quick")
    (folder / "small.yaml").write_text(SMALL + ALREADY)
    reports = folder / "reports"
    told = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, more in (("whole", []), ("quick", ["--quick"])):
            command = ["alignkit", "run", str(folder / "small.yaml"), *more, "-q", "--no-open"]
            patch.setattr("sys.argv", [*command, "--reports", str(reports)])
            before = {*reports.glob("small/*")}
            with pytest.raises(SystemExit):
                cli.main()
            (told[name],) = {*reports.glob("small/*")} - before
    return told


def test_its_run_has_a_folder_and_a_key_of_its_own(runs):
    whole, quick = (read_record(runs[name]) for name in ("whole", "quick"))
    assert whole.key != quick.key
    assert (whole.quick, quick.quick) == ((), ("train.seeds: [0, 1] → [0]",))
    assert "--quick" in quick.command
    assert quick.verdict.sentence[0].kind == "quick"
    assert whole.verdict.sentence[0].kind != "quick"


def test_the_page_and_the_summary_say_so_at_their_head(runs):
    page, text = ((runs["quick"] / name).read_text() for name in ("index.html", "summary.md"))
    change = "--quick changed train.seeds: [0, 1] → [0]."
    head = page[: page.index("</section>")]
    assert "(quick look): small" in head[head.index("<title>") :].splitlines()[0]
    assert change in head
    assert "(quick look): small" in text.splitlines()[0]
    assert change in text
    assert json.loads((runs["quick"] / "results.json").read_text())["quick"] == [change[16:-1]]
    for name in ("index.html", "summary.md", "results.json"):
        assert "quick look" not in (runs["whole"] / name).read_text().lower()


def test_the_terminal_and_the_plan_say_so(alignkit, runs, monkeypatch):
    folder = runs["quick"].parents[2]
    reports = ["--reports", folder / "reports"]
    told = alignkit("run", folder / "small.yaml", "--quick", "-q", "--no-open", *reports)
    first, second, *rest = told.out.splitlines()
    third = "Quick look, no evidence: --quick changed train.seeds: [0, 1] → [0]."
    assert first.startswith("small: ")
    assert first.endswith("FAIL (report only, quick look)")
    assert second.startswith("Quick look. ")
    assert third in rest
    told = alignkit("plan", folder / "small.yaml", "--quick", *reports)
    assert third in told.out
    assert "2 cached" in told.out
    (document,) = json.loads(alignkit("plan", folder / "small.yaml", "--quick", "--json").out)
    assert document["quick"] == ["train.seeds: [0, 1] → [0]"]


def test_it_is_no_evidence_for_a_gate_or_a_comparison(runs):
    folder = runs["quick"].parents[2]
    experiment = load_experiment(folder / "small.yaml", ["gate.rules=[{metric: churn, fail: 0.5, against: baseline}]"])  # fmt: skip
    context = Context(Workspace(folder / "reports"), NoProgress())
    with pytest.raises(BaselineError, match=r"is a quick look \(--quick\), which is no evidence"):
        check(experiment, context, baselines=folder, against=runs["quick"])
    with pytest.raises(NotComparable, match="the later run is a quick look"):
        compare_runs(runs["whole"], runs["quick"], force=False, command="")


def test_a_comparison_of_two_quick_runs_is_labelled(runs, tmp_path):
    from alignkit.report.comparison.compare_page import labels, render_comparison

    again = shutil.copytree(runs["quick"], tmp_path / "again")
    record = read_record(again)
    write_record(record.model_copy(update={"started": "2026-11-28T10:00:00+00:00"}), again)
    made = compare_runs(runs["quick"], again, force=False, command="x")
    assert labels(made)[0].startswith("Quick look, no evidence: --quick changed ")
    page = render_comparison(made, (runs["quick"], again), tmp_path / "page").read_text()
    assert "Quick look, no evidence" in page
    assert "run alone" not in labels(made)[0]
