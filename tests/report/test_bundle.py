"""The committed script is what its sources give; checked without Node."""

import hashlib
import json
import shutil
import subprocess
from importlib.resources import as_file, files

import pytest

from alignkit.text.numbers import signed

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


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed")
def test_a_number_that_rounds_to_zero_reads_as_in_python():
    values = [-0.004, 0.004, -0.006, 0.25, 0]
    with as_file(ASSETS / "src") as folder:
        source = f"""import {{ written }} from {json.dumps((folder / "canvas.js").as_uri())};
            console.log(JSON.stringify({values}.map((value) => written(value, true))))"""
        command = ["node", "--input-type=module", "--eval", source]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    # the script writes whole numbers without decimals
    assert json.loads(done.stdout) == [*(signed(value, 2) for value in values[:-1]), "0"]


def test_licences_of_what_is_bundled_go_with_it():
    licences = ASSETS.joinpath("report.js.LICENSES").read_text()
    for name in ("preact", "htm"):
        assert f"{name} {MADE['tools'][name]}" in licences
    assert "MIT License" in licences
    assert "Apache License" in licences
