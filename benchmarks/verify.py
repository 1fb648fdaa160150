"""Share of a cached run that verifying its record and files takes.

The run is carried out first if need be. Then the CPU time of its cached run, with its report, is
measured with and without the verification in turn, in one process; imports are not counted, so
that the share in the whole command is smaller.

    python benchmarks/verify.py [FILE] [--reports DIR] [--repeats N]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from alignkit.experiment import load_experiment
from alignkit.experiment.experiment import Experiment
from alignkit.machine import cpu_name
from alignkit.progress import NoProgress
from alignkit.record import artifacts, document
from alignkit.report.write_report import ReportOptions, write_report
from alignkit.run import run_experiment
from alignkit.workspace import Context, Workspace


@contextmanager
def unverified() -> Iterator[None]:
    """Believe every hash, and every picture."""
    with (
        mock.patch.object(artifacts, "file_sha256", _Any),
        mock.patch.object(artifacts, "is_picture", return_value=True),
        mock.patch.object(document, "unsealed", lambda _, data, __: b"{" + data[80:]),
    ):
        yield


class _Any(str):
    """A hash that equals every other."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        return False


def seconds(experiment: Experiment, context: Context) -> float:
    """Measure the CPU time of one cached run and its report."""
    began = time.process_time()
    _, folder = run_experiment(experiment, context)
    write_report(folder, ReportOptions())
    return time.process_time() - began


def main() -> None:
    """Print both medians and the median of the paired ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path, nargs="?", default=Path("experiments/quickstart.yaml"))
    parser.add_argument("--reports", type=Path, default=Path("reports"))
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    experiment = load_experiment(given.file, ())
    context = Context(Workspace(given.reports), NoProgress())
    seconds(experiment, context)  # carries it out, and imports everything
    pairs = []
    for _ in range(given.repeats):
        whole = seconds(experiment, context)
        with unverified():
            pairs.append((whole, seconds(experiment, context)))
    whole, bare = (statistics.median(column) for column in zip(*pairs, strict=True))
    share = statistics.median(1 - without / with_ for with_, without in pairs)
    print(
        f"{cpu_name()}: cached run of {experiment.name} and its report {whole:.3f} s, without "
        f"verification {bare:.3f} s; verification is {share:.1%}"
    )


if __name__ == "__main__":
    main()
