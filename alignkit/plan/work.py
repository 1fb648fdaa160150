"""Units of work of a plan: trainings, matched pairs, runtimes, evaluations, comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from alignkit.backends import Backend, Builder, Compiler, Precision
from alignkit.engines.export import exporter_parts
from alignkit.machine import vector_extensions
from alignkit.outcome import PlannedWork
from alignkit.place import FULL, Column, Place, Row
from alignkit.preprocess import Preprocess, stage_identity
from alignkit.resizers import RESIZERS
from alignkit.tasks import usual_task
from alignkit.version import DIFFERENCE_LAYERS, code_version

if TYPE_CHECKING:
    from alignkit.models.user_model import UserModel
    from alignkit.tasks import Task


@dataclass(frozen=True, slots=True)
class Training(PlannedWork):
    """One model to train: a path and a seed; the recipe decides everything else."""

    kind = "trainings"
    preprocess: Preprocess
    seed: int
    parts: dict[str, Any] = field()  # without it the property of the base would be the default
    """Everything that the weights depend on."""
    skipped: str = ""
    """Why it cannot run here; empty if it can."""
    fraction: float = FULL
    """Share of the training images, of each class."""
    mix: tuple[Preprocess, ...] = ()
    """Where images come from several paths: these, ``preprocess`` first; otherwise empty."""
    given: UserModel | None = None
    """The user's own model, trained elsewhere with ``preprocess``; there is nothing to train."""

    @property
    def paths(self) -> tuple[Preprocess, ...]:
        """The paths that its images come from."""
        return self.mix or (self.preprocess,)

    @property
    def row(self) -> Row:
        """The row of the matrix, which trainings that differ only in their seed share."""
        model = self.given.name if self.given else ""
        return Row(tuple(path.name for path in self.paths), self.fraction, model)

    @property
    def label(self) -> str:
        return str(self.row) if self.given else f"train {self.row} seed {self.seed}"

    @property
    def title(self) -> str:
        """Row and seed as progress shows them, where surrogates are called so."""
        from alignkit.text.names import Names, facts_of_paths

        row = Names(facts_of_paths(self.paths)).short(str(self.row))
        return row if self.given else f"{row} seed {self.seed}"


@dataclass(frozen=True, slots=True)
class MatchedPair:
    """Two trainings that differ in ``preprocess`` and in nothing else; checked when built."""

    reference: Training
    candidate: Training

    def __post_init__(self) -> None:
        differing = {
            name
            for name in self.reference.parts.keys() | self.candidate.parts.keys()
            if self.reference.parts.get(name) != self.candidate.parts.get(name)
        }
        # else a drift could come from anything that differs
        if not differing <= {"preprocess", "normalise"}:
            raise ValueError(f"not a matched pair: {', '.join(sorted(differing))} differ")


@dataclass(frozen=True, slots=True)
class Runtime:
    """A backend in one precision."""

    name: str
    """The backend's name with its options in the YAML, which tell two of one kind apart."""
    # a plugin's options need not be hashable; name and precision tell a plan's runtimes apart
    backend: Backend = field(hash=False)
    precision: Precision
    version: str
    """Installed version, read without importing it."""
    skipped: str = ""
    """Why it cannot run here; empty if it can."""
    buildable: bool = False
    """Whether its engines can be built here although they cannot run."""
    builds: int = 1
    """Times the model is exported, built and loaded, to see how much builds differ."""
    holds: Training | None = field(default=None, hash=False)
    """The one model that an endpoint serves; ``None`` for a runtime that is given each model."""

    @property
    def simulation(self) -> str:
        """Label of its numbers if it simulates the precision; empty if it computes in it."""
        return self.backend.simulation(self.precision)

    @property
    def emulated(self) -> str:
        """Note on an emulated precision, with its cost; empty if none is known."""
        return "" if self.skipped else self.backend.emulated(self.precision)

    @property
    def parts(self) -> dict[str, Any]:
        """Options, versions and processor, which decide its logits besides weights and inputs."""
        backend = self.backend
        parts: dict[str, Any] = {"runtime": [stage_identity(backend), self.precision, self.version]}
        if backend.on_cpu:
            parts["processor"] = vector_extensions()
        if backend.needs_onnx:
            parts["export"] = exporter_parts()
        if isinstance(backend, Builder):
            parts["build"] = backend.build_parts(self.precision)
        if isinstance(backend, Compiler) and (compiler := backend.compiler()):
            parts["compiler"] = compiler
        return parts


@dataclass(frozen=True, slots=True)
class Evaluation(PlannedWork):
    """One entry of the matrix, before it ran."""

    kind = "cells"
    training: Training
    preprocess: Preprocess
    runtime: Runtime
    parts: dict[str, Any] = field()
    skipped: str = ""
    builds_engine: bool = False
    """Skipped for lack of a device alone: its engine is built, and not run."""
    unsuited: bool = False
    """Skipped on every machine: the backend does not run this kind of model."""
    aligned: bool = False
    """Evaluated as it was trained, in the reference runtime; its row is compared with it."""
    task: Task = field(default_factory=usual_task)
    """The task that the model solves, which decodes its outputs."""

    @property
    def place(self) -> Place:
        """The place in the matrix, which evaluations that differ only in their seed share."""
        runtime = self.runtime
        preprocess = runtime.backend.own_path or self.preprocess.name
        return Place(self.training.row, Column(preprocess, runtime.name, runtime.precision))

    @property
    def live(self) -> bool:
        """Whether the runtime may answer differently tomorrow."""
        return self.runtime.backend.live

    @property
    def label(self) -> str:
        column = self.place.column
        return (
            f"{self.training.label} on {column.preprocess} in {column.backend} {column.precision}"
        )


@dataclass(frozen=True, slots=True)
class PixelComparison(PlannedWork):
    """A comparison of two paths, stage by stage over the evaluation images."""

    kind = "comparisons"
    reference: Preprocess
    candidate: Preprocess
    images: str
    """Fingerprint of the evaluation images."""

    @property
    def parts(self) -> dict[str, Any]:
        """Everything that the differences depend on."""
        return {
            "samples": self.images,
            "reference": _identity(self.reference),
            "candidate": _identity(self.candidate),
            "libraries": [
                *(RESIZERS[name].version() for name in ("opencv", "pillow")),
                metadata.version("numpy"),
            ],
            "code": code_version(DIFFERENCE_LAYERS),
        }

    @property
    def label(self) -> str:
        return f"compare {self.reference.name} with {self.candidate.name}"

    @property
    def skipped(self) -> str:
        return self.reference.missing() or self.candidate.missing()


def _identity(path: Preprocess) -> dict[str, Any]:
    from alignkit.prepare import pixel_identity

    return {**pixel_identity(path), "normalise": stage_identity(path.normalise)}


def emulations(cells: Iterable[Evaluation]) -> list[str]:
    """Name each runtime that emulates its precision, with the number of its cells and the cost."""
    counts = Counter(each.runtime for each in cells)
    return [
        f"{runtime.name} {runtime.precision}, {count} cells: {runtime.emulated}"
        for runtime, count in counts.items()
        if runtime.emulated
    ]
