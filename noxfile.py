"""What is checked before a change goes in. `nox` runs lint, types and tests; `nox -l` lists all."""

import shutil
from pathlib import Path

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = ["lint", "types", "tests"]
nox.options.reuse_existing_virtualenvs = True


@nox.session
def lint(session: nox.Session) -> None:
    """Style and common mistakes, by ruff; the floors of the house, by import-linter."""
    session.install("ruff", "import-linter")
    session.run("lint-imports", env={"PYTHONPATH": "."})
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types, by mypy in strict mode."""
    session.install(".[dev]")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """The quick tests: all but those marked slow or gpu."""
    session.install(".[dev]")
    session.run("python", "-m", "pytest", "-m", "not slow and not gpu", *session.posargs)


@nox.session
def slow(session: nox.Session) -> None:
    """The tests that train, kill a run, or upgrade a library in environments of their own."""
    session.install(".[dev]")
    session.run("python", "-m", "pytest", "-m", "slow and not browser", *session.posargs)


@nox.session
def browser(session: nox.Session) -> None:
    """The report in Chromium (Debian's chromium-driver) and Firefox (firefox-esr); skips say why.

    Rebuilds its script where npm is.
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
    """The kserve backend against an MLServer, which lives in an environment of its own."""
    session.install(".[dev]")
    home = session.create_tmp()
    session.run("python", "-m", "venv", home)
    install = ("-m", "pip", "install", "--quiet", "-r", "tests/endpoint/requirements.txt")
    session.run(f"{home}/bin/python", *install, external=True)
    served = {"ALIGNKIT_MLSERVER": f"{home}/bin/mlserver"}
    session.run("python", "-m", "pytest", "-m", "endpoint", *session.posargs, env=served)


@nox.session
def quickstart(session: nox.Session) -> None:
    """The README's first command, in an environment of its own."""
    session.install(".")
    session.run("alignkit", "run", "experiments/quickstart.yaml", "--no-open", *session.posargs)


@nox.session
def gpu(session: nox.Session) -> None:
    """All that only a GPU can tell, into reports/gpu: tests, surrogates, decoders, a matrix.

    Arguments are those of benchmarks/gpu.py. Without a GPU it fails, and says so.
    """
    if not (Path("/dev/nvidia0").exists() or any(Path("/proc/driver/nvidia").glob("gpus/*"))):
        session.error("this machine has no NVIDIA GPU: nothing was tested")
    session.install(".[dev,dali,nvimgcodec,tensorrt]")
    session.run("python", "benchmarks/gpu.py", "reports/gpu", *session.posargs)
