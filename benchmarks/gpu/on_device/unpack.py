"""Join and unpack what was carried: python unpack.py CALL_FOLDER STORE KIT.

NAME.tar.xz.01of03 are parts of an archive. A complete one is unpacked once: `site*`, `ort` and `dali` into
STORE/site, the others into KIT. STORE/NAME.done marks it.
"""

import re
import shutil
import sys
import tarfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path


def unpack(name: str, parts: list[str], target: str) -> str:
    start, whole = time.perf_counter(), Path(parts[0]).parent / f"{name}.whole"
    with whole.open("wb") as out:
        for part in parts:
            with open(part, "rb") as source:
                shutil.copyfileobj(source, out)
    with tarfile.open(whole) as archive:
        archive.extractall(target, filter="fully_trusted")
    whole.unlink()
    return f"{name}: unpacked into {Path(target).name} in {time.perf_counter() - start:.1f} s"


def main() -> int:
    here, store, kit = map(Path, sys.argv[1:4])
    for file in here.glob("*.tar*"):
        shutil.copy2(file, store / file.name)
    # data of an earlier call is the next call's too
    kept = store / "data"
    kept.mkdir(exist_ok=True)
    found: dict[str, dict[int, Path]] = {}
    for file in store.glob("*.tar*of*"):
        name, number, count = re.fullmatch(r"(.+)\.tar(?:\.xz)?\.(\d+)of(\d+)", file.name).groups()
        found.setdefault(name, {"count": int(count)})[int(number)] = file
    jobs = []
    for name, parts in found.items():
        count = parts.pop("count")
        if (store / f"{name}.done").exists() or len(parts) < count:
            print(
                f"{name}: {len(parts)} of {count} parts{', done before' if (store / f'{name}.done').exists() else ''}"
            )
            continue
        site = name.startswith(("site", "ort", "dali", "cvcuda"))
        jobs.append(
            (name, [str(parts[n]) for n in sorted(parts)], str(store / "site" if site else kept))
        )
    with ProcessPoolExecutor(6) as pool:
        for job, done in [(job, pool.submit(unpack, *job)) for job in jobs]:
            try:
                print(done.result())
                (store / f"{job[0]}.done").touch()
            except Exception as error:  # noqa: BLE001
                print(f"{job[0]}: {type(error).__name__}: {error}")
    if (store / "ort.done").exists():  # it replaces the CPU build, which site-packages keep
        (store / "site").mkdir(exist_ok=True)
    for each in kept.iterdir():
        link = kit / each.name
        if not link.exists():
            link.symlink_to(each)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
