"""Checks to run before a change is merged. `nox` runs lint, types and tests; `nox -l` lists all."""

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """Check style with ruff, the floors with import-linter, and the wording of the prose."""
    session.install("ruff", "import-linter")
    session.run("lint-imports")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("python", "tests/prose.py")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation as a site in build/site; a dead link fails."""
    session.install("mkdocs-material>=9.7")
    session.run("mkdocs", "build", "--strict", "-f", "docs/site/mkdocs.yml", *session.posargs)


@nox.session
def types(session: nox.Session) -> None:
    """Check types with mypy in strict mode."""
    session.install(".[dev]")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the quick tests: all except those marked slow or gpu."""
    session.install(".[dev]")
    beside = ("-n", "auto", "--dist", "worksteal")
    session.run("python", "-m", "pytest", *beside, "-m", "not slow and not gpu", *session.posargs)


CORE_TESTS = (
    "tests/test_extras.py",
    "tests/cli/test_check.py",
    "tests/cli/test_diff.py",
    "tests/gate/test_assertion.py",
    "tests/gate/test_gate_lots.py::test_a_second_gate_taps_no_image_and_gives_the_same_record",
    "tests/gate/test_gate_lots.py::test_the_commands_of_four_machines_and_a_last_one",
    "tests/gate/test_pytest_plugin.py",
    "tests/studies/diff/test_diff.py",
    "tests/studies/diff/test_diff_arguments.py",
)
"""Tests of commands that need pixels alone; they must pass without any extra."""
NEED_MODELS = (
    "tests/cli/test_check.py::test_check_and_plan_warn_of_a_path_that_repeats_another",
    "tests/cli/test_check.py::test_check_without_files_says_how_it_is_called",
    "tests/cli/test_check.py::test_each_file_is_an_entry_of_the_json",
    "tests/cli/test_diff.py::test_with_a_model_the_last_words_count_the_predictions_that_change",
    "tests/cli/test_diff.py::test_names_that_cannot_be_used_lead_to_what_runs_here",
)
"""Those among them that need an extra, for a training or a surrogate's resize."""


@nox.session
def core(session: nox.Session) -> None:
    """Install the core alone and test `diff`, `check` and gates.

    No library of an extra is in this environment, so that a test fails that uses one.
    """
    session.install(".", "pytest", "html5lib", "jsonschema")  # the last two are the tests' own
    without = [f"--deselect={each}" for each in NEED_MODELS]
    session.run("python", "-m", "pytest", "-m", "not slow", *CORE_TESTS, *without, *session.posargs)


@nox.session
def platforms(session: nox.Session) -> None:
    """Resolve core and `all` for every platform and Python of docs/install.md."""
    session.install("uv", "pytest")
    chosen = ("-m", "slow", "-rs", "--noconftest", "tests/test_platforms.py")
    session.run("python", "-m", "pytest", *chosen)


@nox.session
def slow(session: nox.Session) -> None:
    """Run the tests that train, kill a run, or upgrade a library in separate environments."""
    # a real client and a real server of S3, and the library that writes save_to_disk
    # (unbounded, a resolver chose an s3fs of 2020, which no option of today's reaches)
    session.install(".[dev,openvino,ray]", "s3fs>=2024.6", "moto[server]", "datasets")
    session.run("python", "-m", "pytest", "-m", "slow and not browser", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """Test the report in Chromium (Debian's chromium-driver) and Firefox (firefox-esr).

    Rebuild its script if npm is installed. Skipped tests show the reason.
    """
    session.install(".[dev]")
    if shutil.which("npm"):
        with session.chdir("alignkit/report/assets/src"):
            session.run("npm", "ci", "--ignore-scripts", external=True)
            session.run("npm", "run", "build", external=True)
        session.run("git", "diff", "--exit-code", "alignkit/report/assets", external=True)
    session.run("python", "-m", "pytest", "tests/browser", "-rs", *session.posargs)


@nox.session
def endpoint(session: nox.Session) -> None:
    """Test the kserve backend against an MLServer in a separate environment."""
    session.install(".[dev]")
    home = session.create_tmp()
    session.run("python", "-m", "venv", home)
    install = ("-m", "pip", "install", "--quiet", "-r", "tests/endpoint/requirements.txt")
    session.run(f"{home}/bin/python", *install, external=True)
    served = {"ALIGNKIT_MLSERVER": f"{home}/bin/mlserver"}
    session.run("python", "-m", "pytest", "-m", "endpoint", *session.posargs, env=served)


@nox.session
def bench(session: nox.Session) -> None:
    """Run the benchmarks one after the other and print their table.

    Arguments are names of benchmarks; `--write` puts the table into docs/performance.md.
    """
    session.install(".[dev]")
    session.run("python", "benchmarks/bench.py", *session.posargs)


@nox.session
def quickstart(session: nox.Session) -> None:
    """Run the README's first command in a separate environment."""
    session.install(".[all]")
    session.run("alignkit", "run", "experiments/quickstart.yaml", "--no-open", *session.posargs)


@nox.session
def experiments(session: nox.Session) -> None:
    """Run every experiment in a separate environment, with `--quick` or the given arguments."""
    session.install(".[all]")
    files = sorted(map(str, Path("experiments").glob("*.yaml")))
    chosen = session.posargs or ["--quick"]
    session.run("alignkit", "run", *files, "--no-open", *chosen)


@nox.session
def gpu(session: nox.Session) -> None:
    """Collect the evidence that needs a GPU, as benchmarks/gpu/README.md describes it.

    Without a GPU the session fails with a message.
    """
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        session.error("this machine has no NVIDIA GPU: nothing was tested")
    session.install(".[dev,dali,nvimgcodec,tensorrt]")
    session.run("bash", "benchmarks/gpu/device.sh", "main", external=True)
