"""A user's code, which mypy checks in strict mode with the package: see `files` in pyproject.toml.

An ignored error is one that mypy must report; strict mode reports an ignore that is not needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
import numpy.typing as npt

import alignkit


def serve(data: bytes) -> npt.NDArray[np.float32]:
    return np.frombuffer(data, np.float32).reshape(3, 224, 224)


def first_look(folder: Path) -> str:
    found = alignkit.diff(folder, "pillow-train", {"preset": "opencv-train"}, size=224, limit=20)
    assert_type(found.page, Path | None)
    columns: list[str] = list(found.pixels.columns)
    return f"{found!r}: {columns}"


def run_and_read(file: str) -> bool:
    run = alignkit.run(file, overrides={"train.epochs": 2}, progress="plain")
    assert_type(run.verdict.sentence, str)
    again = alignkit.load_run(run.folder)
    return again.verdict.state == "pass" and len(again.cells) == len(run.cells)


def nearest(recorded: Path, photos: list[bytes]) -> str:
    found = alignkit.match(recorded, photos, decoders=["opencv"])
    assert_type(found.facts, tuple[str, ...])
    return found.sentence


def aligned(photos: list[Path]) -> int:
    try:
        verdict = alignkit.assert_preprocess_aligned("opencv-train", serve, photos)
    except alignkit.PreprocessDriftError as drift:
        return drift.verdict.exit_code
    return verdict.exit_code


def mistakes(folder: Path) -> None:
    alignkit.dif(folder, "a", "b")  # type: ignore[attr-defined]
    alignkit.diff(folder, "a", "b", sise=224)  # type: ignore[call-arg]
    alignkit.diff(folder, 3, "b")  # type: ignore[arg-type]
    alignkit.run("file.yaml", progress="loud")  # type: ignore[arg-type]
    alignkit.load_run(folder).cell  # type: ignore[attr-defined]  # noqa: B018 - mypy must report it
