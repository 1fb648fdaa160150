"""Evidence that needs a GPU, collected in one run with hardware and versions.

    python benchmarks/gpu.py OUT [--images DIR] [--data DIR]

**Not yet run on hardware.** Needs an NVIDIA GPU and exits with 4 without one. Each step is a
separate command, whose output is stored in OUT, so a failing step does not stop the others:

- the tests marked gpu, and the conformance tests of every plugin, including the GPU plugins;
- real decoders on the GPU against Pillow, stage by stage, and images per second of each decoder;
- every way in which this machine decodes JPEG files, recorded as pairs, and the rule that
  reproduces each;
- the distance of every surrogate to its real stack;
- experiments/gpu.yaml: paths, precisions and engines of a GPU in one matrix, with latencies;
- experiments/consistency.yaml with torchpipe's own decoder instead of its surrogate.

At the end, predictions made without a GPU are compared with the results: the pixels of
`nvjpeg-model`, and the logits of every simulated precision. It prints which of them held.

``--images`` is a folder of JPEG files for decoding; ``--data`` is a folder of classes for the last
step, which is skipped without it. Writes OUT/evidence.json; exits 3 if a step failed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
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
    """Command with the exit codes that count as success."""

    name: str
    command: tuple[str, ...]
    done: tuple[int, ...] = (ExitCode.PASS,)
    output: Path | None = None
    """File for what it prints to stdout; by default its log."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a step."""

    name: str
    command: str
    exit_code: int
    done: bool
    seconds: float
    log: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """Speed of one decoder, one image at a time, including the copy to CPU memory."""

    decoder: str
    version: str
    decoded: int
    failed: int
    images_per_second: float | None
    missing: str = ""


def steps(out: Path, images: Path | None, data: Path | None) -> Iterator[Step]:
    """List the commands; each writes to ``out``."""
    judged = (ExitCode.PASS, ExitCode.DRIFT, ExitCode.INCONCLUSIVE)
    probe = (str(images),) if images else ("--config", "experiments/gpu.yaml")
    pytest = (sys.executable, "-m", "pytest", "-rs")
    yield Step("tests", (*pytest, "-m", "gpu"))
    yield Step("conformance", (*pytest, "tests/backends", "tests/decoders", "tests/resizers"))
    for name, stack in REAL.items():
        stacks = ("--preprocess", "pillow-train", "--preprocess", stack)
        wanted = ("--planes", "full", "--out", f"json={out / f'diff-{name}.json'}")
        yield Step(f"diff-{name}", (*ALIGNKIT, "diff", *probe, *stacks, *wanted))
    recorder, pairs = out / "record.py", out / "pairs"
    yield Step("recorder", (*ALIGNKIT, "calibrate", "--recorder"), output=recorder)
    own = (str(images),) if images else ()
    yield Step("record", (sys.executable, str(recorder), *own, "--out", str(pairs)))
    compared = (*ALIGNKIT, "calibrate", "--pairs", str(pairs), "--out", f"json={out}")
    yield Step("pairs", compared)
    kept = ("--out", f"json={out / 'calibration'}", "--out", f"residuals={out / 'residuals'}")
    added = ("--images", str(images)) if images else ()
    # 4: the library of a stack is not installed; the others are measured
    yield Step(
        "calibrate", (*ALIGNKIT, "calibrate", *kept, *added), (ExitCode.PASS, ExitCode.MISSING)
    )
    run = (*ALIGNKIT, "run", "--no-open", "--reports", str(out / "reports"))
    # 4: an optional library is missing; the record names it
    yield Step("run", (*run, "experiments/gpu.yaml"), (*judged, ExitCode.MISSING))
    if data:
        real = ("--set", f"data.root={data}", "--set", "preprocess.gpu.preset=torchpipe-gpu")
        yield Step("consistency", (*run, "experiments/consistency.yaml", *real), judged)
    held = (sys.executable, "benchmarks/gpu_predictions.py", str(out))
    yield Step("predictions", held, (ExitCode.PASS, ExitCode.DRIFT))


def outcome(step: Step, out: Path) -> Outcome:
    """Run one command from the repository and store its output."""
    log = out / f"{step.name}.txt"
    started = time.perf_counter()
    with log.open("w") as file, step.output.open("w") if step.output else nullcontext(file) as said:
        ended = subprocess.run(step.command, check=False, stdout=said, stderr=file)
    seconds = round(time.perf_counter() - started, 1)
    done = ended.returncode in step.done
    return Outcome(step.name, " ".join(step.command), ended.returncode, done, seconds, log.name)


def decoding(name: str, files: list[bytes]) -> Decoding:
    """Time one decoder over the files, after decoding the first file once as a warm-up."""
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
    """List the folder's JPEG files, or scikit-learn's photos, repeated up to `TIMED`."""
    if images:
        found = [each.read_bytes() for each in sorted(images.rglob("*.jp*g"))]
    else:
        from tests.photos import encoded, photo

        found = [encoded(photo(height=1080, width=1920), quality=90)]
    if not found:
        raise SystemExit(f"{images} holds no JPEG file")
    return (found * (TIMED // len(found) + 1))[:TIMED]


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--data", type=Path)
    return parser.parse_args()


def clear(out: Path) -> None:
    """Delete what predictions are held against, if an earlier run left it and this one fails."""
    shutil.rmtree(out / "pairs", ignore_errors=True)
    (out / "pairs.json").unlink(missing_ok=True)
    # the run's own folder: the work it is made of is kept beside it, and is not done twice
    shutil.rmtree(out / "reports" / "gpu", ignore_errors=True)


def main() -> int:
    """Collect the evidence and return the exit code."""
    given = arguments()
    if not gpu_present():
        print(f"gpu evidence: {NO_GPU}; nothing was run and nothing written", file=sys.stderr)
        return ExitCode.MISSING
    given.out.mkdir(parents=True, exist_ok=True)
    clear(given.out)
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
        }  # written after every step, because a borrowed machine may disappear
        (given.out / "evidence.json").write_text(json.dumps(evidence, indent=1))
    print((given.out / "predictions.txt").read_text())
    failed = [each.name for each in outcomes if not each.done]
    if failed:
        print(f"failed: {', '.join(failed)}; see {given.out}", file=sys.stderr)
    return ExitCode.CRASHED if failed else ExitCode.PASS


if __name__ == "__main__":
    raise SystemExit(main())
