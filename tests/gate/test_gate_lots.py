"""The lots of a gate and a baseline: worked on once, again with --fresh, and never if damaged."""

import subprocess
import sys
import time

import pytest

import alignkit.lots
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
from alignkit.gate.baseline_recording import record_baseline
from alignkit.gate.gate_check import check, taps_of_baseline
from alignkit.lots.local import LocalEngine
from alignkit.progress import NoProgress
from alignkit.workspace import Context, Workspace
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
