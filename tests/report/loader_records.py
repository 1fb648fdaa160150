"""A bench of loaders, made by hand, with everything that its page shows."""

from alignkit.record import Estimate
from alignkit.record.bench_facts import (
    LargestBatch,
    LoaderMemory,
    LoaderRecord,
    LoaderRound,
    TimedLoader,
)
from tests.report.bench_records import ENVIRONMENT, SURROGATE, stored_path

BUSY = "other programs took 9.3 % of the CPU time"
PATHS = (*map(stored_path, ("opencv", "pillow")), SURROGATE)


def loader(kind: str, **facts: object) -> TimedLoader:
    given = {
        "state": "measured",
        "throughput": Estimate(812.4, 800, 830.2),
        "memory": LoaderMemory(
            rest=300_000_000,
            peak=410_000_000,
            first=405_000_000,
            last=409_000_000,
        ),
        "largest_reason": "not searched: --memory 4GB, for example, searches it",
        "rounds": (LoaderRound(images=200, seconds=0.25),),
    }
    return TimedLoader(path="opencv", kind=kind, **(given | facts))


def rich_loaders():
    memory = LoaderMemory(rest=300_000_000, peak=650_000_000, first=640_000_000, last=648_000_000)
    found = LargestBatch(limit=4_000_000_000, fits=1500, exceeds=1536, reason="it held 4000.1 MB")
    loaders = []
    for place, path in enumerate(("opencv", "pillow", "nvjpeg")):
        speed = 812.4 / (1 + place)
        for kind, times in (("DataLoader", 1.0), ("MixedLoader", 1.4)):
            given = {
                "throughput": Estimate(speed * times, speed * times * 0.97, speed * times * 1.02),
                "gain": None if place == 0 and times == 1 else Estimate(times / (1 + place) - 1, -0.1, 0.5),
                "memory": memory,
                "contended": BUSY * (kind == "DataLoader" and place == 2),
                "largest": found, "largest_reason": "",
            }  # fmt: skip
            loaders.append(loader(kind, **given).model_copy(update={"path": path}))
        missing = "DALI is not installed: pip install 'alignkit[dali]'"
        loaders.append(TimedLoader(path=path, kind="DALI", state="skipped", reason=missing))
    return LoaderRecord(
        alignkit="0.1.0", command="alignkit bench f.yaml --loaders", name="folder", key="0123456789",
        started="2026-11-23T21:00:00.000+00:00", seconds=91, environment=ENVIRONMENT, paths=PATHS,
        cpus=(0, 1), load_before=(0.1, 0.2, 0.3), images=200, batch=16, workers=2, epochs=12,
        loaders=tuple(loaders),
    )  # fmt: skip


WITHOUT = rich_loaders().model_copy(
    update={"loaders": tuple(e for e in rich_loaders().loaders if not e.rounds)}
)
"""Nothing was timed."""
