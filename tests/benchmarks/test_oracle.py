"""The comparison of two commits: what it calls equal, and numbers stored by an earlier commit."""

import json
import runpy
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORED = json.loads(Path(__file__).with_name("oracle_b8fb8d7e.json").read_text())
"""Numbers of two cases by the commit in its name, and the libraries that decided pixels there."""


@pytest.fixture(scope="module")
def oracle():
    return runpy.run_path(str(ROOT / "benchmarks/oracle.py"))


@pytest.mark.parametrize(
    ("before", "now", "equal"),
    [
        (([0], [{"a": [1, 2.5]}]), ([0], [{"a": [1, 2.5]}]), True),
        (([0], [{"a": [1, 2.5]}]), ([0], [{"a": [1, 2.5], "new": 3}]), True),
        (([0], [{"a": 1, "seconds": 2}]), ([0], [{"a": 1, "seconds": 3}]), True),
        (([0], [{"a": [1, 2.5]}]), ([0], [{"a": [1, 2.5000001]}]), False),
        (([0], [{"a": 1}]), ([1], [{"a": 1}]), False),
        (([0], [{"a": "1"}]), ([0], [{"a": "1"}]), False),
        (([2], ["error"]), ([2], ["error"]), False),
    ],
    ids=["equal", "added", "a clock", "moved", "exit code", "no number", "no document"],
)
def test_only_equal_numbers_and_exit_codes_are_equal(oracle, capsys, before, now, equal):
    assert oracle["compared"]("case", before, now) is equal
    assert ("error" in capsys.readouterr().out) == ("error" in before[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", STORED["numbers"])
def test_numbers_are_those_of_the_stored_commit(oracle, tmp_path, name):
    here = {library: version(library) for library in STORED["versions"]}
    if here != STORED["versions"]:
        pytest.skip(f"stored with {STORED['versions']}; here are {here}, which may move pixels")
    oracle["make_inputs"](tmp_path)
    codes, documents = oracle["answers"](ROOT, oracle["CASES"][name], tmp_path)
    assert codes == STORED["codes"][name]
    stored, now = STORED["numbers"][name], dict(oracle["numbers"](documents))
    shared = stored.keys() & now.keys()
    assert len(shared) > 0.9 * len(stored)  # the rest are fields that were removed since
    # sums of floats are rounded in another order since
    for place in shared:
        assert now[place] == pytest.approx(stored[place], rel=1e-9, nan_ok=True), place
