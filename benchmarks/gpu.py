"""What no CPU can tell, in one run: evidence files with hardware and versions.

    python benchmarks/gpu.py OUT [--images DIR] [--data DIR]

**Not yet run on hardware.** Needs an NVIDIA GPU and exits 4 without one. Each step is a command of
its own, whose output is kept in OUT, so that one that fails stops no other:

- the tests marked gpu, and the checks that every plugin goes through, now of those of the GPU too;
- real decoders on the GPU against Pillow, stage by stage, and images a second of each decoder;
- every surrogate's distance to the stack it stands in for;
- experiments/gpu.yaml: paths, precisions and engines of a GPU in one matrix, with latencies;
- experiments/consistency.yaml with torchpipe's own decoder in place of its surrogate.

``--images`` are JPEG files for decoding; ``--data`` is a folder of classes for the last step, which
is left out without it. Writes OUT/evidence.json; exits 3 if a step failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from alignkit.decoders import DECODERS
from alignkit.errors import ExitCode
from alignkit.findings.environment import environment
from alignkit.plugins import NO_GPU, gpu_present

ALIGNKIT = (sys.executable, "-m", "alignkit")
REAL = {
    "torchpipe-gpu": "torchpipe-gpu",
    "torchvision-cuda": "torchvision-cuda",
    "dali-gpu": "dali-gpu",
    "nvimgcodec-gpu": "{decode: nvimgcodec-gpu, resize: {name: pillow, size: 224}}",
}
TIMED = 200
"""Images decoded for a time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, and the exit codes with which it has done its work."""

    name: str
    command: tuple[str, ...]
    done: tuple[int, ...] = (ExitCode.PASS,)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a step."""

    name: str
    command: str
    exit_code: int
    done: bool
    seconds: float
    log: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How fast one decoder is, an image at a time, copied back to the CPU's memory."""

    decoder: str
    version: str
    decoded: int
    failed: int
    images_per_second: float | None
    missing: str = ""


def steps(out: Path, images: Path | None, data: Path | None) -> Iterator[Step]:
    """The commands, each writing into ``out``."""
    judged = (ExitCode.PASS, ExitCode.DRIFT, ExitCode.INCONCLUSIVE)
    probe = (str(images),) if images else ("--config", "experiments/gpu.yaml")
    pytest = (sys.executable, "-m", "pytest", "-rs")
    yield Step("tests", (*pytest, "-m", "gpu"))
    yield Step("conformance", (*pytest, "tests/backends", "tests/decoders", "tests/resizers"))
    for name, stack in REAL.items():
        stacks = ("--preprocess", "pillow-train", "--preprocess", stack)
        wanted = ("--planes", "full", "--out", f"json={out / f'diff-{name}.json'}")
        yield Step(f"diff-{name}", (*ALIGNKIT, "diff", *probe, *stacks, *wanted))
    kept = ("--out", str(out / "calibration"), "--residuals", str(out / "residuals"))
    own = ("--images", str(images)) if images else ()
    # 4: a stack's library is not installed; all others are measured
    yield Step(
        "calibrate", (*ALIGNKIT, "calibrate", *kept, *own), (ExitCode.PASS, ExitCode.MISSING)
    )
    run = (*ALIGNKIT, "run", "--no-open", "--reports", str(out / "reports"))
    # 4: of an optional library; the record says of which
    yield Step("run", (*run, "experiments/gpu.yaml"), (*judged, ExitCode.MISSING))
    if data:
        real = ("--set", f"data.root={data}", "--set", "preprocess.gpu.preset=torchpipe-gpu")
        yield Step("consistency", (*run, "experiments/consistency.yaml", *real), judged)


def outcome(step: Step, out: Path) -> Outcome:
    """Run one command from the repository, and keep what it said."""
    log = out / f"{step.name}.txt"
    started = time.perf_counter()
    with log.open("w") as file:
        ended = subprocess.run(step.command, check=False, stdout=file, stderr=subprocess.STDOUT)
    seconds = round(time.perf_counter() - started, 1)
    done = ended.returncode in step.done
    return Outcome(step.name, " ".join(step.command), ended.returncode, done, seconds, log.name)


def decoding(name: str, files: list[bytes]) -> Decoding:
    """One decoder over the files; the first of them is decoded once before the time begins."""
    plugin = DECODERS[name]
    if missing := plugin.missing():
        return Decoding(name, "", 0, 0, None, missing)
    decoder = plugin.load()()
    decoder.decode(files[0])
    started = time.perf_counter()
    outcomes = [decoder.decode(each).outcome for each in files]
    seconds = time.perf_counter() - started
    failed = sum(each == "failed" for each in outcomes)
    rate = round(len(files) / seconds, 1)
    return Decoding(name, decoder.version(), len(files) - failed, failed, rate)


def files_to_decode(images: Path | None) -> list[bytes]:
    """The folder's JPEG files, or photos of scikit-learn's, repeated up to `TIMED`."""
    if images:
        found = [each.read_bytes() for each in sorted(images.rglob("*.jp*g"))]
    else:
        from tests.photos import encoded, photo

        found = [encoded(photo(height=1080, width=1920), quality=90)]
    if not found:
        raise SystemExit(f"{images} holds no JPEG file")
    return (found * (TIMED // len(found) + 1))[:TIMED]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--data", type=Path)
    return parser.parse_args()


def main() -> int:
    """Take the evidence; the exit code."""
    given = arguments()
    if not gpu_present():
        print(f"gpu evidence: {NO_GPU}; nothing was run and nothing written", file=sys.stderr)
        return ExitCode.MISSING
    given.out.mkdir(parents=True, exist_ok=True)
    files = files_to_decode(given.images)
    decoders = [decoding(name, files) for name in DECODERS]
    outcomes = []
    for step in steps(given.out, given.images, given.data):
        outcomes.append(outcome(step, given.out))
        print(f"{step.name}: exit {outcomes[-1].exit_code} in {outcomes[-1].seconds:.0f} s")
        evidence = {
            "environment": environment().model_dump(),
            "decoding": [asdict(each) for each in decoders],
            "steps": [asdict(each) for each in outcomes],
        }  # written after every step: a machine that is lent may be taken away
        (given.out / "evidence.json").write_text(json.dumps(evidence, indent=1))
    failed = [each.name for each in outcomes if not each.done]
    if failed:
        print(f"failed: {', '.join(failed)}; see {given.out}", file=sys.stderr)
    return ExitCode.CRASHED if failed else ExitCode.PASS


if __name__ == "__main__":
    raise SystemExit(main())
