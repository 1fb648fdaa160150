"""What docs/preprocessing.md shows is true; its table of decoders is held by tests/decoders."""

import json
import re
from pathlib import Path

import yaml
from typer.testing import CliRunner

from alignkit.cli import app
from alignkit.decoders import DECODERS
from alignkit.experiment import load_experiment
from alignkit.experiment.hugging_face_config import PROCESSORS
from alignkit.plugins import UNPROVEN
from alignkit.preprocess import STAGES
from alignkit.preprocess.presets import PRESETS
from alignkit.resizers import RESIZERS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "preprocessing.md").read_text()
TOML = """\
[jpg]
backend = "S[DecodeTensor,ResizeTensor,TensorrtTensor]"
resize_h = 224
resize_w = 224
mean = "124,116,104"
"""


def test_every_preset_stands_in_the_table_with_its_summary_and_list_prints_its_source():
    listed = CliRunner().invoke(app, ["list", "presets"]).output
    for name, preset in PRESETS.items():
        stages = preset.stages(224)
        plugins = DECODERS[stages["decode"]["name"]], RESIZERS[stages["resize"]["name"]]
        note = f"; {UNPROVEN}" * any(each.unproven for each in plugins)
        assert f"| `{name}` | {preset.summary}{note} |" in TEXT
        assert f"from {preset.source}\n" in listed


def test_every_stage_and_processor_is_named():
    assert all(f"| `{stage}` |" in TEXT for stage in STAGES)
    spoken = TEXT.replace("MobileNet", "MobileNetV1 MobileNetV2").lower()
    for name in PROCESSORS:
        assert name.removesuffix("ImageProcessor").lower() in spoken


def shown_yaml(name: str) -> str:
    """The block of YAML that begins with this name."""
    return re.search(rf"^```yaml\n(name: {name}\n.*?)^```$", TEXT, re.DOTALL | re.MULTILINE)[1]


def test_the_imports_it_shows_load(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "serving.toml").write_text(TOML)
    (tmp_path / "model").mkdir()
    config = {"image_processor_type": "ViTImageProcessor"}
    (tmp_path / "model" / "preprocessor_config.json").write_text(json.dumps(config))
    shown = shown_yaml("imports")
    (tmp_path / "imports.yaml").write_text(shown)
    paths = load_experiment(tmp_path / "imports.yaml").entries
    assert list(paths) == list(yaml.safe_load(shown)["preprocess"])
    assert {entry.build("x").size for entry in paths.values()} == {(224, 224)}


def test_the_letterboxes_it_shows_are_the_preset_and_its_stages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "rect.yaml").write_text(shown_yaml("rect"))
    paths = {path.name: path for path in load_experiment(tmp_path / "rect.yaml").paths}
    assert paths["pt"].identity() == paths["spelt-out"].identity()
    assert paths["pt"].varies
    assert not paths["onnx"].varies
