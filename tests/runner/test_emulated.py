"""A run names the precisions that this processor emulates before it works for a minute."""

from contextlib import contextmanager

import pytest

from alignkit import machine as processor
from alignkit.experiment import load_experiment
from alignkit.progress import NoProgress
from alignkit.runner import run_experiment
from alignkit.workspace import Context, Workspace

FILE = """
name: emulated
data: {name: digits-on-photos, train: 10, eval: 10, seed: 0}
preprocess:
  opencv: {decode: opencv, resize: {name: opencv, size: 32}}
  pillow: {decode: pillow, resize: {name: opencv, size: 32}}
train: {epochs: 1, seeds: [0, 1]}
evaluate: {backends: [{name: torch, precision: [fp32, bf16]}]}
"""


class Stopped(NoProgress):
    """Keeps the lines that a run shows before its first stage, and ends it there."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)

    @contextmanager
    def stage(self, *_):
        raise KeyboardInterrupt
        yield


@pytest.mark.parametrize(("flags", "named"), [("avx2", True), ("avx2 avx512_bf16", False)])
def test_an_emulated_precision_is_named_before_the_first_stage(tmp_path, monkeypatch, flags, named):
    (tmp_path / "cpuinfo").write_text(f"flags : {flags}\n")
    monkeypatch.setattr(processor, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "experiment.yaml").write_text(FILE)
    experiment, shown = load_experiment(tmp_path / "experiment.yaml"), Stopped()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, Context(Workspace(tmp_path / "reports"), shown))
    said = [line for line in shown.lines if "emulates" in line]
    assert [line.partition(":")[0] for line in said] == (["torch bf16, 8 cells"] if named else [])
