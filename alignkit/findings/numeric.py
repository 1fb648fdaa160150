"""Cells → drift from the runtime alone, and int8's divided into quantisation and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from alignkit.backends import QUANTISED_GRAPH
from alignkit.compare.idle_answers import not_finite
from alignkit.outcome import Measured
from alignkit.record import NumericDrift, QuantisedDrift

if TYPE_CHECKING:
    from alignkit.compare.answers import Answers
    from alignkit.predict.predict_cells import Predicted


def numeric_facts(pairs: Sequence[tuple[Predicted | None, Predicted]]) -> NumericDrift | None:
    """Compare the reference runtime with another, seed by seed, on the same tensors.

    Returns ``None`` if they are one runtime, if one did not run, or if their tensors differ.
    """
    sides = [both for before, after in pairs if (both := same_inputs(before, after))]
    if not sides:
        return None
    return NumericDrift(
        n=sum(len(left) for left, _ in sides),
        flips=sum(int(left.changed(right).sum()) for left, right in sides),
        non_finite=not_finite(sides),
        logits=type(sides[0][0]).distance(sides),
    )


def same_inputs(before: Predicted | None, after: Predicted) -> tuple[Answers, Answers] | None:
    """Return the predictions of two cells; ``None`` unless both ran, on equal tensors."""
    if before is None or before is after:
        return None
    left, right = before.ended, after.ended
    if not isinstance(left, Measured) or not isinstance(right, Measured):
        return None
    # other tensors: the difference is not the runtime's alone
    if left.value.inputs != right.value.inputs:
        return None
    return left.value.predictions, right.value.predictions


def unfused_cells(predicted: Sequence[Predicted]) -> list[Predicted]:
    """List the cells that executed an int8 graph unfused."""
    return [each for each in predicted if _graph(each) and each.evaluation.runtime.simulation]


def quantised_facts(
    pairs: Sequence[tuple[Predicted | None, Predicted]], unfused: Sequence[Predicted]
) -> QuantisedDrift | None:
    """Divide the drift of a runtime's own int8; ``pairs`` hold reference runtime and cell by seed.

    ``unfused`` are the `unfused_cells` of the run. Returns ``None`` unless every seed that ran has
    one of the same model, graph and tensors.
    """
    ran = [(base, each) for base, each in pairs if _graph(each)]
    exact = [_unfused_of(each, unfused) for _, each in ran]
    known = [each for each in exact if each is not None]
    if not known or len(known) < len(exact):
        return None
    quantisation = numeric_facts([(base, each) for (base, _), each in zip(ran, known, strict=True)])
    kernel = numeric_facts([(each, own) for (_, own), each in zip(ran, known, strict=True)])
    if quantisation is None or kernel is None or quantisation.n != kernel.n:
        return None
    runtime = known[0].evaluation.place.column.runtime
    return QuantisedDrift(unfused=runtime, quantisation=quantisation, kernel=kernel)


def _unfused_of(predicted: Predicted, unfused: Sequence[Predicted]) -> Predicted | None:
    """Find the cell that executed the same graph of the same model unfused, on equal tensors."""
    # late: pages read this room too, and need no sessions
    from alignkit.attribute.attributed_cells import unfused_of

    own = predicted.evaluation
    beside = {
        each.evaluation.runtime: each
        for each in unfused
        if each.evaluation.training == own.training and same_inputs(each, predicted)
    }
    cells = {**beside, own.runtime: predicted}
    found = unfused_of(own.runtime, {runtime: [_graph(each)] for runtime, each in cells.items()})
    return None if found is None else beside[found]


def _graph(predicted: Predicted) -> str:
    """Name the int8 graph that a cell executed; empty if it has none or did not run."""
    ended = predicted.ended
    return ended.value.effective.get(QUANTISED_GRAPH, "") if isinstance(ended, Measured) else ""
