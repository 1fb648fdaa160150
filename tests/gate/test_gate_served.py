"""Whole gates about speed, memory and headroom: they find the planted faults and no others."""

import json
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from alignkit.experiment import load_experiment
from alignkit.gate.gate_served import load_of, require_options
from alignkit.serve.rounds import ROUNDS
from alignkit.workspace import Workspace
from tests.backends.model import trained_model
from tests.planted_decoder import environment_with_it

FILE = """\
name: planted
data: {{name: digits-on-photos, train: 10, eval: 400, seed: 0}}
preprocess:
  plain: {{decode: planted, resize: {{name: opencv, size: 32}}}}
  twin: {{decode: {{name: planted, note: 1}}, resize: {{name: opencv, size: 32}}}}
  late: {{decode: {{name: planted, milliseconds: 5}}, resize: {{name: opencv, size: 32}}}}
  leaks: {{decode: {{name: planted, leaks: 4000}}, resize: {{name: opencv, size: 32}}}}
  pillow: {{preset: pillow-train, size: 32}}
  gpu: {{preset: torchpipe-gpu-surrogate, size: 32}}
models: [{{name: mine, onnx: {onnx}, preprocess: plain}}]
evaluate: {{backends: [onnxruntime]}}
attribute: {{images: none}}
report: {{worst: 1}}
gate:
  bench: {{requests: 1000, cpus: 1}}
  rules:
    - {{metric: throughput.ratio, fail: 0.6, path: late}}
    - {{metric: throughput.ratio, fail: 0.6, path: twin}}
    - {{metric: throughput.ratio, fail: 0.6, path: gpu}}
    - {{metric: latency.p99.ratio, fail: 1.5, path: late}}
    - {{metric: headroom, fail: 1.5, budget: 1%, path: twin}}
    - {{metric: headroom, fail: 1.5, budget: 1%, path: pillow}}
"""
MODELS = """\
name: small
data: {name: digits-on-photos, train: 40, eval: 20, seed: 0}
preprocess:
  opencv: {preset: opencv-train, size: 32}
  pillow: {preset: pillow-train, size: 32}
train: {epochs: 1, seeds: [0]}
gate:
  rules:
"""


def small(tmp_path, *rules):
    file = tmp_path / "small.yaml"
    file.write_text(MODELS + "".join(f"    - {each}\n" for each in rules))
    return load_experiment(file)


def test_all_rules_share_a_load(tmp_path):
    speed = "{metric: throughput.ratio, fail: 0.9, clients: %d}"
    load = load_of(small(tmp_path, speed % 5, speed % 2).gate)
    assert (load.clients, load.requests, load.rounds) == ((2, 5), 1000, ROUNDS)


def test_a_rule_about_the_reference_alone_is_refused_before_any_work(tmp_path):
    rule = "{metric: throughput.ratio, fail: 0.9, path: %s}"
    require_options(small(tmp_path, rule % "pillow"), Workspace(tmp_path))
    with pytest.raises(Exception, match="no serving option besides the references"):
        require_options(small(tmp_path, rule % "opencv"), Workspace(tmp_path))


@pytest.mark.slow
def test_a_gate_finds_the_planted_faults_and_no_others(tmp_path):
    (tmp_path / "planted.yaml").write_text(FILE.format(onnx=trained_model().onnx))
    words = ["gate", "planted.yaml", "--quiet", "--out", "json=r.json", "--out", "junit=j.xml",
             "--out", "metrics=m.txt"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "alignkit", *words], cwd=tmp_path, capture_output=True, text=True,
        check=False, env=environment_with_it(tmp_path),
    )  # fmt: skip
    results = json.loads((tmp_path / "r.json").read_text())
    assert done.returncode == results["exit_code"] == 4, done.stdout  # a surrogate is not timed
    found = {each["rule"]: each for each in results["verdict"]["rules"]}
    served = {each["evaluated_with"]: each for each in results["served"]}
    check_speed(found, served)
    assert "a surrogate's time" in found["throughput.ratio gpu"]["observed"]
    assert found["throughput.ratio gpu"]["state"] == "error"
    assert found["memory.growth leaks"]["state"] == "fail"
    grown = served["leaks"]["growth"]
    low, high, noise = (
        each / 84 for each in (grown["slope"]["low"], grown["slope"]["high"], grown["floor"])
    )
    # the planted bytes, their object's header, and whatever the reference gains too
    assert low - noise - 100 <= 4000 <= high
    assert found["memory.growth twin"]["state"] == "pass"
    # equal pixels change nothing, whatever their multiple is
    assert found["headroom twin budget=0.01"]["observed"] == "2 × or more"
    assert found["headroom pillow budget=0.01"]["state"] == "fail"
    suite = ET.parse(tmp_path / "j.xml").getroot()[0]
    cases = {each.get("classname"): each for each in suite}
    assert cases["planted.memory.growth leaks"].find("failure") is not None
    assert cases["planted.throughput.ratio gpu"].find("error") is not None
    assert "alignkit_served_throughput{" in (tmp_path / "m.txt").read_text()


def check_speed(found, served):
    """Check the planted delay where the machine was quiet, and that nothing was decided elsewhere."""
    rules = [found[each] for each in ("throughput.ratio late", "latency.p99.ratio late",
                                      "throughput.ratio twin")]  # fmt: skip
    speeds = {name: each["loads"][0] for name, each in served.items() if each["loads"]}
    for rule in rules:
        busy = [speeds[each]["contended"] for each in ("plain", rule["evaluated_with"])]
        assert ("the machine was busy" in rule["observed"]) == any(busy)
        if any(busy):
            assert rule["state"] == "inconclusive"
    if any(each["contended"] for each in speeds.values()):
        return
    assert [each["state"] for each in rules[:2]] == ["fail", "fail"]
    assert rules[2]["state"] != "fail"
