"""Part 5: alignkit's own commands on this GPU, each with its time limit and log; run from the repository's root.

python mission.py main|evidence|imagenet|bench|late
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from common import KIT, WORK, folder, has_cuda, save

PART = "mission"
REPORTS = WORK / "reports"
MARKED = (
    "tests/decoders/test_torchvision_cuda.py",
    "tests/studies/calibrate/test_calibrate.py",
    "tests/backends/test_torchpipe.py",
    "tests/backends/test_tensorrt.py",
    "tests/backends/test_tensorrt_rtx.py",
    "tests/test_machine.py",
)
"""Files with tests marked gpu; collecting the whole suite would take a minute."""
A = [sys.executable, "-m", "alignkit"]


def experiment(name: str, **places: str) -> str:
    """Copy an experiment with its folders filled in; without CUDA it is reduced to what a CPU can try."""
    text = (KIT / "experiments" / f"{name}.yaml").read_text()
    for key, value in places.items():
        text = text.replace(key.upper(), value)
    if not has_cuda():
        text = (
            text.replace("device: cuda}", "device: cpu}")
            .replace("train: 1200, eval: 1000", "train: 120, eval: 100")
            .replace("seeds: [0, 1, 2]", "seeds: [0]")
        )
        text = (
            text.replace("epochs: 10", "epochs: 1")
            .replace("epochs: 20", "epochs: 1")
            .replace("train: 800, eval: 600", "train: 80, eval: 60")
        )
    target = folder(PART) / f"{name}.yaml"
    target.write_text(text)
    return str(target)


def step(name: str, limit: float, command: list[str], stdout: Path | None = None) -> dict:
    log = folder(PART) / f"{name}.txt"
    start = time.perf_counter()
    with log.open("w") as file, stdout.open("w") if stdout else open(os.devnull, "w") as other:
        try:
            done = subprocess.run(
                command,
                stdout=other if stdout else file,
                stderr=file,
                timeout=limit,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
            end: object = done.returncode
        except subprocess.TimeoutExpired:
            end = "timed out"
        except OSError as error:
            end = str(error)
    fact = {
        "name": name,
        "exit": end,
        "seconds": round(time.perf_counter() - start, 1),
        "limit": limit,
        "command": " ".join(command),
        "last": log.read_text(errors="replace").strip().splitlines()[-3:],
    }
    print(f"mission {name}: exit {end} in {fact['seconds']} s", flush=True)
    save(PART, f"{name}.json", fact)
    keep_reports()
    return fact


def pytest_step(name: str, limit: float, *arguments: str) -> dict:
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider"]
    return step(name, limit, [*command, *arguments])


def keep_reports() -> None:
    """Copy records, results and one-file pages out of the reports, without caches."""
    for record in REPORTS.glob("*/*/record.json"):
        target = folder(PART) / "runs" / record.parent.parent.name
        target.mkdir(parents=True, exist_ok=True)
        for name in ("", "predictions", "trainings"):
            for file in (record.parent / name).glob("*"):
                if file.is_file() and file.stat().st_size < 6 << 20:
                    (target / name).mkdir(exist_ok=True)
                    shutil.copy2(file, target / name / file.name)
    # weights of small models: precisions are simulated later, on a machine that has the libraries for it
    for weights in (REPORTS / ".cache" / "trainings").glob("*/*"):
        if weights.is_file() and weights.stat().st_size < 700_000:
            target = folder(PART) / "weights" / weights.parent.name
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(weights, target / weights.name)
    for bench in REPORTS.glob("*/*/bench-*/bench.json"):
        target = folder(PART) / "runs" / "bench"
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy2(bench, target / "bench.json")
        if (bench.parent / "index.html").exists():
            shutil.copy2(bench.parent / "index.html", target / "index.html")


def run(name: str, limit: float, *more: str, **places: str) -> dict:
    return step(
        f"run-{name}",
        limit,
        [
            *A,
            "run",
            experiment(name, **places),
            "--no-open",
            "--single-file",
            *(["--quick"] if not has_cuda() else []),
            "--reports",
            str(REPORTS),
            *more,
        ],
    )


def squares() -> str:
    """A folder of two classes of 1080x1080 photographs, as ImageFolder."""
    import io

    from PIL import Image

    root = WORK / "squares"
    photos = sorted((KIT / "photos").glob("*.jp*g"))
    for index, file in enumerate(photos[:48]):
        target = (
            root
            / ("train" if index % 3 else "eval")
            / ("one" if index % 2 else "two")
            / f"{file.stem}.jpg"
        )
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            image = (
                Image.open(io.BytesIO(file.read_bytes()))
                .convert("RGB")
                .resize((1080, 1080), Image.Resampling.BICUBIC)
            )
            image.save(target, quality=90)
    return str(root)


def flowers() -> str:
    """flowers12 as it is laid out for alignkit: train and eval."""
    root = WORK / "flowers"
    if not root.exists():
        shutil.copytree(KIT / "flowers12" / "train", root / "train")
        shutil.copytree(KIT / "flowers12" / "test", root / "eval")
    return str(root)


def diff(*stacks: str) -> dict:
    photos = str(KIT / "photos")
    ways = [word for each in stacks for word in ("-p", each)]
    name = "diff-" + stacks[-1].split(",")[0].strip("{}").replace(" ", "").replace(":", "-")
    return step(
        name,
        100,
        [
            *A,
            "diff",
            photos,
            *ways,
            "--limit",
            "24",
            "--planes",
            "full",
            "--out",
            f"json={folder(PART) / (name + '.document.json')}",
        ],
    )


def main_group() -> list:
    def mission() -> None:
        run("mission", 230, "--quiet")

    def on_flowers() -> None:
        run("flowers", 235, "--quiet", flowers=flowers())

    return [mission, on_flowers]


def evidence_group() -> list:
    """Commands that ran on an H100 on 27 November 2026, and the tests marked gpu."""
    out = folder(PART)
    recorder, pairs = out / "record.py", WORK / "pairs"
    shutil.rmtree(pairs, ignore_errors=True)

    def recorded() -> None:
        step("recorder", 60, [*A, "calibrate", "--recorder"], stdout=recorder)
        where = [] if has_cuda() else ["--device", "cpu"]
        step("record", 200, [sys.executable, str(recorder), "--out", str(pairs), *where])
        if pairs.with_suffix(".zip").exists():
            shutil.copy2(pairs.with_suffix(".zip"), out / "pairs.zip")
        step("pairs", 120, [*A, "calibrate", "--pairs", str(pairs), "--out", f"json={out}"])

    def tests() -> None:
        pytest_step("pytest-gpu", 150, "--maxfail=40", "-m", "gpu", *MARKED)
        pytest_step("pytest-decoders", 200, "tests/decoders", "tests/resizers", "-k", "cuda or gpu")

    def others() -> None:
        step("doctor", 60, [*A, "doctor"])
        diff("pillow-train", "torchvision-cuda")
        diff("torchvision-cuda", "torchvision-cuda-surrogate")
        diff("torchvision-cuda", "torchvision-cuda-engine-surrogate")
        kept = [
            "--out",
            f"json={out / 'calibration'}",
            "--out",
            f"residuals={WORK / 'residuals'}",
            "--images",
            str(KIT / "photos"),
        ]
        step(
            "calibrate",
            150,
            [
                *A,
                "calibrate",
                "torchvision-cuda-surrogate",
                "torchvision-cuda-engine-surrogate",
                "torchpipe-gpu-surrogate",
                *kept,
            ],
        )

    return [lambda: run("precisions", 200, "--quiet"), recorded, others, tests]


def bench_group() -> list:
    def bench() -> None:
        file = experiment("bench", squares=squares())
        common = ["--reports", str(REPORTS)]
        step("run-bench", 100, [*A, "run", file, "--no-open", "--quiet", *common])
        counts = (
            ["--requests", "500", "--rounds", "6"]
            if has_cuda()
            else ["--requests", "8", "--rounds", "2"]
        )
        step(
            "bench",
            160,
            [
                *A,
                "bench",
                file,
                "--clients",
                "1,5,10" if has_cuda() else "1",
                *counts,
                "--out",
                f"json={folder(PART) / 'bench.document.json'}",
                *common,
            ],
        )
        step(
            "bench-loaders",
            60,
            [
                *A,
                "bench",
                file,
                "--loaders",
                "--rounds",
                "4",
                "--cpus",
                "8",
                "--batch",
                "4",
                "--images",
                "32",
                *common,
            ],
        )

    return [bench]


def imagenet_group() -> list:
    def imagenet() -> None:
        run(
            "imagenet",
            140,
            "--quiet",
            imagenet=str(KIT / "imagenet400"),
            weights=str(KIT / "lite0.pt"),
        )

    return [imagenet]


def late_group() -> list:
    def late() -> None:
        run("late", 160, "--quiet")
        step("list-late", 60, [*A, "list", "backends"])

    def others() -> None:
        diff("pillow-train", "{decode: nvimgcodec-gpu, resize: {name: pillow, size: 224}}")
        diff("pillow-train", "torchpipe-gpu")
        diff("pillow-train", "dali-gpu")
        step(
            "calibrate-late",
            120,
            [
                *A,
                "calibrate",
                "dali-gpu-surrogate",
                "torchpipe-gpu-surrogate",
                "--out",
                f"json={folder(PART) / 'calibration'}",
                "--images",
                str(KIT / "photos"),
            ],
        )

    def tests() -> None:
        pytest_step(
            "pytest-late",
            150,
            "tests/backends/test_onnxruntime.py",
            "tests/backends/test_conformance.py",
            "-k",
            "cuda",
        )

    return [late, others, tests]


if __name__ == "__main__":
    groups = {
        "main": main_group,
        "evidence": evidence_group,
        "bench": bench_group,
        "imagenet": imagenet_group,
        "late": late_group,
    }
    with ThreadPoolExecutor(5) as pool:
        for done in [pool.submit(each) for each in groups[sys.argv[1]]()]:
            try:
                done.result()
            except Exception as error:  # noqa: BLE001
                print(f"mission: {type(error).__name__}: {error}", flush=True)
