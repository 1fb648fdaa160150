"""What the parts share: where they write, how they time, and a device that may be absent.

Every part writes WORK/<part>/... ; WORK is $GPUKIT_WORK. Without CUDA the parts that only decode or compute on
the GPU say so and end with 0; GPUKIT_PRETEND=1 lets "cuda" mean the CPU, to try the code where there is no GPU.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any

KIT = Path(__file__).resolve().parent.parent
WORK = Path(os.environ.get("GPUKIT_WORK", "gpukit-work"))
PRETEND = os.environ.get("GPUKIT_PRETEND") == "1"
QUICK = os.environ.get("GPUKIT_QUICK") == "1"


def has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def device() -> str:
    return "cuda" if has_cuda() else "cpu"


def require_cuda(part: str) -> None:
    """End the part with a note if there is no GPU and none is pretended."""
    if not has_cuda() and not PRETEND:
        folder(part)
        save(part, "note.json", {"note": "no CUDA"})
        print(f"{part}: no CUDA")
        raise SystemExit(0)


def folder(part: str) -> Path:
    found = WORK / part
    found.mkdir(parents=True, exist_ok=True)
    return found


def save(part: str, name: str, content: Any) -> None:
    """Write JSON whole or not at all."""
    target = folder(part) / name
    unfinished = target.with_name(target.name + ".unfinished")
    unfinished.write_text(json.dumps(content, indent=1, default=str))
    unfinished.replace(target)


def sync() -> None:
    if has_cuda():
        import torch

        torch.cuda.synchronize()


def said(error: BaseException, length: int = 400) -> str:
    return f"{type(error).__name__}: {error}".strip()[:length]


def trace(length: int = 2500) -> str:
    return traceback.format_exc()[-length:]


def digest(array: Any) -> str:
    """SHA-256 of shape and bytes, 16 hex digits."""
    import numpy as np

    whole = np.ascontiguousarray(array)
    return hashlib.sha256(f"{whole.shape}{whole.dtype}".encode() + whole.tobytes()).hexdigest()[:16]


def rate(call: Any, images: int, *, seconds: float = 2.0, least: int = 3) -> dict[str, Any]:
    """Images a second: median over repetitions after two warm-ups, with the spread."""
    for _ in range(2):
        call()
    sync()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < least or time.perf_counter() - began < seconds:
        start = time.perf_counter()
        call()
        sync()
        times.append(time.perf_counter() - start)
        if len(times) >= 200:
            break
    middle = statistics.median(times)
    return {
        "images_per_s": round(images / middle, 1), "images": images, "repetitions": len(times),
        "slowest_images_per_s": round(images / max(times), 1), "fastest_images_per_s": round(images / min(times), 1),
    }  # fmt: skip


def differences(one: Any, other: Any) -> dict[str, Any]:
    """Distance of two arrays of one shape."""
    import numpy as np

    if one.shape != other.shape:
        return {"shapes": [list(one.shape), list(other.shape)]}
    signed = one.astype(np.float64) - other.astype(np.float64)
    gap = np.abs(signed)
    return {
        "samples": int(gap.size), "wrong": int((gap > 0).sum()), "max": float(gap.max(initial=0)),
        "mean": float(gap.mean()) if gap.size else 0.0, "bias": float(signed.mean()) if gap.size else 0.0,
        "above_half": int((gap > 0.5).sum()), "p999": float(np.quantile(gap, 0.999)) if gap.size else 0.0,
    }  # fmt: skip


def files(*names: str) -> dict[str, bytes]:
    """Files below folders of the kit, by relative name."""
    found: dict[str, bytes] = {}
    for name in names:
        for file in sorted((KIT / name).rglob("*.jp*g")):
            found[f"{name}/{file.relative_to(KIT / name).as_posix()}"] = file.read_bytes()
    return found


def main_of(part: str, steps: dict[str, Any]) -> int:
    """Run steps one after the other; an exception ends a step alone. 1 if one failed."""
    outcome: dict[str, Any] = {}
    for name, step in steps.items():
        start = time.perf_counter()
        try:
            result = step()
            outcome[name] = {"ok": True, "result": result}
        except Exception as error:  # noqa: BLE001
            outcome[name] = {"ok": False, "error": said(error, 800), "trace": trace()}
            print(f"{part} {name}: {said(error)}", file=sys.stderr, flush=True)
        outcome[name]["seconds"] = round(time.perf_counter() - start, 2)
        print(
            f"{part} {name}: {'ok' if outcome[name]['ok'] else 'FAILED'} in {outcome[name]['seconds']} s",
            flush=True,
        )
        save(part, "steps.json", outcome)
    return 0 if all(each["ok"] for each in outcome.values()) else 1
