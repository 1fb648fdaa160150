"""The end of a diff in words: what changes first, why, and whether it matters."""

from __future__ import annotations

from alignkit.record import Mechanism, PathFacts
from alignkit.record.diff_document import (
    DiffRecord,
    GivenModel,
    PairDiff,
    PredictionDrift,
)
from alignkit.record.drift_facts import LogitDistance, MarginDrift
from alignkit.samples import OUTPUTS_AS_CLASSES
from alignkit.task_facts import TaskFacts
from alignkit.text.numbers import (
    DASH,
    copies_words,
    count,
    estimated,
    grouped,
    listed,
    percent,
    plain,
    significant,
)
from alignkit.text.task_words import TaskWords
from alignkit.text.where_words import confirmation, mechanism_sentences

NO_MODEL = (
    "no model was given: add --model FILE.onnx (or .pt, .pt2) to see how many predictions change"
)


def images_words(record: DiffRecord) -> str:
    """Say how many images there are and where from, and how many of them are copies."""
    data = record.data
    said = f"{count(data.images, 'image')} of {data.source}"
    if not data.copies:
        return said
    together = ", drawn together in intervals" if record.model else ""  # pixels alone have none
    return f"{said}; {copies_words(data.copies, data.images)}{together}"


def ending(pair: PairDiff) -> list[str]:
    """Return the causes, the mechanism, and whether it matters, a line each."""
    return [*causes_words(pair), *matter_words(pair)]


def causes_words(pair: PairDiff) -> list[str]:
    """Return the kinds and stages that change first, and why, a line each."""
    lines = [found] if (found := kinds_words(pair)) else []
    said: set[tuple[str, str] | None] = set()
    for cause in pair.causes:
        change = cause.change or "no option of this stage differs"
        if cause.begun:
            verb = "changes" if cause.begun == 1 else "change"
            images = count(cause.begun, "image")
            lines.append(f"{images} {verb} first at {cause.stage}: {change}")
        elif cause.stage == pair.largest:
            lines.append(f"the largest difference, at {cause.stage}: {change}")
    numbers = _numbers_words(pair)
    lines += [f"why: {numbers}"] if numbers else []
    if pair.mechanism:
        shown = confirmation(pair.mechanism.shown_as, pair.spatial)
        lead = "before that, in the pixels:" if numbers else "why:"
        words = f"{lead} {mechanism_words(pair.mechanism)}"
        lines.append("; ".join(filter(None, (words, shown))))
        said = {*pair.mechanism.shown_as}
    # of a mechanism that the line above confirms, nothing more is said here
    others = [e for e in pair.spatial if not {(m.name, m.by) for m in e.mechanisms} <= said]
    return lines + [f"seen in the pixels: {each}" for each in mechanism_sentences(others)]


def matter_words(pair: PairDiff) -> list[str]:
    """Return how many predictions change, or effects that are known of other stacks."""
    lead = "does it matter: " if pair.predictions else ""
    return [f"{lead}{each}" for each in pair.matter if each != NO_MODEL]


def other_shape(stage: str) -> str:
    """Say how images differ whose two arrays of a stage have different shapes."""
    return "turned" if stage == "orient" else "of another shape"


def _numbers_words(pair: PairDiff) -> str:
    """Say what another mean or std does beside other pixels, which levels do not show."""
    stages = {e.mode: e.mean_abs for e in pair.stages if e.stage == "normalise"}
    alone, whole = stages.get("isolated"), stages.get("cumulative")
    if not (alone and whole) or len(pair.causes) < 2:  # a single cause is named above
        return ""
    return (
        f"another mean or std in normalise alone moves the model's input by {significant(alone)} "
        f"units in the mean, all stages together by {significant(whole)}"
    )


def kinds_words(pair: PairDiff) -> str:
    """Say which kinds of images alone decode to other pixels; empty if all kinds do, or none."""
    for dimension in dict.fromkeys(each.dimension for each in pair.kinds):
        kinds = [
            each
            for each in pair.kinds
            if each.dimension == dimension and each.decode.share_differing is not None
        ]
        differing = [each for each in kinds if each.decode.share_differing]
        equal = [each.kind for each in kinds if not each.decode.share_differing]
        if differing and equal:
            shares = (f"{percent(e.decode.share_differing or 0)} in {e.kind}" for e in differing)
            return f"pixels that differ at decode: {', '.join(shares)}; none in {listed(equal)}"
    return ""


def flips_sentence(drift: PredictionDrift, model: str) -> str:
    """Say how many predictions change, with what so few images could not show."""
    lost = ""
    if drift.non_finite:
        images = f"{grouped(drift.non_finite)} of {count(drift.non_finite + drift.n, 'image')}"
        lost = f"{images} have an output that is NaN or infinite; of the others, "
    if drift.churn.value is None:
        return f"{lost if drift.n else ''}{model}: {drift.churn.reason}"
    changed = f"{lost}{grouped(drift.flips)} of {count(drift.n, 'prediction')} of {model}"
    verb = "changes" if drift.flips == 1 else "change"
    if drift.flips and drift.churn.low is not None:
        return f"{changed} {verb} ({estimated(drift.churn, 1, share=True)})"
    return f"{changed} {verb}; {drift.churn.reason}"


def prediction_lines(drift: PredictionDrift, model: GivenModel, task: TaskFacts) -> list[str]:
    """Return the model with its runtime, what was left out, and how far its answers are apart.

    ``task`` names the measures of its answers.
    """
    predicted = f"{count(drift.n, 'image')} predicted on both paths"
    lines = [f"model {model.name} in {model.runtime}: {predicted}"]
    if drift.left_out:
        lines.append(f"{count(drift.left_out, 'image')} left out: {drift.left_out_reason}")
    words = TaskWords(task)
    lines += [
        f"{words.phrase(name)}: {words.estimated(name, each)}"
        for name, each in drift.measures.items()
    ]
    if drift.margins:
        distance = f"{task.outputs}: {_distance(drift.logits)}"
        lines += [distance, f"margins: {_margins(drift.margins)}"]
    return lines


def _distance(logits: LogitDistance) -> str:
    if logits.mean_abs is None or logits.max_abs is None:
        return f"{DASH} ({logits.reason})"
    cosine = "" if logits.cosine is None else f", cosine {plain(logits.cosine, 5)}"
    mean, most = significant(logits.mean_abs), significant(logits.max_abs)
    return f"mean |Δ| {mean}, max {most}{cosine}"


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
    """Name the model's input on the reference, and how its outputs are read.

    A wrong normalisation misleads, and so does an embedding that is taken for class scores.
    """
    stages = {each.stage: each for each in reference.stages}
    resize, crop = stages["resize"].options, stages["crop"].options
    height, width = crop["size"] or resize["size"]
    fixed = ", which the model's file fixes" if model.size else ""
    return (
        f"input: {height}x{width}{fixed}; {stages['normalise'].label} on {reference.name}; if the "
        f"model was trained with others, give the paths its own; {_read(model)}"
    )


def _read(model: GivenModel) -> str:
    return model.recognised or f"{model.outputs} {OUTPUTS_AS_CLASSES}"


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
