"""Where two runtimes of one model part: every layer's output compared, in the graph's order.

A layer's output is read from the graph cut off behind it, so that everything before it is fused and
placed as in the whole graph; tapping all layers of one graph at once would forbid the very fusions
that are looked for. What differs there has come in or was made by the layer: so the candidate also
runs the layer alone, fed what the reference computed. One cut runs at a time, on one side at a
time, and what the reference computed waits on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from alignkit.errors import BackendError, NothingCompared
from alignkit.record.bisection import Bisection, LayerDrift
from alignkit.studies.bisect.differences import drift_of, own_error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.studies.bisect.activations import Activations
    from alignkit.studies.bisect.graph import Layer

    Values = npt.NDArray[np.floating]

__all__ = ["Candidate", "Side", "bisect"]


class Side(Protocol):
    """One model in one runtime, on a fixed batch."""

    @property
    def name(self) -> str:
        """E.g. ``onnxruntime fp16``."""
        ...

    def values(self, layer: Layer) -> Values | None:
        """The layer's output for the batch; ``None`` if this side has no such layer.

        Raises `BackendError` if the runtime cannot run the graph up to there.
        """
        ...


class Candidate(Side, Protocol):
    """The side whose layers are also run one by one."""

    def alone(self, layer: Layer, held: Activations) -> Values:
        """The layer's output where it is fed ``held``, what the reference computed.

        Raises `BackendError` if the runtime cannot run the layer by itself.
        """
        ...


def bisect(
    reference: Side,
    candidate: Candidate,
    layers: Sequence[Layer],
    *,
    model: str,
    images: int,
    tolerance: float,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Bisection:
    """Compare layer by layer and name the first past the tolerance of the relative difference.

    Raises `NothingCompared` if the sides have no layer in common.
    """
    from alignkit.studies.bisect.activations import Activations

    compared, unmatched, held = [], [], Activations()
    for number, layer in enumerate(layers, 1):
        found = _compared(reference, candidate, layer, held, tolerance)
        if found is None:
            unmatched.append(layer.name)
        else:
            compared.append(found)
        if progress:
            progress(number, len(layers))
    if all(each.reason and not each.past for each in compared):
        why = f": {compared[0].reason}" if compared else ""
        raise NothingCompared(
            f"{reference.name} and {candidate.name} have no layer to compare{why}"
        )
    return Bisection(
        model=model,
        reference=reference.name,
        candidate=candidate.name,
        images=images,
        tolerance=tolerance,
        first=next((each.name for each in compared if each.past), None),
        layers=tuple(compared),
        unmatched=tuple(unmatched),
        command=command,
    )


def _compared(
    reference: Side, candidate: Candidate, layer: Layer, held: Activations, tolerance: float
) -> LayerDrift | None:
    try:
        left, right = reference.values(layer), candidate.values(layer)
    except BackendError as error:
        return LayerDrift(**layer.facts(), reason=str(error))
    if left is None or right is None:
        return None
    found = drift_of(layer, left, right, tolerance)
    try:
        alone = candidate.alone(layer, held)
    except BackendError as error:
        return found.model_copy(update={"own_reason": str(error)})
    finally:
        held.keep(layer.tensor, left)
    return found.model_copy(update=own_error(left, alone))
