"""Models that a script of the experiment makes: ``made_by`` of an entry of ``models:``.

The file that it writes is stored. Its key has the hash of the script, its arguments and the code
that generates images; the keys of the model's cells have the hash of the file itself.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alignkit.errors import TrainingError
from alignkit.plan.required_models import require_models, script_file
from alignkit.stored_file import file_sha256
from alignkit.version import DATA_LAYERS, code_version
from alignkit.workspace import Context, Workspace, content_key

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.models.user_model import UserModel

_FILE = "model.onnx"
_SHOWN = 15
"""Last lines of a script that failed."""


def with_stored_models(experiment: Experiment, workspace: Workspace) -> Experiment:
    """Return the experiment with each made model that is stored; it makes none."""

    def stored(model: UserModel) -> Path | None:
        if not script_file(experiment, model).is_file():  # `require_models` says so
            return None
        key = content_key(_parts(experiment, model))
        return workspace.recall("made", key, _label(model), lambda folder: folder / _FILE)

    return experiment.with_graphs(stored)


def with_made_models(experiment: Experiment, context: Context) -> Experiment:
    """Return the experiment with all its models, made by their scripts where none is stored.

    Raise as `require_models` does, before any is made, and `TrainingError` if a script fails or
    writes no file.
    """
    if any(each.made_by for each in experiment.content.models):
        require_models(experiment)

    def made(model: UserModel) -> Path:
        def make(folder: Path) -> None:
            context.progress.note(f"{_label(model)}, once")
            _call(model, _script(experiment, model), folder / _FILE)

        parts, label = _parts(experiment, model), _label(model)
        return context.workspace.keep("made", parts, label, make, lambda folder: folder / _FILE)

    return experiment.with_graphs(made)


def _label(model: UserModel) -> str:
    return f"model {model.name}: made with {model.made_by}"


def _parts(experiment: Experiment, model: UserModel) -> dict[str, Any]:
    script, *arguments = _script(experiment, model)
    # the script may train with images that are generated here
    data = code_version(DATA_LAYERS)
    return {"script": file_sha256(Path(script)), "arguments": arguments, "code": data}


def _script(experiment: Experiment, model: UserModel) -> list[str]:
    _, *arguments = model.made_by.split()
    return [str(script_file(experiment, model)), *arguments]


def _call(model: UserModel, script: list[str], file: Path) -> None:
    ran = subprocess.run(  # noqa: S603 - the experiment's own script
        [sys.executable, *script, file],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip
    if ran.returncode or not file.is_file():
        ended = f"ended with {ran.returncode}" if ran.returncode else "wrote no file"
        said = "".join(f"\n  {line}" for line in ran.stdout.splitlines()[-_SHOWN:])
        call = shlex.join(["python", *script, f"{model.name}.onnx"])
        raise TrainingError(f"model {model.name}: {model.made_by} {ended}; see `{call}`{said}")
