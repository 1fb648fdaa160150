"""Backends in one precision, which the cells of a column share and their logits depend on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from alignkit.backends import (
    BACKENDS,
    Backend,
    Builder,
    Compiler,
    EngineBuilder,
    Precision,
    RemoteBackend,
)
from alignkit.engines.export import exporter_parts
from alignkit.errors import ConfigError
from alignkit.machine import vector_extensions
from alignkit.plugins import UNPROVEN, did_you_mean
from alignkit.preprocess import stage_identity

if TYPE_CHECKING:
    from alignkit.experiment.model_option import Evaluate
    from alignkit.plan.work import Training


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


def runtimes_of(evaluate: Evaluate, trainings: tuple[Training, ...]) -> list[Runtime]:
    """List every backend of ``evaluate`` in every precision, with the reason if it cannot run here.

    Raises `ConfigError` if all of them preprocess by themselves, or an endpoint does not say which
    of ``trainings`` it serves.
    """
    runtimes = []
    for name, option in zip(evaluate.titles(), evaluate.backends, strict=True):
        plugin = BACKENDS.find(option.name)
        backend = option.build()
        for precision in option.precision:
            missing = plugin.missing()
            reason = missing or backend.impossible(precision)
            buildable = (
                bool(reason)
                and not missing
                and isinstance(backend, EngineBuilder)
                and not backend.cannot_build(precision)
            )
            # the user should know that the fix may not be enough
            if reason and plugin.unproven:
                reason += f" ({option.name} is {UNPROVEN})"
            version, held = plugin.version(), served_training(backend, trainings)
            runtimes.append(
                Runtime(name, backend, precision, version, reason, buildable, option.builds, held)
            )
    first = next((each for each in runtimes if not each.backend.own_path), None)
    if first and first.simulation:
        raise ConfigError(
            f"evaluate.backends: {first.name} {first.precision} is a simulation, and the first "
            "backend is the reference; put one first that computes, e.g. torch"
        )
    if all(each.backend.own_path for each in runtimes):
        raise ConfigError(
            "evaluate.backends: each of these preprocesses by itself, which leaves nothing to "
            "compare with; put one first that receives the paths' images, e.g. torch"
        )
    return runtimes


def served_training(backend: Backend, trainings: tuple[Training, ...]) -> Training | None:
    """Find the model that an endpoint serves, the first of its seeds; ``None`` for other backends.

    Raises `ConfigError` if the endpoint does not say which of several rows it is.
    """
    if not isinstance(backend, RemoteBackend):
        return None
    # reversed, so that the first seed of a row stays
    rows = {str(each.row): each for each in reversed(trainings)}
    rows |= {each.given.name: each for each in trainings if each.given}
    if not backend.serves and len({each.row for each in trainings}) == 1:
        return trainings[0]
    if backend.serves not in rows:
        raise ConfigError(
            f"evaluate.backends: an endpoint serves one model; name its row as 'serves'"
            f"{did_you_mean(backend.serves, rows)}"
        )
    return rows[backend.serves]


def not_served(held: Training) -> str:
    """Explain why the endpoint that serves this model cannot evaluate another."""
    seed = "" if held.given else f" of seed {held.seed}"
    return f"the endpoint serves the model of {held.row}{seed}, not this one"
