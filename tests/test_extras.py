"""Extras: every library outside the core has one, and whoever needs it says so in one line."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from alignkit import extras
from alignkit.backends import BACKENDS
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import MissingDependency
from alignkit.extras import EXTRAS, missing_dependency, missing_library, require_libraries
from alignkit.resizers import RESIZERS
from tests.sources import parsed

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
IMPORTED_AS = {
    "cv2": "opencv-python", "PIL": "pillow", "sklearn": "scikit-learn", "yaml": "pyyaml",
    "markupsafe": "jinja2", "pydantic_core": "pydantic", "omniback": "torchpipe",
    "faiss": "faiss-cpu", "pytorch_metric_learning": "pytorch-metric-learning",
}  # fmt: skip
"""Import name → the distribution that has it, where the two differ."""
PLUGINS = {
    f"{family} {name}": plugin
    for family, table in {
        "decoder": DECODERS, "resizer": RESIZERS, "backend": BACKENDS, "dataset": DATASETS
    }.items()
    for name, plugin in table.items()
}  # fmt: skip


def distributions(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=;~! ]", each)[0].lower() for each in requirements}


CORE = distributions(PROJECT["dependencies"])
OPTIONAL = {
    extra: distributions(needed) for extra, needed in PROJECT["optional-dependencies"].items()
}


def modules_imported() -> dict[str, set[str]]:
    """Import names of other packages → files of alignkit that import them, late ones included."""
    found: dict[str, set[str]] = {}
    for file in (ROOT / "alignkit").rglob("*.py"):
        for node in ast.walk(parsed(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            for name in names:
                top = name.partition(".")[0]
                if top not in sys.stdlib_module_names and top != "alignkit":
                    found.setdefault(top, set()).add(str(file.relative_to(ROOT)))
    return found


def test_every_import_is_of_the_core_of_an_extra_or_of_a_plugins_own_library():
    own = {plugin.module.partition(".")[0] for plugin in PLUGINS.values()}
    # of whoever calls them: a test run by pytest, weights that timm fetches, a stack that is compared
    others = {"pytest", "huggingface_hub", "tensorflow"}
    unknown = {
        module: files
        for module, files in modules_imported().items()
        if IMPORTED_AS.get(module, module) not in CORE and module not in {*EXTRAS, *own, *others}
    }
    assert not unknown


def test_every_extra_that_is_named_installs_the_library():
    for module, extra in EXTRAS.items():
        assert IMPORTED_AS.get(module, module) in OPTIONAL[extra] | OPTIONAL["nncf"], module
    for name, plugin in PLUGINS.items():
        if plugin.extra:
            assert OPTIONAL[plugin.extra] & {each.lower() for each in plugin.distributions}, name
        elif plugin.module:
            assert CORE & set(plugin.distributions), name
        assert plugin.extra == EXTRAS.get(plugin.module, plugin.extra), name
        assert {*plugin.needs} <= {*EXTRAS}, name


def test_all_and_dev_have_what_the_readme_runs():
    (whole,) = PROJECT["optional-dependencies"]["all"]
    assert whole == "alignkit[detection,embedding,onnx,torchpipe,train]"
    assert "alignkit[all]" in PROJECT["optional-dependencies"]["dev"]
    asked = {
        "torch", "torchvision", "torchpipe", "onnx", "onnxruntime-gpu", "opencv-python", "pandas",
        "scikit-learn", "jinja2",
    }  # fmt: skip
    assert asked <= CORE | OPTIONAL["onnx"] | OPTIONAL["torchpipe"] | OPTIONAL["train"]
    assert not {"torch", "torchvision", "scipy", "pandas", "scikit-learn", "onnx"} & CORE


@pytest.fixture
def without(monkeypatch):
    """Hide libraries: `without("torch")` makes torch look as if it were not installed."""

    def hide(*modules):
        real = extras._importable
        monkeypatch.setattr(extras, "_importable", lambda name: name not in modules and real(name))

    return hide


def test_one_line_names_all_missing_libraries_and_one_command(without):
    without("torch", "scipy", "onnx")
    assert missing_library("torch") == "torch is not installed: pip install 'alignkit[train]'"
    with pytest.raises(MissingDependency) as raised:
        require_libraries("torch", "numpy", "scipy", "onnx")
    assert str(raised.value) == (
        "torch, scipy and onnx are not installed: pip install 'alignkit[onnx,train]'"
    )
    require_libraries("numpy")


def test_a_library_without_a_wheel_is_in_no_joined_command(without, monkeypatch):
    without("torch", "torchpipe", "onnx")
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(MissingDependency) as raised:
        require_libraries("torch", "torchpipe", "onnx")
    assert str(raised.value) == (
        "torch and onnx are not installed: pip install 'alignkit[onnx,train]'; "
        "torchpipe is not installed, and has no wheel for Darwin on arm64"
    )


def test_an_import_that_fails_late_names_its_extra_and_others_stay_defects(without):
    without("torchvision")
    missing = missing_dependency(ModuleNotFoundError("…", name="torchvision.ops"))
    assert str(missing) == "torchvision is not installed: pip install 'alignkit[train]'"
    assert missing_dependency(ModuleNotFoundError("…", name="alignkit.nowhere")) is None
    assert missing_dependency(ModuleNotFoundError("…")) is None


def test_windows_is_told_where_alignkit_runs():
    missing = missing_dependency(ModuleNotFoundError("…", name="fcntl"))
    assert "WSL 2 or in its Docker image" in str(missing)


@pytest.mark.parametrize(
    ("module", "system", "machine"),
    [
        ("torchpipe", "Darwin", "arm64"),
        ("torchpipe", "Windows", "AMD64"),
        ("torchpipe", "Linux", "aarch64"),
        ("jpeglib", "Linux", "aarch64"),
    ],
)
def test_no_command_is_advised_that_would_need_a_compiler(
    without, monkeypatch, module, system, machine
):
    without(module)
    monkeypatch.setattr("platform.system", lambda: system)
    monkeypatch.setattr("platform.machine", lambda: machine)
    assert missing_library(module) == (
        f"{module} is not installed, and has no wheel for {system} on {machine}"
    )


def test_torchpipe_is_not_used_with_a_torch_that_it_has_no_core_for(monkeypatch):
    pytest.importorskip("omniback", reason="torchpipe is not installed")
    assert DECODERS["torchpipe"].missing() == ""
    extras._misfit_torch.cache_clear()
    real = extras.metadata.version
    newer = {"torch": "2.15.0"}
    monkeypatch.setattr("importlib.metadata.version", lambda name: newer.get(name) or real(name))
    reason = DECODERS["torchpipe"].missing()
    extras._misfit_torch.cache_clear()
    assert reason.endswith(
        "has no core for torch 2.15.0: pip install 'alignkit[torchpipe]' replaces torch by a "
        "version that it has"
    )


WITHOUT_MODELS = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = {"torch", "torchvision", "onnx", "onnxruntime", "sklearn", "scipy", "pandas", "torchpipe"}
sys.meta_path.insert(0, Hidden())
sys.argv[0] = "alignkit"
from alignkit.cli import main
main()
"""


def run_core(*words, folder):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_MODELS, *words],
        capture_output=True, text=True, check=False, cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
    )  # fmt: skip


@pytest.mark.parametrize("command", ["check", "run"])
def test_an_experiment_that_trains_is_refused_before_anything_is_prepared(command, tmp_path):
    ended = run_core(command, str(ROOT / "experiments" / "quickstart.yaml"), folder=tmp_path)
    assert ended.returncode == 4
    assert ended.stdout == ""
    assert ended.stderr.splitlines()[-1].endswith(
        "sklearn, torch, torchvision and scipy are not installed: pip install 'alignkit[train]'"
    )
    assert "Traceback" not in ended.stderr
    assert not list(tmp_path.rglob("*.npy"))


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("diff", ".", "--preprocess", "pillow-train", "--preprocess", "torchvision-eval"),
            "torchvision-eval: torchvision is not installed: pip install 'alignkit[train]'",
        ),
        (
            ("bisect", "--model", "model.onnx", "--images", "."),
            "onnx and onnxruntime are not installed: pip install 'alignkit[onnx]'",
        ),
    ],
    ids=["diff", "bisect"],
)
def test_a_command_names_the_extra_that_it_lacks(words, line, tmp_path, jpegs):
    (tmp_path / "a.jpg").write_bytes(jpegs["420"])
    (tmp_path / "model.onnx").write_bytes(b"-")
    ended = run_core(*words, folder=tmp_path)
    assert ended.returncode == 4
    assert ended.stderr.splitlines()[-1] == line
    assert "Traceback" not in ended.stderr


def test_a_missing_library_of_the_core_is_no_defect(monkeypatch):
    """Each that is imported under another name too; without typer or pydantic no command starts."""
    started_before = {"pydantic", "rich", "typer"}
    assert {extras._CORE[each] or each for each in extras._CORE} == CORE - started_before
    monkeypatch.setattr(extras, "_importable", lambda _: False)
    for module, fix in {"xxhash": "xxhash", "cv2.data": "opencv-python", "yaml": "pyyaml"}.items():
        missing = missing_dependency(ModuleNotFoundError("…", name=module))
        assert str(missing).endswith(f"alignkit needs it: pip install {fix}")


def test_nvimagecodec_brings_the_decoder_that_it_opens_by_name():
    (wanted,) = PROJECT["optional-dependencies"]["nvimgcodec"]
    assert wanted.startswith("nvidia-nvimgcodec-cu13[nvjpeg]")
