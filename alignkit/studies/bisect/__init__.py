"""The first layer at which two runtimes of one model differ: every layer's output compared.

A layer's output is read from the graph cut off behind it, so that everything before it is fused and
placed as in the whole graph; tapping all layers of one graph at once would prevent the very fusions
that may cause a difference. A difference there was either made by the layer or came in with its
inputs, so the candidate also runs the isolated layer on the reference's activations. One cut runs
at a time, on one side at a time; the reference's activations are kept on disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from alignkit.errors import BackendError, NothingCompared
from alignkit.record.study_documents import Bisection, LayerDrift
from alignkit.studies.bisect.differences import drift_of, isolated_error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alignkit.studies.bisect.graph import Layer
    from alignkit.studies.bisect.isolated_layer import Activations

    Values = npt.NDArray[np.floating]

__all__ = ["Candidate", "Side", "bisect"]


class BisectSide(Protocol):
    """One model in one runtime, on a fixed batch."""

    @property
    def name(self) -> str:
        """The runtime and its precision, e.g. ``onnxruntime fp16``."""
        ...

    def values(self, layer: Layer) -> Values | None:
        """Return the layer's output for the batch; ``None`` if this side has no such layer.

        Raises `BackendError` if the runtime cannot run the graph up to that layer.
        """
        ...


class Candidate(BisectSide, Protocol):
    """The side whose layers are also run in isolation."""

    def isolated(self, layer: Layer, held: Activations) -> Values:
        """Return the layer's output for the reference's activations ``held``.

        Raises `BackendError` if the runtime cannot run the layer by itself.
        """
        ...


def bisect(
    reference: BisectSide,
    candidate: Candidate,
    layers: Sequence[Layer],
    *,
    model: str,
    images: int,
    tolerance: float,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> Bisection:
    """Compare layer by layer and name the first that exceeds the tolerance.

    ``tolerance`` limits the relative difference. ``progress`` is called with (layers compared,
    layers). Raises `NothingCompared` if the sides have no layer in common.
    """
    from alignkit.studies.bisect.isolated_layer import Activations

    compared, unmatched, held = [], [], Activations()
    for number, layer in enumerate(layers, 1):
        drift = _compared(reference, candidate, layer, held, tolerance)
        if drift is None:
            unmatched.append(layer.name)
        else:
            compared.append(drift)
        if progress:
            progress(number, len(layers))
    if all(each.reason and not each.exceeds_tolerance for each in compared):
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
        first=next((each.name for each in compared if each.exceeds_tolerance), None),
        layers=tuple(compared),
        unmatched=tuple(unmatched),
        command=command,
    )


def _compared(
    reference: BisectSide, candidate: Candidate, layer: Layer, held: Activations, tolerance: float
) -> LayerDrift | None:
    try:
        left, right = reference.values(layer), candidate.values(layer)
    except BackendError as error:
        return LayerDrift(**layer.facts(), reason=str(error))
    if left is None or right is None:
        return None
    drift = drift_of(layer, left, right, tolerance)
    try:
        isolated = candidate.isolated(layer, held)
    except BackendError as error:
        return drift.model_copy(update={"isolated_reason": str(error)})
    finally:
        # later layers are fed it, also where this one cannot run in isolation
        held.keep(layer.tensor, left)
    return drift.model_copy(update=isolated_error(left, isolated))
