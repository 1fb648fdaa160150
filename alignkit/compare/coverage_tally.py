"""`CoverageTally`: the images that only one of two sides decodes, counted in constant memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from alignkit.record import Count, CoverageDiff
from alignkit.record.path_facts import COVERAGE_EXAMPLES
from alignkit.record.stored import STRICT


@dataclass(slots=True)
class CoverageTally:
    """Counts of images by the side that decodes them, with the first ids of each side.

    It is stored as it is.
    """

    __pydantic_config__ = STRICT

    images: Count = 0
    only_reference: Count = 0
    only_candidate: Count = 0
    reference_examples: list[str] = field(default_factory=list)
    candidate_examples: list[str] = field(default_factory=list)
    neither: Count = 0
    neither_examples: list[str] = field(default_factory=list)
    gone: Count = 0
    gone_examples: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, images: Iterable[tuple[str, bool, bool | None]]) -> CoverageTally:
        """Count (id, decoded by the reference, decoded by the candidate); see `add`."""
        tally = cls()
        for image in images:
            tally.add(*image)
        return tally

    def add(self, image: str, reference: bool, candidate: bool | None) -> None:
        """Count one image; ``None`` if the candidate does not have it any more."""
        self.images += 1
        if candidate is None:
            self.gone += 1
            self.gone_examples += [image] * (len(self.gone_examples) < COVERAGE_EXAMPLES)
            return
        self.neither += not reference and not candidate
        self.only_reference += reference and not candidate
        self.only_candidate += candidate and not reference
        if not (reference and candidate):
            one_sided = self.reference_examples if reference else self.candidate_examples
            examples = one_sided if reference or candidate else self.neither_examples
            if len(examples) < COVERAGE_EXAMPLES:
                examples.append(image)

    def join(self, later: CoverageTally) -> None:
        """Add the counts of images that come later."""
        for each in fields(self):
            so_far, more = getattr(self, each.name), getattr(later, each.name)
            if isinstance(so_far, list):
                # as many as one tally of all images would name
                so_far += more[: COVERAGE_EXAMPLES - len(so_far)]
            else:
                setattr(self, each.name, so_far + more)

    def diff(self, reference: str, candidate: str) -> CoverageDiff:
        """Return the counts with the names of the two sides."""
        counts = {each.name: getattr(self, each.name) for each in fields(self)}
        return CoverageDiff(reference=reference, candidate=candidate, **counts)
