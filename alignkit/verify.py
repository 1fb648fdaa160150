"""Controls: checks of the measurement itself, made with every run.

A/A evaluates one model twice along the same path, everything done anew, and must find exactly zero.
Planted faults (channels swapped, the image shifted by half an output pixel) must be found, and the
right stage named: a comparison that could not see them would call anything aligned. And the
reference models must have learned: one that answers the same whatever it sees drifts nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, cast

import numpy as np

from alignkit.cell import Measured
from alignkit.inputs import FILES
from alignkit.model_file import model_file
from alignkit.predict import open_session, predict
from alignkit.prepare import prepare
from alignkit.preprocess import Colour, Preprocess
from alignkit.record import Control
from alignkit.workspace import Workspace

if TYPE_CHECKING:
    from alignkit.arrays import Image, Pixels
    from alignkit.checkpoint import Checkpoint
    from alignkit.execute import Sets, Trained
    from alignkit.plan import Evaluation, Plan
    from alignkit.predict_cells import Predicted
    from alignkit.predictions import Predictions
    from alignkit.progress import Progress
    from alignkit.resizers import Resizer
    from alignkit.samples import Samples

PROBES = 32
"""Images a planted fault is looked for in."""
CHANCE = 0.01
"""How likely a model without skill may be to do as well as one that is said to have learned."""


def verify(
    plan: Plan,
    trained: Sequence[Trained],
    predicted: Sequence[Predicted],
    sets: Sets,
    workspace: Workspace,
    progress: Progress,
) -> tuple[Control, ...]:
    """All controls, of the reference path and its first model."""
    path = plan.experiment.reference
    with progress.stage("verify", 4, path.name) as stage:
        controls: tuple[Control, ...] = (check_same_pixels(path, sets.evaluation),)
        stage.advance()
        controls += check_planted_faults(path, sets.evaluation)
        stage.advance()
        controls += _check_first_cell(plan, trained[0], _first_aligned(predicted), sets, workspace)
        stage.advance()
        controls += _check_row_learned(predicted)
        controls += check_same_inputs(predicted)
        stage.advance()
    return controls


def check_same_inputs(predicted: Sequence[Predicted]) -> tuple[Control, ...]:
    """Every model and runtime was handed the same tensors of a path; none if one cell ran."""
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
            name="the same tensors to every runtime",
            expected="all cells of a path were handed the same bytes (SHA-256)",
            observed=f"other bytes in some cells of {', '.join(odd)}"
            if odd
            else f"{cells} cells of {len(handed)} paths: one hash a path",
            passed=not odd,
        ),
    )


def _check_row_learned(predicted: Sequence[Predicted]) -> tuple[Control, ...]:
    """Of every seed of the first row; none if none ran."""
    row = _first_aligned(predicted).evaluation.training.row
    own = {
        f"{row} seed {each.seed}": each.ended.value.predictions
        for each in predicted
        if each.evaluation.aligned
        and each.evaluation.training.row == row
        and isinstance(each.ended, Measured)
    }
    return (check_learned(own),) if own else ()


def check_learned(models: Mapping[str, Predictions]) -> Control:
    """The worst of some models must be right more often than answering the commonest class is.

    Exact one-sided binomial test, at the level `CHANCE`.
    """
    from scipy.stats import binomtest

    right = {name: int((each.predicted == each.labels).sum()) for name, each in models.items()}
    name = min(right, key=lambda each: right[each])
    labels = models[name].labels
    commonest = int(np.bincount(labels).max())
    p = float(binomtest(right[name], len(labels), commonest / len(labels), "greater").pvalue)
    return Control(
        name="the reference models learned",
        expected=f"right more often than the commonest class is, {commonest} of {len(labels)} "
        f"(exact binomial test, p below {CHANCE:g})",
        observed=f"{name}: {right[name]} right, p {'below 0.001' if p < 0.001 else f'= {p:.3f}'}",
        passed=p < CHANCE,
        failing="inconclusive",
    )


def _first_aligned(predicted: Sequence[Predicted]) -> Predicted:
    """The first model along its own path, in the first runtime that suits it."""
    return next(each for each in predicted if each.evaluation.aligned)


def _check_first_cell(
    plan: Plan, model: Trained, cell: Predicted, sets: Sets, workspace: Workspace
) -> tuple[Control, ...]:
    """A/A of the reference path's first model; none if it did not run."""
    if not isinstance(model.ended, Measured) or not isinstance(cell.ended, Measured):
        return ()
    size = plan.experiment.content.evaluate.batch_size
    stored = cell.ended.value.predictions
    # one batch of the same images: a runtime may sum in another order for another batch size
    first = stored.rows(np.arange(min(size, len(stored))))
    checkpoint = model.ended.value
    file = model_file(cell.evaluation, checkpoint, sets, workspace)
    again = predict_again(cell.evaluation, checkpoint, file, first.ids, sets.evaluation, size)
    return (check_identity(first, again),)


def predict_again(
    evaluation: Evaluation,
    checkpoint: Checkpoint,
    file: Path | None,
    ids: Sequence[str],
    samples: Samples,
    size: int,
) -> Predictions:
    """Decode, resize and predict once more, with nothing taken from what is stored.

    ``file`` is what the backend opens; an engine is not built again, see ``builds`` for that.
    """
    places = {sample: index for index, sample in enumerate(samples.ids)}
    chosen = samples.take([places[sample] for sample in ids])
    with TemporaryDirectory(prefix="alignkit-") as folder:
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


@dataclass(frozen=True, slots=True)
class HalfPixelShift:
    """A resizer with a planted fault: its sampling grid lies half an output pixel off."""

    inner: Resizer

    def resize(self, image: Image, height: int, width: int) -> Pixels:
        """Shift by half an output pixel (bilinear, edges repeated), then resize as ``inner``."""
        import cv2

        right, down = 0.5 * image.shape[1] / width, 0.5 * image.shape[0] / height
        grid = np.array([[1, 0, right], [0, 1, down]], np.float32)
        shifted = cv2.warpAffine(
            image, grid, (image.shape[1], image.shape[0]), borderMode=cv2.BORDER_REPLICATE
        )
        return self.inner.resize(cast("Image", shifted), height, width)

    def version(self) -> str:
        """That of the resizer inside."""
        return self.inner.version()


def swap_channels(path: Preprocess) -> Preprocess:
    """``path`` with red and blue exchanged at its colour stage."""
    if path.colour.space not in ("rgb", "bgr"):
        message = f"{path.name}: a channel swap is planted in rgb or bgr, not {path.colour.space}"
        raise ValueError(message)
    swapped = Colour("rgb" if path.colour.space == "bgr" else "bgr")
    return replace(path, name=f"{path.name} with channels swapped", colour=swapped)


def shift_half_pixel(path: Preprocess) -> Preprocess:
    """``path`` with its resize shifted by half an output pixel."""
    shifted = replace(path.resize, resizer=HalfPixelShift(path.resize.resizer))
    return replace(path, name=f"{path.name} shifted by half a pixel", resize=shifted)


def check_identity(first: Predictions, second: Predictions) -> Control:
    """A/A: two evaluations of one model along one path, all work done twice."""
    same_images = first.ids == second.ids
    differing = (
        int((first.logits.view(np.uint32) != second.logits.view(np.uint32)).sum())
        if same_images
        else first.logits.size
    )
    return Control(
        name="A/A: the same path twice",
        expected="0 logits differ in any bit",
        observed=f"{differing} of {first.logits.size} logits differ"
        + ("" if same_images else "; other images were decoded"),
        passed=differing == 0,
    )


def check_same_pixels(path: Preprocess, samples: Samples) -> Control:
    """A/A on pixels alone: a path compared with itself."""
    from alignkit.compare import compare_preprocess

    diffs = compare_preprocess(path, path, _probes(samples))
    found = diffs.first_divergence
    return Control(
        name="A/A: the same path twice, pixels",
        expected="no stage differs",
        observed=f"{found} differs" if found else "no stage differs",
        passed=found is None,
    )


def check_planted_faults(path: Preprocess, samples: Samples) -> tuple[Control, ...]:
    """Channels swapped, and half a pixel of shift: each must be found where it was planted."""
    return tuple(
        _found_at(stage, path, faulty, samples)
        for stage, faulty in (
            ("colour", swap_channels(path)),
            ("resize", shift_half_pixel(path)),
        )
    )


def _found_at(stage: str, path: Preprocess, faulty: Preprocess, samples: Samples) -> Control:
    from alignkit.compare import compare_preprocess

    found = compare_preprocess(path, faulty, _probes(samples)).first_divergence
    return Control(
        name=f"planted fault: {faulty.name}",
        expected=f"{stage} named as the first stage that differs",
        observed=f"{found} named" if found else "nothing found",
        passed=found == stage,
    )


def _probes(samples: Samples) -> Samples:
    return samples.take(range(min(PROBES, len(samples))))
