"""Plugins of other packages are found, listed, suggested and keyed as alignkit's own are."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from alignkit.decoders import DECODERS
from alignkit.errors import ConfigError
from alignkit.plugins import Plugin, PluginTable
from tests import outside
from tests.photos import encoded, photo

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The package of the docs beside one that cannot be imported."""
    folder = outside.documented_package(tmp_path_factory.mktemp("site"))
    (folder / "broken_one.py").write_text("import nothing_of_that_name\n")
    return outside.installed(folder, "alignkit-broken", {"broken-one": "broken_one:Decoder"})


def alignkit(site: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    return python(site, "-m", "alignkit", *words, cwd=cwd)


def python(site: Path, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{site}"}
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def test_list_shows_what_other_packages_add_and_why_one_cannot_be_used(site):
    done = alignkit(site, "list", "decoders", "--json")
    assert done.returncode == 0, done.stderr
    listed = {each["name"]: each for each in json.loads(done.stdout)["decoders"]}
    assert [*listed][-2:] == ["broken-one", "pillow-icc"]
    documented = listed["pillow-icc"]
    assert documented["usable"]
    assert documented["summary"] == "Pillow, with an embedded profile converted to sRGB"
    assert documented["version"].startswith("pillow ")
    assert "alignkit-pillow-icc 0.1.0, source " in documented["version"]
    assert not listed["broken-one"]["usable"]
    assert "No module named 'nothing_of_that_name'" in listed["broken-one"]["why"]


def test_the_documented_decoder_keeps_the_documented_contract(site):
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}
    line = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=env, cwd=site)
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout


def test_diff_takes_it_and_suggests_it(site, tmp_path):
    (tmp_path / "photo.jpg").write_bytes(encoded(photo()))
    code = (  # in one process, as each would import its libraries again
        "import sys; from alignkit.cli import main\n"
        "for name in ('pillow-icc', 'pillow-ic', 'broken-one'):\n"
        "    stack = '{decode: %s, resize: {name: pillow, size: 32}}' % name\n"
        "    sys.argv[1:] = ['diff', '.', '-p', 'pillow-train', '--size', '32', '-p', stack]\n"
        "    try: main()\n"
        "    except SystemExit as ended: print('ended with', ended.code or 0, file=sys.stderr)\n"
    )
    done = python(site, "-c", code, cwd=tmp_path)
    taken, misspelt, broken, _ = re.split(r"ended with (?=\d)", done.stderr)
    assert misspelt.startswith("0\n"), taken
    assert "did you mean 'pillow-icc'?" in misspelt
    assert broken.startswith("2\n")
    assert "decoder 'broken-one': its package alignkit-broken cannot be imported" in broken
    assert done.stderr.endswith("ended with 2\n")
    assert "Traceback" not in done.stderr


@pytest.fixture
def table(tmp_path, monkeypatch):
    """Make a family's table that sees the packages of a folder."""
    monkeypatch.syspath_prepend(tmp_path)

    def made(package: str, source: str, entries: dict[str, str]) -> PluginTable:
        module = next(iter(entries.values())).partition(":")[0]
        (tmp_path / f"{module}.py").write_text(source)
        outside.installed(tmp_path, package, entries, family="inventions")
        return PluginTable("inventions", {"own": Plugin("alignkit.decoders.pillow:PillowDecoder")})

    yield made
    for name in ("invention_a", "invention_b"):
        sys.modules.pop(name, None)


CLASS = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass A:\n    'One line.'\n"


def test_a_class_alone_is_a_plugin_with_its_docstring_as_summary(table):
    found = table("pack-a", CLASS, {"a": "invention_a:A"})
    assert [*found] == ["own", "a"]
    assert found["a"].summary == "One line."
    assert found["a"].version().startswith("pack-a 0.1.0, source ")
    assert found.find("a").load().__name__ == "A"


def test_the_version_changes_with_library_package_and_source(table, tmp_path):
    found = table("pack-a", CLASS, {"a": "invention_a:A"})
    plugin = found["a"]
    from dataclasses import replace

    versions = {plugin.version(), replace(plugin, distributions=("numpy",)).version()}
    versions.add(replace(plugin, package="pytest").version())
    (tmp_path / "invention_b.py").write_text(CLASS + "    more: int = 0\n")
    versions.add(replace(plugin, target="invention_b:A").version())
    assert len(versions) == 4


def test_no_package_replaces_a_plugin_of_alignkit(table):
    found = table("pack-a", CLASS, {"own": "invention_a:A"})
    assert [*found] == ["own"]
    assert not found["own"].package


def test_a_name_of_two_packages_is_refused_with_both(table):
    table("pack-a", CLASS, {"a": "invention_a:A"})
    found = table("pack-b", CLASS, {"a": "invention_b:A"})
    with pytest.raises(ConfigError, match="invention 'a': pack-a and pack-b both add it"):
        found.find("a")


def test_an_entry_point_that_is_no_plugin_says_what_is_expected(table):
    found = table("pack-a", "def a(): pass\n", {"a": "invention_a:a"})
    assert "expected a frozen dataclass" in found["a"].missing()


def test_own_names_are_found_without_reading_entry_points(monkeypatch):
    def fail(**_):
        raise AssertionError("entry points were read")

    monkeypatch.setattr("alignkit.plugins.metadata.entry_points", fail)
    fresh = PluginTable("decoders", DECODERS.own)
    assert fresh.find("pillow") is DECODERS["pillow"]
    assert "pillow" in fresh
