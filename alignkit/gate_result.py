"""File → `GateResult`: a gate run, whatever came of it, ready for every output."""

from __future__ import annotations

import re
import shlex
import traceback
from collections.abc import Sequence
from datetime import date
from pathlib import Path

from alignkit.approval import in_ci
from alignkit.check import Checked, check
from alignkit.errors import AlignkitError, ConfigError, ExitCode
from alignkit.experiment import Experiment
from alignkit.load import load_experiment
from alignkit.outputs import Finding, GateResult
from alignkit.pending import pending_changes, pending_file, write_pending
from alignkit.progress import Progress
from alignkit.record import Verdict
from alignkit.workspace import Workspace

PARDONABLE = (ExitCode.DRIFT, ExitCode.INCONCLUSIVE)
"""What ``--exit-zero`` changes; all else means that nothing was decided."""
PROBLEM = re.compile(r"^(?P<file>.+?):(?P<line>\d+):(?P<column>\d+): (?P<message>.+)$")
"""How `alignkit.source.Problem` is written."""


def run_gate(
    file: Path,
    overrides: Sequence[str],
    workspace: Workspace,
    *,
    baselines: Path | None,
    exit_zero: bool,
    report: bool,
    changed_only: bool = False,
    progress: Progress,
) -> GateResult:
    """Check a file and say the outcome; an error is an outcome, too.

    Outside CI, changes against a baseline become pending.
    """
    words = ["alignkit", "gate", str(file)]
    command = shlex.join([*words, *(word for each in overrides for word in ("--set", each))])
    try:
        experiment = load_experiment(file, overrides)
        checked = check(
            experiment,
            workspace,
            baselines=baselines,
            changed_only=changed_only,
            progress=progress,
        )
        page = _page(checked) if report else None
    except AlignkitError as error:
        return _failed(file, command, str(error), error.exit_code, _findings(file, error))
    except KeyboardInterrupt:
        return _failed(file, command, "interrupted", ExitCode.INTERRUPTED, ())
    except Exception as error:  # noqa: BLE001 - a crash is told from drift in every output
        what = traceback.format_exception_only(error)[-1].strip()
        told = f"{what}\nThis is a defect of alignkit; please report it:\n{traceback.format_exc()}"
        return _failed(file, command, told, ExitCode.CRASHED, ())
    code = checked.record.verdict.exit_code
    pending = None
    if checked.now is not None and experiment.content.gate.environment is None:
        pending = pending_changes(checked.approved, checked.now)
    if pending is not None and not in_ci():
        write_pending(pending_file(workspace, experiment.name, pending.fingerprint), pending)
    return GateResult(
        name=experiment.name,
        file=file,
        command=command,
        verdict=checked.record.verdict,
        exit_code=0 if exit_zero and code in PARDONABLE else code,
        record=checked.record,
        page=page,
        findings=ended_waivers(experiment, date.today()),  # noqa: DTZ011 - the reader's day
        pending=pending,
    )


def _page(checked: Checked) -> Path:
    from alignkit.report import render

    return render(checked.folder)


def _failed(
    file: Path, command: str, told: str, code: ExitCode, findings: tuple[Finding, ...]
) -> GateResult:
    verdict = Verdict(state="error", sentence=told, informational=False, exit_code=int(code))
    return GateResult(file.stem, file, command, verdict, int(code), findings=findings)


def _findings(file: Path, error: AlignkitError) -> tuple[Finding, ...]:
    """Each mistake of a `ConfigError` at its line; any other error at none."""
    if not isinstance(error, ConfigError):
        return ()
    matches = [found for line in str(error).splitlines() if (found := PROBLEM.match(line))]
    if not matches:
        return (Finding(str(file), 0, 0, "error", "config", str(error)),)
    return tuple(
        Finding(
            found["file"], int(found["line"]), int(found["column"]), "error", "config",
            found["message"],
        )
        for found in matches
    )  # fmt: skip


def ended_waivers(experiment: Experiment, today: date) -> tuple[Finding, ...]:
    """Waivers whose day is over: they excuse nothing any more."""
    from alignkit.source import parse

    source = parse(experiment.text, str(experiment.file))
    found = []
    for index, waiver in enumerate(experiment.content.gate.waive):
        if waiver.until < today:
            place = source.place(("gate", "waive", index), of_key=False)
            message = f"the waiver of {waiver.rule} ended on {waiver.until} and excuses nothing"
            found.append(
                Finding(str(experiment.file), place.line + 1, place.column + 1, "warning",
                        "ended-waiver", message)
            )  # fmt: skip
    return tuple(found)
