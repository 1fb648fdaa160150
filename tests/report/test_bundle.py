"""The committed script is what its sources give; checked without Node."""

import hashlib
import json
import shutil
import subprocess
from importlib.resources import as_file, files

import pytest

from alignkit.text.numbers import NBSP, grouped, percent, plain, signed

ASSETS = files("alignkit.report").joinpath("assets")
MADE = json.loads(ASSETS.joinpath("report.js.json").read_text())
SCRIPT = ASSETS.joinpath("report.js").read_bytes()


def test_script_is_the_one_that_was_built():
    assert hashlib.sha256(SCRIPT).hexdigest() == MADE["sha256"]


def test_script_was_built_from_these_sources():
    sources = sorted(
        (each for each in ASSETS.joinpath("src").iterdir() if each.name.endswith(".js")),
        key=lambda each: each.name,
    )
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()
    assert digest == MADE["sources"], "run `npm ci && npm run build` in alignkit/report/assets/src"


def test_script_stays_small():
    assert len(SCRIPT) <= 64_000


def test_script_loads_nothing_from_a_network():
    text = SCRIPT.decode()
    for name in (
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1998/Math/MathML",
    ):
        text = text.replace(name, "")
    assert "http" not in text
    assert "eval(" not in text


VALUES = (
    0, 1, 0.5, 0.25, 0.0625, 0.15, 0.004, 0.0004, -0.004, -1.5, -2.345, 2.5, 3000.126, 0.99999, 63.5,
)  # fmt: skip


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_numbers_read_as_in_python():
    calls = {
        "plain(v, 3)": [plain(each, 3) for each in VALUES],
        "plain(v, 1)": [plain(each, 1) for each in VALUES],
        "percent(v)": [percent(each) for each in VALUES],
        "grouped(Math.abs(Math.trunc(1000 * v)))": [grouped(abs(int(1000 * v))) for v in VALUES],
        # the script writes whole numbers without decimals
        "written(v, true)": [signed(each, 0 if each == int(each) else 2) for each in VALUES],
    }
    rows = _ran(f"{json.dumps(VALUES)}.map((v) => [{', '.join(calls)}])")
    assert rows == [list(row) for row in zip(*calls.values(), strict=True)]


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_column_is_sorted_by_the_number_that_a_cell_begins_with():
    texts = [f"3{NBSP}000", f"2{NBSP}324{NBSP}232", "−0.4 [−0.6, −0.2]", "<0.01", f"12.5{NBSP}%",
             "+1.00", "1e−05", "0", "12 of 3000", "–", "", "torch fp32"]  # fmt: skip
    # JSON has no NaN: null
    assert _ran(f"{json.dumps(texts)}.map(read)") == [
        3000, 2324232, -0.4, 0.01, 12.5, 1, 1e-05, 0, 12, None, None, None,
    ]  # fmt: skip


def _ran(expression):
    """Evaluate an expression of numbers.js in Node."""
    with as_file(ASSETS / "src") as folder:
        source = f"""import * as all from {json.dumps((folder / "numbers.js").as_uri())};
            const {{ plain, percent, grouped, written, read }} = all;
            console.log(JSON.stringify({expression}));"""
        command = ["node", "--input-type=module", "--eval", source]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_licences_of_what_is_bundled_go_with_it():
    licences = ASSETS.joinpath("report.js.LICENSES").read_text()
    for name in ("preact", "htm"):
        assert f"{name} {MADE['tools'][name]}" in licences
    assert "MIT License" in licences
    assert "Apache License" in licences
