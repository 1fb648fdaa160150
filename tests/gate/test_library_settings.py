"""A run after an environment variable changed the pixels that OpenCV computes."""

import hashlib
import json
import os
import subprocess
import sys

from tests.cli.conftest import alignkit  # noqa: F401 - a fixture
from tests.gate_case import make_case

PATH = "  serving: {decode: opencv, resize: {name: opencv, size: 32, interpolation: cubic}}\n"
OWN = """
import cv2, pathlib, sys
for file in sorted(pathlib.Path(sys.argv[1]).iterdir()):
    image = cv2.imread(str(file))
    sys.stdout.buffer.write(cv2.resize(image, (32, 32), interpolation=cv2.INTER_CUBIC).tobytes())
"""


def run(*words, **settings):
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "OPENCV_IPP")}
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, capture_output=True, env=kept | settings, check=False)


def test_kept_stages_are_not_read_where_a_library_computes_otherwise(
    alignkit,  # noqa: F811 - the imported fixture
    monkeypatch,
    tmp_path,
):
    monkeypatch.delenv("OPENCV_IPP", raising=False)
    case = make_case(tmp_path)
    file = case.write("{preset: strict, against: baseline}", paths=PATH)
    reports = ("--reports", case.reports)
    assert alignkit("baseline", "record", file, *reports).code == 0
    gate = ("gate", file, "-q", "--no-html", *reports, "--json")
    assert alignkit(*gate).code == 0
    # OpenCV reads the variable as it is imported: the others are commands of this process
    told = run("-m", "alignkit", *gate, OPENCV_IPP="disabled")
    # OpenCV alone says whether this processor has another kernel without IPP
    ours = [run("-c", OWN, case.images, **each).stdout for each in ({}, {"OPENCV_IPP": "disabled"})]
    differs = len({hashlib.sha256(each).digest() for each in ours}) == 2
    assert told.returncode == int(differs), told.stdout
    document = json.loads(told.stdout)
    assert document["environment"]["flags"]["OPENCV_IPP"] == "disabled"
    assert ("with OPENCV_IPP=disabled" in " ".join(document["said"])) == differs
    assert alignkit(*gate).code == 0
