"""The names that `alignkit` offers: lazily, and not hidden by modules of similar names."""

import importlib
import pydoc
import subprocess
import sys

import pytest

import alignkit

CODE = """
import sys, alignkit
heavy = {"numpy", "torch", "cv2", "pandas", "pydantic", "scipy"} & {*sys.modules}
assert not heavy, heavy
assert callable(alignkit.diff) and callable(alignkit.run) and callable(alignkit.match)
assert callable(alignkit.load_run)
heavy = {"torch", "cv2", "pandas", "scipy"} & {*sys.modules}
assert not heavy, heavy
"""


def test_dir_lists_the_public_names_and_each_is_there():
    assert dir(alignkit) == sorted(alignkit.__all__)
    for name in alignkit.__all__:
        assert getattr(alignkit, name)
    assert "__getattr__" not in dir(alignkit)
    with pytest.raises(AttributeError, match="nothing_such"):
        alignkit.nothing_such  # noqa: B018 - the access is what is tested


def test_help_describes_the_public_names_alone():
    described = pydoc.plain(pydoc.render_doc(alignkit))
    for name in ("diff(", "run(", "match(", "load_run(", "assert_preprocess_aligned("):
        assert f"    {name}" in described
    assert "import_module" not in described
    assert "TYPE_CHECKING" not in described


def test_nothing_heavy_is_imported_before_a_function_is_called():
    # in a process of its own: this one has imported everything
    subprocess.run([sys.executable, "-c", CODE], check=True)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("alignkit.studies.diff", "diff"),
        ("alignkit.cli.run_command", "run"),
        ("alignkit.search.match_request", "match"),
        ("alignkit.api.diff_result", "diff"),
        ("alignkit.api.run_result", "load_run"),
    ],
)
def test_a_submodule_that_is_imported_hides_no_function(module, name):
    importlib.import_module(module)
    function = getattr(alignkit, name)
    assert callable(function)
    assert function.__module__.startswith("alignkit.api.")
