"""A run, a gate and a baseline by the workers of a real Dask cluster are those of this machine."""

import json
from contextlib import contextmanager

import pytest

import alignkit.lots
from alignkit.errors import ExitCode
from alignkit.record.document import read_record
from tests.gate_case import ONE_PATH, make_case
from tests.runner.test_run import differences, settled


@pytest.fixture(autouse=True)
def small_lots(monkeypatch):
    monkeypatch.setattr(alignkit.lots, "IMAGES_A_LOT", 8)


def stored(reports):
    """Every finished preparation and comparison, by its key and its file."""
    found = {}
    for kind in ("prepared", "comparisons"):
        for file in reports.glob(f".cache/{kind}/*/*"):
            place = kind, file.parent.name, file.name
            if file.name == "key.json":
                content = json.loads(file.read_text())
                found[place] = content["parts"], content["files"]
            else:
                found[place] = file.read_bytes()
    return found


def record(reports):
    (file,) = reports.glob("*/*/record.json")
    return settled(read_record(file.parent))


@contextmanager
def dask_cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        dashboard_address=None,
        # any free port: Dask warns if another cluster has 8787
        scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
        memory_limit=0,
    ) as cluster:
        yield cluster.scheduler_address


@pytest.mark.slow
def test_a_run_by_two_workers_stores_the_same_bytes_under_the_same_keys(alignkit, file, tmp_path):
    pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    told = alignkit("run", file, "--reports", here, "--no-open", "-q")
    engine = ("--engine", "dask", "--workers", "2")
    again = alignkit("run", file, "--reports", there, "--no-open", "-q", *engine)
    assert (again.code, again.err) == (told.code, told.err)
    assert stored(there) == stored(here) != {}
    assert differences(record(there), record(here)) == []
    assert not [*there.glob(".cache/unfinished/*")]
    # everything is stored: no engine starts
    nowhere = ("--engine", "dask", "--address", "tcp://127.0.0.1:9")
    cached = alignkit("run", file, "--reports", there, "--no-open", "-q", *nowhere)
    assert (cached.code, cached.err) == (told.code, told.err)


@pytest.mark.slow
def test_a_gate_and_its_baseline_by_workers_are_those_of_this_machine(alignkit, tmp_path):
    folders = [tmp_path / name for name in ("here", "there")]
    for folder in folders:
        folder.mkdir()
    cases = [*map(make_case, folders)]
    with dask_cluster() as address:
        for case, engine in zip(
            cases, [(), ("--engine", "dask", "--address", address)], strict=True
        ):
            file = case.write("{preset: strict, against: baseline}", paths=ONE_PATH)
            words = (file, "--reports", case.reports, "-q", *engine)
            assert alignkit("baseline", "record", *words, "--golden", "decode").code == 0
            assert alignkit("gate", *words, "--no-html").code == 0
            area = ("--set", "preprocess.serving.resize.interpolation=area")
            assert alignkit("gate", *words, "--no-html", *area).code == ExitCode.DRIFT
    here, there = ([*each.baselines.rglob("*.jsonl")] for each in cases)
    assert [file.read_bytes() for file in there] == [file.read_bytes() for file in here] != []


def test_a_run_without_its_cluster_is_one_message(alignkit, file, tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.setattr("alignkit.lots.dask.ANSWER_SECONDS", 1.0)
    nowhere = ("--engine", "dask", "--address", "tcp://127.0.0.1:9")
    told = alignkit("run", file, "--reports", tmp_path / "r", "--no-open", "-q", *nowhere)
    assert told.code == ExitCode.MISSING
    assert "no scheduler answers at tcp://127.0.0.1:9" in told.err
    assert "Traceback" not in told.err
    assert not [*tmp_path.glob("r/*/*/record.json")]
