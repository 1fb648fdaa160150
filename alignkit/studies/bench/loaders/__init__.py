"""Loaders of every path of an experiment: images a second, memory, largest batch, pixels.

torch's `DataLoader`, alignkit's `MixedLoader` and DALI on the CPU read the same files. Each runs in
a process of its own on the same CPUs; they take turns, epoch by epoch. No model is needed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alignkit.compare.order_statistics import percentile
from alignkit.errors import ConfigError
from alignkit.machine import available_bytes
from alignkit.outcome import Failed, Skipped
from alignkit.plan.outlooks import worker_bytes
from alignkit.prepare.prepared_sets import prepare_sets
from alignkit.record import Estimate
from alignkit.record.document import document_text
from alignkit.record.loader_facts import (
    LargestBatch,
    LoaderDrift,
    LoaderKind,
    LoaderMemory,
    LoaderRecord,
    TimedLoader,
)
from alignkit.serve.cpu_use import contention
from alignkit.serve.served_facts import gain_over, over_rounds
from alignkit.serve.serving_options import shared_images
from alignkit.stored_file import write_atomically
from alignkit.studies.bench.begun_bench import BegunBench, BenchResult
from alignkit.studies.bench.loaders.largest_batch import (
    TrialFailed,
    attempt_in_process,
    largest_batch,
)
from alignkit.studies.bench.loaders.loader_kinds import LoaderOption
from alignkit.studies.bench.loaders.loader_rounds import WARM_UP, RunLoader, run_loaders
from alignkit.text.numbers import megabytes
from alignkit.torch_settings import usable_cpus

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.preprocess import Preprocess
    from alignkit.workspace import Context

TIMED_KINDS: tuple[LoaderKind, ...] = ("DataLoader", "MixedLoader", "DALI")
EPOCHS = 12
"""Epochs that count."""
_VARIES = "its images differ in size, and are no batch"
_UNKNOWN_MEMORY = "this system does not tell how much memory processes hold"


@dataclass(frozen=True, slots=True)
class LoaderLoad:
    """The work that every loader gets."""

    images: int = 200
    """Of an epoch, at most."""
    batch: int = 16
    epochs: int = EPOCHS
    workers: int | None = None
    """``None`` for one of each CPU."""
    memory: int | None = None
    """Bytes in which the largest batch is searched; ``None`` for no search."""


def bench_loaders(
    experiment: Experiment,
    context: Context,
    load: LoaderLoad,
    *,
    cpus: int | None,
    words: Sequence[str],
) -> BenchResult[LoaderRecord]:
    """Time the loaders of every path of an experiment; store the record.

    ``words`` are the command as it was called. Raises `ConfigError` for more CPUs or memory than
    there are and for too few images, `NothingCompared` without an image that every path decodes.
    """
    _require_memory(load)
    begun = BegunBench.of(experiment, context, cpus=cpus, words=words)
    plan, held, folder = begun.plan, begun.cpus, begun.folder("loaders")
    workers = load.workers or len(held) or usable_cpus()
    sets = prepare_sets(
        plan.preprocesses, plan.samples("train"), plan.samples("eval"), context, trains=False
    )
    chosen = shared_images(sets, {each.name for each in plan.preprocesses}, load.images)
    with tempfile.TemporaryDirectory(prefix="alignkit-loaders-") as scratch:
        files = _written(sets, chosen, Path(scratch))
        reference = _reference(sets, plan.reference, chosen, Path(scratch))
        options = [
            LoaderOption(kind, path, files, load.batch, workers)
            for path in plan.preprocesses
            for kind in TIMED_KINDS
        ]
        _require_batches(load, options, len(files))
        ready = [each for each in options if not _unusable(sets, each)]
        ran = run_loaders(ready, load.epochs, held, reference, context.progress)
        by_option = {id(each.option): each for each in ran}
        first = by_option.get(id(options[0]))
        facts = []
        for option in options:
            own = by_option.get(id(option)) or _not_run(option, _unusable(sets, option))
            searched, why = _searched(own, load, held, context)
            facts.append(_facts(own, first, len(held), searched, why))
    record = LoaderRecord(
        **begun.facts(),
        images=len(files),
        batch=load.batch,
        workers=workers,
        epochs=load.epochs,
        warm_up=WARM_UP,
        loaders=tuple(facts),
    )
    write_atomically(folder / "loaders.json", document_text(record))
    return BenchResult(record, folder)


def _require_memory(load: LoaderLoad) -> None:
    free = available_bytes()
    if load.memory is not None and free is not None and load.memory > free:
        raise ConfigError(
            f"--memory {megabytes(load.memory)}: {megabytes(free)} are available; give less"
        )


def _require_batches(load: LoaderLoad, options: Sequence[LoaderOption], images: int) -> None:
    # an epoch must be longer than the batches that are ready before it
    least = load.batch * (max(each.left_ready for each in options) + 2)
    if images < least:
        raise ConfigError(
            f"--batch {load.batch}: an epoch of {images} images is too short, as DALI has 3 "
            f"batches ready before it begins; give at most --batch {max(1, images // 5)}, or more "
            "images"
        )


def _written(sets: Sets, chosen: Sequence[int], folder: Path) -> tuple[str, ...]:
    """Write the encoded images, one file each; so the system has them all in its cache."""
    files = []
    for place, index in enumerate(chosen):
        file = folder / f"{place:06}.image"
        file.write_bytes(sets.evaluation.read(index))
        files.append(str(file))
    return tuple(files)


def _reference(sets: Sets, path: Preprocess, chosen: Sequence[int], folder: Path) -> Path:
    """Write the reference path's pixels of these images: (images, h, w, 3)."""
    import numpy as np

    file = folder / "reference.npy"
    prepared = sets.evaluated(path.name)
    if path.varies:
        raise ConfigError(f"{path.name}: {_VARIES}; leave 'auto' out")
    np.save(file, prepared.pixels[prepared.rows[list(chosen)]])
    return file


def _unusable(sets: Sets, option: LoaderOption) -> Skipped | Failed | None:
    """Return why a loader is not run, if so."""
    ended = sets.prepared[option.preprocess.name, "eval"]
    if isinstance(ended, Skipped | Failed):
        return ended
    return Skipped(_VARIES) if option.preprocess.varies else None


def _not_run(option: LoaderOption, why: Skipped | Failed | None) -> RunLoader:
    if isinstance(why, Failed):
        return RunLoader(option, "failed", why.message)
    return RunLoader(option, "skipped", why.reason if why else "")


def _searched(
    own: RunLoader, load: LoaderLoad, cpus: Sequence[int], context: Context
) -> tuple[LargestBatch | None, str]:
    """Search the largest batch; return it, or why there is none."""
    if own.state != "measured":
        return None, own.reason
    if load.memory is None:
        return None, "not searched: --memory 4GB, for example, searches it"
    if own.rest is None:
        return None, _UNKNOWN_MEMORY
    attempt = attempt_in_process(own.option, load.memory, cpus)
    title = f"{own.option.preprocess.title} {own.option.kind}"
    with context.progress.stage("largest batch", 1, title) as stage:
        try:
            found = largest_batch(attempt, load.memory, load.batch)
        except TrialFailed as error:
            return None, str(error)
        stage.advance()
    return found, ""


def _facts(
    own: RunLoader,
    first: RunLoader | None,
    cpus: int,
    largest: LargestBatch | None,
    largest_reason: str,
) -> TimedLoader:
    option = own.option
    plain = TimedLoader(
        path=option.preprocess.name, kind=option.kind, state=own.state, reason=own.reason,
        effective=own.effective,
    )  # fmt: skip
    if own.state != "measured":
        return plain
    known = [each.cpu_seconds for each in own.rounds if each.cpu_seconds is not None]
    used = sum(known) if len(known) == len(own.rounds) else None
    contended, unwatched = contention(own.windows, own=used, cpus=cpus)
    rates = _rates(own)
    drift, drift_reason = _drift(own)
    memory, memory_reason = _memory(own)
    gain = None if own is first else Estimate(None, None, None, "the reference was not timed")
    if gain and first and len(first.rounds) == len(rates):
        gain = gain_over(rates, _rates(first))
    return plain.model_copy(
        update={
            "throughput": over_rounds(percentile(rates, 50), len(rates)),
            "gain": gain,
            "cpu_ms": None if used is None else 1000 * used / (len(rates) * len(option.files)),
            "contended": contended,
            "unwatched": unwatched,
            "drift": drift,
            "drift_reason": drift_reason,
            "memory": memory,
            "memory_reason": memory_reason,
            "largest": largest,
            "largest_reason": largest_reason,
            "rounds": tuple(own.rounds),
        }
    )


def _rates(own: RunLoader) -> tuple[float, ...]:
    return tuple(each.images / each.seconds for each in own.rounds)


def _drift(own: RunLoader) -> tuple[LoaderDrift | None, str]:
    if own.pixels is None or isinstance(own.pixels, Failed):
        return None, own.pixels.message if own.pixels else own.reason
    sums = own.pixels.value
    found = LoaderDrift(
        images=sums.images,
        identical=sums.identical,
        mean_abs=sums.mean_abs,
        max_abs=sums.max_abs,
        share_pixels=sums.share_differing,
    )
    return found, ""


def _memory(own: RunLoader) -> tuple[LoaderMemory | None, str]:
    held = [each for each in own.held if each is not None]
    if own.rest is None or len(held) < len(own.held):
        return None, _UNKNOWN_MEMORY
    option = own.option
    height, width = option.preprocess.size
    image = height * width * 3 * 4
    # the batches that wait, and the one that the loop has
    planned = worker_bytes(image, batch=option.batch, workers=1, prefetch=option.ready_batches + 1)
    found = LoaderMemory(
        rest=own.rest, peak=own.peak, planned=planned, first=held[0], last=held[-1]
    )
    return found, ""
