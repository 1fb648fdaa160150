"""Functions of the user's own: what their source shows, and what their import raises."""

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from alignkit.errors import ConfigError
from alignkit.tasks.own_code import own_function, own_source
from alignkit.tasks.own_sources import own_files
from alignkit.tasks.score import require_function

TOUCHES = "import pathlib\npathlib.Path('touched').write_text('')\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = {*sys.modules}
    yield tmp_path
    for name in {*sys.modules} - before:
        del sys.modules[name]


def refused(text: str, function: str = "rate", module: str = "mine.py") -> str:
    """Return the refusal of a file's function by its source, empty for none."""
    Path("mine.py").write_text(TOUCHES + text)
    try:
        require_function(f"{module}:{function}", "score", ("outputs", "sample"))
    except ConfigError as error:
        return str(error)
    finally:
        assert not Path("touched").exists()  # nothing was run
    return ""


@pytest.mark.parametrize("module", ["mine.py", "mine"])
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "def rote(outputs, sample): ...\n",
            "mine.py has no function 'rate'; did you mean 'rote'?",
        ),
        ("def rate(outputs): ...\n", "it takes outputs, and is called with outputs and sample ("),
        ("def rate(a, b, c): ...\n", "it takes a, b, c, and is called with outputs and sample"),
        ("def rate(a, b, *, c): ...\n", "it takes a, b, c, and is called with"),
        ("def rate(): ...\n", "it takes no argument, and is called with"),
        ("async def rate(a, b): ...\n", "it is a coroutine; write a plain function ("),
        ("def rate(a, b)\n    return 1\n", "SyntaxError: expected ':' ("),
        ("class Rates:\n    def rate(a, b): ...\n", "has no function 'rate'"),
        ("def outer():\n    def rate(a, b): ...\n", "has no function 'rate'"),
    ],
)
def test_a_mistake_that_the_source_shows_is_named_before_anything_runs(text, reason, module):
    said = refused(text, module=module)
    assert reason in said
    if "(" in reason:
        assert "mine.py:3)" in said  # the first line after those that touch


@pytest.mark.parametrize(
    "text",
    [
        "def rate(a, b): ...\n",
        "def rate(a, /, b, c=1, *, d=2): ...\n",
        "def rate(*given): ...\n",
        "rate = lambda a, b: 0\n",
        "from scores import rate\n",
        "import scores as rate\n",
        "from scores import *\n",
        "def __getattr__(name): ...\n",
        "try:\n    from fast import rate\nexcept ImportError:\n    def rate(a): ...\n",
        "@cached\ndef rate(a): ...\n",
        "class rate:\n    def __new__(cls, a, b): ...\n",
        "if True:\n    def rate(a, b): ...\n",
        "rate, other = made()\n",
    ],
)
def test_a_source_that_defines_or_may_define_the_function_passes(text):
    assert refused(text) == ""


def test_a_module_inside_a_package_is_found_without_running_the_package(folder):
    (folder / "rates" / "deep").mkdir(parents=True)
    (folder / "rates" / "__init__.py").write_text(TOUCHES)
    (folder / "rates" / "deep" / "score.py").write_text("def rate(a, b): ...\n")
    assert refused("", module="rates.deep.score") == ""
    assert "has no function 'rote'" in refused("", "rote", "rates.deep.score")
    assert "no module named 'rates.deep.scores'" in refused("", module="rates.deep.scores")
    assert "no module named 'rates.shallow'" in refused("", module="rates.shallow.score")


def test_a_compiled_module_is_left_to_its_import():
    assert refused("", "anything", "zlib") == ""
    assert refused("", "anything", "numpy.random.mtrand") == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import nowhere_at_all\n", "ModuleNotFoundError: No module named 'nowhere_at_all' ("),
        ("rate = 1 / 0\n", "ZeroDivisionError: division by zero ("),
        ("open('weights.bin')\n", "FileNotFoundError: [Errno 2] No such file"),
        ("def rate(a, b)\n", "SyntaxError: expected ':' ("),
        ("import json\njson.loads('{')\n", "JSONDecodeError: "),
    ],
)
@pytest.mark.parametrize("module", ["mine.py", "mine"])
def test_whatever_an_import_raises_is_one_message_with_the_line(folder, text, reason, module):
    (folder / "mine.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        own_function(f"{module}:rate", "score")
    said = str(caught.value)
    assert f"score '{module}:rate': {module} cannot be imported: " in said
    assert reason in said
    assert f"mine.py:{text.count(chr(10))})" in said  # the user's line, not that of the library
    assert said.endswith("; mend it, or install what it imports")


def test_a_module_that_is_not_there_is_no_failed_import():
    for name in ("mine.py:rate", "mine:rate", "zlib.mine:rate"):
        with pytest.raises(ConfigError, match="start alignkit in the folder that holds"):
            own_function(name, "score")


def test_an_edited_file_runs_as_it_is_now_and_an_edited_module_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("edited_own_file.py", "edited_own_module.py"):
        (tmp_path / name).write_text("def rate(outputs, sample):\n    return 1\n")
    names = ("edited_own_file.py:rate", "edited_own_module:rate")
    before = [own_source(name, "score") for name in names]
    assert [own_function(name, "score")(None, None) for name in names] == [1, 1]
    for name in ("edited_own_file.py", "edited_own_module.py"):
        written = (tmp_path / name).stat().st_mtime_ns
        (tmp_path / name).write_text("def rate(outputs, sample):\n    return 2\n")
        os.utime(tmp_path / name, ns=(written, written))  # Python's bytecode passes for this source
    assert own_source(names[0], "score") != before[0]
    assert own_function(names[0], "score")(None, None) == 2
    with pytest.raises(ConfigError, match="was edited since this process imported it"):
        own_source(names[1], "score")


@pytest.mark.parametrize("name", ["mine.py:rate", "mine:rate", "pack.scores:rate"])
def test_an_edit_of_a_module_that_the_code_imports_changes_the_source(folder, name):
    (folder / "pack").mkdir()
    text = "from tools import ONE\n\ndef rate(outputs, sample):\n    return ONE\n"
    for file in ("mine.py", "pack/scores.py"):
        (folder / file).write_text(text)
    (folder / "tools.py").write_text("def _late():\n    import deeper.part\nONE = 1\n")
    (folder / "deeper").mkdir()
    (folder / "deeper" / "part.py").write_text(TOUCHES)
    (folder / "not_imported.py").write_text("")
    sources = [own_source(name, "score")]
    for file in ("tools.py", "deeper/part.py"):
        (folder / file).write_text((folder / file).read_text() + "# edited\n")
        sources.append(own_source(name, "score"))
    assert len({*sources}) == 3
    (folder / "not_imported.py").write_text("# edited")
    assert own_source(name, "score") == sources[-1]
    assert not Path("touched").exists()


@pytest.mark.parametrize(
    "text",
    [
        "import tools\n",
        "import tools as t, os\n",
        "try:\n    from tools import x\nexcept ImportError: ...\n",
        "import importlib\nimportlib.import_module('tools')\n",
        "from importlib import import_module\nimport_module('tools.inside')\n",
        "__import__('tools')\n",
        "class A:\n    def f(self):\n        import tools\n",
    ],
)
def test_every_written_form_of_an_import_is_seen(folder, text):
    (folder / "mine.py").write_text(text)
    (folder / "tools.py").write_text("import mine  # in a circle\n")
    assert [each.name for each in own_files("mine.py:rate", "score")] == ["mine.py", "tools.py"]


def test_installed_libraries_and_names_that_a_program_made_are_not_followed(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "made_here", ModuleType("made_here"))
    (folder / "mine.py").write_text(
        "import os, numpy, alignkit.errors, made_here, __main__, zlib, nowhere_at_all\n"
        "from . import x\nimportlib.import_module(name)\nimport broken\n"
    )
    (folder / "broken.py").write_text("def (")  # its import says so, if anything imports it
    assert [each.name for each in own_files("mine.py:f", "score")] == ["mine.py", "broken.py"]


def test_an_edited_module_behind_a_file_is_refused_and_not_run_as_it_was(folder):
    (folder / "mine.py").write_text("import tools\n\ndef rate(a, b):\n    return tools.ONE\n")
    (folder / "tools.py").write_text("ONE = 1\n")
    own_source("mine.py:rate", "score")
    assert own_function("mine.py:rate", "score")(None, None) == 1
    (folder / "tools.py").write_text("ONE = 2\n")
    for ask in (own_source, own_function):
        with pytest.raises(
            ConfigError, match=r"tools\.py was edited since this process imported it"
        ):
            ask("mine.py:rate", "score")


def test_a_file_that_is_edited_after_its_results_were_keyed_is_refused(folder):
    (folder / "mine.py").write_text("def rate(a, b):\n    return 1\n")
    own_source("mine.py:rate", "score")
    assert own_function("mine.py:rate", "score")(None, None) == 1
    (folder / "mine.py").write_text("def rate(a, b):\n    return 2\n")
    with pytest.raises(ConfigError, match="its code was edited during the run; start again"):
        own_function("mine.py:rate", "score")
    own_source("mine.py:rate", "score")  # as the next run of a notebook asks
    assert own_function("mine.py:rate", "score")(None, None) == 2
