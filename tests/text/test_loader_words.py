"""The tables of a bench of loaders, from a record made by hand."""

from pathlib import Path

from alignkit.decoders.opencv import OpenCVDecoder
from alignkit.findings.environment import environment
from alignkit.findings.provenance import path_facts
from alignkit.preprocess import Preprocess, Resize
from alignkit.record import Estimate
from alignkit.record.loader_facts import (
    LargestBatch,
    LoaderMemory,
    LoaderRecord,
    LoaderRound,
    TimedLoader,
)
from alignkit.resizers.opencv import OpenCVResizer
from alignkit.text.loader_words import loader_text
from alignkit.text.numbers import DASH

PATH = Preprocess("opencv", OpenCVDecoder(), Resize(OpenCVResizer(), (32, 32)))


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


def shown(*loaders: TimedLoader) -> str:
    record = LoaderRecord(
        alignkit="1", command="alignkit bench f.yaml --loaders", name="f", key="k",
        started="2026-11-23T21:00:00.000+00:00", seconds=1, environment=environment(),
        paths=(path_facts(PATH),), cpus=(0, 1), images=200, batch=16, workers=2, epochs=12,
        loaders=loaders,
    )  # fmt: skip
    assert LoaderRecord.model_validate_json(record.model_dump_json()) == record
    lines = loader_text(record, Path("folder")).splitlines()
    return "\n".join(" ".join(each.split()) for each in lines)


def test_every_number_stands_in_its_table():
    text = shown(
        loader("DataLoader"),
        loader("MixedLoader", gain=Estimate(0.5, 0.4, 0.625)),
        loader("MixedLoader", gain=Estimate(0.75, 0.7, 0.8), contended="others took 9 %"),
    )
    lines = {tuple(each.split())[:3]: each for each in text.splitlines() if "▸" in each}
    assert "16 a batch; 12 epochs in turn after 2 of warm-up" in text
    assert "2 worker processes or threads; 200 images in the system's cache" in text
    assert "opencv ▸ DataLoader 812 [800, 830] reference" in text
    assert "+50.0 % [+40.0, +62.5]" in text
    assert "+75.0" not in text
    assert "contended: others took 9 %" in text
    assert "300.0 MB 410.0 MB 405.0 MB 409.0 MB" in text
    assert "after epoch 1 after epoch 12" in text
    assert "Largest batch: not searched: --memory 4GB" in text
    assert len(lines) == 2


def test_a_largest_batch_and_a_loader_that_is_missing():
    memory = LoaderMemory(rest=1_000_000, peak=2_000_000, first=1_500_000, last=1_700_000)
    found = LargestBatch(
        limit=4_000_000_000, fits=1500, exceeds=1536,
        reason="out of memory: it held 4000.1 MB",
    )  # fmt: skip
    text = shown(
        loader("DataLoader", memory=memory, largest=found, largest_reason=""),
        loader("MixedLoader", largest=found.model_copy(update={"fits": None, "exceeds": 1})),
        TimedLoader(path="opencv", kind="DALI", state="skipped", reason="it is not installed"),
    )
    assert "largest batch in 4000.0 MB" in text
    assert "1.0 MB 2.0 MB 1.5 MB 1.7 MB 1 500" in text
    assert f"409.0 MB {DASH}" in text
    assert "opencv ▸ DataLoader: out of memory: it held 4000.1 MB" in text
    assert "opencv ▸ DALI skipped it is not installed" in text
