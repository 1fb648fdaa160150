"""Description of the paths, libraries and machine that ran, made by a worker process.

So the recorded versions are those of the code that ran, and no library is loaded into the caller's
own process.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from alignkit.experiment.path_argument import NamedPath
from alignkit.isolation.shared_images import EVERYTHING, Encoded
from alignkit.isolation.worker import Begin
from alignkit.record import Environment, PathFacts


@dataclass(frozen=True, slots=True)
class Description:
    """The stages and the environment of a worker."""

    paths: tuple[PathFacts, ...]
    environment: Environment


@dataclass(frozen=True, slots=True)
class Describe:
    """A `Work` of `alignkit.isolation` that ignores its images."""

    paths: tuple[NamedPath, ...]

    def warm_up(self, begin: Begin) -> None:
        """Do nothing: no path runs."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Description:  # noqa: ARG002
        """Describe the paths' stages, and the environment."""
        from alignkit.decoders import DECODERS
        from alignkit.findings.environment import environment
        from alignkit.findings.provenance import path_facts
        from alignkit.plugins import name_of

        begin(0, EVERYTHING)
        usable = [each.preprocess for each in self.paths if not each.preprocess.missing()]
        return Description(
            paths=tuple(path_facts(each.preprocess, each.preset) for each in self.paths),
            environment=environment({name_of(path.decode, DECODERS) for path in usable}),
        )
