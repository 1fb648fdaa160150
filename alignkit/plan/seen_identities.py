"""Identities of evaluation that a model of embeddings is trained on: check says them first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alignkit.experiment.experiment import Experiment


def seen_identities(experiment: Experiment) -> Iterator[str]:
    """Yield a warning if a training of embeddings takes identities that are evaluated too.

    It is another one where that cannot be known before a run, or at all.
    """
    content = experiment.content
    if content.models or not experiment.predicts or not experiment.task.keeps_vectors:
        return
    data = experiment.data
    held_out = getattr(data, "held_out", False)  # of a plugin that extends no `Dataset`
    evaluated = data.class_names()
    trained = {*(data.trained_names() if held_out else evaluated)}
    both = [name for name in evaluated if name in trained]
    if not both and held_out and (why := data.unnamed()):
        yield f"it is not known here whether identities of evaluation are trained on too: {why}"
    if not both and (held_out or evaluated):
        return
    count = f"{len(both):,} of {len(evaluated):,}" if evaluated else "all"
    some = f", such as {both[0]}," if both else ""
    if held_out:
        way = "name other ones under root and train_root, or leave train_root out"
    else:
        way = "for new ones use 'name: identities', which divides a folder by identities"
    yield (
        f"{count} identities of evaluation{some} are trained on too, so that figures of "
        f"verification and search do not hold for new identities; {way}"
    )
