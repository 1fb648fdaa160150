"""The command line as a user meets it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from alignkit import cli

EXPERIMENT = """\
# Is it so?
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 48}
  pillow: {preset: pillow-train, size: 48}
train: {epochs: 1, seeds: [0, 1]}
"""


@dataclass(frozen=True)
class Told:
    code: int
    out: str
    err: str


Call = Callable[..., Told]


@pytest.fixture
def alignkit(monkeypatch, capsys) -> Call:
    """Run the command in this process, as `alignkit ARGUMENTS…` would."""

    def call(*arguments: object) -> Told:
        monkeypatch.setattr("sys.argv", ["alignkit", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = capsys.readouterr()
        return Told(ended.value.code or 0, out, err)

    return call


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    return path
