"""What docs/backends.md, docs/models.md and docs/endpoints.md show is true."""

import re
from dataclasses import fields
from pathlib import Path

from alignkit.backends import BACKENDS
from alignkit.backends.endpoint.requests import TRANSIENT
from alignkit.backends.http_json import HTTPJSONBackend
from alignkit.backends.kserve import KServeBackend
from alignkit.experiment import load_experiment

ROOT = Path(__file__).parents[2]
TEXT, MODELS, ENDPOINTS = (
    (ROOT / "docs" / f"{name}.md").read_text() for name in ("backends", "models", "endpoints")
)


def yaml_blocks(text: str) -> list[str]:
    return re.findall(r"^```yaml\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def row(name: str) -> str:
    (line,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{name}` | ")]
    return line


def test_every_backend_stands_in_the_table_with_its_precisions_options_and_extra():
    for name, plugin in BACKENDS.items():
        kind = plugin.load()
        assert f"| {', '.join(kind.precisions)} |" in row(name)
        assert plugin.extra in row(name)
        if not kind.live:
            assert all(f"`{field.name}" in row(name) for field in fields(kind))


def test_every_option_of_an_endpoint_is_described_with_its_default():
    table = ENDPOINTS[ENDPOINTS.index("| option | default") :]
    # both have the options of every endpoint
    for field in {
        each.name: each for kind in (KServeBackend, HTTPJSONBackend) for each in fields(kind)
    }.values():
        (line,) = [
            line
            for line in table.splitlines()
            if re.match(rf"\| .*`{field.name}`.* \|", line.split(" | ")[0] + " |")
        ]
        if isinstance(field.default, int | float):
            assert f"| {field.default:g} |" in line
    for status in TRANSIENT:
        assert status in table or f"{status}xx" in table


def test_the_experiment_it_shows_loads(tmp_path):
    shown, *_, divided = yaml_blocks(TEXT)
    (endpoints,) = yaml_blocks(ENDPOINTS)
    for text in (
        shown,
        *(shown[: shown.index("evaluate:")] + each for each in (divided, endpoints)),
    ):
        (tmp_path / "backends.yaml").write_text(text)
        backends = load_experiment(tmp_path / "backends.yaml").content.evaluate.backends
        assert {each.name for each in backends} <= set(BACKENDS)


def test_the_experiments_of_a_model_of_ones_own_load(tmp_path, monkeypatch):
    shown, one_path = yaml_blocks(MODELS)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(shown)
    (tmp_path / "wnids.txt").write_text("n01440764\nn01443537\n")
    (model,) = load_experiment(tmp_path / "own.yaml").content.models
    assert model.classes == ("n01440764", "n01443537")
    (tmp_path / "fp16.yaml").write_text(one_path)
    assert [each.name for each in load_experiment(tmp_path / "fp16.yaml").paths] == ["training"]
