"""Cost of verifying stored work: its share of a cached run, and of reading prepared images.

The run is one whose work is stored: once without its record, as after a change of its rules, and
once with it. Times are CPU times of one process, so that another program on the machine hardly
changes the shares; the files are in the system's page cache.

    PYTHONPATH=. python benchmarks/hashing.py [REPORTS] [FILE] [--repeats N]

REPORTS is the ``--reports`` folder of a finished run of FILE; it is copied, not changed. Without
it, a quickstart of one epoch and one seed is run first. On x86, the SHA extensions are hidden from
OpenSSL by ``OPENSSL_ia32cap=:~0x20000000``.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from figures import Figure, alternate, ratios, show

SIDE = 224
IMAGES = 1000
"""Images that are hashed; the time of 10,000 is ten times theirs."""
SMALL = ("train.epochs=1", "train.seeds=[0]")
MEASURED = "hashing.py measured:"


def processor() -> str:
    """Name the processor, and whether OpenSSL may use its SHA extensions."""
    from alignkit.machine import cpu_name, processor_flags

    if not processor_flags():
        return f"{cpu_name()}, SHA extensions unknown"
    # OpenSSL's own spelling
    hidden = "0x20000000" in os.environ.get("OPENSSL_ia32cap", "")  # noqa: SIM112
    used = processor_flags() & {"sha_ni", "sha2"} and not hidden
    return f"{cpu_name()} {'with' if used else 'without'} SHA extensions"


def cached_run(file: Path, reports: Path, overrides: Sequence[str]) -> None:
    """Carry out a run in this process; print its CPU time and that of verifying."""
    from alignkit import stored_file
    from alignkit.experiment import load_experiment
    from alignkit.progress import NoProgress
    from alignkit.report.write_report import ReportOptions, kept_report
    from alignkit.runner import run_experiment
    from alignkit.workspace import Context, Finished, Workspace

    spent, depth = 0.0, 0

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def measured(*given: Any, **named: Any) -> Any:
            nonlocal spent, depth
            began, depth = time.process_time(), depth + 1
            try:
                return work(*given, **named)
            finally:
                depth -= 1
                # a hash inside a verification is counted once
                spent += (time.process_time() - began) * (depth == 0)

        return measured

    hashlib.file_digest = timed(hashlib.file_digest)  # type: ignore[assignment]
    stored_file.unsealed = timed(stored_file.unsealed)
    Finished.verify = timed(Finished.verify)  # type: ignore[method-assign]
    read = Finished.read
    Finished.read = staticmethod(timed(read))  # type: ignore[assignment,method-assign]
    _, folder = run_experiment(
        load_experiment(file, overrides), Context(Workspace(reports), NoProgress())
    )
    kept_report(folder, ReportOptions())
    print(MEASURED, time.process_time(), spent)


def measure_runs(
    file: Path, reports: Path, overrides: Sequence[str], repeats: int
) -> Iterator[Figure]:
    """Measure a run without its record, and again with it."""
    shares: dict[str, list[float]] = {"without its record": [], "with its record": []}
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "reports"
        shutil.copytree(reports, copy)
        for _ in range(repeats):
            for record in copy.glob("*/*/record.json"):
                record.unlink()
            for name, found in shares.items():
                command = [sys.executable, __file__, str(copy), str(file), "--child", *overrides]
                done = subprocess.run(command, check=True, capture_output=True, text=True)
                total, spent = (float(each) for each in done.stdout.partition(MEASURED)[2].split())
                print(f"cached run {name}: {spent:.3f} of {total:.2f} s are verifying")
                found.append(spent / total)
    for name, found in shares.items():
        yield Figure(f"verifying / cached run {name}, CPU time", found)


def small_run(file: Path, reports: Path) -> None:
    """Run the experiment, which a gate may judge as it likes."""
    command = [sys.executable, "-m", "alignkit", "run", str(file), "--reports", str(reports)]
    for override in SMALL:
        command += ["--set", override]
    done = subprocess.run(
        [*command, "--no-open", "-q"], check=False, capture_output=True, text=True
    )
    if not any(reports.glob("*/*/record.json")):
        sys.exit(done.stderr)


def measure_images(repeats: int) -> list[Figure]:
    """Compare the hashing of prepared images with decoding them, and with making batches."""
    import numpy as np

    from alignkit.datasets.digits_on_photos import DigitsOnPhotos
    from alignkit.decoders.opencv import OpenCVDecoder
    from alignkit.prepare import prepare_one
    from alignkit.preprocess import Preprocess, Resize
    from alignkit.preprocess.normalise import Normalise
    from alignkit.resizers.opencv import OpenCVResizer
    from alignkit.stored_file import file_sha256

    samples = DigitsOnPhotos().evaluation()
    path = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (SIDE, SIDE)))
    files = [samples.read(index) for index in range(100)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pixels.npy"
        np.save(file, np.random.default_rng(0).integers(0, 256, (IMAGES, SIDE, SIDE, 3), np.uint8))
        pixels, normalise = np.load(file, mmap_mode="r"), Normalise()
        batches = [slice(start, start + 50) for start in range(0, IMAGES, 50)]
        works = {
            "hashing": lambda: file_sha256(file),
            "making batches": lambda: [normalise(pixels[each]) for each in batches],
            "decoding and resizing small images": lambda: [
                prepare_one("", each, path) for each in files
            ],
        }
        costs = alternate(works, repeats)
        size = file.stat().st_size
    hashing, *others = ([each.cpu for each in side] for side in costs.values())
    others[1] = [each * IMAGES / len(files) for each in others[1]]
    print(
        f"10,000 prepared images of {SIDE}x{SIDE} ({10 * size / 1e9:.1f} GB): hashing takes "
        f"{10 * min(hashing):.2f} s ({size / min(hashing) / 1e9:.2f} GB/s)"
    )
    return [
        Figure(f"hashing prepared images / {name}, CPU time", ratios(hashing, other))
        for name, other in zip([*works][1:], others, strict=True)
    ]


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("reports", type=Path, nargs="?")
    parser.add_argument("file", type=Path, nargs="?", default=Path("experiments/quickstart.yaml"))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--child", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        cached_run(given.file, given.reports, given.child)
        return
    print(processor())
    with tempfile.TemporaryDirectory() as folder:
        if not given.reports:
            small_run(given.file, Path(folder))
        overrides = [] if given.reports else SMALL
        reports = given.reports or Path(folder)
        runs = [*measure_runs(given.file, reports, overrides, min(given.repeats, 3))]
    show([*runs, *measure_images(given.repeats)])


if __name__ == "__main__":
    main()
