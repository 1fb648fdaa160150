"""File → `GateResult`: the outcome of a gate run, errors included, ready for every output."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from alignkit.baseline.approval import in_ci
from alignkit.baseline.pending import pending_changes, pending_file, write_pending
from alignkit.errors import (
    AlignkitError,
    ConfigError,
    ExitCode,
    interruption_code,
    without_credentials,
    without_secrets,
)
from alignkit.experiment import Mistakes, load_experiment
from alignkit.experiment.experiment import Experiment
from alignkit.experiment.yaml_source import parse
from alignkit.gate.gate_check import Checked, check, store_shard
from alignkit.gate.outputs import GateResult
from alignkit.judge import informational_exit_code
from alignkit.lots import Shard
from alignkit.lots.engines import LOCAL, EngineOption
from alignkit.progress import Progress
from alignkit.record import Finding, Verdict
from alignkit.record.verdict_facts import stated
from alignkit.workspace import Context, Workspace


@dataclass(frozen=True, slots=True)
class GateRun:
    """A file to check, with its options."""

    file: Path
    overrides: Sequence[str]
    workspace: Workspace
    baselines: Path | None = None
    exit_zero: bool = False
    report: bool = True
    """Render the HTML page."""
    changed_only: bool = False
    against: Path | None = None
    """The folder of a run that replaces the baseline."""
    fail_fast: bool = False
    engine: EngineOption = LOCAL
    """Where lots of images are worked on."""

    @property
    def command(self) -> str:
        """Shell command that reproduces this."""
        against = ["--against", str(self.against)] if self.against else []
        fast = ["--fail-fast"] if self.fail_fast else []
        changed = ["--changed-only"] if self.changed_only else []
        zero = ["--exit-zero"] if self.exit_zero else []
        options = [*self.engine.words(), *against, *fast, *changed, *zero, *self._folders]
        words = ["alignkit", "gate", str(self.file), *self._sets, *options]
        # an override that is refused may hold a password
        return without_credentials(shlex.join(words))

    @property
    def review(self) -> str:
        """Shell command that reviews the changes that this leaves pending."""
        return shlex.join(
            ["alignkit", "baseline", "review", str(self.file), *self._sets, *self._folders]
        )

    @property
    def _sets(self) -> list[str]:
        return [word for each in self.overrides for word in ("--set", without_secrets(each))]

    @property
    def _folders(self) -> list[str]:
        baselines = ["--baselines", str(self.baselines)] if self.baselines else []
        return [*baselines, *self.workspace.option]


def run_gate(run: GateRun, progress: Progress) -> GateResult:
    """Check a file; an error is an outcome, too.

    Outside CI, changes against a baseline become pending.
    """
    try:
        experiment = load_experiment(run.file, run.overrides)
        with run.engine.when_used() as engine:
            checked = check(
                experiment,
                Context(run.workspace, progress, engine=engine),
                baselines=run.baselines,
                changed_only=run.changed_only,
                against=run.against,
                fail_fast=run.fail_fast,
            )
        return _result(run, experiment, checked)
    except ConfigError as error:
        return _failed(run, str(error), error.exit_code, _mistakes(run.file, error))
    except AlignkitError as error:
        return _failed(run, str(error), error.exit_code)
    except KeyboardInterrupt as error:
        return _failed(run, "interrupted", interruption_code(error))
    except Exception as error:  # noqa: BLE001 - every output tells a crash from drift
        what = traceback.format_exception_only(error)[-1].strip()
        text = f"{what}\nThis is a defect of alignkit; please report it:\n{traceback.format_exc()}"
        return _failed(run, text, ExitCode.CRASHED)


def store_gate_shard(run: GateRun, shard: Shard, progress: Progress) -> tuple[int, int]:
    """Store the lots of a shard, which `run_gate` then adds up; return how many, and all images.

    Raises `ConfigError` for options that skip images, and as `store_shard` does.
    """
    if run.fail_fast or run.changed_only:
        raise ConfigError(
            "--shard measures all of its images; leave --fail-fast and --changed-only out"
        )
    experiment = load_experiment(run.file, run.overrides)
    with run.engine.when_used() as engine:
        context = Context(run.workspace, progress, engine=engine)
        return store_shard(experiment, context, shard, baselines=run.baselines, against=run.against)


def _result(run: GateRun, experiment: Experiment, checked: Checked) -> GateResult:
    code = checked.record.verdict.exit_code
    pending = None
    # only changes against this machine's own baseline can be approved here
    if checked.now is not None and experiment.gate.environment is None and run.against is None:
        pending = pending_changes(checked.approved, checked.now)
        if not in_ci():  # a CI job's workspace is gone after it
            file = pending_file(run.workspace, experiment.name, pending.fingerprint)
            write_pending(file, pending)
    page = None
    if run.report:
        from alignkit.report import render  # late: a gate without a page needs no templates

        run.workspace.keep_out_of_git()  # of images alone, nothing else was stored
        page = render(checked.folder)
    return GateResult(
        name=experiment.name,
        file=run.file,
        command=run.command,
        verdict=checked.record.verdict,
        exit_code=informational_exit_code(code) if run.exit_zero else code,
        record=checked.record,
        page=page,
        findings=(*_overridden(experiment, checked.record.verdict), *_ended_waivers(experiment)),
        pending=pending,
        review=run.review,
    )


def _failed(
    run: GateRun, sentence: str, code: ExitCode, findings: tuple[Finding, ...] = ()
) -> GateResult:
    told = (stated("message", text=sentence),)
    verdict = Verdict(state="error", sentence=told, informational=False, exit_code=int(code))
    return GateResult(run.file.stem, run.file, run.command, verdict, int(code), findings=findings)


def _mistakes(file: Path, error: ConfigError) -> tuple[Finding, ...]:
    """Return each mistake in the file with its line; the whole text if it names no line."""
    problems = error.problems if isinstance(error, Mistakes) else ()
    return tuple(
        Finding(
            str(file), each.place.line + 1, each.place.column + 1, "error", "config",
            f"{each.key}: {each.message}" if each.key else each.message,
        )
        for each in problems
        if each.place.in_the_file
    ) or (Finding(str(file), 0, 0, "error", "config", str(error)),)  # fmt: skip


def _overridden(experiment: Experiment, verdict: Verdict) -> tuple[Finding, ...]:
    """Find the rules and paths that were judged instead of the file's."""
    return tuple(
        Finding(str(experiment.file), 0, 0, "warning", "override",
                f"judged with --set {each}, which is not in the file")
        for each in verdict.overrides
    )  # fmt: skip


def _ended_waivers(experiment: Experiment) -> tuple[Finding, ...]:
    """Find the waivers whose last day is over: they have no effect any more."""
    file, today = str(experiment.file), date.today()  # noqa: DTZ011 - the reader's day
    source, findings = parse(experiment.text, file), []
    for index, waiver in enumerate(experiment.gate.waive):
        if waiver.until < today:
            place = source.place(("gate", "waive", index), of_key=False)
            where = file, place.line + 1, place.column + 1
            message = f"the waiver of {waiver.rule} ended on {waiver.until} and excuses nothing"
            findings.append(Finding(*where, "warning", "ended-waiver", message))
    return tuple(findings)
