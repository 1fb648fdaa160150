"""`alignkit conformance`: whether a plugin keeps its family's contract, check by check.

The contracts stand at the top of `alignkit.decoders`, `alignkit.resizers`, `alignkit.backends`,
`alignkit.datasets` and `alignkit.tasks`. The tests of alignkit call the same checks for every
plugin of its own.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from alignkit.backends import BACKENDS
from alignkit.datasets import DATASETS
from alignkit.decoders import DECODERS
from alignkit.errors import AlignkitError, ConfigError, DataError, ExitCode, MissingDependency
from alignkit.experiment.option import plugin_from
from alignkit.plugins import PluginTable, did_you_mean
from alignkit.resizers import RESIZERS
from alignkit.tasks import TASKS

_MAJOR_MINOR = r"(?<![\d.])\d+\.\d+"
"""Regular expression of the first two numbers of a version."""

CheckState = Literal["passed", "failed", "skipped"]


class Nonconforming(AssertionError):  # noqa: N818 - a finding about the plugin
    """A plugin broke a rule of its contract; the message says how, with the numbers."""


class NotApplicable(Exception):  # noqa: N818 - no error
    """A check that says nothing about this plugin; the message says why."""


@dataclass(frozen=True, slots=True)
class Check:
    """One rule of a contract."""

    name: str
    """Sentence whose subject is the plugin: ``never raises for bad bytes``."""
    run: Callable[[], str]
    """Returns the measurement in words; raises `Nonconforming` or `NotApplicable`."""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The outcome of one check."""

    name: str
    state: CheckState
    finding: str
    """Measurement, or reason."""


@dataclass(frozen=True, slots=True)
class Conformance:
    """The outcome of all checks of a plugin."""

    family: str
    name: str
    package: str
    """Distribution whose entry point adds the plugin; empty for one of alignkit's own."""
    version: str
    """Versions that cache keys hold."""
    results: tuple[CheckResult, ...]

    def count(self, state: CheckState) -> int:
        """Count the checks that ended so."""
        return sum(each.state == state for each in self.results)

    @property
    def exit_code(self) -> ExitCode:
        """1 if a check failed, 5 if none could be made, else 0."""
        if self.count("failed"):
            return ExitCode.DRIFT
        return ExitCode.PASS if self.count("passed") else ExitCode.NOTHING_COMPARED


CHECKED: dict[str, tuple[PluginTable, str]] = {
    "decoder": (DECODERS, "decoder_checks"),
    "resizer": (RESIZERS, "resizer_checks"),
    "backend": (BACKENDS, "backend_checks"),
    "dataset": (DATASETS, "dataset_checks"),
    "task": (TASKS, "task_checks"),
}
"""Family → its plugins, and the module of its checks."""


def conformance(
    family: str, name: str, options: dict[str, Any], *, images: Sequence[Path] = ()
) -> Conformance:
    """Make every check of a family on a plugin, built with ``options``.

    ``images`` are folders or files that a decoder decodes besides.

    Raises `ConfigError` for a wrong name or option, `MissingDependency` if the plugin cannot run
    here, and `DataError` for ``images``, or a data set's folder, that cannot be read.
    """
    kind = family.removesuffix("s")
    if kind not in CHECKED:
        raise ConfigError(f"no family {family!r}{did_you_mean(kind, CHECKED)}")
    table, module = CHECKED[kind]
    found = table.find(name)
    found.require(name)
    plugin = _built(table, name, options)
    checks: Callable[[Any], Iterable[Check]] = import_module(f"{__name__}.{module}").checks
    given = [_images_check(kind, plugin, images)] if images else []
    # a data set's options are the user's, such as a folder that does not exist
    raised = (MissingDependency, DataError) if kind == "dataset" else (MissingDependency,)
    results = [made(each, raised=raised) for each in chain(checks(plugin), given)]
    if hasattr(plugin, "version"):  # a task depends on no library of its own
        results.append(made(version_check(plugin, found.version())))
    return Conformance(kind, name, found.package, found.version(), tuple(results))


def _images_check(kind: str, plugin: Any, images: Sequence[Path]) -> Check:
    from alignkit.datasets.unlabelled_images import Images
    from alignkit.studies.conformance.decoder_checks import given_files

    if kind != "decoder":
        raise ConfigError(f"--images are for a decoder; a {kind} decodes nothing")
    samples = Images(tuple(images)).evaluation()
    return Check("decodes the images given", lambda: given_files(plugin, samples))


def _built(table: PluginTable, name: str, options: dict[str, Any]) -> Any:
    from pydantic import ValidationError

    try:
        return plugin_from(table, {"name": name, **options})
    except ValidationError as error:
        lines = [
            ": ".join(filter(None, (".".join(map(str, line["loc"])), line["msg"])))
            for line in error.errors(include_url=False)
        ]
        listed = "; ".join(lines)
        raise ConfigError(
            f"{name}: {listed}; give an option as KEY=VALUE behind the name"
        ) from None


def made(
    check: Check, *, raised: tuple[type[AlignkitError], ...] = (MissingDependency,)
) -> CheckResult:
    """Make a check; whatever the plugin raises is its failure, except errors of ``raised``."""
    try:
        return CheckResult(check.name, "passed", check.run())
    except NotApplicable as reason:
        return CheckResult(check.name, "skipped", str(reason))
    except Nonconforming as broken:
        return CheckResult(check.name, "failed", str(broken))
    except raised:
        raise
    except Exception as error:  # noqa: BLE001 - the plugin's own
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        said = " ".join(f"{type(error).__name__}: {error}".split())
        return CheckResult(check.name, "failed", f"raised {said} at {where}")


def require(holds: Any, otherwise: str) -> None:
    """Raise `Nonconforming` with ``otherwise`` unless the condition holds."""
    if not holds:
        raise Nonconforming(otherwise)


def version_check(plugin: Any, keyed: str) -> Check:
    """Check that ``version()`` names what runs, in a version that cache keys hold too.

    A key that holds only the package's own version would keep results of an older library.
    """

    def run() -> str:
        said = plugin.version()
        require(isinstance(said, str) and said, f"version() gives {said!r}, expected text")
        if not keyed:
            return f"{said}; it depends on no library"
        # a wheel's number may go on where the library's ends: 5.0.0.93
        numbers = re.findall(_MAJOR_MINOR, keyed)
        require(
            not {*numbers}.isdisjoint(re.findall(_MAJOR_MINOR, said)),
            f"version() says {said!r}, and cache keys hold {keyed!r}: name the distribution whose "
            "code runs in the entry point's Plugin, and its version in version()",
        )
        return f"{said}; cache keys hold {keyed}"

    return Check("names the library that ran, with the version that cache keys hold", run)
