"""The end of a diff in words: what changes first, why, and whether it matters."""

from __future__ import annotations

from alignkit.record import PathFacts
from alignkit.record.diff_document import (
    GivenModel,
    Mechanism,
    PairDiff,
    PredictionDrift,
)
from alignkit.record.numeric_facts import MarginDrift, MovedImage
from alignkit.text.numbers import DASH, count, grouped, percent, plain, significant

NO_MODEL = (
    "no model was given: add --model FILE.onnx (or .pt, .pt2) to see how many predictions change"
)


def ending(pair: PairDiff, *, brief: bool = False) -> list[str]:
    """Return the causes, the mechanism, and whether it matters, a line each."""
    lines = []
    for cause in pair.causes:
        change = cause.change or "no option of this stage differs"
        if cause.begun:
            verb = "changes" if cause.begun == 1 else "change"
            images = count(cause.begun, "image")
            lines.append(f"{images} {verb} first at {cause.stage}: {change}")
        elif cause.stage == pair.largest and not brief:
            lines.append(f"the largest difference, at {cause.stage}: {change}")
    if pair.mechanism and not brief:
        lines.append(f"why: {mechanism_words(pair.mechanism)}")
    matter = [each for each in pair.matter if each != NO_MODEL]
    if not brief or pair.predictions:
        lines += [f"does it matter: {each}" if pair.predictions else each for each in matter]
    return lines


def prediction_lines(
    drift: PredictionDrift, model: GivenModel, *, classes: int = 4
) -> tuple[str, ...]:
    """Return the model with its runtime, the distances, each stage alone, and flips, a line each.

    With 0 ``classes`` the last two are left out.
    """
    predicted = f"{count(drift.n, 'image')} predicted on both paths"
    lines = [f"model {model.name} in {model.runtime}: {predicted}"]
    if drift.left_out:
        lines.append(f"{count(drift.left_out, 'image')} left out: {drift.left_out_reason}")
    if drift.non_finite:
        images = count(drift.non_finite, "image")
        verb = "is" if drift.non_finite == 1 else "are"
        lines.append(f"{images} with a NaN or infinite output {verb} not judged")
    logits = drift.logits
    if logits.mean_abs is None or logits.max_abs is None:
        lines.append(f"logits: {DASH} ({logits.reason})")
    else:
        cosine = "" if logits.cosine is None else f", cosine {logits.cosine:.5f}"
        mean, most = significant(logits.mean_abs), significant(logits.max_abs)
        lines.append(f"logits: mean |Δ| {mean}, max {most}{cosine}")
    lines.append(f"margins: {_margins(drift.margins)}")
    if drift.stages and classes:
        alone = (f"{each.factor} {grouped(each.flips)}" for each in drift.stages)
        lines.append(f"flips with one stage alone as in the candidate: {', '.join(alone)}")
    if drift.classes and classes:
        named = (f"{each.before} → {each.after} {each.images}" for each in drift.classes[:classes])
        lines.append(f"classes: {', '.join(named)}{', …' * (len(drift.classes) > classes)}")
    return tuple(lines)


def _margins(margins: MarginDrift) -> str:
    lost = margins.p50
    if lost is None:
        return f"{DASH} ({margins.reason})"
    median = "all of it" if lost >= 1 else percent(abs(lost))
    return (
        f"{median} {'gained' if lost < 0 else 'lost'} in the median; images that keep their class "
        f"and lose half of their margin: {grouped(margins.halved)}"
    )


def input_words(model: GivenModel, reference: PathFacts) -> str:
    """Name the model's input on the reference, because a wrong normalisation misleads."""
    stages = {each.stage: each for each in reference.stages}
    resize, crop = stages["resize"].options, stages["crop"].options
    height, width = crop["size"] or resize["size"]
    fixed = ", which the model's file fixes" if model.size else ""
    return (
        f"input: {height}x{width}{fixed}; {stages['normalise'].label} on {reference.name}; if the "
        "model was trained with others, give the paths its own"
    )


def moved_words(image: MovedImage) -> str:
    """Return an image's name, its classes, the distance of its logits and its margin."""
    change = image.before if image.before == image.after else f"{image.before} → {image.after}"
    apart = "" if image.max_abs is None else f", |Δ logit| up to {significant(image.max_abs)}"
    margin = "" if image.margin is None else f", margin {significant(image.margin)} before"
    return f"{image.id}: {change}{apart}{margin}"


def mechanism_words(found: Mechanism) -> str:
    """Say what the mechanism explains; one that explains less than half is called the nearest."""
    sizes = (
        f"{plain(found.before, 2)} levels in the mean, {plain(found.after, 2)} without it, on "
        f"{count(found.images, 'image')}"
    )
    if found.explains_most:
        share = percent(found.explained, 0)
        return f"{found.sentence}; that explains {share} of the difference ({sizes})"
    nearest = percent(max(found.explained, 0.0), 0)
    return (
        f"no known mechanism explains most of it; the nearest explains {nearest} ({sizes}): "
        f"{found.sentence}"
    )
