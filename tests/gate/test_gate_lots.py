"""The lots of a gate and a baseline: worked on once, again with --fresh, and never if damaged."""

import shutil
import subprocess
import sys
import time

import pytest

import alignkit.lots
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.gate.baseline_recording import record_baseline
from alignkit.gate.gate_check import check, store_shard, taps_of_baseline
from alignkit.lots import Shard
from alignkit.lots.local import LocalEngine
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
from tests.cli.conftest import alignkit as called  # noqa: F401 - the fixture `ak` calls it
from tests.gate_case import make_case
from tests.photos import encoded, photo


class Counted(LocalEngine):
    """The processes of this machine, which count the lots that they are given."""

    lots = 0

    def parts(self, work, lots, advance):
        for done in super().parts(work, lots, advance):
            type(self).lots += 1
            yield done


def case_of(folder, images=15):
    """A gate of so many images and five others."""
    case = make_case(folder)
    for place in range(images):
        image = encoded(photo(height=20 + place % 40, width=60), quality=80)
        (case.images / f"{place}.jpg").write_bytes(image)
    return case


@pytest.fixture
def context(tmp_path, monkeypatch):
    """Three lots of eight images, whose work is counted."""
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)
    monkeypatch.setattr(Counted, "lots", 0)
    return Context(Workspace(tmp_path / "reports"), NoProgress(), engine=Counted(2))


@pytest.mark.parametrize("left", ["the comparison", "its lots"])
def test_a_fresh_run_works_on_every_lot_again(tmp_path, context, left):
    experiment, workspace = load_experiment(case_of(tmp_path).write()), context.workspace
    run_or_check(experiment, context)
    assert Counted.lots == 3
    if left == "its lots":  # as a killed run leaves them
        (compared,) = workspace.finished("comparisons")
        workspace.discard("comparisons", compared.folder.name)
    run_or_check(experiment, context)
    assert Counted.lots == 3
    run_or_check(experiment, context, fresh=True)
    assert Counted.lots == 6


def recorded(case, context, reason="first"):
    options = {"baselines": None, "golden": (), "reason": reason}
    return record_baseline(load_experiment(case.write(BASELINE)), context, **options)


BASELINE = "{preset: strict, against: baseline}"


def test_a_second_gate_taps_no_image_and_gives_the_same_record(tmp_path, context, caplog):
    case = case_of(tmp_path)
    recorded(case, context)
    experiment = load_experiment(case.write(BASELINE))
    assert taps_of_baseline(experiment, context.workspace) == [
        "taps 20\N{NO-BREAK SPACE}images on 2\N{NO-BREAK SPACE}paths for the baseline"
    ]

    def gate(lots):
        Counted.lots = 0
        # as another command does, which has verified nothing yet
        again = Context(Workspace(context.workspace.root), NoProgress(), engine=context.engine)
        record = check(experiment, again, baselines=None).record
        assert Counted.lots == lots
        return record.model_copy(update={"started": "", "seconds": 0.0})

    first = gate(3 + 3)  # the comparison and the baseline
    assert first.verdict.state == "pass"
    assert taps_of_baseline(experiment, context.workspace) == [
        "taps no image: those of the baseline are cached"
    ]
    assert gate(0) == first
    snapshots = [e for e in context.workspace.finished("lots") if e.parts["work"] == "snapshot"]
    file = snapshots[1].folder / "part.json.gz"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert gate(1) == first
    assert "is damaged and is made again" in caplog.text
    Counted.lots = 0
    run_or_check(experiment, context, fresh=True)
    assert Counted.lots == 3 + 3


def test_a_recorded_baseline_leaves_no_lot_and_an_approval_changes_their_keys(tmp_path, context):
    case = case_of(tmp_path)
    assert recorded(case, context).added
    assert (Counted.lots, context.workspace.finished("lots")) == (3, [])
    (case.images / "new.jpg").write_bytes(encoded(photo(height=33, width=44)))
    assert recorded(case, context).added == 6
    assert (Counted.lots, context.workspace.finished("lots")) == (6, [])


NO_ROUNDING = """\
  linear: {decode: pillow, resize: {name: opencv, size: 32, floats: true}}
  area: {decode: opencv, resize: {name: opencv, size: 32, interpolation: area, floats: true}}
"""
"""Nothing rounds to bytes, so that the sums themselves are rounded."""
WHERE = "{metric: resize.mean_abs, fail: 0.1, where: {subsampling: '4:4:4'}}"
RULES = {
    "reference": (["{metric: resize.mean_abs, fail: 0.001}"], 3),
    "where": (["{preset: decode}", WHERE], 4),
    "baseline": ([BASELINE], 6),
}
"""Rules, and the lots that they need: a ``where`` has one of its own."""


def judged(experiment, root):
    """Check a file as a command of its own does; return its record, and the lots it works on."""
    Counted.lots = 0
    context = Context(Workspace(root), NoProgress(), engine=Counted(2))
    record = check(experiment, context, baselines=None).record
    return record.model_copy(update={"started": "", "seconds": 0.0}), Counted.lots


@pytest.mark.parametrize("kind", RULES)
def test_shards_give_the_record_of_one_machine_in_any_order_and_again(tmp_path, context, kind):
    rules, made = RULES[kind]
    case = case_of(tmp_path)
    file = case.write(*rules, paths=NO_ROUNDING)
    if kind == "baseline":
        record_baseline(load_experiment(file), context, baselines=None, golden=(), reason="first")
    experiment = load_experiment(file, ["preprocess.area.resize.interpolation=cubic"])
    shared = tmp_path / "shared"  # commands in the record name it
    whole, _ = judged(experiment, shared)
    shutil.rmtree(shared)
    counts = {}
    for index in (3, 1, 2):
        Counted.lots = 0
        own = Context(Workspace(shared), NoProgress(), engine=Counted(index))
        options = {"baselines": None, "against": None}
        assert store_shard(experiment, own, Shard(index, 3), **options) == (1, 20)
        counts[index] = Counted.lots
        assert store_shard(experiment, own, Shard(index, 3), **options) == (1, 20)
        assert Counted.lots == counts[index]
    assert sum(counts.values()) == made
    record, worked_on = judged(experiment, shared)
    assert worked_on == 0
    assert record == whole
    assert whole.verdict.state == "fail"


def test_what_no_shard_stored_or_what_is_damaged_is_worked_on_by_the_last_command(
    tmp_path, context
):
    experiment = load_experiment(case_of(tmp_path).write("{preset: decode}", paths=NO_ROUNDING))
    shared = tmp_path / "shared"  # commands in the record name it
    whole, _ = judged(experiment, shared)
    shutil.rmtree(shared)
    for index in (1, 3):
        own = Context(Workspace(shared), NoProgress())
        store_shard(experiment, own, Shard(index, 3), baselines=None, against=None)
    file = min(shared.rglob("part.json.gz"))
    file.write_bytes(file.read_bytes()[:-9])
    assert judged(experiment, shared) == (whole, 2)


@pytest.fixture
def ak(called, tmp_path):  # noqa: F811 - the imported fixture
    return lambda *words: called(*words, "--reports", tmp_path / "shared", "-q")


def test_the_commands_of_four_machines_and_a_last_one(ak, tmp_path, monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)
    file = case_of(tmp_path, 30).write("{metric: resize.mean_abs, fail: 0.1}", paths=NO_ROUNDING)
    for index in (4, 2, 3, 1):
        told = ak("gate", file, "--shard", f"{index}/4")
        lots = 1 + (index == 1)
        assert told.code == 0
        assert told.out == (
            f"{lots} of 5 lots are stored below {tmp_path / 'shared'}; when all shards are, run "
            "the same command without --shard\n"
        )
    told = ak("gate", file, "--no-html")
    assert told.code == 1
    assert "images     35" in told.out
    assert "3 of 3 controls hold" in told.out


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        *(
            (("--shard", text), 2, f"--shard {text}: ")
            for text in ("0/3", "4/3", "2", "a/b", "1/0")
        ),
        (("--shard", "2/2"), 5, "shard 2 of 2 has none of the 1 lots of 512 images"),
        (("--shard", "1/2", "--json"), 2, "--shard has no result of its own"),
        (("--shard", "1/2", "--out", "junit=x.xml"), 2, "--shard has no result of its own"),
        (("--shard", "1/2", "--fail-fast"), 2, "--shard measures all of its images"),
        (("--shard", "1/2", "--changed-only"), 2, "--shard measures all of its images"),
    ],
)
def test_a_shard_that_cannot_be_is_one_line(ak, tmp_path, words, code, said):
    told = ak("gate", case_of(tmp_path).write(), *words)
    assert told.code == code
    assert said in told.err
    assert told.err.count("\n") == 1


def test_a_file_with_models_is_not_divided(ak, tmp_path):
    file = tmp_path / "models.yaml"
    file.write_text(
        "name: models\ndata: {name: digits-on-photos, train: 20, eval: 20}\npreprocess:\n"
        + NO_ROUNDING
    )
    told = ak("gate", file, "--shard", "1/2")
    assert (told.code, "torchrun divides" in told.err) == (2, True)


@pytest.mark.slow
def test_a_killed_recording_goes_on(tmp_path, monkeypatch):
    case = case_of(tmp_path, 1800)
    file = case.write(BASELINE)
    command = [sys.executable, "-m", "alignkit", "baseline", "record", str(file), "-q"]
    killed = subprocess.Popen([*command, "--reports", str(case.reports)])
    lots, workspace = case.reports / ".cache/lots", Workspace(case.reports)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not list(lots.glob("[!.]*/key.json")):
        time.sleep(0.005)
    killed.kill()
    killed.wait()
    stored = len(workspace.finished("lots"))
    assert 0 < stored < 4
    assert not list(case.baselines.glob("*.jsonl"))
    monkeypatch.setattr(Counted, "lots", 0)
    recorded(case, Context(workspace, NoProgress(), engine=Counted(2)))
    assert Counted.lots == 4 - stored
    (went_on,) = case.baselines.glob("*.jsonl")
    whole = tmp_path / "whole"
    subprocess.run([*command, "--reports", tmp_path / "r", "--baselines", whole], check=True)
    assert (whole / "small" / went_on.name).read_bytes() == went_on.read_bytes()
