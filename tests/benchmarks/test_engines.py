"""The benchmark of engines: its rate, its comparison of records, and its refusals."""

import importlib
import json
from pathlib import Path

import pytest

from alignkit.lots import IMAGES_A_LOT

ROOT = Path(__file__).parents[2]


@pytest.fixture
def engines(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("engines")


@pytest.mark.parametrize("lots", [10, 11, 40])
@pytest.mark.parametrize("short", [0, 500])
def test_a_short_last_lot_counts_as_many_images_as_it_has(engines, lots, short):
    # 100 images a second, after a start of a minute
    number = lots * IMAGES_A_LOT - short
    done = [min(number, place * IMAGES_A_LOT) for place in range(1, lots + 1)]
    assert engines.rate([60 + each / 100 for each in done], number) == pytest.approx(100)


def records(folder, name, mean, started="now"):
    pixels = [{"mean": mean, "command": f"alignkit diff --reports {name}"}]
    facts = {"started": started, "pixels": pixels, "coverage_diffs": []}
    for prefix in ("", "gate-"):
        (folder / f"{prefix}{name}.json").write_text(json.dumps(facts))


@pytest.mark.parametrize("prefix", ["", "gate-"])
def test_records_are_equal_in_every_digit_except_for_commands_and_times(
    engines, tmp_path, capsys, prefix
):
    records(tmp_path, "local", 0.1 + 0.2)
    records(tmp_path, "shards", 0.1 + 0.2, started="later")
    engines.check_equal(tmp_path, prefix, ["shards"])
    assert capsys.readouterr().out == f"record of {prefix}shards: byte-equal\n"
    records(tmp_path, "shards", 0.3)
    with pytest.raises(SystemExit, match=f"{prefix}shards: the record is another one: .*mean"):
        engines.check_equal(tmp_path, prefix, ["shards"])
