"""What really runs: paths, libraries and machine, as a worker process sees them.

Looked at in a worker, so that the versions recorded are those of the code that ran, and so that no
library is loaded into the caller's own process.
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
    """What a worker says of itself."""

    paths: tuple[PathFacts, ...]
    environment: Environment


@dataclass(frozen=True, slots=True)
class Describe:
    """A `Work` of `alignkit.isolation`; what images it is given does not matter."""

    paths: tuple[NamedPath, ...]

    def warm_up(self, begin: Begin) -> None:
        """Nothing."""

    def __call__(self, images: Sequence[Encoded], begin: Begin) -> Description:  # noqa: ARG002
        """The paths' stages, and the environment."""
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
