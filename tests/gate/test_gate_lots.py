"""The lots of a gate: worked on once, and again with --fresh."""

import pytest

import alignkit.lots
from alignkit.experiment import load_experiment
from alignkit.gate import run_or_check
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


@pytest.mark.parametrize("left", ["the comparison", "its lots"])
def test_a_fresh_run_works_on_every_lot_again(tmp_path, monkeypatch, left):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)
    monkeypatch.setattr(Counted, "lots", 0)
    case = make_case(tmp_path)
    for place in range(15):
        image = encoded(photo(height=50 + place, width=60), quality=80)
        (case.images / f"{place}.jpg").write_bytes(image)
    experiment = load_experiment(case.write())
    workspace = Workspace(tmp_path / "reports")
    context = Context(workspace, NoProgress(), engine=Counted(2))
    run_or_check(experiment, context)
    assert Counted.lots == 3
    if left == "its lots":  # as a killed run leaves them
        (compared,) = workspace.finished("comparisons")
        workspace.discard("comparisons", compared.folder.name)
    run_or_check(experiment, context)
    assert Counted.lots == 3
    run_or_check(experiment, context, fresh=True)
    assert Counted.lots == 6
