"""Write $OUT/manifest.json and $OUT/<group>.tar.xz: python pack.py GROUP…; `all` packs what is not packed yet.

A group is a folder of WORK. Of a group over 15 MiB the largest files are left out until it fits, and named.
"""

import io
import json
import lzma
import os
import sys
import tarfile
from pathlib import Path

WORK, OUT = Path(os.environ["GPUKIT_WORK"]), Path(os.environ.get("OUT", "gpukit-out"))
MOST = 15 << 20
MERGED = {
    "speed": "speed",
    "speed-dali": "speed",
    "environment": "small",
    "numerics": "numerics",
    "resize": "resize",
    "nvjpeg": "nvjpeg",
    "planes": "nvjpeg",
    "imagenet": "imagenet",
    "mission": "mission",
    "logs": "small",
}
SKIPPED = (".unfinished", ".npz.tmp")


def wanted(file: Path) -> bool:
    # each way's pixels are in pixels.npz once
    return (
        file.is_file()
        and not file.name.endswith(SKIPPED)
        and not (
            file.parent.name == "nvjpeg"
            and file.suffix == ".npz"
            and file.stem not in ("pixels", "residuals")
        )
    )


def packed(archive: str, folders: list[Path]) -> dict:
    every = sorted(
        (f for folder in folders for f in folder.rglob("*") if wanted(f)),
        key=lambda f: f.stat().st_size,
    )
    left_out: list[str] = []
    while True:
        target = io.BytesIO()
        with lzma.open(target, "wb", preset=2) as out, tarfile.open(fileobj=out, mode="w|") as tar:
            for file in every:
                tar.add(file, file.relative_to(WORK).as_posix())
        if len(target.getbuffer()) <= MOST or not every:
            break
        over = len(target.getbuffer()) - MOST
        while every and over > 0:
            gone = every.pop()
            left_out.append(f"{gone.relative_to(WORK)} ({gone.stat().st_size} bytes)")
            over -= gone.stat().st_size
    (OUT / f"{archive}.tar.xz").write_bytes(target.getbuffer())
    return {"bytes": len(target.getbuffer()), "files": len(every), "left_out": left_out}


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    groups = sys.argv[1:]
    names = sorted(MERGED) if groups == ["all"] else groups
    archives: dict[str, list[Path]] = {}
    for name in names:
        archive = MERGED.get(name, name)
        archives[archive] = [
            WORK / other
            for other, into in MERGED.items()
            if into == archive and (WORK / other).exists()
        ]
    facts = (
        json.loads((OUT / "manifest.json").read_text())
        if (OUT / "manifest.json").exists()
        else {"archives": {}}
    )
    for archive, folders in archives.items():
        if folders:
            facts["archives"][archive] = packed(archive, folders)
    lines = (
        (WORK / "parts.jsonl").read_text().splitlines() if (WORK / "parts.jsonl").exists() else []
    )
    facts["parts"] = [json.loads(line) for line in lines]
    facts["steps"] = {
        f.parent.name: {
            n: {k: s.get(k) for k in ("ok", "error", "seconds")}
            for n, s in json.loads(f.read_text()).items()
        }
        for f in WORK.glob("*/steps.json")
    }
    facts["mission"] = (
        [
            json.loads(f.read_text())
            for f in sorted((WORK / "mission").glob("*.json"))
            if "limit" in f.read_text()[:2000]
            and f.stem not in ("bench.document",)
            and not f.stem.endswith(".document")
        ]
        if (WORK / "mission").exists()
        else []
    )
    environment = WORK / "environment" / "steps.json"
    if environment.exists():
        facts["environment"] = {
            name: step.get("result", step.get("error"))
            for name, step in json.loads(environment.read_text()).items()
        }
    (OUT / "manifest.json").write_text(json.dumps(facts, indent=1, default=str))
    print("packed", {name: facts["archives"][name]["bytes"] for name in facts["archives"]})
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
