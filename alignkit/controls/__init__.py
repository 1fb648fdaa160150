"""Controls of the measurement itself, made with every run: A/A, planted faults, learning.

A/A evaluates one model twice along the same path, with no stored work, and must find exactly zero.
Planted faults (channels swapped, the image shifted by half an output pixel) must be found at the
right stage: a comparison that misses them would call anything aligned. And the reference models
must have learned: a model that gives every image the same answer never drifts. Images without
labels cannot show that, nor can tasks without a constant answer that is often right; there, and
where a constant answer is right in part, another planted fault must change predictions. And a model
must answer each image by itself: an answer that depends on the others of its batch depends on the
size of that, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from alignkit.compare.class_changes import of_different_images
from alignkit.controls.planted_faults import attempted, check_pixels, invert_levels
from alignkit.outcome import Measured
from alignkit.predict import model_file, open_session, predict
from alignkit.predict.check_batches import MOST_APART
from alignkit.predict.session_inputs import FILES
from alignkit.prepare import prepare
from alignkit.record import Control
from alignkit.samples import NO_LABELS
from alignkit.text.numbers import p_value, percent
from alignkit.workspace import Context, Workspace

if TYPE_CHECKING:
    from alignkit.arrays import FloatArray
    from alignkit.compare.answers import Answers
    from alignkit.models.checkpoint import Checkpoint
    from alignkit.plan import Plan
    from alignkit.plan.work import Evaluation
    from alignkit.predict.predict_cells import Predicted
    from alignkit.prepare.prepared_sets import Sets
    from alignkit.samples import Samples
    from alignkit.train import Trained

SAME_LOGITS = "A/A: the same path twice"
LEARNED = "the reference models learned"
SAME_TENSORS = "the same tensors to every runtime"
_ALONE = "an image alone and in its batch"
FAULT = "planted fault: inverted levels, predictions"
CHANCE = 0.01
"""Significance level of `check_learned`: how often a model without skill may pass."""
_LEARNED_WORDS = "right more often than the commonest class is"


def verify(
    plan: Plan,
    trained: Sequence[Trained],
    predicted: Sequence[Predicted],
    sets: Sets,
    context: Context,
) -> tuple[Control, ...]:
    """Make every control, on the reference path and its first model."""
    preprocess = plan.experiment.reference
    model, cell = trained[0], _first_aligned(predicted)
    checks: dict[str, Callable[[], tuple[Control, ...]]] = {
        SAME_LOGITS: lambda: _check_first_cell(plan, model, cell, sets, context.workspace),
        LEARNED: lambda: _check_row_learned(predicted, sets.copies),
        FAULT: lambda: _check_fault(plan, model, cell, sets, context.workspace),
        SAME_TENSORS: lambda: check_same_inputs(predicted),
        _ALONE: lambda: check_alone(predicted),
    }
    with context.progress.stage("verify", 1 + len(checks), preprocess.title) as stage:
        controls = check_pixels(preprocess, sets.evaluation)
        stage.advance()
        for name, check in checks.items():
            controls += attempted(name, check)
            stage.advance()
    return controls


def check_same_inputs(predicted: Sequence[Predicted]) -> tuple[Control, ...]:
    """Check that every model and runtime got the same tensors of a path.

    Returns no control if no path was evaluated in two cells.
    """
    handed: dict[str, list[str]] = {}
    for each in predicted:
        if isinstance(each.ended, Measured) and not each.ended.value.inputs.startswith(FILES):
            path = each.evaluation.preprocess.name
            handed.setdefault(path, []).append(each.ended.value.inputs)
    cells = sum(len(hashes) for hashes in handed.values())
    if cells == len(handed):
        return ()
    odd = [path for path, hashes in handed.items() if len(set(hashes)) > 1]
    return (
        Control(
            name=SAME_TENSORS,
            expected="all cells of a path were handed the same bytes (XXH3)",
            observed=f"other bytes in some cells of {', '.join(odd)}"
            if odd
            else f"{cells} cells of {len(handed)} paths: one hash a path",
            passed=not odd,
        ),
    )


def check_alone(predicted: Sequence[Predicted]) -> tuple[Control, ...]:
    """Check that no model's answer for an image depends on those beside it in the batch.

    Returns no control if no cell compared an image alone with a batch.
    """
    found = [
        (each.ended.value.batch, each.evaluation)
        for each in predicted
        if isinstance(each.ended, Measured) and each.ended.value.batch.relative is not None
    ]
    if not found:
        return ()
    beyond = [(c.relative / _rounding(each), c, each) for c, each in found if c.relative]
    times, check, cell = max(beyond, key=itemgetter(0), default=(0.0, *found[0]))
    observed = f"at most {percent(check.relative or 0.0)}, in {cell.label}"
    if times > 1:
        observed = (
            f"{percent(check.relative or 0.0)} in {cell.label}, so that its answers depend on the "
            "images beside them; export it in evaluation mode (model.eval()), or evaluate it with "
            "evaluate.batch_size: 1"
        )
    return (
        Control(
            name=_ALONE,
            expected=f"outputs differ by rounding, {percent(_rounding(cell))} of the greatest at "
            "most",
            observed=observed,
            passed=times <= 1,
        ),
    )


def _rounding(evaluation: Evaluation) -> float:
    """Return how far rounding moves outputs, of the greatest; a server may round as it likes."""
    if evaluation.runtime.precision != "fp32":
        return 100 * MOST_APART
    return 10 * MOST_APART if evaluation.live else MOST_APART


def _check_row_learned(
    predicted: Sequence[Predicted], copies: Mapping[str, str]
) -> tuple[Control, ...]:
    """Check the aligned cells of the first row, one for each seed; no control if none ran."""
    row = _first_aligned(predicted).evaluation.training.row
    own = {
        f"{row} seed {each.seed}": of_different_images(each.ended.value.predictions, copies)
        for each in predicted
        if each.evaluation.aligned
        and each.evaluation.training.row == row
        and isinstance(each.ended, Measured)
    }
    if own and not next(iter(own.values())).labelled:
        return (Control(name=LEARNED, expected=_LEARNED_WORDS, observed=NO_LABELS, passed=None),)
    if any(each.commonest() is None for each in own.values()):
        above = {name: each.above_constant() for name, each in own.items()}
        known = {name: each for name, each in above.items() if each is not None}
        return (check_above_constant(known),) if known else ()
    given = predicted and _first_aligned(predicted).evaluation.training.given
    return (check_learned(own, given=bool(given)),) if own else ()


def check_learned(models: Mapping[str, Answers], *, given: bool = False) -> Control:
    """Check that the worst model is right more often than a constant answer would be.

    ``given`` models were trained elsewhere, so that the next step is another.

    The constant answer is the commonest class. Exact one-sided binomial test, at the level
    `CHANCE`. Each model has a `commonest` answer.
    """
    from scipy.stats import binomtest

    right = {name: int((each.quality() == 1).sum()) for name, each in models.items()}
    # one model that did not learn is enough to doubt the row
    name = min(right, key=lambda each: right[each])
    images, commonest = len(models[name]), models[name].commonest()
    assert commonest is not None
    p = float(binomtest(right[name], images, commonest / images, "greater").pvalue)
    test = f"p {p_value(p, '= ')}"
    observed = f"{name} is right on {right[name]} of {images} images ({test})"
    if p >= CHANCE:
        advice = (
            "check the order of its 'classes', and that its 'preprocess' is that of its training"
            if given
            else "train longer or on more images"
        )
        observed = (
            f"{name} is right on {right[name]} of {images} images, not clearly better than an "
            f"answer that is always the commonest class ({commonest}; {test}), so that a change of "
            f"recall says nothing; {advice}"
        )
    return Control(
        name=LEARNED,
        expected=f"{_LEARNED_WORDS}, {commonest} of {images} "
        f"(exact binomial test, p below {CHANCE:g})",
        observed=observed,
        passed=p < CHANCE,
        failing="inconclusive",
    )


def check_above_constant(models: Mapping[str, FloatArray]) -> Control:
    """Check that the worst model is better than a constant answer on more images than it is worse.

    Exact one-sided sign test, at the level `CHANCE`.
    """
    from scipy.stats import binomtest

    counts = {name: (int((each > 0).sum()), int((each < 0).sum())) for name, each in models.items()}
    name = min(counts, key=lambda each: counts[each][0] - counts[each][1])
    better, worse = counts[name]
    # equal on every image: no test can tell them apart
    p = float(binomtest(better, better + worse, 0.5, "greater").pvalue) if better + worse else 1.0
    observed = (
        f"{name} is better than a constant answer on {better} of {len(models[name])} images and "
        f"worse on {worse} (p {p_value(p, '= ')})"
    )
    if p >= CHANCE:
        observed += ", so that a change of its answers says little; train longer or on more images"
    return Control(
        name=LEARNED,
        expected=f"better than a constant answer more often than worse (sign test, p < {CHANCE:g})",
        observed=observed,
        passed=p < CHANCE,
        failing="inconclusive",
    )


def _first_aligned(predicted: Sequence[Predicted]) -> Predicted:
    """Return the cell of the first model on its own path, in its reference runtime."""
    return next(each for each in predicted if each.evaluation.aligned)


def _check_first_cell(
    plan: Plan, model: Trained, cell: Predicted, sets: Sets, workspace: Workspace
) -> tuple[Control, ...]:
    """Make the A/A control of the first model; no control if that cell was not measured."""
    if not isinstance(model.ended, Measured) or not isinstance(cell.ended, Measured):
        return ()
    size = plan.experiment.batch_size
    stored = cell.ended.value.predictions
    # one batch of the same images: a runtime may sum in another order for another batch size
    first = stored.rows(np.arange(min(size, len(stored))))
    checkpoint = model.ended.value
    file = model_file(cell.evaluation, checkpoint, sets, workspace)
    again = predict_again(cell.evaluation, checkpoint, file, first.ids, sets.evaluation, size)
    return (check_identity(first, again),)


def _check_fault(
    plan: Plan, model: Trained, cell: Predicted, sets: Sets, workspace: Workspace
) -> tuple[Control, ...]:
    """Check that the first model changes predictions of inverted images.

    Returns no control where `check_learned` is one, and none if that cell was not measured.
    """
    if not isinstance(model.ended, Measured) or not isinstance(cell.ended, Measured):
        return ()
    stored = cell.ended.value.predictions
    if stored.commonest() is not None:
        return ()
    checkpoint, evaluation, size = model.ended.value, cell.evaluation, plan.experiment.batch_size
    first = stored.rows(np.arange(min(size, len(stored))))
    file = model_file(evaluation, checkpoint, sets, workspace)
    faulty = replace(evaluation, preprocess=invert_levels(evaluation.preprocess))
    again = predict_again(faulty, checkpoint, file, first.ids, sets.evaluation, size)
    changed, of = int(first.changed(again).sum()), len(first)
    row = evaluation.training.row
    observed = f"{changed} of {of} predictions of {row} change"
    if not changed:
        answers = len({first.said(index) for index in range(of)})
        noun = "class", "classes"
        if not evaluation.task.facts().class_scores:
            noun = "answer", "answers"
        observed = (
            f"no prediction of {row} changes when the levels of {of} images are inverted (it gives "
            f"{answers} {noun[answers > 1]}), so unchanged predictions say nothing; check "
            "that the file holds trained weights, and its 'preprocess'"
        )
    return (
        Control(
            name=FAULT,
            expected="some prediction changes",
            observed=observed,
            passed=changed > 0,
            failing="inconclusive",
        ),
    )


def predict_again(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    file: Path | None,
    ids: Sequence[str],
    samples: Samples,
    size: int,
) -> Answers:
    """Decode, resize and predict once more, without any stored work.

    ``file`` is the file that the backend opens, or ``None``. An engine is not built again: the
    option ``builds`` measures that.
    """
    places = {sample: index for index, sample in enumerate(samples.ids)}
    chosen = samples.take([places[sample] for sample in ids])
    with TemporaryDirectory(prefix="alignkit-") as folder:  # a workspace without stored work
        workspace = Workspace(Path(folder))
        prepared = prepare(chosen, evaluation.preprocess, workspace, split="eval")
        with open_session(evaluation.runtime, checkpoint, file) as session:
            answer = predict(
                evaluation,
                checkpoint,
                session,
                prepared,
                chosen,
                batch_size=size,
                workspace=workspace,
            )
    return answer.predictions


def check_identity(first: Answers, second: Answers) -> Control:
    """Compare two evaluations of one model on one path bit by bit: the A/A control."""
    same_images = first.ids == second.ids
    before, after = first.bits(), second.bits()
    if before is not None and after is not None:
        # bits: a NaN equals itself, and -0.0 is not 0.0
        compared, noun = before.size, "outputs"
        differing = int((before != after).sum()) if same_images else compared
    else:
        compared, noun = len(first), "answers"
        differing = int(first.differs(second).sum()) if same_images else compared
    return Control(
        name=SAME_LOGITS,
        expected=f"0 {noun} differ" + (" in any bit" if before is not None else ""),
        observed=f"{differing} of {compared} {noun} differ"
        + ("" if same_images else "; other images were decoded"),
        passed=differing == 0,
    )
